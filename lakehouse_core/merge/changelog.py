"""Changelog: the rows that a compaction emits for each key, from the record before and the record after.

Source: docs/semantics/changelog.md#full-compaction, docs/semantics/changelog.md#lookup.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.format.rows import Rows, row_indices, take, take_all, take_indices
from lakehouse_core.merge.actions import Kinds
from lakehouse_core.merge.positions import NONE, Flags
from lakehouse_core.merge.record_columns import RecordColumns

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3


@dataclass(frozen=True, slots=True)
class Transitions:
    """For each key, in key order: `before`, a row of the records; `after`, a row of the results; NONE where absent."""

    before: Rows
    after: Rows

    def only(self, keys: Flags) -> "Transitions":
        """Return the transitions of some keys."""
        return Transitions(self.before[keys], self.after[keys])


def arrivals(results: pa.RecordBatch, rows: Rows) -> pa.RecordBatch | None:
    """Return the results in these rows as changelog records with their own kinds; None without rows."""
    if not len(rows):
        return None
    return pa.RecordBatch.from_arrays(take_all(results.columns, rows), results.schema.names)


def changelog(
    records: RecordColumns, results: pa.RecordBatch, transitions: Transitions, compared: Sequence[str] | None
) -> pa.RecordBatch | None:
    """Return the changelog rows of the transitions, -U before +U, None when there are none.

    Columns are those of `results`. Updates that change no column in `compared` emit no rows; None emits every update.
    """
    had, has = transitions.before != NONE, transitions.after != NONE
    changes = had | has
    if compared is not None:
        changes &= ~_unchanged(records, results, transitions, compared)
    if not changes.any():
        return None
    transitions, had, has = transitions.only(changes), had[changes], has[changes]
    counts = had.astype(np.int64) + has
    firsts = np.cumsum(counts) - counts
    befores, afters = firsts[had], (firsts + had)[has]
    kinds: Kinds = np.empty(int(counts.sum()), dtype=np.int8)
    kinds[befores] = np.where(has, UPDATE_BEFORE, DELETE)[had]
    kinds[afters] = np.where(had, UPDATE_AFTER, INSERT)[has]
    places = np.empty(len(kinds), dtype=np.int64)
    places[befores] = np.arange(len(befores))
    places[afters] = len(befores) + np.arange(len(afters))
    before, after, place = (row_indices(rows) for rows in (transitions.before[had], transitions.after[has], places))

    def column(name: str) -> pa.Array:
        if name == records.kind_column:
            return pa.array(kinds)
        old = take_indices(records.passing(name), before)
        new = take_indices(results.column(name), after)
        return take_indices(pa.concat_arrays([old, new.cast(old.type)]), place)

    return pa.RecordBatch.from_arrays([column(name) for name in results.schema.names], results.schema.names)


def _unchanged(
    records: RecordColumns, results: pa.RecordBatch, transitions: Transitions, compared: Sequence[str]
) -> Flags:
    """Return a mask of the keys with equal values before and after; a column is compared only for keys equal so far."""
    same: Flags = (transitions.before != NONE) & (transitions.after != NONE)
    for name in compared:
        keys = np.flatnonzero(same)
        if not len(keys):
            break
        old = take(records.passing(name), transitions.before[keys])
        new = take(results.column(name), transitions.after[keys])
        same[keys] = equal_values(old, new)
    return same


def equal_values(left: pa.Array, right: pa.Array) -> Flags:
    """Return a mask of the rows with equal values, as Java 2.0.0 compares rows.

    Null equals null, NaN equals NaN, and -0.0 is not 0.0.
    """
    if pa.types.is_nested(left.type):
        same = _same_map if pa.types.is_map(left.type) else operator.eq
        pairs = zip(map(_told_apart, left.to_pylist()), map(_told_apart, right.to_pylist()), strict=True)
        nested: Flags = np.array([same(one, other) for one, other in pairs], dtype=bool)
        return nested
    if pa.types.is_floating(left.type):
        bits = pa.int32() if left.type.bit_width == 32 else pa.int64()
        both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
        found = pc.or_(both_nan, pc.equal(left.view(bits), right.view(bits)))
    else:
        found = pc.equal(left, right)
    equal: Flags = np.array(pc.fill_null(found, False).to_numpy(zero_copy_only=False), dtype=bool)
    if left.null_count and right.null_count:
        equal |= pc.and_(pc.is_null(left), pc.is_null(right)).to_numpy(zero_copy_only=False)
    return equal


def _told_apart(value: Any) -> Any:
    """Return the value with floats replaced by values that are equal if their bits are."""
    match value:
        case float():
            return value.hex()
        case dict():
            return {name: _told_apart(part) for name, part in value.items()}
        case list() | tuple():
            return type(value)(map(_told_apart, value))
        case _:
            return value


def _same_map(left: list[tuple[Any, Any]] | None, right: list[tuple[Any, Any]] | None) -> bool:
    """Return whether two maps are equal; entries have no order. As in Java, a map with a null value does not equal
    itself.
    """
    if left is None or right is None:
        return left is right
    return (
        len(left) == len(right)
        and all(value is not None for _, value in left)
        and all(any(entry == other for other in right) for entry in left)
    )
