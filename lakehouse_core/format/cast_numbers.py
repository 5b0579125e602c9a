"""Casts to integers and booleans, where values may be lost: Java's conversions, which never fail.

Source: docs/semantics/tables.md#casts.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.cast_times import epoch_millis
from lakehouse_core.format.data_types import INTEGER_BITS, TIMESTAMP_ROOTS, AtomicType, TypeRoot, arrow_type

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
        millis = epoch_millis(array, source)
        numbers = (millis - np.fmod(millis, 1_000)) // 1_000
    else:
        numbers = _saturated(array, is_long=target.root is TypeRoot.BIGINT)
    narrow = numbers.astype(arrow_type(target).to_pandas_dtype())
    return pa.array(narrow, arrow_type(target), mask=~valid)


def to_boolean(array: pa.Array) -> pa.Array:
    """Return which integers are not zero."""
    return pc.not_equal(array, pa.scalar(0, array.type))


def _low_bits(value: Any) -> int:
    if value is None:
        return 0
    return (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)


def _saturated(array: pa.Array, *, is_long: bool) -> _Longs:
    values = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    values = np.trunc(np.where(np.isnan(values), 0, values))
    limits = np.iinfo(np.int64) if is_long else np.iinfo(np.int32)
    # 2^63 - 1 is not a double, and 2^63 no long: what reaches a limit is not converted.
    inside = (values > limits.min) & (values < float(limits.max))
    numbers = np.where(inside, values, 0).astype(np.int64)
    return np.where(inside, numbers, np.where(values < 0, limits.min, limits.max))
