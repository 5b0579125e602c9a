"""Option checks: which options a table may have, and which tables may be written.

Source: docs/semantics/tables.md#constraints; the treatment of each option is in `known`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, near_names, shown, written_as
from lakehouse_core.options.expiry import check_retention
from lakehouse_core.options.files import check_name_part
from lakehouse_core.options.keys import FORMER_NAMES, VALUES, known_key, under_current_names
from lakehouse_core.options.known import KNOWN, OptionKey, Treatment
from lakehouse_core.options.patterns import check_field_key, check_pattern, field_ending, pattern_treatment
from lakehouse_core.options.scan_mode import scan_start
from lakehouse_core.options.table import TableOptions
from lakehouse_core.options.tags import check_auto_tags
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

_OWN_PREFIX: Final = "lakehouse."


def check_known(options: Mapping[str, str], columns: Iterable[str]) -> None:
    """Raise InvalidRequest unless every key is known, names known columns, and has a value of its kind.

    `check_consistent` checks whether the options fit together, once all of them are there.
    """
    names = tuple(columns)
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"Option {shown(key)} = {shown(value)}: keys and values of options are text{written_as(value)}."
            )
        if not check_pattern(key, value, names):
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
        if key.startswith("fields.") and field_ending(key) is not None:
            check_field_key(key, names)
    parsed = TableOptions.parse(options)
    check_bounds(options)
    check_retention(parsed.expiry, parsed.changelog_expiry)
    check_auto_tags(options)
    check_name_part("data-file.prefix", parsed.data_file_prefix)
    check_name_part("changelog-file.prefix", parsed.changelog_file_prefix)
    check_name_part("partition.default-name", parsed.partition_default_name, may_be_hidden=True)
    scan_start(options)


def check_bounds(options: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a number, size or duration outside the bounds of its option."""
    for key, text in options.items():
        known = KNOWN.get(FORMER_NAMES.get(key, key))
        if known is None or (known.low is None and known.high is None):
            continue
        assert isinstance(known.kind, str)
        number = _NUMBERS[known.kind]
        if known.low is not None and number(key, text) < number(key, known.low):
            raise InvalidRequest(f"Option {key} is {text}: expected at least {known.low}.")
        if known.high is not None and number(key, text) > number(key, known.high):
            raise InvalidRequest(f"Option {key} is {text}: expected at most {known.high}.")


_NUMBERS: Final[Mapping[str, Callable[[str, str], float]]] = {
    "int": parse_int,
    "float": parse_float,
    "size": parse_size,
    "duration": parse_duration,
}


class WriteKind(Enum):
    """What a write does to a table; the value: the treatments of options that it refuses."""

    SETTINGS = frozenset({Treatment.LEFT_TO_OTHERS, Treatment.MAINTENANCE_ONLY, Treatment.REFUSED})
    ROWS = frozenset({Treatment.MAINTENANCE_ONLY, Treatment.REFUSED})
    MAINTENANCE = frozenset({Treatment.REFUSED})


def check_writable(options: Mapping[str, str], *, table: str, kind: WriteKind = WriteKind.ROWS) -> None:
    """Raise UnsupportedFeature naming the first option with which a write of this kind would not be right.

    Unknown keys are the user's own notes, as in Java. Unknown keys under `lakehouse.` are promises of a newer version
    of this package. Raises InvalidRequest for options by which no automatic tag can be made.
    """
    for key, value in options.items():
        current = FORMER_NAMES.get(key, key)
        known = KNOWN.get(current)
        if known is None:
            treatment = Treatment.REFUSED if key.startswith(_OWN_PREFIX) else pattern_treatment(key)
            if treatment in kind.value:
                raise _unsupported(table, key, value, treatment, "It is for the writers of other engines.")
        elif current in VALUES:
            treatment = VALUES[current].get(value.strip().lower(), Treatment.REFUSED)
            if treatment in kind.value:
                others = sorted(word for word, each in VALUES[current].items() if each is Treatment.HONOURED)
                maintained = " Compaction and expiry do not need it."
                raise UnsupportedFeature(
                    f"{about_option(table)} {key} = {value} is not supported for writing yet: "
                    f"{one_of(value, others)}, or write with Java Paimon."
                    f"{maintained if treatment is Treatment.MAINTENANCE_ONLY else ''}"
                )
        elif known.treatment in kind.value and not _is_default(known, value):
            raise _unsupported(table, key, value, known.treatment, known.reason)
    check_auto_tags(options)


def about_option(table: str) -> str:
    """Return the beginning of a message about an option. `table` is empty when the caller adds the table's name."""
    return f"{table}: option" if table else "Option"


def one_of(text: str, words: Sequence[str]) -> str:
    """Return advice for a text that is not one of the words: the nearest word, and all words."""
    choices = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    near = near_names(text.strip().lower(), words, most=1)
    return f"did you mean {near}? Set {choices}" if near else f"set {choices}"


def _unsupported(table: str, key: str, value: str, treatment: Treatment, reason: str) -> UnsupportedFeature:
    option = f"{about_option(table)} {key} = {value}"
    match treatment:
        case Treatment.LEFT_TO_OTHERS:
            return UnsupportedFeature(f"{option} has no effect here. {reason} Leave it out.")
        case Treatment.MAINTENANCE_ONLY:
            return UnsupportedFeature(
                f"{option} is not supported for writing rows yet. {reason} Remove it, or write with Java Paimon. "
                "Compaction and expiry do not need it."
            )
        case _:
            return UnsupportedFeature(
                f"{option} is not supported for writing yet: remove it, or write with Java Paimon."
            )


def _is_default(known: OptionKey, value: str) -> bool:
    if known.default is None:
        return False
    if known.kind == "bool":
        return value.strip().lower() == known.default
    if known.kind == "duration":
        return parse_duration(known.name, value) == parse_duration(known.name, known.default)
    return value.strip().lower() == known.default.lower()


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
