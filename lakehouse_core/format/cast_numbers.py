"""Numbers as other numbers and as times, where values may be lost: Java's conversions, which never fail.

Source: docs/semantics/tables.md#casts.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import (
    INTEGER_BITS,
    MILLIS_PER_DAY,
    TIMESTAMP_ROOTS,
    AtomicType,
    TypeRoot,
    arrow_type,
    timestamp_unit,
    type_to_sql,
)

_TICKS_PER_MILLI: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}

_Longs = npt.NDArray[np.int64]


def to_integer(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Return the values without fraction, as their lowest bits; of times, the seconds since 1970, towards zero.

    Floating numbers go to the nearest INT or BIGINT first, NaN to 0.
    """
    if source.root in (*INTEGER_BITS, TypeRoot.BOOLEAN):
        return array.cast(arrow_type(target), safe=False)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    if source.root is TypeRoot.DECIMAL:
        numbers = np.array([_low_bits(value) for value in array.to_pylist()], dtype=np.int64)
    elif source.root in TIMESTAMP_ROOTS:
        millis = _millis(array, source)
        numbers = (millis - np.fmod(millis, 1_000)) // 1_000
    else:
        numbers = _saturated(array, is_long=target.root is TypeRoot.BIGINT)
    narrow = numbers.astype(arrow_type(target).to_pandas_dtype())
    return pa.array(narrow, arrow_type(target), mask=~valid)


def to_boolean(array: pa.Array) -> pa.Array:
    """Return which integers are not zero."""
    return pc.not_equal(array, pa.scalar(0, array.type))


def to_timestamp(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Return integers as seconds since 1970, dates as their beginning, times of day as those of 1970-01-01.

    As in Java, milliseconds beyond 64 bits are their lowest bits, whatever digits the target has.
    Raises UnsupportedFeature for a time that the target's unit cannot hold in 64 bits.
    """
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    kind = pa.int32() if source.root in (TypeRoot.DATE, TypeRoot.TIME) else array.type
    numbers = array.cast(kind).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if source.root is TypeRoot.TIME:
        step = 10 ** max(0, 3 - (target.precision or 0))
        millis = numbers // step * step
    elif source.root is TypeRoot.DATE:
        millis = numbers * MILLIS_PER_DAY
    else:
        # Java's long wraps, too.
        millis = numbers * 1_000
    ticks_per_milli = _TICKS_PER_MILLI[timestamp_unit(target.precision or 0)]
    limits = np.iinfo(np.int64)
    beyond = valid & ((millis > limits.max // ticks_per_milli) | (millis < -(-limits.min // ticks_per_milli)))
    if beyond.any():
        raise UnsupportedFeature(
            f"A value of {type_to_sql(source)} is a time of {millis[beyond][0]} milliseconds since 1970, beyond what "
            f"{type_to_sql(target)} holds here."
        )
    return pa.array(millis * ticks_per_milli, pa.int64(), mask=~valid).cast(arrow_type(target))


def zoned_to_date(array: pa.Array, source: AtomicType) -> pa.Array:
    """Return the days of times with a time zone, in UTC. Those without are another matter: see `cast`."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    days = (_millis(array, source) // MILLIS_PER_DAY).astype(np.int32)
    return pa.array(days, pa.int32(), mask=~valid).cast(pa.date32())


def _millis(array: pa.Array, source: AtomicType) -> _Longs:
    ticks: _Longs = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return ticks // _TICKS_PER_MILLI[timestamp_unit(source.precision or 0)]


def _low_bits(value: Any) -> int:
    if value is None:
        return 0
    return (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)


def _saturated(array: pa.Array, *, is_long: bool) -> _Longs:
    values = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    values = np.trunc(np.where(np.isnan(values), 0, values))
    limits = np.iinfo(np.int64) if is_long else np.iinfo(np.int32)
    # 2^63 - 1 is no double, and 2^63 no long: what reaches a limit is not converted.
    inside = (values > limits.min) & (values < float(limits.max))
    numbers = np.where(inside, values, 0).astype(np.int64)
    return np.where(inside, numbers, np.where(values < 0, limits.min, limits.max))
