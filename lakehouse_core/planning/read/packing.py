"""Packing: group the files of a bucket that one task reads together.

Java may pack files that need no merge together with overlapping ones, and merges them all. Here files that need no
merge are packed separately and read as they are.
Source: docs/semantics/reading.md#splits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeVar

from lakehouse_core.format.data_types import DataType
from lakehouse_core.options import TableOptions
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.table.split import Split, sharing

T = TypeVar("T")

# Reading the waiting rows once more is an eighth of the work on a partition (measured with 32 buckets).
_MOST_WAITING_PARTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that one task reads together; `raw`: without a merge."""

    files: tuple[DataFile, ...]
    raw: bool


def append_groups(files: Sequence[DataFile], *, target_bytes: int, open_cost_bytes: int) -> list[FileGroup]:
    """Return the files of one bucket of an append table, oldest first, packed to about `target_bytes`."""
    ordered = sorted(files, key=lambda file: file.min_sequence_number)
    return raw_groups(ordered, target_bytes=target_bytes, open_cost_bytes=open_cost_bytes)


def raw_groups(files: Sequence[DataFile], *, target_bytes: int, open_cost_bytes: int) -> list[FileGroup]:
    """Return files of one bucket, each of which is read alone, packed in their order to about `target_bytes`."""
    bins = pack(files, map(attrgetter("file_size"), files), target_bytes=target_bytes, open_cost_bytes=open_cost_bytes)
    return [FileGroup(files=tuple(group), raw=True) for group in bins]


def key_groups(
    files: Sequence[DataFile], key_types: Sequence[DataType], *, target_bytes: int, open_cost_bytes: int
) -> list[FileGroup]:
    """Return the files of one bucket of a key table, packed so that no key is in two groups.

    A file with an unknown number of deletes is merged, which drops them. Raises CorruptTable for unreadable keys.
    """
    plain: list[DataFile] = []
    merged: list[tuple[DataFile, ...]] = []
    if is_one_level(files):
        # Files of one level above 0 have disjoint keys, so their keys need not be decoded.
        for file in files:
            if file.delete_row_count == 0:
                plain.append(file)
            else:
                merged.append((file,))
    else:
        for section in sections(keyed_files(files, key_types)):
            members = tuple(file for run in section for file in run.data_files)
            if len(section) == 1 and all(file.delete_row_count == 0 for file in members):
                plain += members
            else:
                merged.append(members)
    sizes = {"target_bytes": target_bytes, "open_cost_bytes": open_cost_bytes}
    return [
        *raw_groups(plain, **sizes),
        *(
            FileGroup(files=tuple(file for members in group for file in members), raw=False)
            for group in pack(merged, map(_size_of, merged), **sizes)
        ),
    ]


def holds_keys_once(files: Sequence[DataFile]) -> bool:
    """Return whether each key is in one of the files only, in a table whose compactions look up older versions.

    Such compactions mark the older version as deleted, or keep it as the first row. So the files above level 0 hold
    each key once, and no deletes.
    """
    return all(file.level > 0 and not file.delete_row_count for file in files)


def is_one_level(files: Sequence[DataFile]) -> bool:
    """Return whether all files are in one level above 0, and so hold disjoint keys."""
    levels = {file.level for file in files}
    return len(levels) == 1 and levels != {0}


def pack(items: Sequence[T], sizes: Iterable[int], *, target_bytes: int, open_cost_bytes: int) -> list[list[T]]:
    """Return the items in bins, in order. An item counts at least `open_cost_bytes`, and starts a new bin if the last
    one would exceed `target_bytes`.

    `sizes`: the size of each item, in bytes.
    """
    bins: list[list[T]] = []
    weight = 0
    for item, size in zip(items, sizes, strict=True):
        added = max(size, open_cost_bytes)
        if not bins or weight + added > target_bytes:
            bins.append([])
            weight = 0
        bins[-1].append(item)
        weight += added
    return bins


def waiting_parts(splits: Sequence[Split], options: TableOptions) -> list[list[int]]:
    """Return the numbers of the splits one by one, but those of consecutive splits with the same waiting rows in a few
    parts, each of which reads all of these rows.
    """
    parts = []
    for numbers in sharing(range(len(splits)), splits.__getitem__):
        sizes = [splits[number].size_bytes for number in numbers]
        waits = bool(splits[numbers[0]].waiting)
        target = max(options.split_target_bytes, -(-sum(sizes) // _MOST_WAITING_PARTS)) if waits else 0
        parts += pack(numbers, sizes, target_bytes=target, open_cost_bytes=options.split_open_cost_bytes)
    return parts


def _size_of(files: tuple[DataFile, ...]) -> int:
    return sum(file.file_size for file in files)
