"""Splits: the files of one bucket that one task reads. Source: docs/semantics/reading.md#splits."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeVar

from lakehouse_core.table.data_file import EMPTY_ROW, DataFile
from lakehouse_core.table.deletion_file import DeletionFile

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Files of one bucket that are read together, in manifest order.

    `raw`: the files hold disjoint keys and no deletes, so their rows are the result; otherwise they must be merged.
    `partition` is a serialized BinaryRow, `folder` the bucket's folder relative to the table. `deletions`: by file
    name, the location of the file's deletion vector. `before`: the files of the bucket's earlier state, with
    `deletions_before`; the result is the difference of the two states. None: the split is not a diff. `waiting`: the
    files in `waiting_folder` of all rows of the partition that wait for their buckets, in the order of the rows; those
    of this bucket are newer than the files. If there are any, the split holds all that is read of its bucket.
    `waiting_share`: which of the splits with these waiting files this one is, from 0, and how many there are.
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
    waiting: tuple[DataFile, ...] = ()
    waiting_folder: str = ""
    waiting_share: tuple[int, int] = (0, 1)

    @property
    def file_count(self) -> int:
        """The number of files, with the split's share of those of waiting rows: all splits together have all."""
        return len(self.files) + len(self.before or ()) + self._share(len(self.waiting))

    @property
    def row_count(self) -> int:
        """The number of rows in the files, before any merge, including rows marked as deleted; waiting rows as in
        `file_count`.
        """
        waiting = self._share(sum(file.row_count for file in self.waiting))
        return waiting + sum(file.row_count for file in (*self.files, *(self.before or ())))

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
        """The bytes of the files; those of waiting rows as in `file_count`."""
        waiting = self._share(sum(file.file_size for file in self.waiting))
        return waiting + sum(file.file_size for file in (*self.files, *(self.before or ())))

    def _share(self, total: int) -> int:
        """Return the part of the split if each that shares has the same, or one more."""
        number, count = self.waiting_share
        return (total + count - 1 - number) // count


def sharing(items: Iterable[T], split_of: Callable[[T], Split]) -> Iterator[list[T]]:
    """Yield the items one by one, but consecutive ones whose splits have the same waiting rows together."""

    def shared(numbered: tuple[int, T]) -> object:
        split = split_of(numbered[1])
        return split.partition if split.waiting else numbered[0]

    for _, group in groupby(enumerate(items), shared):
        yield [item for _, item in group]
