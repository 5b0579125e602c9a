"""Which options a table may be given, and which tables with them may be written.

Source: Paimon semantics A.6 for the rules; the treatment of each option is in `known`.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown, written_as
from lakehouse_core.options.file_indexes import check_index_option, has_known_kind, is_index_option
from lakehouse_core.options.keys import CATALOG_KEYS, FIELD_ENDINGS, FORMER_NAMES, WRITABLE, under_current_names
from lakehouse_core.options.known import KNOWN, OptionKey, Treatment
from lakehouse_core.options.scan_mode import scan_start
from lakehouse_core.options.table import TableOptions
from lakehouse_core.options.units import (
    parse_bool,
    parse_duration,
    parse_float,
    parse_int,
    parse_levels,
    parse_names,
    parse_size,
    parse_word,
)

# A file's name has 255 bytes; a UUID, a number, an extension and the mark of a temporary file need some of them.
_LONGEST_PREFIX_BYTES: Final = 100
_OWN_PREFIX: Final = "lakehouse."
# Defaults for all tables, and the settings of clients of stores: secrets, which have no place in a schema.
_CATALOG_PREFIXES: Final = ("table-default.", "s3.", "s3a.", "fs.", "oss.", "hadoop.")
# Settings of one file format's writer, passed on to it by Java.
# An encrypted column that nobody encrypts would be worse than a refusal.
_ENCRYPTION_KEYS: Final = ("orc.encrypt", "orc.mask", "orc.key.provider")
_FORMAT_PREFIXES: Final = ("parquet.", "orc.", "avro.", "csv.", "json.", "text.")


def check_known(options: Mapping[str, str], columns: Iterable[str]) -> None:
    """Raise InvalidRequest unless every key is known, names known columns, and has a value of its kind.

    Whether the options fit together is for `check_consistent`, once all of them are there.
    """
    names = tuple(columns)
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"Option {shown(key)} = {shown(value)}: keys and values of options are text{written_as(value)}."
            )
        if not _check_pattern(key, value, names):
            _check_value(known_key(key), key, value)


def current_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options as a schema stores them: under their current names, column lists without blanks."""
    current = under_current_names(options)
    if "bucket-key" in current:
        # Java splits at commas and keeps the blanks.
        current["bucket-key"] = ",".join(parse_names(current["bucket-key"]))
    return current


def check_consistent(options: Mapping[str, str], columns: Iterable[str]) -> None:
    """Raise InvalidRequest unless bounds hold and options fit together; `columns` are all of the table's."""
    names = tuple(columns)
    for key in options:
        if key.startswith("fields.") and _field_ending(key) is not None:
            _check_field_key(key, names)
    parsed = TableOptions.parse(options)
    check_bounds(options)
    for prefix, limits in (("snapshot", parsed.expiry), ("changelog", parsed.changelog_expiry)):
        if limits.max_retained < limits.min_retained:
            raise InvalidRequest(
                f"{prefix}.num-retained.min is {limits.min_retained}, .max is {limits.max_retained}: "
                "set 1 <= min <= max."
            )
    for key, prefix in (
        ("data-file.prefix", parsed.data_file_prefix),
        ("changelog-file.prefix", parsed.changelog_file_prefix),
        ("partition.default-name", parsed.partition_default_name),
    ):
        hidden = prefix[:1] in (".", "_") and key != "partition.default-name"
        if not prefix.strip() or hidden or set(prefix) & set("/\\") or not prefix.isprintable():
            raise InvalidRequest(f"Option {key} is {shown(prefix)}: expected a part of a file name.")
        if len(prefix.encode()) > _LONGEST_PREFIX_BYTES:
            raise InvalidRequest(
                f"Option {key} has {len(prefix.encode())} bytes: the names of files and folders have room for "
                f"{_LONGEST_PREFIX_BYTES}."
            )
    scan_start(options)


