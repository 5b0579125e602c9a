"""Compaction of append tables: choose the files to copy into fewer ones, their order, and the reason.

Java has one compaction of tables without buckets, which is the minor one here. The full one leaves at most one small
file, and no file with rows marked as deleted.
Source: docs/semantics/compaction.md#append-tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, assert_never

from lakehouse_core.options import TableOptions
from lakehouse_core.table.bucketing import Bucketing, Dynamic, Fixed, Postpone, Unaware
from lakehouse_core.table.data_file import DataFile

AppendReason: TypeAlias = Literal["small files", "deleted rows", "rewrite requested", "waiting rows"]

# With fewer files a full rewrite in order gains too little.
_LEAST_ORDERED_COUNT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedRows:
    """The deletion vector of a data file: its location, and how many rows it marks (None: unknown)."""

    index_file: str
    count: int | None


Marked: TypeAlias = Mapping[str, MarkedRows]
NOTHING_MARKED: Final[Marked] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendCompactionPlan:
    """Rewrite files of one bucket of an append table as fewer ones: concatenate the files of each group in the given
    order.
    """

    groups: tuple[tuple[DataFile, ...], ...]
    reason: AppendReason

    @property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(file for group in self.groups for file in group)

    @property
    def rewritten_bytes(self) -> int:
        return sum(file.file_size for file in self.files)


def plan_append_compaction(
    files: Sequence[DataFile],
    options: TableOptions,
    bucketing: Bucketing,
    *,
    full: bool,
    marked: Marked = NOTHING_MARKED,
) -> AppendCompactionPlan | None:
    """Return the plan for one bucket (or for a partition without buckets), None if there is nothing to compact.

    `marked`: the files with deleted rows, by name; the rewrite leaves those rows out.
    """
    match bucketing:
        case Fixed():
            ordered = sorted(
                files, key=lambda file: (file.min_sequence_number, file.max_sequence_number, file.file_name)
            )
            groups = _ordered_full(ordered, options, marked) if full else _ordered_auto(ordered, options)
        case Unaware() | Dynamic() | Postpone():
            groups = _loose_full(files, options, marked) if full else _loose_minor(files, options, marked)
        case _:
            assert_never(bucketing)
    if not groups:
        return None
    return AppendCompactionPlan(groups=tuple(groups), reason=_reason(groups, options, full, marked))


def _reason(groups: Iterable[Sequence[DataFile]], options: TableOptions, full: bool, marked: Marked) -> AppendReason:
    if full and options.compaction.rewrites_all_files:
        return "rewrite requested"
    return "deleted rows" if any(file.file_name in marked for group in groups for file in group) else "small files"


# Buckets: rows keep the order of their sequence numbers, so only adjacent files are copied into one.


def _ordered_auto(ordered: Sequence[DataFile], options: TableOptions) -> list[tuple[DataFile, ...]]:
    """Return the first adjacent small files that reach the minimum count before the size of two target files."""
    window: list[DataFile] = []
    for file in ordered:
        window.append(file)
        if len(window) >= options.compaction.min_file_count:
            return [tuple(window)]
        if sum(one.file_size for one in window) >= 2 * _target_bytes(options):
            del window[0]
    return []


def _ordered_full(ordered: Sequence[DataFile], options: TableOptions, marked: Marked) -> list[tuple[DataFile, ...]]:
    """Return all files after the leading large ones if most are small; else the groups of adjacent small files."""
    if options.compaction.rewrites_all_files:
        return [tuple(ordered)] if ordered else []
    small = _small_bytes(options)
    is_settled = [file.file_size >= small and file.file_name not in marked for file in ordered]
    rest = tuple(ordered[is_settled.index(False) :]) if False in is_settled else ()
    small_count = sum(file.file_size < small for file in rest)
    if any(file.file_name in marked for file in rest):
        return [rest]
    if len(rest) >= _LEAST_ORDERED_COUNT and small_count > len(rest) - small_count:
        return [rest]
    neighbours = (
        tuple(group) for is_small, group in groupby(rest, key=lambda file: file.file_size < small) if is_small
    )
    return [group for group in neighbours if len(group) > 1]


# No buckets: rows have no order, so any files may be copied into one.


def _loose_minor(files: Sequence[DataFile], options: TableOptions, marked: Marked) -> list[tuple[DataFile, ...]]:
    """Return bins of small files, smallest first; the last bin is left out until it has the minimum count of files."""
    candidates = [
        file for file in files if file.file_size < _small_bytes(options) or _has_too_many_deleted(file, options, marked)
    ]
    by_size = sorted(candidates, key=lambda file: file.file_size)
    cost = options.split_open_cost_bytes
    bins = _marked_bins(by_size, options, marked, cost)
    *filled, rest = _bins(([file] for file in by_size if file.file_name not in marked), options, cost)
    if len(rest) >= options.compaction.min_file_count:
        filled.append(rest)
    return bins + filled


def _loose_full(files: Sequence[DataFile], options: TableOptions, marked: Marked) -> list[tuple[DataFile, ...]]:
    """Return all small files and all files with marked rows, oldest first; files of one millisecond in the given
    order.
    """
    takes_all = options.compaction.rewrites_all_files
    by_age = [
        file
        for file in sorted(files, key=lambda file: file.creation_time_millis or 0)
        if takes_all or file.file_size < _small_bytes(options) or file.file_name in marked
    ]
    bins = _marked_bins(by_age, options, marked, 0)
    *filled, rest = _bins(([file] for file in by_age if file.file_name not in marked), options, 0)
    if len(rest) > 1 or (takes_all and rest):
        filled.append(rest)
    return bins + filled


def _has_too_many_deleted(file: DataFile, options: TableOptions, marked: Marked) -> bool:
    rows = marked.get(file.file_name)
    if rows is None:
        return False
    return rows.count is None or rows.count > file.row_count * options.compaction.delete_ratio_threshold


def _marked_bins(
    files: Sequence[DataFile], options: TableOptions, marked: Marked, open_cost_bytes: int
) -> list[tuple[DataFile, ...]]:
    """Return bins in which files with vectors in one index file are together, because that file is rewritten as a
    whole.
    """
    by_index: dict[str, list[DataFile]] = {}
    for file in files:
        if file.file_name in marked:
            by_index.setdefault(marked[file.file_name].index_file, []).append(file)
    smallest_first = sorted(by_index.values(), key=lambda group: sum(file.file_size for file in group))
    return [one for one in _bins(smallest_first, options, open_cost_bytes) if one]


def _bins(
    groups: Iterable[Sequence[DataFile]], options: TableOptions, open_cost_bytes: int
) -> Iterator[tuple[DataFile, ...]]:
    """Yield bins of groups, each full at the size of two target files; the last bin is the rest and may be empty."""
    current: list[DataFile] = []
    weight = 0
    for group in groups:
        current += group
        weight += sum(file.file_size + open_cost_bytes for file in group)
        if len(current) > 1 and weight >= 2 * _target_bytes(options):
            yield tuple(current)
            current, weight = [], 0
    yield tuple(current)


def _target_bytes(options: TableOptions) -> int:
    return options.target_file_size_bytes(has_key=False)


def _small_bytes(options: TableOptions) -> float:
    return _target_bytes(options) * options.compaction.small_file_ratio
