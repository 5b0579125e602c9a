"""Fitting: check that a value is in the range of its type and has no digits that the type lacks."""

import math
import struct
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types.days import Timestamp
from lakehouse_core.format.data_types.types import INTEGER_BITS, AtomicType, DataType, TypeRoot, type_to_sql

# Wide enough for any product of scaling: quantizing a DECIMAL(38) must never round by context.
_EXACT: Final = Context(prec=100, Emin=-999999, Emax=999999, traps=[InvalidOperation])
# The advice for a value that cannot be converted.
EXAMPLES: Final = {
    TypeRoot.BOOLEAN: "write true or false",
    TypeRoot.TINYINT: "write a whole number",
    TypeRoot.SMALLINT: "write a whole number",
    TypeRoot.INT: "write a whole number",
    TypeRoot.BIGINT: "write a whole number",
    TypeRoot.FLOAT: "write a number such as 1.5, NaN or Infinity",
    TypeRoot.DOUBLE: "write a number such as 1.5, NaN or Infinity",
    TypeRoot.DECIMAL: "write a number such as 12.50",
    TypeRoot.DATE: "write a date such as 2013-01-31",
    TypeRoot.TIME: "write a time such as 23:59:59.999",
    TypeRoot.TIMESTAMP: "write a time such as 2013-01-31 23:59:59.999",
    TypeRoot.TIMESTAMP_LTZ: "write a time such as 2013-01-31T23:59:59Z",
}


def misfit(value: Any, data_type: DataType, problem: str) -> InvalidRequest:
    """Return the error for a value that its type does not hold."""
    return InvalidRequest(f"{shown(value)} is not a value of {type_to_sql(data_type)}: {problem}.")


def fit_integer(value: int, data_type: AtomicType) -> int:
    """Return a whole number that lies in the range of its type. Raises InvalidRequest."""
    limit = 1 << (INTEGER_BITS[data_type.root] - 1)
    if not -limit <= value < limit:
        raise misfit(value, data_type, f"it lies outside {-limit} to {limit - 1}")
    return value


def fit_float(value: float, data_type: AtomicType) -> float:
    """Return a number; FLOAT values are rounded to the nearest single-precision number, as the file holds them."""
    if data_type.root is TypeRoot.DOUBLE or not math.isfinite(value):
        return value
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        raise misfit(value, data_type, "it is out of range") from None
    return float(single)


def fit_decimal(value: Decimal, data_type: AtomicType) -> Decimal:
    """Return a number with exactly the scale of its type. Raises InvalidRequest where digits would go."""
    precision, scale = data_type.precision, data_type.scale
    assert precision is not None
    assert scale is not None
    if not value.is_finite():
        raise misfit(value, data_type, "it is not finite")
    # Compared by magnitude first: quantizing 1E+999999 would build a million digits.
    if value and value.adjusted() >= precision - scale:
        raise misfit(value, data_type, f"it has more than {precision - scale} digits before the point")
    if value and value.adjusted() < -scale - _EXACT.prec:
        raise misfit(value, data_type, f"it has more than {scale} digits after the point")
    fitted = value.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if fitted != value:
        raise misfit(value, data_type, f"it has more than {scale} digits after the point")
    return fitted if fitted else abs(fitted)


def fit_timestamp(value: Timestamp, given: Any, data_type: AtomicType) -> Timestamp:
    """Return a timestamp that has no more digits than its type. Raises InvalidRequest showing what was `given`."""
    assert data_type.precision is not None
    if (value[0] % 1_000 * 1_000_000 + value[1]) % 10 ** (9 - data_type.precision):
        raise misfit(given, data_type, f"it has more than {data_type.precision} digits of a second")
    return value


def fit_time(nanos: int, value: Any, data_type: AtomicType) -> int:
    """Return a TIME. Raises InvalidRequest for a part of a millisecond."""
    # A TIME is stored in milliseconds, whatever its precision is.
    if nanos % 1_000_000:
        raise misfit(value, data_type, "times are held in milliseconds")
    return nanos // 1_000_000
