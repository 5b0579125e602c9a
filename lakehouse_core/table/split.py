"""What one read task reads: some files of one bucket. Source: docs/semantics/reading.md#splits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse_core.table.data_file import EMPTY_ROW, DataFile
from lakehouse_core.table.deletion_file import DeletionFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Files of one bucket that are read together, in manifest order.

    `raw`: the files hold disjoint keys and no deletes, so their rows are the answer; otherwise they must be merged.
    `partition` is a serialized BinaryRow, `folder` the bucket's folder relative to the table. `deletions` tells, by the
    names of files, where the vectors of rows that are marked as deleted lie. `before`: these files are the bucket's
    earlier state, with `deletions_before`, and the rows are those of `files` that differ from it; None: there is no
    such state.
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
        """Rows in the files, before any merge, those marked as deleted included."""
        return sum(file.row_count for file in (*self.files, *(self.before or ())))

    @property
    def exact_row_count(self) -> int | None:
        """How many rows reading it gives, None where only reading tells."""
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
