"""Sections: parts of a bucket's files with disjoint key ranges, so that each part is merged, copied or kept separately.

Rule: the exact smallest and greatest keys in the metadata decide, never statistics, which may be truncated.
Source: docs/semantics/compaction.md#compaction-task.
"""

from collections.abc import Iterable
from heapq import heappush, heapreplace
from itertools import pairwise
from typing import TypeAlias

from lakehouse_core.table.sorted_run import Key, KeyedFile, SortedRun

Section: TypeAlias = tuple[SortedRun, ...]


def sections(files: Iterable[KeyedFile]) -> tuple[Section, ...]:
    """Return the sections in key order, each packed into the fewest runs; ranges that touch at one key overlap."""
    found: list[list[KeyedFile]] = []
    highest: Key = ()
    newest_first = sorted(files, key=_age, reverse=True)
    for keyed in sorted(newest_first, key=lambda keyed: (keyed.min_key, keyed.max_key)):
        if not found or keyed.min_key > highest:
            found.append([keyed])
            highest = keyed.max_key
        else:
            found[-1].append(keyed)
            highest = max(highest, keyed.max_key)
    return tuple(_fewest_runs(section) for section in found)


def oldest_first(section: Section) -> tuple[Section, bool]:
    """Return the runs, oldest first, and whether this order alone tells which version of a key is the newest.

    It does if the ranges of the runs' sequence numbers are disjoint. Otherwise (concurrent writers, a run packed from
    files of several levels) sequence numbers must be read and compared. Concurrent writers may give equal numbers: then
    the version in the later run is the newer one, in reads, compactions and lookups.
    """
    ranges = []
    for run in section:
        low = min(file.min_sequence_number for file in run.data_files)
        high = max(file.max_sequence_number for file in run.data_files)
        ranges.append((low, high, min(map(_age, run.files)), run))
    ranges.sort(key=lambda entry: entry[:3])
    is_decided = all(later[0] > earlier[1] for earlier, later in pairwise(ranges))
    return tuple(entry[3] for entry in ranges), is_decided


def _age(keyed: KeyedFile) -> tuple[int, int, int, int, str]:
    """Return the sort key for the age of files, oldest first, the same in every run of the code."""
    file = keyed.file
    created = file.creation_time_millis or 0
    return (file.min_sequence_number, file.max_sequence_number, -file.level, created, file.file_name)


def _fewest_runs(files: list[KeyedFile]) -> Section:
    """Return the fewest runs, by a greedy rule: a file continues the run that ends first, if that run ends before the
    file begins.
    """
    runs: list[list[KeyedFile]] = []
    by_end: list[tuple[Key, int]] = []
    for keyed in files:
        if by_end and keyed.min_key > by_end[0][0]:
            run = by_end[0][1]
            runs[run].append(keyed)
            heapreplace(by_end, (keyed.max_key, run))
        else:
            heappush(by_end, (keyed.max_key, len(runs)))
            runs.append([keyed])
    return tuple(SortedRun(tuple(run)) for run in runs)
