"""Rescale plan: which partitions have another bucket count than the table, and which of their buckets exchange rows.

Rule: with g the greatest common divisor of the old counts and the new one, a row of bucket b stays in a bucket that is
b modulo g, whatever the bucket function. So buckets that differ modulo g are rewritten apart from each other.
Dynamic buckets of a partition are rewritten together.
Source: docs/semantics/maintenance.md#rescaling.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import gcd
from typing import Final, assert_never

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.options import ChangelogProducer
from lakehouse_core.planning.commit.index_files import indexes_by_bucket
from lakehouse_core.planning.partitions import condition_of_values
from lakehouse_core.planning.read.packing import pack
from lakehouse_core.planning.readable import check_file
from lakehouse_core.table.bucketing import Dynamic, Fixed, Postpone, Unaware, total_buckets
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.manifest import IndexManifestEntry, ManifestEntry
from lakehouse_core.table.predicate import Or, Predicate
from lakehouse_core.table.schema import TableSchema

# A commit rewrites partitions of about so many bytes, so that it has few conflicts and little to do again.
_COMMIT_BYTES: Final = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSource:
    """The live files of one bucket of a partition that had `total_buckets` buckets when they were written."""

    bucket: int
    total_buckets: int
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRescale:
    """A partition to rewrite. Each of `groups` can be rewritten by itself: its rows stay among its buckets."""

    partition: bytes
    groups: tuple[tuple[BucketSource, ...], ...]

    @property
    def sources(self) -> Iterable[BucketSource]:
        return (source for group in self.groups for source in group)

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size for source in self.sources for file in source.files)


def rescalable(schema: TableSchema, count: int | None = None) -> Fixed | Dynamic:
    """Return how the table divides rows into buckets. Raises InvalidRequest, UnsupportedFeature if that, or another
    number of buckets, `count`, is not for a rescale.
    """
    match schema.bucketing:
        case Fixed() as found:
            return found
        case Dynamic() as found:
            if count is not None:
                raise InvalidRequest(
                    f"rescale: buckets is {count}, but the table has dynamic buckets (bucket={total_buckets(found)}): "
                    "their number follows dynamic-bucket.target-row-num. Set that option, and leave buckets out."
                )
            return found
        case Unaware():
            raise InvalidRequest("rescale: bucket is -1, so the table has no buckets. Run compact instead.")
        case Postpone():
            raise UnsupportedFeature(
                f"rescale: bucket is {total_buckets(schema.bucketing)}, and a partition of such a table keeps the "
                "number of buckets that its first compaction gave it. Compact the table, set bucket to a number, and "
                "rescale."
            )
        case _:
            assert_never(schema.bucketing)


def plan_rescale(live: Iterable[ManifestEntry], bucketing: Fixed | Dynamic) -> list[PartitionRescale]:
    """Return the partitions to rewrite in the order of their bytes: those with a file that was not written for that
    many buckets; if buckets are dynamic, all.

    Raises UnsupportedFeature for files that cannot be read, also for rows that wait for their buckets.
    """
    found: dict[bytes, dict[tuple[int, int], list[DataFile]]] = defaultdict(lambda: defaultdict(list))
    for entry in live:
        check_file(entry.file, entry.bucket)
        found[entry.partition][entry.bucket, entry.total_buckets].append(entry.file)
    return [
        PartitionRescale(partition=partition, groups=_groups(buckets, bucketing))
        for partition, buckets in sorted(found.items(), key=lambda one: one[0])
        if isinstance(bucketing, Dynamic) or any(total != bucketing.count for _, total in buckets)
    ]


def _groups(
    buckets: dict[tuple[int, int], list[DataFile]], bucketing: Fixed | Dynamic
) -> tuple[tuple[BucketSource, ...], ...]:
    sources = [
        BucketSource(bucket=bucket, total_buckets=total, files=tuple(files))
        for (bucket, total), files in sorted(buckets.items())
    ]
    if isinstance(bucketing, Dynamic):
        # A key may be in several of them.
        return (tuple(sources),)
    divisor = gcd(bucketing.count, *(total for _, total in buckets))
    sources.sort(key=lambda source: source.bucket % divisor)
    return tuple(tuple(group) for _, group in groupby(sources, key=lambda source: source.bucket % divisor))


def lacks_changelog(partition: PartitionRescale, schema: TableSchema) -> bool:
    """Return whether a compaction has yet to write changes of these files into the table's changelog."""
    options = schema.table_options
    match options.changelog_producer:
        case ChangelogProducer.NONE | ChangelogProducer.INPUT:
            return False
        case ChangelogProducer.LOOKUP:
            first_emitted = 1
        case ChangelogProducer.FULL_COMPACTION:
            first_emitted = options.num_levels - 1
        case _:
            assert_never(options.changelog_producer)
    return any(file.level < first_emitted for source in partition.sources for file in source.files)


def commits_of(partitions: Sequence[PartitionRescale]) -> list[list[PartitionRescale]]:
    """Return the partitions that one commit rewrites together, for each commit."""
    return pack(partitions, [one.size_bytes for one in partitions], target_bytes=_COMMIT_BYTES, open_cost_bytes=0)


def condition_of_all(planned: Sequence[PartitionRescale], schema: TableSchema) -> Predicate | None:
    """Return the condition on partition columns that the rows of these partitions satisfy, None if the
    table is not partitioned.
    """
    if not schema.partition_keys:
        return None
    types = [field.type for field in schema.partition_fields]
    every = []
    for one in planned:
        values = dict(zip(schema.partition_keys, deserialize_row(one.partition, types), strict=True))
        condition = condition_of_values(values, schema)
        assert condition is not None
        every.append(condition)
    return every[0] if len(every) == 1 else Or(tuple(every))


def removals(
    planned: Sequence[PartitionRescale], indexes: Sequence[IndexManifestEntry], schema: TableSchema
) -> list[CommitMessage]:
    """Return the removal of all files of the partitions, with those of their deletion vectors and hash indexes.
    `indexes`: all live index files.
    """
    of_buckets = indexes_by_bucket(indexes)
    messages = [
        CommitMessage(
            partition=one.partition,
            bucket=source.bucket,
            total_buckets=source.total_buckets,
            deleted_files=source.files,
            deleted_index_files=of_buckets.pop((one.partition, source.bucket), ()),
        )
        for one in planned
        for source in one.sources
    ]
    if isinstance(schema.bucketing, Dynamic):
        # A bucket that a compaction left without files keeps its index.
        partitions = {one.partition for one in planned}
        messages += [
            CommitMessage(
                partition=partition,
                bucket=bucket,
                total_buckets=total_buckets(schema.bucketing),
                deleted_index_files=files,
            )
            for (partition, bucket), files in of_buckets.items()
            if partition in partitions
        ]
    return messages
