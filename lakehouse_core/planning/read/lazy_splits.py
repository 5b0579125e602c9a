"""Lazy splits: the splits of a large plan, made anew at each iteration, and the totals of a plan's splits.

Source: docs/semantics/reading.md#splits.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from lakehouse_core.errors import PlanTooLarge
from lakehouse_core.planning.read.bucket_splits import ScannedFiles
from lakehouse_core.table.split import Split

# This many files take 12 MB as objects.
MOST_KEPT_FILES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTotals:
    """The totals of splits: files, their rows before any merge, and their bytes."""

    file_count: int
    row_count: int
    size_bytes: int


class LazySplits(Collection[Split]):
    """Splits in manifest order of their buckets, one at a time.

    A million files as objects would take more memory than all else; a reader needs one split at a time.
    """

    def __init__(self, files: ScannedFiles) -> None:
        self._files = files
        self._count: int | None = None
        self._totals = _column_totals(files) if files.are_all_read else None

    def __iter__(self) -> Iterator[Split]:
        return self._files.splits()

    def __len__(self) -> int:
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count

    def __contains__(self, split: object) -> bool:
        return any(split == each for each in self)

    @property
    def totals(self) -> SplitTotals:
        """Return the totals of the splits: from the columns, unless each file must be checked first."""
        if self._totals is None:
            self._totals = _summed(self)
        return self._totals

    def __repr__(self) -> str:
        return "Splits(many)"

    def __reduce__(self) -> tuple[Any, ...]:
        raise PlanTooLarge(
            f"A plan of more than {MOST_KEPT_FILES:,} files is not pickled: pickle the scan before it is first "
            "used, or read fewer partitions."
        )


def totals_of(splits: Collection[Split]) -> SplitTotals:
    """Return the totals of the splits of a plan."""
    return splits.totals if isinstance(splits, LazySplits) else _summed(splits)


def _column_totals(files: ScannedFiles) -> SplitTotals:
    rows = files.rows
    return SplitTotals(
        file_count=len(rows),
        row_count=int(files.entries.row_counts[rows].sum()),
        size_bytes=int(files.entries.file_sizes[rows].sum()),
    )


def _summed(splits: Iterable[Split]) -> SplitTotals:
    file_count = row_count = size_bytes = 0
    for split in splits:
        file_count += split.file_count
        row_count += split.row_count
        size_bytes += split.size_bytes
    return SplitTotals(file_count=file_count, row_count=row_count, size_bytes=size_bytes)
