"""Casts to and from decimals.

Rule: rounded HALF_UP, and NULL where there is no room.
Source: docs/semantics/tables.md#casts.
"""

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import FLOAT_ROOTS, AtomicType, TypeRoot, arrow_type, type_to_sql

_HALF_UP: Final = Context(prec=400, rounding=ROUND_HALF_UP)
# Integers up to here, and powers of ten up to 10^22, are exact doubles: one division rounds once.
_EXACT_DOUBLE_DIGITS: Final = 15
_EXACT_DOUBLE_SCALE: Final = 22


def to_decimal(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Return numbers as decimals. Raises UnsupportedFeature for infinity and NaN."""
    assert target.precision is not None
    assert target.scale is not None
    if source.root in FLOAT_ROOTS:
        return _floating_to_decimal(array, target)
    source_scale = source.scale or 0
    # 76 digits hold 38 before and 38 after the point, so that nothing overflows before the check below.
    wide = array.cast(pa.decimal256(76, source_scale))
    if source_scale > target.scale:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    wide = wide.cast(pa.decimal256(76, target.scale))
    bound = pa.scalar(Decimal(10) ** (target.precision - target.scale), pa.decimal256(76, target.scale))
    fits = pc.less(pc.abs(wide), bound)
    return pc.if_else(fits, wide, pa.scalar(None, wide.type)).cast(arrow_type(target))


def _floating_to_decimal(array: pa.Array, target: AtomicType) -> pa.Array:
    assert target.precision is not None
    assert target.scale is not None
    unit, bound = Decimal(1).scaleb(-target.scale), Decimal(10) ** (target.precision - target.scale)
    result: list[Decimal | None] = []
    for value in array.cast(pa.float64()).to_pylist():
        if value is None:
            result.append(None)
            continue
        if not math.isfinite(value):
            raise UnsupportedFeature(
                f"{value} has no value of {type_to_sql(target)}: correct the row with its old type."
            )
        rounded = Decimal(repr(value)).quantize(unit, context=_HALF_UP)
        result.append(rounded if abs(rounded) < bound else None)
    return pa.array(result, arrow_type(target))


def decimal_to_floating(array: pa.Array, source: AtomicType, target: AtomicType) -> pa.Array:
    """Return decimals as the nearest DOUBLE, or what FLOAT makes of that."""
    assert source.precision is not None
    assert source.scale is not None
    exact = source.precision <= _EXACT_DOUBLE_DIGITS and source.scale <= _EXACT_DOUBLE_SCALE
    if exact and target.root is TypeRoot.DOUBLE:
        unscaled = _unscaled(array, source.scale)
        return pc.divide(unscaled.cast(pa.float64()), float(10**source.scale))
    # Java rounds to double first for FLOAT, too; so does this.
    doubles = pa.array([None if value is None else float(value) for value in array.to_pylist()], pa.float64())
    return doubles.cast(arrow_type(target), safe=False)


def _unscaled(array: pa.Array, scale: int) -> pa.Array:
    """Return value × 10^scale as int64; the decimals have at most 15 digits."""
    shift = pa.scalar(Decimal(10**scale), pa.decimal128(scale + 1, 0))
    return pc.multiply(array, shift).cast(pa.decimal256(76, scale)).cast(pa.int64())
