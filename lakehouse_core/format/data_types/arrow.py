"""Arrow types: convert data types to Arrow types and back, with Parquet field ids as metadata.

Timestamps take the unit that Java expects for their precision: it reads files by precision, not by annotation.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types.types import (
    MAX_DECIMAL_PRECISION,
    MAX_LENGTH,
    UNASSIGNED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    with_nullable,
)

FIELD_ID_KEY: Final = b"PARQUET:field_id"

# Stored in every Parquet file with nested columns. Never renumber.
_NESTED_BASE: Final = 536870911
_IDS_PER_FIELD: Final = 1024

_PLAIN: Final[dict[TypeRoot, pa.DataType]] = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.BLOB: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
    TypeRoot.VARIANT: pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)]),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type that holds the values; nested fields carry their names but no ids."""
    return _type(data_type, None, 0)


def arrow_field(field: DataField) -> pa.Field:
    """Return the Arrow field with nullability and, at every level, the Parquet field id."""
    return pa.field(field.name, _type(field.type, field.id, 0), field.type.nullable, _metadata(field.id))


def arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """Return the Arrow schema of the fields, in their order, with Parquet field ids."""
    return pa.schema([arrow_field(field) for field in fields])


def timestamp_unit(precision: int) -> str:
    """Return the unit that holds the precision: "ms" to 3 digits, "us" to 6, "ns" above."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def _type(data_type: DataType, column: int | None, depth: int) -> pa.DataType:
    """Return the Arrow type. `column`: the id of the nearest enclosing named field (None: without ids); `depth`: the
    nesting below it.
    """
    match data_type:
        case AtomicType():
            return _atomic(data_type, with_ids=column is not None)
        case ArrayType(element):
            return pa.list_(_part("element", element, column, depth + 1))
        case MultisetType(element):
            key = _part("key", with_nullable(element, False), column, depth + 1, sign=-1)
            return pa.map_(key, _part("value", AtomicType(TypeRoot.INT, False), column, depth + 1))
        case MapType(map_key, value):
            # Parquet has no null keys, whatever the type says.
            key = _part("key", with_nullable(map_key, False), column, depth + 1, sign=-1)
            return pa.map_(key, _part("value", value, column, depth + 1))
        case RowType(fields):
            if column is not None:
                return pa.struct([arrow_field(field) for field in fields])
            return pa.struct(
                [pa.field(field.name, _type(field.type, None, 0), field.type.nullable) for field in fields]
            )


def _part(name: str, data_type: DataType, column: int | None, depth: int, *, sign: int = 1) -> pa.Field:
    metadata = None if column is None else _metadata(_NESTED_BASE + sign * (_IDS_PER_FIELD * column + depth))
    return pa.field(name, _type(data_type, column, depth), data_type.nullable, metadata)


def _metadata(field_id: int) -> dict[bytes, bytes]:
    return {FIELD_ID_KEY: str(field_id).encode()}


def _atomic(data_type: AtomicType, *, with_ids: bool) -> pa.DataType:
    match data_type.root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(data_type.precision, data_type.scale)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            assert data_type.precision is not None
            zone = "UTC" if data_type.root is TypeRoot.TIMESTAMP_LTZ else None
            return pa.timestamp(timestamp_unit(data_type.precision), zone)
        case TypeRoot.VARIANT if with_ids:
            return pa.struct(
                [
                    pa.field(name, pa.binary(), False, _metadata(index))
                    for index, name in enumerate(("value", "metadata"))
                ]
            )
        case root:
            return _PLAIN[root]


def type_from_arrow(arrow: pa.DataType, nullable: bool = True) -> DataType:
    """Return the narrowest type that holds every value of the Arrow type; nested fields are UNASSIGNED.

    Raises InvalidRequest for Arrow types without a counterpart (unsigned integers, TIME finer than milliseconds, …).
    """
    return with_nullable(_from_arrow(arrow), nullable)


def field_from_arrow(field: pa.Field) -> DataField:
    """Return the field, UNASSIGNED, with its type and nullability. Raises InvalidRequest naming the column."""
    try:
        return DataField(UNASSIGNED, field.name, type_from_arrow(field.type, field.nullable))
    except InvalidRequest as error:
        raise InvalidRequest(f"Column {field.name}: {error}") from error


_FROM_ARROW: Final[dict[pa.DataType, AtomicType]] = {
    pa.bool_(): AtomicType(TypeRoot.BOOLEAN),
    pa.int8(): AtomicType(TypeRoot.TINYINT),
    pa.int16(): AtomicType(TypeRoot.SMALLINT),
    pa.int32(): AtomicType(TypeRoot.INT),
    pa.int64(): AtomicType(TypeRoot.BIGINT),
    pa.float32(): AtomicType(TypeRoot.FLOAT),
    pa.float64(): AtomicType(TypeRoot.DOUBLE),
    pa.date32(): AtomicType(TypeRoot.DATE),
    pa.time32("s"): AtomicType(TypeRoot.TIME, precision=0),
    pa.time32("ms"): AtomicType(TypeRoot.TIME, precision=3),
    **{
        text: AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
        for text in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        data: AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)
        for data in (pa.binary(), pa.large_binary(), pa.binary_view())
    },
}
_UNIT_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _from_arrow(arrow: pa.DataType) -> DataType:
    if arrow in _FROM_ARROW:
        return _FROM_ARROW[arrow]
    if pa.types.is_timestamp(arrow):
        root = TypeRoot.TIMESTAMP if arrow.tz is None else TypeRoot.TIMESTAMP_LTZ
        return AtomicType(root, precision=_UNIT_DIGITS[arrow.unit])
    if pa.types.is_decimal(arrow) and arrow.precision <= MAX_DECIMAL_PRECISION and 0 <= arrow.scale <= arrow.precision:
        return AtomicType(TypeRoot.DECIMAL, precision=arrow.precision, scale=arrow.scale)
    if pa.types.is_fixed_size_binary(arrow):
        return AtomicType(TypeRoot.BINARY, length=arrow.byte_width)
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return _from_arrow(arrow.value_type)
    if pa.types.is_map(arrow):
        # Arrow knows no nullable keys: the key is NOT NULL whatever its field says.
        return MapType(type_from_arrow(arrow.key_type, False), _part_type(arrow.item_field))
    if pa.types.is_struct(arrow):
        return RowType(tuple(field_from_arrow(field) for field in arrow))
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return ArrayType(_part_type(arrow.value_field))
    raise InvalidRequest(
        f"the Arrow type {arrow} has no counterpart in a table: cast it first, for example unsigned integers to a "
        "wider signed type, times to time32[ms]."
    )


def _part_type(field: pa.Field) -> DataType:
    return type_from_arrow(field.type, field.nullable)
