"""Casts, one value at a time, but for those from and to text of numbers. Source: docs/semantics/tables.md#casts."""

import math
import struct
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from lakehouse_core.format.data_types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    MILLIS_PER_DAY,
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)


def cast_value(value: Any, source: DataType, target: DataType) -> Any:
    """Return the comparable value of `target` for one of `source`, between which a cast exists."""
    if value is None:
        return None
    match source, target:
        case AtomicType(), AtomicType():
            return _atomic(value, source, target)
        case ArrayType(element), ArrayType(wanted):
            return tuple(cast_value(item, element, wanted) for item in value)
        case MapType(_, item_type), MapType(_, wanted):
            return tuple((key, cast_value(item, item_type, wanted)) for key, item in value)
        case MultisetType(), MultisetType():
            return value
        case RowType(fields), RowType(wanted_fields):
            old = {field.id: (item, field.type) for field, item in zip(fields, value, strict=True)}
            return tuple(cast_value(*old[f.id], f.type) if f.id in old else None for f in wanted_fields)
    raise AssertionError(f"no oracle for {source} as {target}")


def _atomic(value: Any, source: AtomicType, target: AtomicType) -> Any:
    if source == target:
        return value
    if target.root in (*INTEGER_BITS, TypeRoot.BOOLEAN):
        return (
            value != 0
            if target.root is TypeRoot.BOOLEAN
            else _wrapped(_whole(value, target), INTEGER_BITS[target.root])
        )
    if isinstance(value, bytes) and target.root in STRING_ROOTS:
        return value.decode(errors="replace")
    value = value.encode() if isinstance(value, str) and target.root in BINARY_ROOTS else value
    match target.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            cut = value[: target.length]
            return cut.ljust(target.length or 0) if target.root is TypeRoot.CHAR else cut
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            cut = value[: target.length]
            return cut.ljust(target.length or 0, b"\0") if target.root is TypeRoot.BINARY else cut
        case TypeRoot.DECIMAL:
            return _decimal(value, target)
        case TypeRoot.FLOAT:
            return _single(float(value))
        case TypeRoot.DOUBLE:
            return float(value)
        case TypeRoot.DATE:
            days = abs(value[0]) // MILLIS_PER_DAY
            towards_zero = days if value[0] >= 0 else -days
            return _wrapped(value[0] // MILLIS_PER_DAY if source.root is TypeRoot.TIMESTAMP_LTZ else towards_zero, 32)
        case TypeRoot.TIME:
            return value[0] % MILLIS_PER_DAY
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp(value, source, target.precision or 0)
    return value


def _single(value: float) -> float:
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(rounded)


def _whole(value: Any, target: AtomicType) -> int:
    if isinstance(value, tuple):
        return -(-value[0] // 1000) if value[0] < 0 else value[0] // 1000
    if isinstance(value, float):
        limit = 1 << (63 if target.root is TypeRoot.BIGINT else 31)
        if math.isnan(value):
            return 0
        return int(max(-limit, min(limit - 1, value if math.isinf(value) else int(value))))
    return int(value)


def _wrapped(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def _decimal(value: Any, target: AtomicType) -> Decimal | None:
    with localcontext(prec=400):
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        rounded = exact.quantize(Decimal(f"1E-{target.scale}"), rounding=ROUND_HALF_UP)
        digits = 0 if not rounded else len(rounded.as_tuple().digits)
    return rounded if digits <= (target.precision or 0) else None


def _timestamp(value: Any, source: AtomicType, precision: int) -> tuple[int, int]:
    if source.root in INTEGER_BITS:
        # Milliseconds beyond 64 bits are cut, and no digits after that.
        return _wrapped(value * 1000, 64), 0
    if source.root in (TypeRoot.DATE, TypeRoot.TIME):
        value = (value * (MILLIS_PER_DAY if source.root is TypeRoot.DATE else 1), 0)
    millis, nanos = value
    if precision >= 3:
        step = 10 ** (9 - precision)
        return millis, nanos // step * step
    step = 10 ** (3 - precision)
    towards_zero = abs(millis) // step * step
    return (towards_zero if millis >= 0 else -towards_zero), 0
