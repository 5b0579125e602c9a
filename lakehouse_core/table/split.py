"""What one read task reads: some files of one bucket. Source: Paimon semantics, "Split generation"."""

from dataclasses import dataclass

from lakehouse_core.table.data_file import DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Files of one bucket that are read together, in manifest order.

    `raw`: the files hold disjoint keys and no deletes, so their rows are the answer; otherwise they must be merged.
    `partition` is a serialized BinaryRow, `folder` the bucket's folder relative to the table.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    total_buckets: int
    folder: str
    files: tuple[DataFile, ...]
    raw: bool

    @property
    def row_count(self) -> int:
        """Rows in the files, before any merge."""
        return sum(file.row_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size for file in self.files)
