"""Option patterns: keys with names in them, such as `fields.<columns>.<ending>` and `file-index.…`, and settings of one
format's writer.

Source: docs/semantics/options.md#treatment.
"""

from collections.abc import Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest, near_names, shown
from lakehouse_core.options.file_indexes import check_index_option, has_known_kind, is_index_option
from lakehouse_core.options.keys import FIELD_ENDINGS, FORMER_NAMES, known_key
from lakehouse_core.options.known import KNOWN, Treatment

# Refused, because the values of such a column would be stored without encryption.
_ENCRYPTION_KEYS: Final = ("orc.encrypt", "orc.mask", "orc.key.provider", "parquet.encrypt", "parquet.crypto")
# Settings of one file format's writer, passed on to it by Java.
_FORMAT_PREFIXES: Final = ("parquet.", "orc.", "avro.", "csv.", "json.", "text.")


def check_pattern(key: str, value: str, columns: Sequence[str]) -> bool:
    """Return whether the key has the form of a known pattern. Raises InvalidRequest when a part of it is wrong."""
    if key in KNOWN or key in FORMER_NAMES:
        return False
    if key.startswith("fields."):
        check_field_key(key, columns)
        return True
    if is_index_option(key):
        for column in check_index_option(key, value):
            _check_column(key, column.partition("[")[0], columns)
        return True
    return pattern_treatment(key) is not None


def check_field_key(key: str, columns: Sequence[str]) -> None:
    """Raise InvalidRequest unless the key has a known ending and names columns of the table."""
    ending = field_ending(key)
    if ending is None:
        column, dot, word = key.removeprefix("fields.").rpartition(".")
        if not dot:
            known_key(key)
        endings = [ending for ending, treatment in FIELD_ENDINGS.items() if treatment is Treatment.HONOURED]
        near = near_names(word, FIELD_ENDINGS, most=1)
        advice = f"did you mean fields.{column}.{near}?" if near else f"it may end in .{', .'.join(endings)}."
        unknown = [
            f" Column {shown(name)} does not exist: {_existing(name, columns)}"
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
    near = near_names(column, columns, most=1)
    return f"did you mean {near}?" if near else f"take one of {', '.join(columns)}."


def field_ending(key: str) -> str | None:
    """Return the ending of a key with column names; None for a key of another form."""
    if ".map." in key:
        return "map"
    ending = key.rpartition(".")[2]
    return ending if ending in FIELD_ENDINGS and key.count(".") >= 2 else None


def pattern_treatment(key: str) -> Treatment | None:
    """Return the treatment of a key with names in it; None for a key of another form."""
    if key.startswith("fields."):
        ending = field_ending(key)
        return None if ending is None else FIELD_ENDINGS[ending]
    if is_index_option(key):
        # Whether an index of the kind is written is for `check_writable_indexes`.
        return Treatment.HONOURED if has_known_kind(key) else Treatment.REFUSED
    if key.startswith(("commit.callback.", "tag.callback.")) and key.endswith(".param"):
        return Treatment.HARMLESS
    if key.startswith(_FORMAT_PREFIXES):
        if key.startswith(_ENCRYPTION_KEYS):
            return Treatment.REFUSED
        # How Java's writers pack values: rows are the same. Parquet's keys are many; what is known is carried out.
        return Treatment.LEFT_TO_OTHERS if key.startswith("parquet.") else Treatment.HARMLESS
    return None
