"""sum and product, with Java's arithmetic: no silent overflow of integers, decimals that become NULL, 32-bit floats.

Source: docs/semantics/merge-engines.md#aggregate-functions; `FieldSumAgg`, `FieldProductAgg`, `DecimalUtils`.
"""

import ctypes
import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any, Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import INTEGER_BITS, AtomicType, TypeRoot, type_to_sql
from lakehouse_core.merge.functions.aggregator import Aggregator, aggregator_of, skipping_nulls
from lakehouse_core.table.merge_spec import AggregateFunction

# Unscaled values of decimals up to this precision are 64-bit integers in Java.
_COMPACT_PRECISION: Final = 18
# Wide enough for the product of two DECIMAL(38).
_EXACT: Final = Context(prec=200, Emin=-999999, Emax=999999)


def sum_of(function: AggregateFunction) -> Aggregator:
    arithmetic = _arithmetic(function)

    def retract(accumulator: Any, value: Any) -> Any:
        if accumulator is None:
            return None if value is None else arithmetic.negate(value)
        return accumulator if value is None else arithmetic.subtract(accumulator, value)

    return aggregator_of(function, skipping_nulls(arithmetic.add), retract=retract)


def product_of(function: AggregateFunction) -> Aggregator:
    arithmetic = _arithmetic(function)

    def retract(accumulator: Any, value: Any) -> Any:
        return accumulator if accumulator is None or value is None else arithmetic.divide(accumulator, value)

    return aggregator_of(function, skipping_nulls(arithmetic.multiply), retract=retract)


class _Integers:
    """Integers of a fixed width; a result that does not fit is refused."""

    def __init__(self, function: AggregateFunction, bits: int) -> None:
        self._function, self._limit = function, 1 << (bits - 1)

    def add(self, left: int, right: int) -> int:
        return self._fitted(left + right, f"{left} + {right}")

    def subtract(self, left: int, right: int) -> int:
        return self._fitted(left - right, f"{left} - {right}")

    def negate(self, value: int) -> int:
        return self._fitted(-value, f"-({value})")

    def multiply(self, left: int, right: int) -> int:
        return self._fitted(left * right, f"{left} * {right}")

    def divide(self, left: int, right: int) -> int:
        """Return the quotient rounded towards zero, as in Java."""
        if right == 0:
            raise _undefined(self._function, f"{left} / 0")
        quotient = abs(left) // abs(right)
        return self._fitted(quotient if (left < 0) == (right < 0) else -quotient, f"{left} / {right}")

    def _fitted(self, value: int, shown: str) -> int:
        if not -self._limit <= value < self._limit:
            function = self._function
            raise InvalidRequest(
                f"Column {function.column}: its {function.name} is {shown} = {value}, which does not fit "
                f"{type_to_sql(function.type)}. Change the column to a wider type, then merge again."
            )
        return value


class _Floats:
    """IEEE numbers; each result is rounded to the width of the type."""

    def __init__(self, single: bool) -> None:
        # A 64-bit result of 32-bit operands, rounded to 32 bits, equals the 32-bit result.
        self._rounded: Callable[[float], float] = _single if single else float

    def add(self, left: float, right: float) -> float:
        return self._rounded(left + right)

    def subtract(self, left: float, right: float) -> float:
        return self._rounded(left - right)

    def negate(self, value: float) -> float:
        return -value

    def multiply(self, left: float, right: float) -> float:
        return self._rounded(left * right)

    def divide(self, left: float, right: float) -> float:
        if right == 0:
            if left == 0 or math.isnan(left):
                return math.nan
            return math.copysign(math.inf, left) * math.copysign(1, right)
        return self._rounded(left / right)


class _Decimals:
    """Decimals of one precision and scale; what has more digits than the precision becomes NULL.

    Sums of up to 18 digits are added as 64-bit integers and keep digits beyond the precision, as in Java.
    """

    def __init__(self, function: AggregateFunction, precision: int, scale: int) -> None:
        self._function, self._precision, self._scale = function, precision, scale

    def add(self, left: Decimal, right: Decimal) -> Decimal | None:
        return self._sum(_EXACT.add(left, right))

    def subtract(self, left: Decimal, right: Decimal) -> Decimal | None:
        return self._sum(_EXACT.subtract(left, right))

    def negate(self, value: Decimal) -> Decimal | None:
        return self._fitted(_EXACT.minus(value))

    def multiply(self, left: Decimal, right: Decimal) -> Decimal | None:
        return self._fitted(_EXACT.multiply(left, right))

    def divide(self, left: Decimal, right: Decimal) -> Decimal | None:
        if not right:
            raise _undefined(self._function, f"{left} / 0")
        quotient = Fraction(left) / Fraction(right)
        rest = quotient.denominator
        for prime in (2, 5):
            while rest % prime == 0:
                rest //= prime
        if rest != 1:
            raise _undefined(self._function, f"{left} / {right}, which has no last digit")
        # It has at most as many digits after the point as the denominator has bits.
        digits = quotient.denominator.bit_length()
        unscaled = quotient.numerator * 10**digits // quotient.denominator
        exact = Context(prec=len(str(abs(unscaled))) + 1, Emin=-999999, Emax=999999)
        return self._fitted(Decimal(unscaled).scaleb(-digits, context=exact))

    def _sum(self, value: Decimal) -> Decimal | None:
        unscaled = int(value.scaleb(self._scale, context=_EXACT))
        if self._precision <= _COMPACT_PRECISION and -(1 << 63) <= unscaled < 1 << 63:
            return self._plain(value)
        return self._fitted(value)

    def _fitted(self, value: Decimal) -> Decimal | None:
        wide = Context(prec=max(len(value.as_tuple().digits) + self._scale + 1, 200), Emin=-999999, Emax=999999)
        rounded = value.quantize(Decimal(1).scaleb(-self._scale), rounding=ROUND_HALF_UP, context=wide)
        if abs(int(rounded.scaleb(self._scale, context=wide))) >= 10**self._precision:
            return None
        return self._plain(rounded)

    @staticmethod
    def _plain(value: Decimal) -> Decimal:
        """Return the decimal without a negative zero."""
        return value if value else abs(value)


def _arithmetic(function: AggregateFunction) -> "_Integers | _Floats | _Decimals":
    data_type = function.type
    assert isinstance(data_type, AtomicType)
    if data_type.root in INTEGER_BITS:
        return _Integers(function, INTEGER_BITS[data_type.root])
    if data_type.root is TypeRoot.DECIMAL:
        assert data_type.precision is not None
        assert data_type.scale is not None
        return _Decimals(function, data_type.precision, data_type.scale)
    return _Floats(data_type.root is TypeRoot.FLOAT)


def _single(value: float) -> float:
    return ctypes.c_float(value).value


def _undefined(function: AggregateFunction, shown: str) -> InvalidRequest:
    return InvalidRequest(
        f"Column {function.column}: a retract makes its {function.name} {shown}, which has no value. Set "
        f"fields.{function.column}.ignore-retract to true to keep the column's value then."
    )
