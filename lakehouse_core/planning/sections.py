"""Sections: parts of a bucket's key range that share no key, so that each is merged, copied or kept alone.

Source: Paimon semantics, C.7 (IntervalPartition). Only the exact smallest and greatest keys of the metadata decide,
never statistics, which may be truncated.
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
    for keyed in sorted(files, key=lambda keyed: (keyed.min_key, keyed.max_key)):
        if not found or keyed.min_key > highest:
            found.append([keyed])
            highest = keyed.max_key
        else:
            found[-1].append(keyed)
            highest = max(highest, keyed.max_key)
    return tuple(_fewest_runs(section) for section in found)


def oldest_first(section: Section) -> tuple[Section, bool]:
    """Return the runs by age, and whether that order alone says which version of a key is the newest.

    It does when the ranges of the runs' sequence numbers are disjoint; where they are not (concurrent writers, a run
    packed from files of several levels), sequence numbers must be read and compared.
    """
    ranges = []
    for run in section:
        low = min(file.min_sequence_number for file in run.data_files)
        high = max(file.max_sequence_number for file in run.data_files)
        ranges.append((low, high, run))
    ranges.sort(key=lambda entry: entry[:2])
    is_decided = all(later_low > earlier_high for (_, earlier_high, _), (later_low, _, _) in pairwise(ranges))
    return tuple(run for _, _, run in ranges), is_decided


def _fewest_runs(files: list[KeyedFile]) -> Section:
    """Greedy: a file continues the run that ended first, if that ended before the file begins."""
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
