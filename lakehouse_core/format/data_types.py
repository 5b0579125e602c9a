"""The data types of a table: their text and JSON in schema files, their Arrow types, their comparable values.

Source: Paimon format, "Schema file". Types are values; two types are equal when every parameter is.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Root(StrEnum):
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


MAX_LENGTH = 2147483647


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without parts. `length` belongs to character and binary types, `precision` to DECIMAL, TIME and
    timestamps, `scale` to DECIMAL; the others are None. STRING is VARCHAR(MAX_LENGTH), BYTES VARBINARY(MAX_LENGTH)."""

    root: Root
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class ArrayType:
    element: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MultisetType:
    element: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    key: "DataType"
    value: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RowType:
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
