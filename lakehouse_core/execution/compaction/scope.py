"""The scope of a compaction: buckets that the caller requests, or buckets that a commit wrote to."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.manifests import manifests_of_partitions, may_hold_match
from lakehouse_core.planning.readable import check_file
from lakehouse_core.table.bucketing import may_wait
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.levels import run_count
from lakehouse_core.table.manifest import EntryKind, Keep, ManifestFile
from lakehouse_core.table.partition_time import PartitionExpiry, skipped_by_compaction
from lakehouse_core.table.predicate import Predicate, holds
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

# By partition, bucket and number of buckets.
FilesByBucket: TypeAlias = dict[tuple[bytes, int, int], list[DataFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedBuckets:
    """The buckets of partitions that satisfy the bound `condition` (None: all) and got no new file for `idle_millis`;
    of these partitions the numbered `buckets`, None: all.

    Expired partitions are left out if the table's options say so.
    """

    condition: Predicate | None = None
    idle_millis: int = 0
    buckets: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBuckets:
    """The given (serialized partition, bucket) pairs, all if there are none, that have more than `above_runs` sorted
    runs. Expired partitions are included, as in Java.
    """

    places: Collection[tuple[bytes, int]] | None = None
    above_runs: int = 0


Scope: TypeAlias = RequestedBuckets | WrittenBuckets


def live_in_scope(
    scope: Scope, table: TableContext, snapshot: Snapshot, schema: TableSchema, *, with_stats: bool
) -> tuple[Sequence[ManifestFile], FilesByBucket]:
    """Return the manifests of `snapshot` that may name files of buckets in scope, and the live files of these buckets,
    with their statistics if they may be committed again. Raises CorruptTable, UnsupportedFeature.
    """
    manifests = _manifests_in(scope, table.manifests.of(snapshot), schema)
    return manifests, _files_in(scope, table, snapshot, manifests, schema, with_stats=with_stats)


def _manifests_in(scope: Scope, manifests: Sequence[ManifestFile], schema: TableSchema) -> Sequence[ManifestFile]:
    if isinstance(scope, WrittenBuckets):
        if scope.places is None or not schema.partition_keys:
            return manifests
        types = [field.type for field in schema.partition_fields]
        return manifests_of_partitions(manifests, {partition for partition, _ in scope.places}, types)
    if scope.condition is None:
        return manifests
    return [manifest for manifest in manifests if may_hold_match(manifest, scope.condition, schema)]


def _files_in(
    scope: Scope,
    table: TableContext,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
    schema: TableSchema,
    *,
    with_stats: bool,
) -> FilesByBucket:
    now_millis = table.clock.local_now_millis()
    if isinstance(scope, WrittenBuckets):
        files = _live_files(table, snapshot, manifests, _in_places(scope.places), schema, with_stats=with_stats)
        return {place: found for place, found in files.items() if run_count(found) > scope.above_runs}
    expiry = skipped_by_compaction(schema, local_now_millis=now_millis)
    # Whether a partition is idle, all of its buckets tell.
    asked = None if scope.idle_millis else scope.buckets
    keep = _in_partitions(schema, scope.condition, expiry, asked)
    files = _live_files(table, snapshot, manifests, keep, schema, with_stats=with_stats)
    if not scope.idle_millis:
        return files
    idle = _idle(files, now_millis - scope.idle_millis)
    return {place: found for place, found in idle.items() if scope.buckets is None or place[1] in scope.buckets}


def why_none(scope: Scope, schema: TableSchema) -> str:
    """Return the reason why no file is in scope."""
    reasons = []
    if isinstance(scope, RequestedBuckets):
        if scope.idle_millis:
            reasons.append("had a new file within the idle time")
        if skipped_by_compaction(schema, local_now_millis=0) is not None:
            reasons.append("is past partition.expiration-time")
    if reasons:
        return f"every partition {' or '.join(reasons)}"
    return "there are no files" if not isinstance(scope, RequestedBuckets) or scope.buckets is None else _no_file(scope)


def _no_file(scope: RequestedBuckets) -> str:
    numbers = ", ".join(map(str, sorted(scope.buckets or ())))
    return f"there are no files in bucket {numbers}"


def _live_files(
    table: TableContext,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
    keep: Keep | None,
    schema: TableSchema,
    *,
    with_stats: bool,
) -> FilesByBucket:
    by_bucket: FilesByBucket = {}
    waits = may_wait(schema.bucketing)
    for entry in table.manifests.live_entries(snapshot, keep=keep, with_stats=with_stats, manifests=manifests):
        if entry.kind is EntryKind.ADD:
            check_file(entry.file, entry.bucket, may_wait=waits)
            by_bucket.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    return by_bucket


def _idle(by_bucket: FilesByBucket, until_millis: int) -> FilesByBucket:
    """Return the files without partitions that have a file created after `until_millis` (local wall clock, counted as
    UTC).
    """
    newest: dict[bytes, int] = {}
    for (partition, _, _), files in by_bucket.items():
        times = [file.creation_time_millis or 0 for file in files]
        newest[partition] = max(newest.get(partition, 0), *times)
    return {place: files for place, files in by_bucket.items() if newest[place[0]] <= until_millis}


def _in_partitions(
    schema: TableSchema, condition: Predicate | None, expiry: PartitionExpiry | None, buckets: frozenset[int] | None
) -> Keep | None:
    if condition is None and expiry is None:
        return None if buckets is None else lambda partition, bucket, level: bucket in buckets
    types = [field.type for field in schema.partition_fields]

    @cache
    def is_asked_for(partition: bytes) -> bool:
        values = deserialize_row(partition, types)
        if expiry is not None and expiry.is_expired(values):
            return False
        return condition is None or holds(condition, dict(zip(schema.partition_keys, values, strict=True)))

    return lambda partition, bucket, level: (buckets is None or bucket in buckets) and is_asked_for(partition)


def _in_places(places: Collection[tuple[bytes, int]] | None) -> Keep | None:
    return None if places is None else lambda partition, bucket, level: (partition, bucket) in places
