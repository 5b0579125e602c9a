"""Write base: what a write must know of the live files: the numbers that its rows continue, and the bucket counts.

Source: docs/semantics/writing.md#sequence-numbers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.manifest import EntryColumns, live_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBase:
    """`next_numbers`: by bucket, as (serialized partition, bucket), the first sequence number above those of all its
    files. `bucket_counts`: by serialized partition, the bucket count that its files were written with.
    """

    next_numbers: Mapping[tuple[bytes, int], int] = field(default_factory=dict)
    bucket_counts: Mapping[bytes, int] = field(default_factory=dict)

    def after(self, messages: Iterable[CommitMessage]) -> "WriteBase":
        """Return the base behind the new files of `messages`, which are not committed yet."""
        numbers, counts = dict(self.next_numbers), dict(self.bucket_counts)
        for message in messages:
            bucket = message.partition, message.bucket
            numbers[bucket] = max(
                [numbers.get(bucket, 0), *(file.max_sequence_number + 1 for file in message.new_files)]
            )
            if message.new_files and message.total_buckets > 0:
                counts.setdefault(message.partition, message.total_buckets)
        return WriteBase(next_numbers=numbers, bucket_counts=counts)


NOTHING_WRITTEN: Final = WriteBase()


def write_base(entries: EntryColumns) -> WriteBase:
    """Return the base of a write after all `entries` of a table, which are in commit order.

    Raises CorruptTable if a live file is added again.
    """
    live = np.flatnonzero(live_rows(entries))
    codes, buckets, counts = (
        column[live] for column in (entries.partition_codes, entries.buckets, entries.total_buckets)
    )
    keys = codes.astype(np.int64) << 32 | (buckets.astype(np.int64) & 0xFFFFFFFF)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    numbers = np.zeros(len(first), np.int64)
    np.maximum.at(numbers, which, entries.max_sequence_numbers[live] + 1)
    places = zip(codes[first].tolist(), buckets[first].tolist(), strict=True)
    has_count = counts > 0
    count_of = dict(zip(codes[has_count].tolist(), counts[has_count].tolist(), strict=True))
    return WriteBase(
        next_numbers={
            (entries.partitions[code], bucket): number
            for (code, bucket), number in zip(places, numbers.tolist(), strict=True)
        },
        bucket_counts={entries.partitions[code]: count for code, count in count_of.items()},
    )
