"""Commit order: of two rows with the same key, that of the later commit must win.

Rule: key ranges and sequence numbers of files only say which rows to compare; a finding is about rows that are there.
Source: docs/reliability/invariants.md#i9-compaction-changes-no-result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.execution.verify.inspection import UNREADABLE, Inspection, Rooted
from lakehouse_core.planning.findings import Finding, Invariant, lost_rows
from lakehouse_core.planning.readable import check_file
from lakehouse_core.planning.replayed_files import Crossing
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.keys.lost_rows import first_lost_row, read_numbers
from lakehouse_core.tasks.merge_scan import BucketFiles


def check_commit_order(
    inspection: Inspection,
    rooted: Rooted,
    crossings: Sequence[Crossing],
    schemas: Mapping[int, TableSchema],
    schema: TableSchema,
) -> None:
    """Report the new files of a commit with rows that lose to rows that were committed before."""
    if not crossings:
        return
    check = _OrderCheck(inspection, rooted, schemas, schema, inspection.deletions(rooted, schema))
    for crossing in crossings:
        inspection.report(check.findings(crossing), rooted.root.key)


@dataclass(frozen=True, slots=True)
class _OrderCheck:
    inspection: Inspection
    rooted: Rooted
    schemas: Mapping[int, TableSchema]
    schema: TableSchema
    deletions: Mapping[str, DeletionFile] | None

    def findings(self, crossing: Crossing) -> list[Finding]:
        """Return one finding for a file that has such rows, or that may have them and cannot be read here."""
        later, folder = crossing.later.file, DataLayout(self.schema).bucket(*crossing.bucket)
        name = f"{self.rooted.root.key}, {folder}/{later.file_name}"
        unread: list[DataFile] = []
        for each in crossing.earlier:
            if not all(self._is_read_here(file, crossing.bucket[1]) for file in (each.file, later)):
                unread.append(each.file)
                continue
            try:
                lost = first_lost_row(self._files(folder), each, crossing.later, self.schema)
            except UNREADABLE:
                self._report_damage(folder, each.file, later)
                continue
            if lost is not None:
                return [lost_rows(name, later, each.file, (lost.later, lost.earlier))]
        return [lost_rows(name, later, file, None) for file in unread[:1]]

    def _files(self, folder: str) -> BucketFiles:
        store, schemas = self.inspection.store, self.schemas
        return BucketFiles(store=store, folder=folder, schemas=schemas, deletions=self.deletions or {})

    def _is_read_here(self, file: DataFile, bucket: int) -> bool:
        try:
            check_file(file, bucket)
        except UnsupportedFeature:
            return False
        return file.schema_id in self.schemas and self.deletions is not None

    def _report_damage(self, folder: str, *files: DataFile) -> None:
        """Report which of the files cannot be read. Damaged deletion vectors are told of where their index is."""
        source = BucketFiles(store=self.inspection.store, folder=folder, schemas=self.schemas)
        for file in files:
            read = partial(read_numbers, source, file, self.schema)
            self.inspection.read(Invariant.NAMED_FILES, f"{folder}/{file.file_name}", read, self.rooted.root.key)
