"""Adds up or multiplies the versions of each key, in their order and with Java's arithmetic. All keys at once.

FLOAT is added in 32 bits and from the oldest version on, for order decides how floating point rounds; integers must not
overflow at any step. Source: Paimon semantics, "aggregation" (D.4).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.merge.order import Rows
from lakehouse_core.merge.positions import MOST_ROUNDS, Flags

Values = npt.NDArray[Any]
# Says which elements of a step the vectors cannot decide: an overflow, a division.
Doubt = Callable[[Values, Values, Values], Flags]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column as numbers, null where not `valid`."""

    values: Values
    valid: Flags

    def take(self, rows: Rows) -> "Numbers":
        return Numbers(self.values[rows], self.valid[rows])


def numbers_of(column: pa.Array) -> Numbers | None:
    """Return the numbers of an integer, floating point or short decimal column (unscaled); None of any other."""
    kind = column.type
    valid = validity(column)
    if pa.types.is_decimal128(kind) and kind.precision <= 18:
        halves = fixed_values(column, np.dtype((np.int64, 2)))
        return Numbers(halves[:, 0].copy(), valid)
    if pa.types.is_signed_integer(kind):
        return Numbers(fixed_values(column, np.dtype(f"i{kind.bit_width // 8}")).astype(np.int64), valid)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return Numbers(fixed_values(column, np.dtype(f"f{kind.bit_width // 8}")), valid)
    return None


def column_of(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    """Return the numbers as a column of this type, which is the one they came from."""
    nulls = ~numbers.valid
    if pa.types.is_decimal128(kind):
        return _decimals(numbers, kind)
    values = numbers.values
    if pa.types.is_signed_integer(kind):
        values = values.astype(np.dtype(f"i{kind.bit_width // 8}"))
    return pa.array(values, kind, mask=nulls if nulls.any() else None, from_pandas=False)


def validity(column: pa.Array) -> Flags:
    """Return which values are not null."""
    if not column.null_count:
        return np.ones(len(column), dtype=bool)
    flags: Flags = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return flags


def _decimals(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    halves = np.stack([numbers.values, numbers.values >> 63], axis=1)
    bits = None if numbers.valid.all() else pa.py_buffer(np.packbits(numbers.valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(halves), [bits, pa.py_buffer(np.ascontiguousarray(halves))])


def added(numbers: Numbers, fits: Flags, starts: Rows, ends: Rows, kind: pa.DataType) -> tuple[Numbers, Rows]:
    """Return the sum of the versions of each key that fit, and the keys whose sum leaves the column's range.

    Positions count in key order. A key without a version that fits is null; short decimals have no range, as in Java.
    """
    return _folded(numbers, fits, (starts, ends), np.add, _overflow_of_sum(kind))


def multiplied(numbers: Numbers, fits: Flags, starts: Rows, ends: Rows, kind: pa.DataType) -> tuple[Numbers, Rows]:
    """Return the product, as `added` returns the sum. Integers and floating point only."""
    return _folded(numbers, fits, (starts, ends), np.multiply, _overflow_of_product(kind))


def _folded(
    numbers: Numbers, fits: Flags, keys: tuple[Rows, Rows], combine: np.ufunc, doubt: Doubt | None
) -> tuple[Numbers, Rows]:
    starts, ends = keys
    values, fits = numbers.values, fits & numbers.valid
    sizes = ends - starts + 1
    results, known = values[starts], fits[starts]
    doubtful = np.zeros(len(starts), dtype=bool)
    with np.errstate(all="ignore"):
        for key in np.flatnonzero(sizes > MOST_ROUNDS):
            chosen = values[starts[key] : ends[key] + 1][fits[starts[key] : ends[key] + 1]]
            known[key] = len(chosen) > 0
            if len(chosen):
                steps = combine.accumulate(chosen)
                results[key] = steps[-1]
                doubtful[key] = doubt is not None and bool(doubt(steps[:-1], chosen[1:], steps[1:]).any())
        open_keys = np.flatnonzero((sizes > 1) & (sizes <= MOST_ROUNDS))
        step = 1
        while len(open_keys):
            taken = open_keys[fits[starts[open_keys] + step]]
            later = values[starts[taken] + step]
            earlier = results[taken]
            combined = combine(earlier, later)
            both = known[taken]
            if doubt is not None:
                doubtful[taken[both & doubt(earlier, later, combined)]] = True
            results[taken] = np.where(both, combined, later)
            known[taken] = True
            step += 1
            open_keys = open_keys[sizes[open_keys] > step]
    return Numbers(results, known), np.flatnonzero(doubtful)


def _overflow_of_sum(kind: pa.DataType) -> Doubt | None:
    if not pa.types.is_signed_integer(kind):
        return None
    if kind.bit_width == 64:
        return lambda left, right, total: ((left ^ total) & (right ^ total)) < 0
    return _out_of_range(kind.bit_width)


def _overflow_of_product(kind: pa.DataType) -> Doubt | None:
    if not pa.types.is_signed_integer(kind):
        return None
    if kind.bit_width == 64:
        # Close to the limit is doubt enough: whoever is asked then multiplies exactly.
        return lambda left, right, product: np.abs(left.astype(np.float64) * right.astype(np.float64)) > 2.0**62
    return _out_of_range(kind.bit_width)


def _out_of_range(bits: int) -> Doubt:
    limit = 1 << (bits - 1)
    return lambda left, right, result: (result < -limit) | (result >= limit)