def check_bounds(options: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a number, size or duration with which a table would be useless."""
    for key, text in options.items():
        known = KNOWN.get(FORMER_NAMES.get(key, key))
        if known is None or (known.low is None and known.high is None):
            continue
        assert isinstance(known.kind, str)
        number = _NUMBERS[known.kind]
        if known.low is not None and number(key, text) < number(key, known.low):
            raise InvalidRequest(f"Option {key} is {text}: it must be at least {known.low}.")
        if known.high is not None and number(key, text) > number(key, known.high):
            raise InvalidRequest(f"Option {key} is {text}: it must be at most {known.high}.")


_NUMBERS: Final[Mapping[str, Callable[[str, str], float]]] = {
    "int": parse_int,
    "float": parse_float,
    "size": parse_size,
    "duration": parse_duration,
}


def check_writable(options: Mapping[str, str], *, table: str) -> None:
    """Raise UnsupportedFeature naming the first option that asks for what is not carried out.

    Keys that nobody knows are the user's own notes, as in Java; unknown ones under `lakehouse.` are promises of a newer
    version of this package.
    """
    for key, value in options.items():
        current = FORMER_NAMES.get(key, key)
        known = KNOWN.get(current)
        if known is None:
            if key.startswith(_OWN_PREFIX) or _pattern_treatment(key) is Treatment.REFUSED:
                raise _unsupported(table, key, value)
        elif current in WRITABLE:
            if value.strip().lower() not in WRITABLE[current]:
                raise UnsupportedFeature(
                    f"{about_option(table)} {key} = {value} is not supported for writing yet: "
                    f"{one_of(value, sorted(WRITABLE[current]))}, or write with Java Paimon."
                )
        elif known.treatment is Treatment.REFUSED and not _is_default(known, value):
            raise _unsupported(table, key, value)


def about_option(table: str) -> str:
    """Return the beginning of a message about an option; `table` is empty where the caller names it."""
    return f"{table}: option" if table else "Option"


def one_of(text: str, words: Sequence[str]) -> str:
    """Return advice for a text that is none of the words: the nearest of them, and all."""
    near = difflib.get_close_matches(text.strip().lower(), words, n=1)
    choices = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    return f"did you mean {near[0]}? Set {choices}" if near else f"set {choices}"


def _unsupported(table: str, key: str, value: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{about_option(table)} {key} = {value} is not supported for writing yet: remove it, or write with Java Paimon."
    )


def _is_default(known: OptionKey, value: str) -> bool:
    if known.default is None:
        return False
    if known.kind == "bool":
        return value.strip().lower() == known.default
    if known.kind == "duration":
        return parse_duration(known.name, value) == parse_duration(known.name, known.default)
    return value.strip().lower() == known.default.lower()


def known_key(key: str) -> OptionKey:
    """Return the option of that name, current or former. Raises InvalidRequest naming the nearest one."""
    if (known := KNOWN.get(FORMER_NAMES.get(key, key))) is not None:
        return known
    if key in CATALOG_KEYS or key.startswith(_CATALOG_PREFIXES):
        raise InvalidRequest(f"Option {key} belongs to a catalog, not to a table: give it where you connect.")
    near = difflib.get_close_matches(key, [*KNOWN, *FORMER_NAMES], n=1, cutoff=0.7)
    hint = f"did you mean {near[0]}?" if near else "remove it, or look its name up in Paimon's documentation."
    raise InvalidRequest(f"Option {key} is not known: {hint}")


def _check_value(known: OptionKey, key: str, value: str) -> None:
    match known.kind:
        case "bool":
            parse_bool(key, value)
        case "int":
            parse_int(key, value)
        case "float":
            parse_float(key, value)
        case "size":
            parse_size(key, value)
        case "duration":
            parse_duration(key, value)
        case "levels":
            parse_levels(key, value)
        case "text":
            pass
        case str(kind):
            raise AssertionError(f"{key}: no parser for {kind}")
        case words:
            parse_word(key, value, words)


def _check_pattern(key: str, value: str, columns: Sequence[str]) -> bool:
    """Whether the key has the form of a known pattern. Raises InvalidRequest when its parts are wrong."""
    if key in KNOWN or key in FORMER_NAMES:
        return False
    if key.startswith("fields."):
        _check_field_key(key, columns)
        return True
    if is_index_option(key):
        for column in check_index_option(key, value):
            _check_column(key, column.partition("[")[0], columns)
        return True
    return _pattern_treatment(key) is not None


def _check_field_key(key: str, columns: Sequence[str]) -> None:
    ending = _field_ending(key)
    if ending is None:
        column, dot, word = key.removeprefix("fields.").rpartition(".")
        if not dot:
            known_key(key)
        near = difflib.get_close_matches(word, FIELD_ENDINGS, n=1, cutoff=0.5)
        endings = [ending for ending, treatment in FIELD_ENDINGS.items() if treatment is Treatment.HONOURED]
        advice = f"did you mean fields.{column}.{near[0]}?" if near else f"it may end in .{', .'.join(endings)}."
        unknown = [
            f" There is no column {shown(name)}: {_existing(name, columns)}"
            for name in column.split(",")
            if name not in columns
        ]
        raise InvalidRequest(f"Option {key} is not known: {advice}{''.join(unknown)}")
    middle = key.removeprefix("fields.")
    middle = middle[: middle.rindex(f".{ending}")]
    # Java looks for columns before the first dot, whatever follows, and keeps blanks: what it refuses is refused here.
    for column in (*middle.partition(".")[0].split(","), *([] if middle in columns else middle.split(","))):
        _check_column(key, column, columns)


def _check_column(key: str, column: str, columns: Sequence[str]) -> None:
    if column not in columns:
        raise InvalidRequest(
            f"Option {key} names the column {shown(column)}, which the table does not have: "
            f"{_existing(column, columns)}"
        )


def _existing(column: str, columns: Sequence[str]) -> str:
    near = difflib.get_close_matches(column, columns, n=1)
    return f"did you mean {near[0]}?" if near else f"take one of {', '.join(columns)}."


def _field_ending(key: str) -> str | None:
    if ".map." in key:
        return "map"
    ending = key.rpartition(".")[2]
    return ending if ending in FIELD_ENDINGS and key.count(".") >= 2 else None


def _pattern_treatment(key: str) -> Treatment | None:
    """Return what becomes of a key with names inside it; None for a key of no such form."""
    if key.startswith("fields."):
        ending = _field_ending(key)
        return None if ending is None else FIELD_ENDINGS[ending]
    if is_index_option(key):
        # Whether an index of the kind is written is for `check_writable_indexes`.
        return Treatment.HONOURED if has_known_kind(key) else Treatment.REFUSED
    if key.startswith(("commit.callback.", "tag.callback.")) and key.endswith(".param"):
        return Treatment.HARMLESS
    if key.startswith(_FORMAT_PREFIXES):
        # How Java's writers pack values: rows are the same. Parquet's keys are many; what is known is carried out.
        return Treatment.REFUSED if key.startswith(("parquet.", *_ENCRYPTION_KEYS)) else Treatment.HARMLESS
    return None
