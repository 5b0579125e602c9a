"""The data types of a table as values. Two types are equal when every parameter is.

Their SQL text is here; what reads it, and the JSON of schema files, is in `text`, Arrow types in `arrow`, values in
`values`.
Source: docs/format/schema.md#types.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias


class TypeRoot(StrEnum):
    """The word that begins a type's text."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BLOB = "BLOB"


MAX_LENGTH: Final = 2147483647
MAX_DECIMAL_PRECISION: Final = 38

# The id of a nested field that no schema has numbered yet; `assign_ids` gives it one.
UNASSIGNED: Final = -1

INTEGER_BITS: Final = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
FLOAT_ROOTS: Final = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
NUMBER_ROOTS: Final = frozenset({*INTEGER_BITS, *FLOAT_ROOTS, TypeRoot.DECIMAL})
STRING_ROOTS: Final = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARY_ROOTS: Final = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB})
TIMESTAMP_ROOTS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


class _SqlText:
    """What prints as the text of SQL."""

    __slots__ = ()

    def __str__(self) -> str:
        assert isinstance(self, DataType)
        return type_to_sql(self)


@dataclass(frozen=True, slots=True)
class AtomicType(_SqlText):
    """A type without parts. `length` belongs to character and binary types, `precision` to DECIMAL, TIME and
    timestamps, `scale` to DECIMAL; the others are None. STRING is VARCHAR(MAX_LENGTH), BYTES VARBINARY(MAX_LENGTH)."""

    root: TypeRoot
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class ArrayType(_SqlText):
    element: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MultisetType(_SqlText):
    element: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MapType(_SqlText):
    key: "DataType"
    value: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RowType(_SqlText):
    fields: "tuple[DataField, ...]"
    nullable: bool = True


DataType: TypeAlias = AtomicType | ArrayType | MultisetType | MapType | RowType


