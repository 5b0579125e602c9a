"""Automatic tags after a commit: make those that are due, and unlink those beyond the number that stays.

Rule: the commit stays if a tag fails; the next commit finds what is due by the tags that are there. The expiry deletes
the files that only unlinked tags needed.
Source: docs/semantics/maintenance.md#automatic-tags.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import LakehouseError
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import check_understood, tag_deletion
from lakehouse_core.execution.expiry.tag_success import announce, withdraw
from lakehouse_core.execution.expiry.tags import new_tag_of, tag_source
from lakehouse_core.execution.expiry.unlinking import unlink
from lakehouse_core.execution.presence import check_kept
from lakehouse_core.metadata.deletion_plans import begin
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.options import TagCreation, TagOptions, check_auto_tags, local_millis, zone_of
from lakehouse_core.planning.auto_tags import SnapshotTime, due_from_millis, first_untagged_id, plan_auto_tags
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

# So many snapshots are read together.
_AT_ONCE: Final = 32
# Flink writes it before the first watermark.
_NO_WATERMARK: Final = -(2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoTags:
    """The names of the automatic tags that were made and deleted after a commit; `failure`: why some were not."""

    made: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    failure: str | None = None


def make_due_tags(table: TableContext, *, by_upkeep: bool = False) -> AutoTags:
    """Make the automatic tags that are due, and unlink outdated ones. Reads nothing if the table has none.

    `by_upkeep`: also in a table whose writers leave upkeep to others. A failure is part of the result, because the
    commit before is not undone. REQUIRES: the schema of the table was read.
    """
    schema = table.schemas.known.newest
    assert schema is not None, "the verb before has read it"
    options = schema.table_options.tags
    # What is to be in a metastore that is not reached from here, the engine that reaches it makes.
    if not options.is_automatic or options.is_registered or (schema.table_options.write_only and not by_upkeep):
        return AutoTags()
    made: list[str] = []
    deleted: list[str] = []
    failure = None
    try:
        _make(table, schema, made, deleted)
    except LakehouseError as error:
        failure = str(error)
    return AutoTags(made=tuple(made), deleted=tuple(deleted), failure=failure)


def _make(table: TableContext, schema: TableSchema, made: list[str], deleted: list[str]) -> None:
    # The schema may be newer than the one that the commit was checked with.
    check_auto_tags(schema.options)
    options = schema.table_options.tags
    names, latest = both(table.tags.names, table.snapshots.latest, at_once=table.store.requests_at_once)
    if latest is None or not _is_due(_time(table, options, latest), due_from_millis(names, options)):
        return
    tags = table.tags.all()
    tagged = {name: tag.snapshot.id for name, tag in tags.items()}
    first_id = max(first_untagged_id(tagged, options), table.snapshots.ids.earliest() or 1)
    snapshots = _between(table, first_id, latest.id)
    plan = plan_auto_tags(tagged, (_time(table, options, snapshot) for snapshot in snapshots), options)
    for name, snapshot_id in plan.made:
        source_key, data = tag_source(table, snapshot_id)
        tag = new_tag_of(table, name, source_key, data, retention_millis=options.retention_millis)
        # Else another commit was faster, or a tag has this name already.
        if tag is not None:
            made.append(name)
            announce(table, options, name)
    if plan.deleted:
        check_understood(table.store.uri(""), schema)
    for name in plan.deleted:
        deletion = tag_deletion(table, name, tags[name].snapshot)
        if options.has_success_file:
            withdraw(table, [deletion])
        begin(table.store, deletion)
        unlink(table, deletion)
        deleted.append(name)
    if plan.deleted:
        check_kept(table)


def _is_due(latest: SnapshotTime, due_millis: int | None) -> bool:
    return latest.local_millis is not None and (due_millis is None or latest.local_millis >= due_millis)


def _between(table: TableContext, first_id: int, last_id: int) -> Iterator[Snapshot]:
    """Yield the snapshots of these ids, but not those that expire meanwhile."""
    for start in range(first_id, last_id + 1, _AT_ONCE):
        end = min(start + _AT_ONCE - 1, last_id)
        look = table.snapshots.looked_up(start, end)
        found = (table.snapshots.found(each, look) for each in range(start, end + 1))
        yield from (snapshot for snapshot in found if snapshot is not None)


def _time(table: TableContext, options: TagOptions, snapshot: Snapshot) -> SnapshotTime:
    """Return the wall clock by which the tag of a snapshot is due."""
    by_watermark = options.creation is TagCreation.WATERMARK
    millis = snapshot.watermark if by_watermark else snapshot.time_millis
    if millis is None or millis == _NO_WATERMARK:
        return SnapshotTime(snapshot.id, None)
    if options.zone is None:
        return SnapshotTime(snapshot.id, table.clock.local_millis(millis))
    zone = zone_of(options.zone)
    assert zone is not None, "it was checked"
    return SnapshotTime(snapshot.id, local_millis(millis, zone))
