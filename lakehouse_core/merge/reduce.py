"""Reduce: make one record of the versions of each key, by the table's merge engine.

Rule: a key with one version keeps it unchanged, its kind too, in all engines, unless the caller folds it. Source:
docs/semantics/writing.md#lone-records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from lakehouse_core.format.rows import Rows, row_indices, take, take_indices
from lakehouse_core.merge.actions import (
    GroupSequence,
    KeyVersions,
    Kinds,
    aggregation_decisions,
    partial_update_decisions,
)
from lakehouse_core.merge.deduplicate import is_add, newest, oldest
from lakehouse_core.merge.fold import COPY, COPY_NON_NULL, SEQUENCE, Versions, fold_function, fold_plain
from lakehouse_core.merge.key_words import sequence_words
from lakehouse_core.merge.layers import Layers
from lakehouse_core.merge.numeric_fold import validity
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.positions import NONE, Flags
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.merge.version_actions import VersionActions
from lakehouse_core.options import MergeEngine
from lakehouse_core.table.merge_spec import MergeSpec, SequenceGroup

BY_ROW: Final = frozenset({MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW})
"""Engines that pick one version of a key whole; the others make a record of several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """The merged records, in key order. `rows`: the rows that give the sequence number, the kind and every column not
    in `columns`.

    `keys` gives the number of each record's key. `kinds` None: those of `rows`.
    """

    rows: Rows
    keys: Rows
    kinds: Kinds | None = None
    columns: Mapping[str, pa.Array] = field(default_factory=dict)

    def kinds_in(self, records: RecordColumns) -> Kinds:
        """Return the kind of each merged record."""
        return records.kinds[self.rows] if self.kinds is None else self.kinds

    def kept(self, flags: Flags) -> "Reduced":
        """Return only the records in `flags`."""
        if flags.all():
            return self
        chosen = np.flatnonzero(flags)
        return Reduced(
            rows=self.rows[chosen],
            keys=self.keys[chosen],
            kinds=None if self.kinds is None else self.kinds[chosen],
            columns={name: take(column, chosen) for name, column in self.columns.items()},
        )

    def without_deletes(self, records: RecordColumns) -> "Reduced":
        """Return only the records of kind +I and +U."""
        return self.kept(is_add(self.kinds_in(records)))

    def batch(self, records: RecordColumns, names: Sequence[str]) -> pa.RecordBatch:
        """Return these columns of the merged records."""
        indices = row_indices(self.rows)
        return pa.RecordBatch.from_arrays([self._column(records, name, indices) for name in names], list(names))

    def _column(self, records: RecordColumns, name: str, indices: pa.Array) -> pa.Array:
        if name == records.kind_column and self.kinds is not None:
            return pa.array(self.kinds)
        made = self.columns.get(name)
        return take_indices(records.passing(name), indices) if made is None else made


def reduce(
    records: RecordColumns, order: KeyOrder, spec: MergeSpec, names: Iterable[str], *, folded: Flags | None = None
) -> Reduced:
    """Return one record for each key that has one; `names` are the columns that the caller will read.

    `folded`: the keys that the engine merges; the others have one version and keep it. None: keys of several versions.
    Raises InvalidRequest for a retract or a value that the engine refuses.
    """
    match spec.engine:
        case MergeEngine.DEDUPLICATE:
            kinds = records.kinds if spec.ignore_delete else None
            return _chosen(order, newest(order, kinds, ignore_delete=spec.ignore_delete, folded=folded))
        case MergeEngine.FIRST_ROW:
            found = oldest(order, records.kinds, ignore_delete=spec.ignore_delete, folded=folded)
            return _chosen(order, found)
        case MergeEngine.PARTIAL_UPDATE | MergeEngine.AGGREGATION:
            return _folded(records, order, spec, names, folded=folded)
        case _:
            assert_never(spec.engine)


def _chosen(order: KeyOrder, positions: Rows) -> Reduced:
    keys = np.arange(len(positions), dtype=np.int64)
    if (positions == NONE).any():
        keys = np.flatnonzero(positions != NONE)
        positions = positions[keys]
    return Reduced(rows=order.rows[positions], keys=keys)


def _folded(
    records: RecordColumns, order: KeyOrder, spec: MergeSpec, names: Iterable[str], *, folded: Flags | None
) -> Reduced:
    starts = order.starts
    folded = starts != order.ends if folded is None else folded
    if not folded.any():
        return _chosen(order, order.ends)
    keys = KeyVersions(records.kinds[order.rows], starts, order.ends, folded)
    if spec.engine is MergeEngine.AGGREGATION:
        decisions = aggregation_decisions(keys, spec)
    else:
        decisions = partial_update_decisions(keys, _sequences(records, order, spec), spec)
    made = {each.name for each in spec.fields} - set(spec.key_columns)
    act = partial(VersionActions, order, Layers(order), folded)
    ungrouped = act(decisions.ungrouped)
    grouped = {group: act(actions) for group, actions in decisions.grouped.items()}
    columns = {}
    for name in made.intersection(names):
        group = next((each for each in grouped if name in each.fields or name in each.protected), None)
        versions = Versions(records.passing(name), ungrouped if group is None else grouped[group])
        columns[name] = _column(name, versions, spec, group)
    return Reduced(
        rows=order.rows[decisions.last],
        keys=np.arange(len(starts), dtype=np.int64),
        kinds=decisions.kinds,
        columns=columns,
    )


def _column(name: str, versions: Versions, spec: MergeSpec, group: SequenceGroup | None) -> pa.Array:
    """Fold one column, which is in this sequence group or in none."""
    function = spec.functions.get(name)
    if function is not None:
        return fold_function(versions, function)
    if group is None:
        return fold_plain(versions, COPY_NON_NULL)
    return fold_plain(versions, SEQUENCE if name in group.fields else COPY)


def _sequences(records: RecordColumns, order: KeyOrder, spec: MergeSpec) -> dict[SequenceGroup, GroupSequence]:
    sequences = {}
    for group in spec.groups:
        if not all(name in records for name in group.fields):
            # No column that the caller reads depends on it.
            continue
        columns = [records.column(name) for name in group.fields]
        words = [word[order.rows] for column in columns for word in sequence_words(column)]
        unset = np.logical_and.reduce([~validity(column) for column in columns])
        sequences[group] = GroupSequence(words, unset[order.rows])
    return sequences
