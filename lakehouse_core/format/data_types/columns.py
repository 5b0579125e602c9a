"""Columns: convert Arrow columns to lists of comparable values, and back.

The conversion back gives the same column, also for decimals with more digits than their type, as in Java's sums, and
for dates that Python lacks.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types.arrow import arrow_type, timestamp_unit
from lakehouse_core.format.data_types.types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    type_to_sql,
)

_PER_MILLI: Final = {"s": 0, "ms": 1, "us": 1_000, "ns": 1_000_000}
_COUNT: Final = AtomicType(TypeRoot.INT, False)
# Up to so many digits, a decimal is stored as an integer of so many bits.
_STORED_BITS: Final = ((9, 32), (18, 64))


def values_of(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """Return the comparable value of each row; None is NULL. `column` has the Arrow type of the data type."""
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in values_of(chunk, data_type)]
    match data_type:
        case AtomicType():
            return _atomic_values(column, data_type)
        case ArrayType(element):
            return _parted(column, values_of(column.values, element))
        case MapType(key, value):
            return _parted(column, _pairs(column, key, value))
        case MultisetType(element):
            return _parted(column, _pairs(column, element, _COUNT))
        case RowType(fields):
            parts = [values_of(column.field(index), field.type) for index, field in enumerate(fields)]
            rows = zip(*parts, strict=True)
            return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]


def _pairs(column: pa.MapArray, key: DataType, value: DataType) -> list[Any]:
    return list(zip(values_of(column.keys, key), values_of(column.items, value), strict=True))


def _parted(column: pa.Array, values: list[Any]) -> list[Any]:
    offsets = column.offsets.to_pylist()
    valid = column.is_valid().to_pylist()
    return [tuple(values[offsets[row] : offsets[row + 1]]) if valid[row] else None for row in range(len(column))]


def _atomic_values(column: pa.Array, data_type: AtomicType) -> list[Any]:
    if data_type.root in TIMESTAMP_ROOTS:
        per_milli = _PER_MILLI[column.type.unit]
        nanos_per = 1_000_000 // per_milli if per_milli else 0
        values = column.view(pa.int64()).to_pylist()
        if not per_milli:
            return [None if value is None else (value * 1_000, 0) for value in values]
        return [None if value is None else (value // per_milli, value % per_milli * nanos_per) for value in values]
    if data_type.root is TypeRoot.DATE:
        return list(column.view(pa.int32()).to_pylist())
    if data_type.root is TypeRoot.TIME:
        return list(column.cast(pa.time32("ms")).view(pa.int32()).to_pylist())
    return list(column.to_pylist())


def column_of(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """Return the Arrow column of comparable values, which fit the type.

    Decimals may have more digits than their type; InvalidRequest where files cannot store so many.
    """
    arrow = arrow_type(data_type)
    match data_type:
        case AtomicType():
            return _atomic_column(values, data_type, arrow)
        case ArrayType(element):
            flat = [item for value in values for item in value or ()]
            return pa.ListArray.from_arrays(_offsets(values), column_of(flat, element), type=arrow, mask=_nulls(values))
        case MapType(key, value_type):
            return _map_column(values, key, value_type, arrow)
        case MultisetType(element):
            return _map_column(values, element, _COUNT, arrow)
        case RowType(fields):
            parts = [
                column_of([None if value is None else value[index] for value in values], field.type)
                for index, field in enumerate(fields)
            ]
            return pa.StructArray.from_arrays(parts, fields=list(arrow), mask=_nulls(values))


def _map_column(values: Sequence[Any], key: DataType, value_type: DataType, arrow: pa.MapType) -> pa.Array:
    entries = [entry for value in values for entry in value or ()]
    keys = column_of([name for name, _ in entries], key)
    items = column_of([held for _, held in entries], value_type)
    return pa.MapArray.from_arrays(_offsets(values), keys, items, arrow, mask=_nulls(values))


def _offsets(values: Sequence[Any]) -> pa.Array:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or ()))
    return pa.array(offsets, pa.int32())


def _nulls(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _atomic_column(values: Sequence[Any], data_type: AtomicType, arrow: pa.DataType) -> pa.Array:
    if data_type.root in TIMESTAMP_ROOTS:
        assert data_type.precision is not None
        per_milli = _PER_MILLI[timestamp_unit(data_type.precision)]
        nanos_per = 1_000_000 // per_milli
        units = [None if value is None else value[0] * per_milli + value[1] // nanos_per for value in values]
        return pa.array(units, pa.int64()).view(arrow)
    if data_type.root in (TypeRoot.DATE, TypeRoot.TIME):
        return pa.array(values, pa.int32()).view(arrow)
    if data_type.root is TypeRoot.DECIMAL:
        return _decimals(values, data_type, arrow)
    return pa.array(values, arrow)


def _decimals(values: Sequence[Any], data_type: AtomicType, arrow: pa.DataType) -> pa.Array:
    """Unscaled numbers of 128 bits; Arrow's own conversion refuses digits beyond the precision."""
    data = b"".join(
        (0 if value is None else _unscaled(value, data_type)).to_bytes(16, "little", signed=True) for value in values
    )
    validity = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(arrow, len(values), [validity, pa.py_buffer(data)])


def _unscaled(value: Decimal, data_type: AtomicType) -> int:
    """Comparable decimals have exactly the scale of their type."""
    assert data_type.precision is not None
    assert data_type.scale is not None
    sign, digits, exponent = value.as_tuple()
    assert exponent == -data_type.scale, value
    unscaled = int("".join(map(str, digits)))
    # Files hold 32 bits for up to 9 digits and 64 for up to 18. Java cuts off what does not fit them.
    if unscaled >> next((bits - 1 for digits, bits in _STORED_BITS if data_type.precision <= digits), 127):
        raise InvalidRequest(
            f"{value} has more digits than a column of {type_to_sql(data_type)} can store: change the column to a "
            "wider type."
        )
    return -unscaled if sign else unscaled