@dataclass(frozen=True, slots=True)
class DataField:
    """A named, numbered column or nested field."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


def type_to_sql(data_type: DataType) -> str:
    """Return canonical SQL text, such as `DECIMAL(12, 2) NOT NULL` or `ARRAY<INT>`; `parse_type` reads it back."""
    return word_of(_bare_sql(data_type), data_type)


def word_of(word: str, data_type: DataType) -> str:
    """Return the word of a type with its nullability."""
    return word if data_type.nullable else f"{word} NOT NULL"


def _bare_sql(data_type: DataType) -> str:
    match data_type:
        case AtomicType():
            return _atomic_sql(data_type)
        case ArrayType(element):
            return f"ARRAY<{type_to_sql(element)}>"
        case MultisetType(element):
            return f"MULTISET<{type_to_sql(element)}>"
        case MapType(key, value):
            return f"MAP<{type_to_sql(key)}, {type_to_sql(value)}>"
        case RowType(fields):
            return f"ROW<{', '.join(_field_sql(field) for field in fields)}>"


def in_backquotes(name: str) -> str:
    """Return a name as SQL takes it, whatever its characters."""
    return f"`{name.replace('`', '``')}`"


def _field_sql(field: DataField) -> str:
    text = f"{in_backquotes(field.name)} {type_to_sql(field.type)}"
    if field.description is not None:
        text += " '" + field.description.replace("'", "''") + "'"
    return text


def _atomic_sql(data_type: AtomicType) -> str:
    match data_type.root:
        case TypeRoot.VARCHAR if data_type.length == MAX_LENGTH:
            return "STRING"
        case TypeRoot.VARBINARY if data_type.length == MAX_LENGTH:
            return "BYTES"
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"{data_type.root}({data_type.length})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({data_type.precision}, {data_type.scale})"
        case TypeRoot.TIME | TypeRoot.TIMESTAMP:
            return f"{data_type.root}({data_type.precision})"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP({data_type.precision}) WITH LOCAL TIME ZONE"
        case _:
            return data_type.root.value


def with_nullable(data_type: DataType, nullable: bool) -> DataType:
    """Return the type with another nullability at its top; parts keep theirs."""
    return data_type if data_type.nullable == nullable else replace(data_type, nullable=nullable)


def all_nullable(data_type: DataType) -> DataType:
    """Return the type with every part nullable, itself too; keys of maps are never null and stay as they are."""
    match data_type:
        case AtomicType():
            return with_nullable(data_type, True)
        case ArrayType(element) | MultisetType(element):
            return replace(data_type, element=all_nullable(element), nullable=True)
        case MapType(_, value):
            return replace(data_type, value=all_nullable(value), nullable=True)
        case RowType(fields):
            parts = tuple(replace(field, type=all_nullable(field.type)) for field in fields)
            return replace(data_type, fields=parts, nullable=True)


def has_same_kind(left: DataType, right: DataType) -> bool:
    """Whether the types are equal but for the nullability at their top."""
    return left is right or with_nullable(left, True) == with_nullable(right, True)


def assign_ids(data_type: DataType, next_id: int) -> tuple[DataType, int]:
    """Number the fields of every ROW inside the type depth-first from `next_id`; return the type and the next free id.

    Elements, keys and values consume no ids, whatever the old ids were. Source: docs/format/schema.md#field-ids.
    """
    match data_type:
        case AtomicType():
            return data_type, next_id
        case ArrayType(element) | MultisetType(element):
            element, next_id = assign_ids(element, next_id)
            return replace(data_type, element=element), next_id
        case MapType(key, value):
            key, next_id = assign_ids(key, next_id)
            value, next_id = assign_ids(value, next_id)
            return replace(data_type, key=key, value=value), next_id
        case RowType(fields):
            numbered, next_id = assign_field_ids(fields, next_id)
            return replace(data_type, fields=numbered), next_id


def assign_field_ids(fields: Iterable[DataField], next_id: int) -> tuple[tuple[DataField, ...], int]:
    """Number fields and everything nested in them depth-first; return them and the next free id."""
    numbered = []
    for field in fields:
        field_id = next_id
        field_type, next_id = assign_ids(field.type, field_id + 1)
        numbered.append(replace(field, id=field_id, type=field_type))
    return tuple(numbered), next_id


def field_ids(fields: Iterable[DataField]) -> list[int]:
    """Return the ids of the fields and of all fields nested in them, depth-first."""
    ids = []
    for field in fields:
        ids.append(field.id)
        ids += field_ids(nested_fields(field.type))
    return ids


def nested_fields(data_type: DataType) -> Iterator[DataField]:
    """Yield the fields of every ROW that is in the type without another ROW around it."""
    match data_type:
        case ArrayType(element) | MultisetType(element):
            yield from nested_fields(element)
        case MapType(key, value):
            yield from nested_fields(key)
            yield from nested_fields(value)
        case RowType(fields):
            yield from fields


def atomic_parts(data_type: DataType) -> list[AtomicType]:
    """Return every atomic type in the type, depth-first; an atomic type is its own only part."""
    match data_type:
        case AtomicType():
            return [data_type]
        case ArrayType(element) | MultisetType(element):
            return atomic_parts(element)
        case MapType(key, value):
            return atomic_parts(key) + atomic_parts(value)
        case RowType(fields):
            return [part for field in fields for part in atomic_parts(field.type)]


def nanosecond_columns(fields: Iterable[DataField]) -> tuple[list[str], list[str]]:
    """Return the columns that hold timestamps of more than 6 digits, and those that hold coarser ones.

    Java reads the former as INT96 and the latter as INT64. Source: docs/format/data-files.md#parquet.
    """
    fine, coarse = [], []
    for field in fields:
        digits = [part.precision for part in atomic_parts(field.type) if part.root in TIMESTAMP_ROOTS]
        if any(precision is not None and precision > 6 for precision in digits):
            fine.append(field.name)
        if any(precision is not None and precision <= 6 for precision in digits):
            coarse.append(field.name)
    return fine, coarse
