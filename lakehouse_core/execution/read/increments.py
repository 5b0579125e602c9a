"""Increments: find the range of snapshots or the two states of an incremental read, and the splits with the changes.

Deltas and changelogs are read as written, without a merge: a key may occur several times. A diff compares two states
bucket by bucket, without the files that both have.
Source: docs/semantics/reading.md#increments.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from lakehouse_core.errors import CorruptTable, InvalidRequest, LakehouseError, NotFound, SnapshotExpired
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.state import expiry_behind
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.metadata.snapshot_search import earliest_and_latest, newest_snapshot_until
from lakehouse_core.options import ChangelogProducer
from lakehouse_core.planning.auto_tag_names import auto_tag_time, previous_auto_tag
from lakehouse_core.planning.read.increments import diff_splits, file_split
from lakehouse_core.planning.read.read_point import (
    Between,
    BetweenTimes,
    IncrementalMode,
    IncrementPoint,
    LatestDelta,
    ToAutoTag,
)
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.planning.readable import check_all_placed, deletion_files
from lakehouse_core.table.bucketing import is_placed, is_read, may_wait
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, ManifestFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.split import Split


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRange:
    """The snapshots (after, until]; the changes of each are its changelog files, or the files that its APPEND added."""

    after: int
    until: int
    from_changelog: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDiff:
    """The states of two snapshots, `before` None for the empty one. `tags`: as in `ReadState`."""

    before: Snapshot | None
    after: Snapshot
    tags: Mapping[str, int] = field(default_factory=dict)


Increment: TypeAlias = SnapshotRange | StateDiff


def increment_of(table: TableContext, schema: TableSchema, point: IncrementPoint) -> Increment | None:
    """Return the increment that `point` means, None if it is empty.

    Raises SnapshotExpired, NotFound, InvalidRequest.
    """
    match point:
        case LatestDelta():
            latest = table.snapshots.ids.latest()
            return None if latest is None else SnapshotRange(after=latest - 1, until=latest, from_changelog=False)
        case Between():
            return _between(table, schema, point)
        case BetweenTimes():
            return _between_times(table, schema, point)
        case ToAutoTag(name):
            return _to_auto_tag(table, schema, name)


def range_of(
    snapshots: SnapshotLog, schema: TableSchema, after: int, until: int, mode: IncrementalMode
) -> SnapshotRange:
    """Return the range of snapshots as `mode`, which is not DIFF, reads it. Raises NotFound for a missing snapshot."""
    latest = snapshots.ids.latest() or 0
    for asked in (after, until):
        if asked > latest:
            raise NotFound(f"Snapshot {asked} does not exist yet: the latest is {latest}.")
    has_producer = schema.table_options.changelog_producer is not ChangelogProducer.NONE
    from_changelog = has_producer if mode is IncrementalMode.AUTO else mode is IncrementalMode.CHANGELOG
    return SnapshotRange(after=after, until=until, from_changelog=from_changelog)


def diff_of_tags(table: TableContext, start: str, end: str) -> StateDiff | None:
    """Return the diff of two tags, None when they name one snapshot. Raises NotFound, InvalidRequest."""
    before, after = table.tags.tag(start).snapshot, table.tags.tag(end).snapshot
    if after.id < before.id:
        raise InvalidRequest(
            f"Tag {end!r} is of snapshot {after.id}, but {start!r} is of the later snapshot {before.id}. Swap the two."
        )
    if after.id == before.id:
        return None
    return StateDiff(before=before, after=after, tags={start: before.id, end: after.id})


def increment_splits(table: TableContext, schema: TableSchema, increment: Increment, scope: ScanScope) -> list[Split]:
    """Return the splits of an increment; `scope` leaves out partitions. Raises SnapshotExpired, UnsupportedFeature."""
    try:
        return _splits(table, schema, increment, scope)
    except (CorruptTable, NotFound) as error:
        if (expired := _expiry_behind(table, increment)) is not None:
            raise expired from error
        raise


def _splits(table: TableContext, schema: TableSchema, increment: Increment, scope: ScanScope) -> list[Split]:
    match increment:
        case SnapshotRange():
            added = partial(_added_by, table, from_changelog=increment.from_changelog)
            ids = range(increment.after + 1, increment.until + 1)
            # With a producer, a compaction tells of the rows that waited, whatever the option bucket is by now.
            tells_waiting = schema.table_options.changelog_producer is ChangelogProducer.NONE
            return [
                file_split(entry, schema, snapshot_id=snapshot_id)
                for snapshot_id, entries in in_order(added, ids, at_once=table.store.requests_at_once)
                for entry in entries
                if scope.partition(entry.partition) is not None and (tells_waiting or is_placed(entry.bucket))
            ]
        case StateDiff(before=before, after=after):
            folders = DataLayout(schema)
            merges_waiting = may_wait(schema.bucketing) and schema.table_options.postponed_buckets.merge_on_read

            def keep(partition: bytes, bucket: int, level: int) -> bool:
                # Level 0 is included also for tables whose scans skip it: changes are read before they are compacted.
                is_there = merges_waiting or is_read(schema.bucketing, bucket)
                return is_there and scope.partition(partition) is not None

            old, old_indexes = [], []
            if before is not None:
                old, old_indexes = (
                    table.manifests.live_entries(before, keep=keep),
                    table.manifests.index_entries(before),
                )
            new = table.manifests.live_entries(after, keep=keep)
            if merges_waiting:
                check_all_placed((entry.bucket for entry in (*old, *new)), f"{table.name}: a diff of two states")
            return diff_splits(
                old,
                new,
                schema,
                snapshot_id=after.id,
                deletions_before=deletion_files(old_indexes, folders),
                deletions_after=deletion_files(table.manifests.index_entries(after), folders),
            )


def _expiry_behind(table: TableContext, increment: Increment) -> LakehouseError | None:
    """Return the error for a missing file of an increment; None if every snapshot or tag that keeps its files
    exists.
    """
    match increment:
        case SnapshotRange():
            try:
                for snapshot_id in range(increment.after + 1, increment.until + 1):
                    _snapshot(table, snapshot_id)
            except SnapshotExpired as expired:
                return expired
            return None
        case StateDiff(before=before, after=after):
            ends = (after,) if before is None or increment.tags else (before, after)
            found = (expiry_behind(table, increment.tags, end.id) for end in ends)
            return next((expired for expired in found if expired is not None), None)


def oldest_id(increment: Increment) -> int:
    """Return the id of the oldest snapshot whose files are read."""
    match increment:
        case SnapshotRange():
            return increment.after + 1
        case StateDiff():
            return (increment.before or increment.after).id


def schemas_of(splits: Iterable[Split], schemas: SchemaLog) -> dict[int, TableSchema]:
    """Return every schema that files of the splits name, by id. Raises NotFound."""
    ids = {file.schema_id for split in splits for file in (*split.files, *(split.before or ()))}
    return {schema_id: schemas.schema(schema_id) for schema_id in sorted(ids)}


def _between(table: TableContext, schema: TableSchema, point: Between) -> Increment | None:
    if table.tags.has(point.start) and table.tags.has(point.end):
        if not point.tags_as_ids or point.mode is IncrementalMode.DIFF:
            return diff_of_tags(table, point.start, point.end)
        after, until = table.tags.tag(point.start).snapshot.id, table.tags.tag(point.end).snapshot.id
    else:
        after, until = _id(point.start, point), _id(point.end, point)
    if until < after:
        raise InvalidRequest(f"The range ({after}, {until}] ends before it begins. Swap the two.")
    if until == after or table.snapshots.ids.latest() is None:
        return None
    if point.mode is IncrementalMode.DIFF:
        return StateDiff(before=table.snapshots.snapshot(after), after=table.snapshots.snapshot(until))
    return range_of(table.snapshots, schema, after, until, point.mode)


def _id(text: str, point: Between) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidRequest(
            f"incremental-between is {point.start},{point.end}: expected two tags or two snapshot ids. Give two "
            "of one kind."
        )
    return int(text)


def _between_times(table: TableContext, schema: TableSchema, point: BetweenTimes) -> Increment | None:
    ids = earliest_and_latest(table.snapshots)
    if ids is None or point.start_millis == point.end_millis:
        return None
    earliest, latest = map(table.snapshots.snapshot, ids)
    if point.start_millis > latest.time_millis or point.end_millis < earliest.time_millis:
        return None
    start = newest_snapshot_until(table.snapshots, ids, point.start_millis)
    end = newest_snapshot_until(table.snapshots, ids, point.end_millis) or latest
    if point.mode is IncrementalMode.DIFF:
        # The state before snapshot 1 is empty; the state before a later first snapshot has expired.
        before = start or (None if earliest.id == 1 else earliest)
        return StateDiff(before=before, after=end)
    return range_of(table.snapshots, schema, earliest.id - 1 if start is None else start.id, end.id, point.mode)


def _to_auto_tag(table: TableContext, schema: TableSchema, name: str) -> StateDiff | None:
    options = schema.table_options.tags
    if auto_tag_time(name, options) is None:
        raise InvalidRequest(
            f"incremental-to-auto-tag is {name!r}: expected the name of an automatic tag, which is a time "
            "formatted as tag.creation-period and tag.period-formatter say. Name such a tag."
        )
    tags = table.tags.all()
    before = previous_auto_tag(name, tags, options)
    return None if name not in tags or before is None else diff_of_tags(table, before, name)


def _snapshot(table: TableContext, snapshot_id: int) -> Snapshot:
    """Return the snapshot; for an expired one its long-lived changelog."""
    try:
        return table.snapshots.snapshot(snapshot_id)
    except SnapshotExpired as expired:
        try:
            return table.changelogs.changelog(snapshot_id)
        except NotFound:
            ids = table.changelogs.ids()
            kept = f"Changelogs are kept from {ids[0]} on." if ids else "No changelogs are kept."
            raise SnapshotExpired(f"{expired} {kept}") from expired


def _manifests(table: TableContext, snapshot: Snapshot, *, from_changelog: bool) -> Sequence[ManifestFile]:
    if from_changelog:
        return table.manifests.changelog(snapshot) if snapshot.commit_kind is not CommitKind.OVERWRITE else []
    return table.manifests.delta(snapshot) if snapshot.commit_kind is CommitKind.APPEND else []


def _added_by(table: TableContext, snapshot_id: int, *, from_changelog: bool) -> tuple[int, list[ManifestEntry]]:
    """Return the files that the snapshot adds to the table, or to its changelog."""
    manifests = _manifests(table, _snapshot(table, snapshot_id), from_changelog=from_changelog)
    read = table.manifests.entries_of_each(manifests)
    return snapshot_id, [entry for entries in read for entry in entries if entry.kind is EntryKind.ADD]
