"""Chunk merge: merge the slices of several runs for the same keys into one record per key, in key order.

Source: docs/semantics/reading.md#merge-reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.format.rows import Rows, row_indices, take, take_indices
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.frontier import RunSlice
from lakehouse_core.merge.key_words import Words, fixed_values, integer_words, key_words, sequence_words
from lakehouse_core.merge.layers import Layers, greatest_in
from lakehouse_core.merge.order import KeyOrder, TieWords, order_runs, retract_first_words
from lakehouse_core.merge.positions import NONE
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.merge.reduce import Reduced, reduce
from lakehouse_core.table.merge_spec import MergeSpec

# The column of the level of a record's file, a TINYINT.
LEVEL: Final = "_LEVEL"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """The order and merge of the versions of one key. System columns are given by their names.

    `sequence_number` None: the order of the runs decides, which is allowed when their sequence numbers are disjoint.
    `level`: the column of the level, for a compaction with looked-up runs. A record above level 0 then contains all
    older versions, so of several only the one at the lowest level counts.
    """

    spec: MergeSpec
    kind_column: str
    sequence_number: str | None = None
    level: str | None = None
    drops_deletes: bool = False


def merge_chunk(parts: Sequence[RunSlice], rule: MergeRule, output: Sequence[str]) -> list[pa.RecordBatch]:
    """Return the columns `output` of the merged records, in key order, as non-empty batches.

    Raises InvalidRequest for a record that the merge engine refuses.
    """
    if len(parts) == 1:
        batches = (_without_deletes(batch, rule) if rule.drops_deletes else batch for batch in parts[0].batches)
        # The batch gets the plain schema of merged batches, because both kinds may go into one file.
        return [
            pa.RecordBatch.from_arrays([batch.column(name) for name in output], list(output))
            for batch in batches
            if batch.num_rows
        ]
    records = RecordColumns([batch for part in parts for batch in part.batches], rule.kind_column)
    reduced = _reduced(records, order_of(records, rule), rule, output)
    if not len(reduced.rows):
        return []
    return [reduced.batch(records, output)]


def merge_apart(
    records: RecordColumns, apart: Words, rule: MergeRule, output: Sequence[str]
) -> tuple[pa.RecordBatch, Words]:
    """Merge the runs of several groups of keys, such as those of many buckets, as `merge_chunk` merges those of one.

    `apart`: the number of each record's group, rising; within a group, the oldest run comes first. Return the columns
    `output` of the merged records, by group and key, and the group of each. Raises InvalidRequest as `merge_chunk`.
    """
    reduced = _reduced(records, order_of(records, rule, apart), rule, output)
    return reduced.batch(records, output), apart[reduced.rows]


def _reduced(records: RecordColumns, order: KeyOrder, rule: MergeRule, output: Sequence[str]) -> Reduced:
    reduced = merged(records, order, rule, output)
    return reduced.without_deletes(records) if rule.drops_deletes else reduced


def sort_chunk(parts: Sequence[RunSlice], rule: MergeRule, output: Sequence[str]) -> pa.RecordBatch:
    """Return the columns `output` of all versions in order, none merged."""
    records = RecordColumns([batch for part in parts for batch in part.batches], rule.kind_column)
    return sorted_batch(records, order_of(records, rule), output)


def sorted_batch(records: RecordColumns, order: KeyOrder, output: Sequence[str]) -> pa.RecordBatch:
    """Return the columns `output` of the rows in this order."""
    indices = row_indices(order.rows)
    return pa.RecordBatch.from_arrays([take_indices(records.passing(name), indices) for name in output], list(output))


def merged(records: RecordColumns, order: KeyOrder, rule: MergeRule, names: Sequence[str]) -> Reduced:
    """Return one record for each key, in key order; `names` are the columns that the caller will read."""
    if rule.level is None:
        return reduce(records, order, rule.spec, names)
    levels = fixed_values(records.column(rule.level), np.int8)
    if (levels <= 0).all():
        return reduce(records, order, rule.spec, names)
    counted = levels[order.rows] <= 0
    layers = Layers(order)
    laid = levels[layers.rows]
    lowest = greatest_in(layers, laid > 0, [laid.astype(np.uint64)], smallest=True)
    counted[lowest[lowest != NONE]] = True
    counting, _ = order.only(counted)
    return reduce(records, counting, rule.spec, names, folded=order.starts != order.ends)


def order_of(records: RecordColumns, rule: MergeRule, apart: Words | None = None) -> KeyOrder:
    """Return the key order of the records of several runs, the oldest run first. `apart`: the number of each record's
    group, by which they are ordered before their keys; None: all are of one group.
    """
    words = key_words([records.column(name) for name in rule.spec.key_columns])
    grouped = words if apart is None else [apart, *words]
    return order_runs(grouped, records.row_count, _tie_words(records, rule))


def _without_deletes(batch: pa.RecordBatch, rule: MergeRule) -> pa.RecordBatch:
    kept = is_add(fixed_values(batch.column(rule.kind_column), np.int8))
    return batch if kept.all() else batch.filter(pa.array(kept))


def _tie_words(records: RecordColumns, rule: MergeRule) -> TieWords | None:
    if rule.sequence_number is None and not rule.spec.sequence_fields:
        return None

    def words(rows: Rows) -> list[Words]:
        found: list[Words] = []
        for name in rule.spec.sequence_fields:
            found += sequence_words(take(records.column(name), rows), descending=rule.spec.sequence_descending)
        if rule.sequence_number is not None:
            found.append(integer_words(fixed_values(records.column(rule.sequence_number), np.int64)[rows]))
            found.append(retract_first_words(records.kinds[rows]))
        return found

    return words
