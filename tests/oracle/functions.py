"""Aggregate functions, one value at a time.

Values are Python's own: int, float, Decimal, str, bytes, date, time, datetime; a list for an array, a list of pairs for
a map, a dict for a row. A function is made anew for each key: some remember that they have started.
Source: docs/semantics/merge-engines.md#aggregate-functions.
"""

import struct
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

from lakehouse_core.format.data_types import AtomicType, DataType, TypeRoot
from tests.oracle.merge import compare_values

BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
# What an older release does otherwise.
WRAPS, KEEPS_BLANKS = "integers wrap around", "listagg keeps blanks"
NESTS_BLINDLY = "nested functions take the first array as it is and count before they look at keys"


class Refused(Exception):
    """What the engine under test must refuse too."""


class Function:
    """`add` takes the newer value, `add_older` one that comes late, `retract` takes one back."""

    def __init__(self, type_: DataType, options: Mapping[str, str], quirks: frozenset[str]) -> None:
        self.type, self.options, self.quirks = type_, options, quirks
        self.started = False

    def add(self, acc: Any, value: Any) -> Any:
        raise NotImplementedError

    def add_older(self, acc: Any, value: Any) -> Any:
        return self.add(value, acc)

    def retract(self, acc: Any, value: Any) -> Any:
        raise Refused(f"{type(self).__name__} does not support retraction")


class PrimaryKey(Function):
    def add(self, acc, value):
        return value

    def retract(self, acc, value):
        return value


class LastValue(Function):
    def add(self, acc, value):
        return value

    def retract(self, acc, value):
        return None


class LastNonNullValue(Function):
    def add(self, acc, value):
        return acc if value is None else value

    def retract(self, acc, value):
        return acc if value is None else None


class FirstValue(Function):
    def add(self, acc, value):
        if self.started:
            return acc
        self.started = True
        return value


class FirstNonNullValue(Function):
    def add(self, acc, value):
        if self.started or value is None:
            return acc
        self.started = True
        return value


class Sum(Function):
    def add(self, acc, value):
        if acc is None or value is None:
            return value if acc is None else acc
        return self._fitted(_exact(lambda: acc + value))

    def add_older(self, acc, value):
        return self.add(acc, value)

    def retract(self, acc, value):
        if value is None:
            return acc
        return self._fitted(_exact(lambda: -value if acc is None else acc - value))

    def _fitted(self, value):
        if _root(self.type) is TypeRoot.DECIMAL and self.type.precision <= 18:
            return value  # Java adds the unscaled longs and does not look at the precision.
        return _fitted(value, self.type, self.quirks)


class Product(Function):
    def add(self, acc, value):
        if acc is None or value is None:
            return value if acc is None else acc
        return _fitted(_exact(lambda: acc * value), self.type, self.quirks)

    def add_older(self, acc, value):
        return self.add(acc, value)

    def retract(self, acc, value):
        if acc is None or value is None:
            return acc
        if isinstance(acc, float):
            return _fitted(_float_division(acc, value), self.type, self.quirks)
        if not value:
            raise Refused("division by zero")
        if isinstance(acc, int):
            quotient = abs(acc) // abs(value)
            return _fitted(quotient if (acc < 0) == (value < 0) else -quotient, self.type, self.quirks)
        ratio = Fraction(acc) / Fraction(value)
        if 10**200 % ratio.denominator:
            raise Refused("a decimal division that does not end")
        return _fitted(_exact(lambda: acc / value), self.type, self.quirks)


class Max(Function):
    def add(self, acc, value):
        if acc is None or value is None:
            return value if acc is None else acc
        return value if compare_values(acc, value) < 0 else acc

    def add_older(self, acc, value):
        return self.add(acc, value)


class Min(Max):
    def add(self, acc, value):
        if acc is None or value is None:
            return value if acc is None else acc
        return value if compare_values(acc, value) > 0 else acc


class BoolAnd(Function):
    def add(self, acc, value):
        if acc is None or value is None:
            return value if acc is None else acc
        return acc and value


class BoolOr(Function):
    def add(self, acc, value):
        if acc is None or value is None:
            return value if acc is None else acc
        return acc or value


class ListAgg(Function):
    def add(self, acc, value):
        if KEEPS_BLANKS in self.quirks and (acc is None or value is None):
            return value if acc is None else acc
        if self._empty(value) or self._empty(acc):
            return acc if self._empty(value) else value
        delimiter = self.options.get("list-agg-delimiter", ",")
        if self.options.get("distinct") != "true":
            return acc + delimiter + value
        known = acc.split(delimiter)
        for token in value.split(delimiter):
            if not self._empty(token) and token not in known:
                known.append(token)
                acc += delimiter + token
        return acc

    def _empty(self, text):
        return not text or (KEEPS_BLANKS not in self.quirks and not text.strip())


class Collect(Function):
    def add(self, acc, value):
        if acc is None and value is None:
            return None
        both = [*(acc or []), *(value or [])]
        return _unique(both) if self.options.get("distinct") == "true" else both

    def add_older(self, acc, value):
        return self.add(acc, value)

    def retract(self, acc, value):
        if acc is None or value is None:
            return acc
        left = list(acc)
        for item in value:
            if item in left:
                left.remove(item)
        return left


