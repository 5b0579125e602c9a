"""Numeric fold: add or multiply the versions of each key, in their order and with Java's arithmetic, all keys at once.

FLOAT is added in 32 bits from the oldest version on, because order decides how floating point rounds. Integers must not
overflow at any step. Source: docs/semantics/merge-engines.md#aggregate-functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.rows import Rows, validity_buffer
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.merge.layers import Layers
from lakehouse_core.merge.positions import Flags

Values = npt.NDArray[Any]
# A function that returns a mask of the elements of a step that vectors cannot compute: overflows, divisions.
Doubt = Callable[[Values, Values, Values], Flags]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column as numbers, null where not `valid`."""

    values: Values
    valid: Flags

    def take(self, rows: Rows) -> "Numbers":
        return Numbers(self.values[rows], self.valid[rows])


def numbers_of(column: pa.Array) -> Numbers | None:
    """Return the numbers of an integer, floating-point, short decimal (unscaled) or temporal column; None for
    others.
    """
    kind = column.type
    valid = validity(column)
    if pa.types.is_decimal128(kind) and kind.precision <= 18:
        halves = fixed_values(column, np.dtype((np.int64, 2)))
        return Numbers(halves[:, 0].copy(), valid)
    if pa.types.is_signed_integer(kind) or pa.types.is_temporal(kind):
        return Numbers(fixed_values(column, np.dtype(f"i{kind.bit_width // 8}")).astype(np.int64, copy=False), valid)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return Numbers(fixed_values(column, np.dtype(f"f{kind.bit_width // 8}")), valid)
    return None


def column_of(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    """Return the numbers as a column of their original type."""
    values = numbers.values
    if pa.types.is_decimal128(kind):
        values = np.stack([values, values >> 63], axis=1)
    elif not pa.types.is_floating(kind):
        values = values.astype(np.dtype(f"i{kind.bit_width // 8}"), copy=False)
    return pa.Array.from_buffers(
        kind, len(values), [validity_buffer(numbers.valid), pa.py_buffer(np.ascontiguousarray(values))]
    )


def validity(column: pa.Array) -> Flags:
    """Return which values are not null."""
    if not column.null_count:
        return np.ones(len(column), dtype=bool)
    flags: Flags = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return flags


def added(numbers: Numbers, layers: Layers, kind: pa.DataType) -> tuple[Numbers, Rows]:
    """Return by key the sum of its valid versions, and the keys whose sum leaves the column's range.

    `numbers` in the order of the layers. A key without a valid version is null; short decimals have no range, as in
    Java.
    """
    return _folded(numbers, layers, np.add, _overflow_of_sum(kind))


def multiplied(numbers: Numbers, layers: Layers, kind: pa.DataType) -> tuple[Numbers, Rows]:
    """Return the product, as `added` returns the sum. Integers and floating point only."""
    return _folded(numbers, layers, np.multiply, _overflow_of_product(kind))


def extreme(numbers: Numbers, layers: Layers, *, smallest: bool) -> Numbers:
    """Return the smallest or greatest valid version, as `added` returns the sum. Not for floating point."""
    return _folded(numbers, layers, np.minimum if smallest else np.maximum, None)[0]


def _folded(numbers: Numbers, layers: Layers, combine: np.ufunc, doubt: Doubt | None) -> tuple[Numbers, Rows]:
    values, fits = numbers.values, numbers.valid
    has_gaps = not fits.all()
    oldest = len(layers.keys)
    results, known = values[:oldest].copy(), fits[:oldest].copy()
    is_doubtful = np.zeros(oldest, dtype=bool)
    with np.errstate(all="ignore"):
        for layer in layers.later():
            count = layer.stop - layer.start
            earlier, later = results[:count], values[layer]
            combined = combine(earlier, later)
            if not has_gaps:
                if doubt is not None:
                    is_doubtful[:count] |= doubt(earlier, later, combined)
                results[:count] = combined
                continue
            both = known[:count] & fits[layer]
            if doubt is not None:
                is_doubtful[:count] |= both & doubt(earlier, later, combined)
            np.copyto(combined, later, where=~known[:count])
            np.copyto(earlier, combined, where=fits[layer])
            known[:count] |= fits[layer]
        valid = layers.by_key(known) if has_gaps else np.ones(layers.key_count, dtype=bool)
        folded, doubtful = Numbers(layers.by_key(results), valid), layers.keys[is_doubtful].tolist()
        for key, versions in layers.long:
            chosen = values[versions][fits[versions]]
            folded.valid[key] = len(chosen) > 0
            folded.values[key] = 0
            if len(chosen):
                steps = combine.accumulate(chosen)
                folded.values[key] = steps[-1]
                if doubt is not None and doubt(steps[:-1], chosen[1:], steps[1:]).any():
                    doubtful.append(key)
    return folded, np.array(sorted(doubtful), dtype=np.int64)


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
        # Results close to the limit count as doubtful; the row-wise fold multiplies them exactly.
        return lambda left, right, product: np.abs(left.astype(np.float64) * right.astype(np.float64)) > 2.0**62
    return _out_of_range(kind.bit_width)


def _out_of_range(bits: int) -> Doubt:
    limit = 1 << (bits - 1)
    return lambda left, right, result: (result < -limit) | (result >= limit)
