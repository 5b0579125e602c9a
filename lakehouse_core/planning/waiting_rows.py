"""Waiting rows: the parts in which the rows of a partition leave the bucket for waiting ones.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from lakehouse_core.planning.read.packing import pack
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.waiting_files import in_order

# One task moves about so many bytes of waiting files: each part leaves a sorted run in each bucket.
_PART_BYTES: Final = 256 << 20
_OPEN_COST_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePart:
    """Waiting files of a partition, in the order of their rows. `next_numbers`: the first sequence number of their rows
    in each bucket.
    """

    files: tuple[DataFile, ...]
    next_numbers: Mapping[int, int]


def move_parts(
    waiting: Sequence[DataFile], next_numbers: Mapping[int, int], *, bucket_count: int
) -> tuple[MovePart, ...]:
    """Return the parts in which the waiting files of a partition are moved, in the order of their rows.

    `waiting`: in manifest order. `next_numbers`: the next sequence number of each of its buckets that has files. The
    rows of each part get numbers from there on, above those of the parts before it, so that the parts can be moved at
    once.
    """
    sizes = map(attrgetter("file_size"), ordered := in_order(waiting))
    parts = []
    moved = 0
    for files in pack(ordered, sizes, target_bytes=_PART_BYTES, open_cost_bytes=_OPEN_COST_BYTES):
        first = {bucket: next_numbers.get(bucket, 0) + moved for bucket in range(bucket_count)}
        parts.append(MovePart(files=tuple(files), next_numbers=first))
        moved += sum(file.row_count for file in files)
    return tuple(parts)
