"""Changelog merge: merge sections of a bucket and emit the changes; look up older versions in the runs above.

Looked-up runs are read in key order, only in the key ranges of the merge.
Source: docs/semantics/changelog.md#full-compaction, docs/semantics/changelog.md#lookup.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.chunk import LEVEL, MergeRule
from lakehouse_core.merge.compact import (
    POSITION_BITS,
    ChangelogFilter,
    Compacted,
    merge_full_compaction,
    merge_lookup,
)
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.compaction.plan import ChangelogMode, CompactionPlan
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.record_expiry import RecordExpiry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import Section, oldest_first
from lakehouse_core.table.sorted_run import SortedRun
from lakehouse_core.tasks.merge_scan import BucketFiles, RunScan, chunks_of, key_range


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogMerge:
    """A merge of sections of one compaction plan; rows are written by `schema`."""

    files: BucketFiles
    schema: TableSchema
    plan: CompactionPlan
    expiry: RecordExpiry | None = None

    def marks(self, places: Rows) -> dict[str, Rows]:
        """Return the superseded rows at the given row addresses, by file name, in rising order."""
        names = [file.file_name for run in self.plan.older for file in run.data_files]
        numbers, rows = places >> POSITION_BITS, places & ((1 << POSITION_BITS) - 1)
        return {names[number]: np.sort(rows[numbers == number]) for number in np.unique(numbers).tolist()}

    def chunks(self, sections: Sequence[Section], changelog_mode: ChangelogMode) -> Iterator[Compacted]:
        """Yield the merged records and the changelog of the sections, chunk by chunk in key order; batches may be
        empty.
        """
        for section in sections:
            if changelog_mode is ChangelogMode.TOP_LEVEL:
                yield from self._into_top(section)
            else:
                yield from self._with_lookup(section)

    def _into_top(self, section: Section) -> Iterator[Compacted]:
        runs, is_decided = oldest_first(section)
        rule = self._rule(is_decided=is_decided)
        with closing(chunks_of([(self._scan(), run) for run in runs], rule.spec)) as chunks:
            for chunk in chunks:
                yield merge_full_compaction(
                    chunk, rule, self._names, self._changelog_filter, top_level=self.plan.output_level
                )

    def _with_lookup(self, section: Section) -> Iterator[Compacted]:
        runs_above = self._looked_up_runs(section)
        runs, is_decided = oldest_first((*section, *runs_above))
        looked_up = frozenset(index for index, run in enumerate(runs) if run in runs_above)
        rule = self._rule(is_decided=is_decided)
        if self.schema.table_options.deletion_vectors.enabled:
            files = (file for run in self.plan.older for file in run.data_files)
            places = {file.file_name: number for number, file in enumerate(files)}
            inside = replace(self._scan(), places=places)
            # An expired record is no lookup result, but a newer version must still mark it as deleted; else its key
            # would appear twice.
            outside = replace(inside, keeps_expired=True)
        else:
            low, high = min(run.min_key for run in section), max(run.max_key for run in section)
            inside, outside = self._scan(), self._scan(key_range(low, high, self.schema))
        if not self._needs_values(runs, looked_up, is_decided=is_decided):
            # With the engine first-row, an expired record is still the first row while its file exists.
            outside = replace(outside, read_only=frozenset(rule.spec.key_columns), expiry=None)
        scans = [(outside if index in looked_up else inside, run) for index, run in enumerate(runs)]
        changelog_filter = self._changelog_filter if self.plan.emits_changelog else None
        with closing(chunks_of(scans, rule.spec)) as chunks:
            for chunk in chunks:
                yield merge_lookup(chunk, rule, self._names, changelog_filter, looked_up=looked_up)

    def _needs_values(self, runs: Sequence[SortedRun], looked_up: frozenset[int], *, is_decided: bool) -> bool:
        """Return whether the merge needs values of the runs `looked_up`, not only keys and positions.

        `runs`: oldest first; `is_decided`: this order alone tells which version is newer. A record's expiry depends on
        its values.

        Source: docs/semantics/changelog.md#local-lookup-files.
        """
        spec = merge_spec(self.schema)
        if spec.engine is MergeEngine.FIRST_ROW:
            return False
        if self.expiry is not None:
            return True
        if (
            self.plan.emits_changelog
            or spec.engine is not MergeEngine.DEDUPLICATE
            or spec.sequence_fields
            or spec.ignore_delete
        ):
            return True
        # Java assumes that level 0 is newer. Concurrent writers may have assigned sequence numbers in another order.
        level_0 = (index for index, run in enumerate(runs) if any(file.level == 0 for file in run.data_files))
        return not is_decided or min(level_0, default=0) < max(looked_up, default=-1)

    def _looked_up_runs(self, section: Section) -> tuple[SortedRun, ...]:
        """Return the runs above the output level that may hold keys of the section's level 0."""
        if all(file.level for run in section for file in run.data_files):
            return ()
        low, high = min(run.min_key for run in section), max(run.max_key for run in section)
        found = []
        for run in self.plan.older:
            files = tuple(keyed for keyed in run.files if keyed.max_key >= low and keyed.min_key <= high)
            found += [SortedRun(files)] if files else []
        return tuple(found)

    @property
    def _names(self) -> list[str]:
        return [*self.schema.column_names, SEQUENCE_NUMBER, VALUE_KIND]

    @property
    def _changelog_filter(self) -> ChangelogFilter:
        options = self.schema.table_options
        if not options.changelog_row_deduplicate:
            return ChangelogFilter()
        ignored = {*options.changelog_ignored_fields, *self.schema.trimmed_primary_keys}
        return ChangelogFilter(compared=tuple(name for name in self.schema.column_names if name not in ignored))

    def _scan(self, row_filter: Predicate | None = None) -> RunScan:
        return RunScan(
            source=self.files,
            fields=tuple(self.schema.fields),
            system=(SEQUENCE_NUMBER, VALUE_KIND),
            row_filter=row_filter,
            with_level=True,
            expiry=self.expiry,
        )

    def _rule(self, *, is_decided: bool) -> MergeRule:
        return MergeRule(
            spec=merge_spec(self.schema),
            kind_column=VALUE_KIND,
            sequence_number=None if is_decided else SEQUENCE_NUMBER,
            level=LEVEL if self.schema.table_options.needs_lookup else None,
            drops_deletes=self.plan.drops_deletes,
        )
