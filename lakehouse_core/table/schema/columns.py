"""Column rules: the names, types and number of columns that a table may have, nested fields included.

Rule: columns that other engines made are read and altered as they are; only new columns must pass the checks of names.
Source: docs/semantics/tables.md#constraints.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature, shown
from lakehouse_core.format.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    atomic_parts,
    field_ids,
    nested_fields,
)
from lakehouse_core.format.stored import LONGEST_NAME_BYTES, check_text, control_character, is_broken
from lakehouse_core.table.schema.record import TableSchema

RESERVED_PREFIX: Final = "_KEY_"
RESERVED_NAMES: Final = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "_ROW_ID", "rowkind"})

# The maximum: a schema is read with every snapshot, and Parquet has a footer entry for each column and row group.
_MOST_FIELDS: Final = 10_000
# Values of these types may be stored in several columns or in other files.
_UNSUPPORTED_ROOTS: Final = frozenset({TypeRoot.VARIANT, TypeRoot.BLOB})


def check_columns(fields: Sequence[DataField]) -> None:
    """Raise InvalidRequest without columns, and for forbidden names (rule 15), nested fields included."""
    if not fields:
        raise InvalidRequest("A table needs at least one column.")
    _check_names([field.name for field in fields], "The table")
    for field in fields:
        if field.name in RESERVED_NAMES or field.name.startswith(RESERVED_PREFIX):
            raise InvalidRequest(
                f"Column {shown(field.name)}: the name is reserved, as are {', '.join(sorted(RESERVED_NAMES))} and "
                "every "
                f"name that starts with {RESERVED_PREFIX}. Choose another."
            )
        _check_nested(field.type, field.name)


def _check_names(names: Sequence[str], owner: str) -> None:
    for name, count in Counter(names).items():
        if not isinstance(name, str) or not name.strip():
            raise InvalidRequest(
                f"{owner} has a column named {shown(name)}: a name needs a character that is not blank."
            )
        if count > 1:
            raise InvalidRequest(f"{owner} has {count} columns named {shown(name)}: names must differ.")
        if is_broken(name):
            raise InvalidRequest(
                f"{owner} has a column named {shown(name)}, which is not valid Unicode: choose another."
            )


def check_new_fields(fields: Iterable[DataField]) -> None:
    """Raise InvalidRequest for new columns whose names or comments, nested ones too, cannot be stored or printed.

    Tables of other engines that have them are read and altered as they are.
    """
    for field in fields:
        check_new_name(field.name)
        for what, text in (("comment", field.description), ("default", field.default_value)):
            if text is not None:
                check_text(f"The {what} of column {shown(field.name)}", text)
        check_new_fields(nested_fields(field.type))


def check_new_name(name: str) -> None:
    """Raise InvalidRequest for the name of a new column that has control characters, is not Unicode or is too long for
    a folder name.
    """
    check_text("The name of a column", name, longest=LONGEST_NAME_BYTES)
    if (character := control_character(name)) is not None:
        raise InvalidRequest(
            f"Column {shown(name)}: the control character {shown(character)} is not allowed in a name. Choose another."
        )


def check_count(fields: Sequence[DataField]) -> None:
    """Raise InvalidRequest for too many columns, nested fields included."""
    if (count := len(field_ids(fields))) > _MOST_FIELDS:
        raise InvalidRequest(
            f"The table would have {count} columns, nested fields included: at most {_MOST_FIELDS} are allowed. "
            "Put them into several tables, or into a MAP."
        )


def check_no_twin(name: str, others: Iterable[str]) -> None:
    """Raise InvalidRequest for a new column that differs from another only by case: Spark finds both ambiguous and
    reads neither.

    Tables of other engines that have such columns are read and altered as they are.
    """
    for other in others:
        if other != name and other.casefold() == name.casefold():
            raise InvalidRequest(
                f"Column {shown(name)} differs from column {shown(other)} only by case. Choose another name."
            )


def _check_nested(data_type: DataType, path: str) -> None:
    match data_type:
        case AtomicType():
            pass
        case ArrayType(element) | MultisetType(element):
            _check_nested(element, path)
        case MapType(key, value):
            _check_nested(key, path)
            _check_nested(value, path)
        case RowType(fields):
            if not fields:
                raise InvalidRequest(
                    f"Column {path}: a ROW needs at least one field, because Parquet has no empty groups."
                )
            _check_names([field.name for field in fields], f"Column {path}")
            for field in fields:
                _check_nested(field.type, f"{path}.{field.name}")


def check_types(fields: Sequence[DataField]) -> None:
    """Raise UnsupportedFeature naming the first column of a type that our data files cannot hold for Java."""
    for field in fields:
        for part in atomic_parts(field.type):
            if part.root in _UNSUPPORTED_ROOTS:
                raise UnsupportedFeature(
                    f"Column {field.name}: the type {part.root} is not supported yet. Declare another."
                )


def named_column(schema: TableSchema, option: str, name: str) -> DataField:
    """Return the column that an option names. Raises InvalidRequest unless there is one."""
    if not schema.has_field(name):
        raise InvalidRequest(
            f"{option} names {shown(name)}, which is not a column: the table has {', '.join(schema.column_names)}."
        )
    return schema.field(name)
