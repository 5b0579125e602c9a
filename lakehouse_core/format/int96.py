"""INT96 timestamps, exactly: 8 bytes nanoseconds of the day, 4 bytes Julian day, both little-endian and signed.

Writers that divide towards zero, as Java does, store times before 1970 with negative nanoseconds and the day after.
Source: docs/format/data-files.md#parquet.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.data_types import (
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    arrow_type,
    date_of,
    timestamp_unit,
    type_to_sql,
)
from lakehouse_core.format.parquet_footer import INT96_BYTES

_STORED: Final = pa.binary(INT96_BYTES)
_LAYOUT: Final = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_JULIAN_DAY_OF_1970: Final = 2440588
_DAY_SECONDS: Final = 86_400
_DAY_NANOS: Final = 86_400_000_000_000
_SECOND_NANOS: Final = 1_000_000_000
_TICKS_PER_SECOND: Final = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

Numbers = npt.NDArray[np.int64]


def with_timestamps(array: pa.Array, data_type: DataType, place: str) -> pa.Array:
    """Return the array with the 12-byte values of its timestamps, at any depth, as Arrow timestamps.

    `place` names file and column in messages. Raises UnsupportedFeature for a time that Arrow's unit of the type cannot
    hold (nanoseconds go from 1677 to 2262), CorruptTable for one that has more digits than the type, or that is none.
    """
    kind = array.type
    match data_type:
        case AtomicType() if data_type.root in TIMESTAMP_ROOTS and kind == _STORED:
            return _timestamps(array, data_type, place)
        case ArrayType(element) if pa.types.is_list(kind):
            values = with_timestamps(_used(array.values, array.offsets), element, place)
            field = kind.value_field.with_type(values.type)
            return pa.ListArray.from_arrays(_from_zero(array.offsets), values, pa.list_(field), mask=array.is_null())
        case MapType(key, value) if pa.types.is_map(kind):
            return _map(array, key, value, place)
        case MultisetType(element) if pa.types.is_map(kind):
            return _map(array, element, AtomicType(TypeRoot.INT, False), place)
        case RowType(fields) if pa.types.is_struct(kind):
            types = {field.name: field.type for field in fields}
            children, parts = [], []
            for index, part in enumerate(kind):
                child = array.field(index)
                children.append(with_timestamps(child, types[part.name], place) if part.name in types else child)
                parts.append(part.with_type(children[-1].type))
            return pa.StructArray.from_arrays(children, fields=parts, mask=array.is_null())
    return array


def _map(array: pa.Array, key: DataType, value: DataType, place: str) -> pa.Array:
    keys = with_timestamps(_used(array.keys, array.offsets), key, place)
    items = with_timestamps(_used(array.items, array.offsets), value, place)
    kind = pa.map_(array.type.key_field.with_type(keys.type), array.type.item_field.with_type(items.type))
    return pa.MapArray.from_arrays(_from_zero(array.offsets), keys, items, type=kind, mask=array.is_null())


def _used(values: pa.Array, offsets: pa.Array) -> pa.Array:
    """The values that a list or map array, maybe a slice, holds."""
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    return values.slice(start, stop - start)


def _from_zero(offsets: pa.Array) -> pa.Array:
    return pc.subtract(offsets, offsets[0])


def _timestamps(array: pa.Array, data_type: AtomicType, place: str) -> pa.Array:
    if array.null_count == len(array):
        return pa.nulls(len(array), arrow_type(data_type))
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    stored = np.frombuffer(array.buffers()[1], _LAYOUT, len(array), array.offset * INT96_BYTES)
    # Values of null rows are arbitrary.
    nanos = np.where(is_null, 0, stored["nanos"])
    days = np.where(is_null, 0, stored["day"].astype(np.int64) - _JULIAN_DAY_OF_1970)
    no_time = (nanos <= -_DAY_NANOS) | (nanos >= _DAY_NANOS)
    if no_time.any():
        raise CorruptTable(
            f"{place} holds a time of {nanos[no_time][0]} nanoseconds in a day. Keep the file as evidence; restore it "
            "from a copy of the table."
        )
    seconds, nanos = days * _DAY_SECONDS + nanos // _SECOND_NANOS, nanos % _SECOND_NANOS
    ticks = _ticks(seconds, nanos, data_type, place)
    return pa.array(ticks, pa.int64(), mask=is_null).cast(arrow_type(data_type))


def _ticks(seconds: Numbers, nanos: Numbers, data_type: AtomicType, place: str) -> Numbers:
    """Return counts of the unit that the type has in Arrow."""
    assert data_type.precision is not None
    ticks_per_second = _TICKS_PER_SECOND[timestamp_unit(data_type.precision)]
    tick_nanos = _SECOND_NANOS // ticks_per_second
    if (nanos % tick_nanos).any():
        row = int(np.argmax(nanos % tick_nanos != 0))
        raise CorruptTable(
            f"{place} holds {_text(seconds[row], nanos[row])}, which has more digits than {type_to_sql(data_type)}. "
            "Keep the file as evidence; restore it from a copy of the table."
        )
    ticks = nanos // tick_nanos
    limits = np.iinfo(np.int64)
    (low, low_rest), (high, high_rest) = (divmod(int(limit), ticks_per_second) for limit in (limits.min, limits.max))
    fits = ((seconds > low) | ((seconds == low) & (ticks >= low_rest))) & (
        (seconds < high) | ((seconds == high) & (ticks <= high_rest))
    )
    if not fits.all():
        row = int(np.argmin(fits))
        raise UnsupportedFeature(
            f"{place} holds {_text(seconds[row], nanos[row])}: beyond what {type_to_sql(data_type)} holds "
            "here (nanoseconds in 64 bits: 1677 to 2262). Leave out the column or the rows, or use Java Paimon."
        )
    # For the lowest second the product and the sum overflow, and the overflows cancel out.
    return seconds * ticks_per_second + ticks


def _text(seconds: int, nanos: int) -> str:
    days, second = divmod(int(seconds), _DAY_SECONDS)
    year, month, day = date_of(days)
    return f"{year:04}-{month:02}-{day:02} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{int(nanos):09}"
