"""Splits: the files of one bucket that one task reads. Source: docs/semantics/reading.md#splits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse_core.table.data_file import EMPTY_ROW, DataFile
from lakehouse_core.table.deletion_file import DeletionFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Files of one bucket that are read together, in manifest order.

    `raw`: the files hold disjoint keys and no deletes, so their rows are the result; otherwise they must be merged.
    `partition` is a serialized BinaryRow, `folder` the bucket's folder relative to the table. `deletions`: by file
    name, the location of the file's deletion vector. `before`: the files of the bucket's earlier state, with
    `deletions_before`; the result is the difference of the two states. None: the split is not a diff.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    folder: str
    files: tuple[DataFile, ...]
    raw: bool
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    before: tuple[DataFile, ...] | None = None
    deletions_before: Mapping[str, DeletionFile] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """The number of rows in the files, before any merge, including rows marked as deleted."""
        return sum(file.row_count for file in (*self.files, *(self.before or ())))

    @property
    def exact_row_count(self) -> int | None:
        """The number of rows that a read of the split gives, None if only reading shows it."""
        marked = [deletion.cardinality for deletion in self.deletions.values()]
        known = all(
            # Files of append tables, which have no keys, hold no deletes; older writers did not count them.
            file.delete_row_count == 0 or (file.delete_row_count is None and file.min_key == EMPTY_ROW)
            for file in self.files
        )
        if not self.raw or None in marked or not known:
            return None
        return self.row_count - sum(count for count in marked if count is not None)

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size for file in (*self.files, *(self.before or ())))
