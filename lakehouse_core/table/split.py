"""What one read task reads: some files of one bucket. Source: Paimon semantics, "Split generation"."""

from dataclasses import dataclass

from lakehouse_core.table.data_file import EMPTY_ROW, DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Files of one bucket that are read together, in manifest order.

    `raw`: the files hold disjoint keys and no deletes, so their rows are the answer; otherwise they must be merged.
    `partition` is a serialized BinaryRow, `folder` the bucket's folder relative to the table. `before`: these files are
    the bucket's earlier state, and the rows are those of `files` that differ from it; None: there is no such state.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    folder: str
    files: tuple[DataFile, ...]
    raw: bool
    before: tuple[DataFile, ...] | None = None

    @property
    def row_count(self) -> int:
        """Rows in the files, before any merge."""
        return sum(file.row_count for file in (*self.files, *(self.before or ())))

    @property
    def exact_row_count(self) -> int | None:
        """Rows that a reader gets, None where only a merge can tell."""
        known = all(
            # Files of append tables, which have no keys, hold no deletes; older writers did not count them.
            file.delete_row_count == 0 or (file.delete_row_count is None and file.min_key == EMPTY_ROW)
            for file in self.files
        )
        return self.row_count if self.raw and known else None

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size for file in (*self.files, *(self.before or ())))