class MergeMap(Function):
    def add(self, acc, value):
        if acc is None or value is None:
            return value if acc is None else acc
        given = [key for key, _ in value]
        return [pair for pair in acc if pair[0] not in given] + list(value)

    def retract(self, acc, value):
        if acc is None or value is None:
            return acc
        given = [key for key, _ in value]
        return [pair for pair in acc if pair[0] not in given]


class NestedUpdate(Function):
    """An array of rows: appended, or with `nested-key` kept by key."""

    def add(self, acc, value):
        if value is None or (acc is None and NESTS_BLINDLY in self.quirks):
            return acc if value is None else value
        limit = int(self.options.get("count-limit", 2**31 - 1))
        blindly = NESTS_BLINDLY in self.quirks or "nested-key" not in self.options
        if blindly and acc is not None and len(acc) >= limit:
            return acc  # As it is, nulls and all.
        rows: list[Any] = []
        for row in (row for row in acc or [] if row is not None):
            self._put(rows, row, 2**31 - 1)
        fresh = [row for row in value if row is not None]
        # NULL rows count towards the limit until the first rows are added.
        for row in fresh[: limit - len(acc or [])] if blindly else fresh:
            self._put(rows, row, limit)
        return rows

    def _put(self, rows, row, limit):
        at = self._find(rows, row)
        if at is not None:
            rows[at] = row
        elif len(rows) < limit:
            rows.append(row)

    def retract(self, acc, value):
        if acc is None or value is None:
            return acc
        gone = [self._key(row) for row in value if row is not None]
        return [row for row in acc if row is not None and self._key(row) not in gone]

    def _key(self, row):
        names = self.options.get("nested-key")
        return row if names is None else [row[name.strip()] for name in names.split(",")]

    def _find(self, rows, row):
        if "nested-key" not in self.options:
            return None
        return next((at for at, known in enumerate(rows) if self._key(known) == self._key(row)), None)


class NestedPartialUpdate(NestedUpdate):
    def add(self, acc, value):
        if value is None or (acc is None and NESTS_BLINDLY in self.quirks):
            return acc if value is None else value
        rows: list[dict[str, Any]] = []
        for row in (row for row in [*(acc or []), *value] if row is not None):
            at = self._find(rows, row)
            if at is None:
                rows.append(dict(row))
            else:
                rows[at] = {name: old if row[name] is None else row[name] for name, old in rows[at].items()}
        return rows

    def retract(self, acc, value):
        return Function.retract(self, acc, value)


class IgnoreRetract(Function):
    """`fields.f.ignore-retract`: what is taken back stays. What comes late is added as if the function had no way of
    its own for it, so `collect` puts it first."""

    def __init__(self, inner: Function) -> None:
        super().__init__(inner.type, inner.options, inner.quirks)
        self._inner = inner

    def add(self, acc, value):
        return self._inner.add(acc, value)

    def retract(self, acc, value):
        return acc


FUNCTIONS: dict[str, type[Function]] = {
    "primary-key": PrimaryKey,
    "sum": Sum,
    "product": Product,
    "min": Min,
    "max": Max,
    "last_value": LastValue,
    "last_non_null_value": LastNonNullValue,
    "first_value": FirstValue,
    "first_non_null_value": FirstNonNullValue,
    "first_not_null_value": FirstNonNullValue,
    "bool_and": BoolAnd,
    "bool_or": BoolOr,
    "listagg": ListAgg,
    "collect": Collect,
    "merge_map": MergeMap,
    "nested_update": NestedUpdate,
    "nested_partial_update": NestedPartialUpdate,
}


def function(name: str, column: str, type_: DataType, options: Mapping[str, str], quirks: frozenset[str]) -> Function:
    """Return a fresh function for one column of one key; `options` are the table's."""
    prefix = f"fields.{column}."
    own = {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
    made = FUNCTIONS[name](type_, own, quirks)
    return IgnoreRetract(made) if own.get("ignore-retract") == "true" else made


def _unique(values):
    kept: list[Any] = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept


def _exact(operation):
    with localcontext(prec=100):
        return operation()


def _float_division(left: float, right: float) -> float:
    if right:
        return left / right
    return float("nan") if not left else float("inf") if left > 0 else float("-inf")


def _root(type_: DataType) -> TypeRoot | None:
    return type_.root if isinstance(type_, AtomicType) else None


def _fitted(value: Any, type_: DataType, quirks: frozenset[str]) -> Any:
    """Return a result of arithmetic as a value of the column; Java refuses what is too large for an integer."""
    assert isinstance(type_, AtomicType)
    if type_.root is TypeRoot.FLOAT:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if type_.root is TypeRoot.DECIMAL:
        with localcontext(prec=100):
            rounded = Decimal(value).quantize(Decimal(f"1E-{type_.scale}"), rounding=ROUND_HALF_UP)
            return rounded if abs(rounded) < Decimal(10) ** (type_.precision - type_.scale) else None
    if type_.root in BITS:
        bound = 1 << (BITS[type_.root] - 1)
        wrapped = (value + bound) % (2 * bound) - bound
        if wrapped != value and WRAPS not in quirks:
            raise Refused(f"{value} overflows {type_.root}")
        return wrapped
    return value
