"""Levels: the LSM tree of one bucket, in which each level-0 file is a run and each higher level is one run.

Source: docs/semantics/compaction.md#levels.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sorted_run import SortedRun, keyed_files


@dataclass(frozen=True, slots=True)
class LevelSortedRun:
    """A sorted run and its level; a level above 0 has one run."""

    level: int
    run: SortedRun


@dataclass(frozen=True, slots=True)
class Levels:
    """The runs of a bucket, newest first: level 0 by falling sequence numbers, then levels 1, 2, … where not empty."""

    runs: tuple[LevelSortedRun, ...]
    level_count: int

    @property
    def max_level(self) -> int:
        """The level of the oldest records; no level is below it."""
        return self.level_count - 1

    @property
    def highest_filled_level(self) -> int:
        """The highest level that has files, -1 when none has."""
        return max((leveled.level for leveled in self.runs), default=-1)

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for leveled in self.runs for file in leveled.run.data_files)


def levels_of(files: Iterable[DataFile], key_types: Sequence[DataType], *, level_count: int) -> Levels:
    """Return the levels of the live files of one bucket. Raises CorruptTable if files of a level above 0 overlap."""
    by_level: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        by_level[file.level].append(file)
    runs = [
        LevelSortedRun(0, SortedRun(keyed))
        for keyed in ((one,) for one in keyed_files(sorted(by_level.pop(0, []), key=newest_first), key_types))
    ]
    for level in sorted(by_level):
        runs.append(LevelSortedRun(level, _disjoint_run(by_level[level], level, key_types)))
    return Levels(tuple(runs), max(level_count, 2, *(level + 1 for level in by_level), 0))


def run_count(files: Iterable[DataFile]) -> int:
    """Return the number of sorted runs of a bucket's files."""
    levels = [file.level for file in files]
    return levels.count(0) + len(set(levels) - {0})


def newest_first(file: DataFile) -> tuple[int, int, int, str]:
    """Return the sort key of level-0 files for the order newest first."""
    return (-file.max_sequence_number, file.min_sequence_number, file.creation_time_millis or 0, file.file_name)


def _disjoint_run(files: Iterable[DataFile], level: int, key_types: Sequence[DataType]) -> SortedRun:
    ordered = sorted(keyed_files(files, key_types), key=lambda keyed: (keyed.min_key, keyed.max_key))
    for left, right in pairwise(ordered):
        if right.min_key <= left.max_key:
            raise CorruptTable(
                f"{left.file.file_name} and {right.file.file_name} of level {level} share keys "
                f"({right.min_key} <= {left.max_key}); a level above 0 never does. "
                "Do not compact or expire; run `lakehouse verify` and keep its report."
            )
    return SortedRun(tuple(ordered))
