"""One chunk: the parts that several runs give for the same keys → the records that stay, in key order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.merge.deduplicate import deduplicate, is_add
from lakehouse_core.merge.frontier import Part
from lakehouse_core.merge.key_words import Words, fixed_values, integer_words, key_words, sequence_words
from lakehouse_core.merge.order import Rows, TieWords, order_runs, retract_first_words

# Rows are numbers within their chunk, far below 2^31; Arrow's `take` is twice as fast with 32 bits and without checks.
_TAKE = pc.TakeOptions(boundscheck=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """How versions of one key are told apart and what stays of them. Columns go by their names in the records.

    `sequence_number` None: the order of the runs decides, which it may when their sequence numbers are disjoint.
    """

    key_columns: tuple[str, ...]
    kind_column: str
    sequence_number: str | None = None
    sequence_fields: tuple[str, ...] = ()
    sequence_descending: bool = False
    ignore_delete: bool = False
    drops_deletes: bool = False


def merge_chunk(parts: Sequence[Part], rule: MergeRule, output: Sequence[str]) -> list[pa.RecordBatch]:
    """Return the columns `output` of what stays, in key order, as batches; none of them is empty."""
    if len(parts) == 1:
        batches = (_without_deletes(batch, rule) if rule.drops_deletes else batch for batch in parts[0].batches)
        return [batch.select(output) for batch in batches if batch.num_rows]
    records = _Columns([batch for part in parts for batch in part.batches])
    kinds = fixed_values(records.column(rule.kind_column), np.int8)
    words = key_words([records.column(name) for name in rule.key_columns])
    order = order_runs(words, records.row_count, _tie_words(records, rule))
    rows = deduplicate(order, kinds, ignore_delete=rule.ignore_delete)
    if rule.drops_deletes:
        kept = is_add(kinds[rows])
        rows = rows if kept.all() else rows[kept]
    return [records.take(rows, output)] if len(rows) else []


def take(column: pa.Array, rows: Rows) -> pa.Array:
    """Return the values in these rows, which must exist."""
    (taken,) = take_all([column], rows)
    return taken


def take_all(columns: Sequence[pa.Array], rows: Rows) -> list[pa.Array]:
    """Return the values of all columns in these rows, which must exist. REQUIRES: fewer than 2^31 rows."""
    indices = pa.array(rows.astype(np.int32))
    return [pc.call_function("take", [column, indices], _TAKE) for column in columns]


def _without_deletes(batch: pa.RecordBatch, rule: MergeRule) -> pa.RecordBatch:
    kept = is_add(fixed_values(batch.column(rule.kind_column), np.int8))
    return batch if kept.all() else batch.filter(pa.array(kept))


def _tie_words(records: "_Columns", rule: MergeRule) -> TieWords | None:
    if rule.sequence_number is None and not rule.sequence_fields:
        return None

    def words(rows: Rows) -> list[Words]:
        found: list[Words] = []
        for name in rule.sequence_fields:
            found += sequence_words(take(records.column(name), rows), descending=rule.sequence_descending)
        if rule.sequence_number is not None:
            found.append(integer_words(fixed_values(records.column(rule.sequence_number), np.int64)[rows]))
            found.append(retract_first_words(fixed_values(records.column(rule.kind_column), np.int8)[rows]))
        return found

    return words


class _Columns:
    """The batches of a chunk one behind the other; columns that order the rows are joined once and kept."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._joined: dict[str, pa.Array] = {}
        self.row_count = sum(batch.num_rows for batch in batches)

    def column(self, name: str) -> pa.Array:
        if name not in self._joined:
            self._joined[name] = self._join(name)
        return self._joined[name]

    def take(self, rows: Rows, names: Sequence[str]) -> pa.RecordBatch:
        indices = pa.array(rows.astype(np.int32))
        return pa.RecordBatch.from_arrays([self._taken(name, indices) for name in names], list(names))

    def _taken(self, name: str, indices: pa.Array) -> pa.Array:
        # The joined column is let go at once: the next one then lies in the same memory, still in the cache.
        column = self._joined.get(name)
        return pc.call_function("take", [self._join(name) if column is None else column, indices], _TAKE)

    def _join(self, name: str) -> pa.Array:
        return pa.concat_arrays([batch.column(name) for batch in self._batches])
