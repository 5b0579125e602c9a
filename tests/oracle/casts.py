"""Implicit casts, one value at a time. Source: Paimon semantics A.8."""

import struct
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from lakehouse_core.format.data_types import (
    MILLIS_PER_DAY,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    Root,
    RowType,
)


def cast_value(value: Any, source: DataType, target: DataType) -> Any:
    """Return the comparable value of `target` for one of `source`, between which an implicit cast exists."""
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
    match target.root:
        case Root.CHAR | Root.VARCHAR:
            cut = value[: target.length]
            return cut.ljust(target.length or 0) if target.root is Root.CHAR else cut
        case Root.BINARY | Root.VARBINARY:
            cut = value[: target.length]
            return cut.ljust(target.length or 0, b"\0") if target.root is Root.BINARY else cut
        case Root.DECIMAL:
            return _decimal(value, target)
        case Root.FLOAT:
            return struct.unpack("<f", struct.pack("<f", float(value)))[0]
        case Root.DOUBLE:
            return float(value)
        case Root.DATE:
            days = abs(value[0]) // MILLIS_PER_DAY
            return days if value[0] >= 0 else -days
        case Root.TIME:
            return value[0] % MILLIS_PER_DAY
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return _timestamp(value, target.precision or 0)
    return value


def _decimal(value: Any, target: AtomicType) -> Decimal | None:
    with localcontext(prec=400):
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        rounded = exact.quantize(Decimal(f"1E-{target.scale}"), rounding=ROUND_HALF_UP)
        digits = 0 if not rounded else len(rounded.as_tuple().digits)
    return rounded if digits <= (target.precision or 0) else None


def _timestamp(value: tuple[int, int], precision: int) -> tuple[int, int]:
    millis, nanos = value
    if precision >= 3:
        step = 10 ** (9 - precision)
        return millis, nanos // step * step
    step = 10 ** (3 - precision)
    towards_zero = abs(millis) // step * step
    return (towards_zero if millis >= 0 else -towards_zero), 0
