"""Casts to, from and between times.

Source: docs/semantics/tables.md#casts.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import (
    MILLIS_PER_DAY,
    AtomicType,
    TypeRoot,
    arrow_type,
    timestamp_unit,
    type_to_sql,
)

_UNITS_PER_SECOND: Final = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# What 64 bits do not hold, by units a second.
_BEYOND: Final = {
    1_000: "292 million years from 1970",
    1_000_000: "292,000 years from 1970",
    1_000_000_000: "outside 1677 to 2262",
}


def from_timestamp(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Return timestamps as dates, times of the day, or timestamps of another precision. Raises UnsupportedFeature."""
    assert source.precision is not None
    units = _UNITS_PER_SECOND[timestamp_unit(source.precision)]
    ticks = array.cast(pa.int64())
    if target.root in (TypeRoot.DATE, TypeRoot.TIME):
        millis = _floor_divide(ticks, units // 1_000)
        if target.root is TypeRoot.DATE:
            # Towards zero, as in Java: a time of day before 1970 belongs to the day after. Of far days, the low bits.
            return pc.divide(millis, MILLIS_PER_DAY).cast(pa.int32(), safe=False).cast(pa.date32())
        days = _floor_divide(millis, MILLIS_PER_DAY)
        return pc.subtract(millis, pc.multiply(days, MILLIS_PER_DAY)).cast(pa.int32()).cast(pa.time32("ms"))
    assert target.precision is not None
    target_units = _UNITS_PER_SECOND[timestamp_unit(target.precision)]
    try:
        if target.precision < source.precision:
            ticks, units = _truncate(ticks, units, target.precision)
        if target_units > units:
            ticks = pc.multiply_checked(ticks, target_units // units)
        elif target_units < units:
            ticks = _floor_divide(ticks, units // target_units)
    except pa.ArrowInvalid as error:
        raise UnsupportedFeature(
            f"A value of {type_to_sql(source)} lies {_BEYOND[target_units]}, "
            f"beyond what {type_to_sql(target)} holds here."
        ) from error
    return ticks.cast(arrow_type(target))


def _truncate(ticks: pa.Array, units: int, precision: int) -> tuple[pa.Array, int]:
    """Drop the digits of a second beyond `precision`; return the ticks and how many there are to a second.

    As in Java, digits below a millisecond go down and those above towards zero.
    """
    if precision < 3:
        step = 10 ** (3 - precision)
        return pc.multiply(pc.divide(_floor_divide(ticks, units // 1_000), step), step), 1_000
    step = max(1, units // 10**precision)
    # The tick below the first one that 64 bits hold is none.
    return pc.multiply_checked(_floor_divide(ticks, step), step), units


def _floor_divide(ticks: pa.Array, divisor: int) -> pa.Array:
    """Return the quotients rounded down; Arrow's own division rounds towards zero."""
    quotient = pc.divide(ticks, divisor)
    remainder = pc.subtract(ticks, pc.multiply(quotient, divisor))
    return pc.subtract(quotient, pc.less(remainder, 0).cast(pa.int64()))


_TICKS_PER_MILLI: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


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
    days = (epoch_millis(array, source) // MILLIS_PER_DAY).astype(np.int32)
    return pa.array(days, pa.int32(), mask=~valid).cast(pa.date32())


def epoch_millis(array: pa.Array, source: AtomicType) -> npt.NDArray[np.int64]:
    ticks: npt.NDArray[np.int64] = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return ticks // _TICKS_PER_MILLI[timestamp_unit(source.precision or 0)]
