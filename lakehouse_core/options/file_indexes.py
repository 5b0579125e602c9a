"""File index options: `file-index.<kind>.columns` and `file-index.<kind>.<column>.<setting>`.

Source: docs/semantics/options.md#treatment, docs/format/file-index.md#container.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, near_names, shown
from lakehouse_core.options.units import parse_float, parse_int, parse_names, parse_size

_PREFIX: Final = "file-index."
_COLUMNS: Final = "columns"
# Not of one kind.
_PLAIN: Final = frozenset({"file-index.read.enabled", "file-index.in-manifest-threshold"})
_WRITTEN_VERSION: Final = 2


class IndexKind(StrEnum):
    """Stored in every container. Never change."""

    BLOOM_FILTER = "bloom-filter"
    BITMAP = "bitmap"
    BSI = "bsi"
    RANGE_BITMAP = "range-bitmap"


_SETTINGS: Final[Mapping[IndexKind, tuple[str, ...]]] = {
    IndexKind.BLOOM_FILTER: ("items", "fpp"),
    IndexKind.BITMAP: ("version", "index-block-size"),
    IndexKind.BSI: (),
    IndexKind.RANGE_BITMAP: ("chunk-size",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedColumn:
    """One index of one column. Each kind reads its own settings. `chunk_bytes` None: the default of the type."""

    kind: IndexKind
    column: str
    items: int = 1_000_000
    false_positive_rate: float = 0.1
    block_bytes: int = 16 << 10
    chunk_bytes: int | None = None


def is_index_option(key: str) -> bool:
    """Return whether the key belongs to an index of some kind."""
    return key.startswith(_PREFIX) and key not in _PLAIN


def has_known_kind(key: str) -> bool:
    """Return whether an index option belongs to a kind of index that this package knows."""
    return any(key.startswith(f"{_PREFIX}{kind}.") for kind in IndexKind)


def indexed_columns(options: Mapping[str, str]) -> tuple[IndexedColumn, ...]:
    """Return the indexes of the options. Options of unknown kinds are ignored.

    Raises InvalidRequest when a setting does not parse.
    """
    return tuple(
        _indexed(kind, column, options)
        for kind in IndexKind
        for column in dict.fromkeys(parse_names(options.get(f"{_PREFIX}{kind}.{_COLUMNS}", "")))
    )


def check_index_option(key: str, value: str) -> tuple[str, ...]:
    """Return the columns that an index option names. Raises InvalidRequest for an unknown kind or setting."""
    rest = key.removeprefix(_PREFIX)
    kind = next((kind for kind in IndexKind if rest.startswith(f"{kind}.")), None)
    if kind is None:
        word = rest.partition(".")[0]
        raise InvalidRequest(f"Option {key}: index kind {shown(word)} is not known{_near(word, tuple(IndexKind))}")
    rest = rest.removeprefix(f"{kind}.")
    if rest == _COLUMNS:
        return parse_names(value)
    column, _, setting = rest.rpartition(".")
    if not column or setting not in _SETTINGS[kind]:
        raise InvalidRequest(
            f"Option {key}: {shown(setting)} is not a setting of a {kind} index{_near(setting, _SETTINGS[kind])}"
        )
    _indexed(kind, column, {key: value})
    return (column,)


def renamed_index_option(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    """Return the option with the column's new name in each place that names the column, also as `old[key]` of a map."""

    def renamed(column: str) -> str:
        name, bracket, rest = column.partition("[")
        return f"{new}{bracket}{rest}" if name == old else column

    kind = next((kind for kind in IndexKind if key.startswith(f"{_PREFIX}{kind}.")), None)
    if kind is None:
        return key, value
    head, rest = f"{_PREFIX}{kind}.", key.removeprefix(f"{_PREFIX}{kind}.")
    if rest == _COLUMNS:
        names = parse_names(value)
        return key, ",".join(map(renamed, names)) if any(renamed(name) != name for name in names) else value
    column, dot, setting = rest.rpartition(".")
    return f"{head}{renamed(column)}{dot}{setting}", value


def check_writable_indexes(options: Mapping[str, str], *, about: str) -> None:
    """Raise UnsupportedFeature naming the first option that asks for an index that this package does not write.

    `about` begins the message, as in "Option".
    """
    for indexed in indexed_columns(options):
        key = f"{_PREFIX}{indexed.kind}.{_COLUMNS}"
        if indexed.kind is IndexKind.BSI:
            raise UnsupportedFeature(
                f"{about} {key} = {options[key]}: bsi indexes can be read, but not written. Use "
                "file-index.range-bitmap.columns."
            )
        if "[" in indexed.column:
            raise UnsupportedFeature(
                f"{about} {key} = {options[key]}: an index of a map's values ({indexed.column}) is not supported "
                "yet. Leave the column out, or write with Java Paimon."
            )
        version = f"{_PREFIX}{indexed.kind}.{indexed.column}.version"
        if parse_int(version, options.get(version, str(_WRITTEN_VERSION))) != _WRITTEN_VERSION:
            raise UnsupportedFeature(
                f"{about} {version} = {options[version]}: expected version {_WRITTEN_VERSION}. Remove the option."
            )


def _indexed(kind: IndexKind, column: str, options: Mapping[str, str]) -> IndexedColumn:
    def text(setting: str, default: str) -> tuple[str, str]:
        key = f"{_PREFIX}{kind}.{column}.{setting}"
        return key, options.get(key, default)

    match kind:
        case IndexKind.BLOOM_FILTER:
            items, rate = text("items", "1000000"), text("fpp", "0.1")
            return IndexedColumn(kind=kind, column=column, items=_at_least(1, *items), false_positive_rate=_rate(*rate))
        case IndexKind.BITMAP:
            _at_least(1, *text("version", "2"))
            return IndexedColumn(kind=kind, column=column, block_bytes=parse_size(*text("index-block-size", "16 kb")))
        case IndexKind.RANGE_BITMAP:
            key, size = text("chunk-size", "")
            return IndexedColumn(kind=kind, column=column, chunk_bytes=parse_size(key, size) if size else None)
        case IndexKind.BSI:
            return IndexedColumn(kind=kind, column=column)


def _at_least(least: int, key: str, text: str) -> int:
    number = parse_int(key, text)
    if number < least:
        raise InvalidRequest(f"Option {key} is {text}: expected at least {least}.")
    return number


def _rate(key: str, text: str) -> float:
    rate = parse_float(key, text)
    if not 0 < rate < 1:
        raise InvalidRequest(f"Option {key} is {text}: expected a rate between 0 and 1, both excluded.")
    return rate


def _near(word: str, known: tuple[str, ...]) -> str:
    near = near_names(word, known, most=1)
    return f": did you mean {near}?" if near else f": there are {', '.join(known) or 'none'}."
