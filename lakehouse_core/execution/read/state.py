"""States: find the snapshot that a read point means, and the error for a state that expired meanwhile."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lakehouse_core.errors import CorruptTable, InvalidRequest, LakehouseError, NotFound, SnapshotExpired, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.metadata.snapshot_search import (
    earliest_and_latest,
    newest_snapshot_until,
    snapshot_with_watermark,
)
from lakehouse_core.planning.read.read_point import (
    AsOf,
    AtSnapshot,
    AtTag,
    AtVersion,
    AtWatermark,
    CompactedFull,
    FromCreationTime,
    FromFileCreationTime,
    Latest,
    ReadPoint,
    is_compacted,
    shown_time,
    what_increments,
)
from lakehouse_core.retry import PLAN
from lakehouse_core.table.snapshot import Snapshot

R = TypeVar("R")

_LONGEST_ID_DIGITS: Final = 18
_WATERMARK: Final = re.compile(r"watermark-(-?\d{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """The state that a read point means. `snapshot` None: the table has none.

    `created_from_millis`: only files created at this time or later are read. `tags`: the tags by which the state was
    named, with their snapshot ids; its files stay as long as these tags.
    """

    snapshot: Snapshot | None
    created_from_millis: int | None = None
    tags: Mapping[str, int] = field(default_factory=dict)


def state_at(table: TableContext, point: ReadPoint, look: Look | None = None) -> ReadState:
    """Return the state that `point` means. Its snapshot is None only for points that an empty table has, too.

    `look`: the look that answers the latest snapshot; None reads now.

    Raises NotFound, SnapshotExpired, InvalidRequest for a point that means changes, not a state.
    """
    match point:
        case Latest():
            return ReadState(snapshot=table.snapshots.latest(look))
        case AtSnapshot(snapshot_id):
            return ReadState(snapshot=table.snapshots.snapshot(snapshot_id))
        case AtTag(name):
            snapshot = table.tags.tag(name).snapshot
            return ReadState(snapshot=snapshot, tags={name: snapshot.id})
        case AtVersion():
            return state_at(table, _meant(table, point), look)
        case AsOf():
            return ReadState(snapshot=_as_of(table, point))
        case AtWatermark():
            return ReadState(snapshot=_at_watermark(table, point))
        case CompactedFull():
            return ReadState(
                snapshot=_compacted(table.snapshots, table.schemas.latest().table_options.full_compaction_delta_commits)
            )
        case FromFileCreationTime():
            return ReadState(snapshot=table.snapshots.latest(look), created_from_millis=point.time_millis)
        case FromCreationTime():
            return _from_creation_time(table, point)
        case _:
            raise InvalidRequest(
                f"{what_increments(point)} means changes, not a state. Give a read point of one state, such as "
                "lc.AtSnapshot(12)."
            )


def read_at(table: TableContext, point: ReadPoint, read: Callable[[ReadState], R], look: Look | None = None) -> R:
    """Return the result of `read` for the state that `point` means. `look`: as in `state_at`, for the first attempt.

    If the state expires meanwhile, `read` is called again for the state that the point means then, if that is another.
    Raises SnapshotExpired otherwise, NotFound for a deleted tag, and as `state_at` and `read` do.
    """
    for attempt in PLAN.attempts():
        state, look = state_at(table, point, look), None
        try:
            return read(state)
        except (CorruptTable, NotFound) as error:
            snapshot = state.snapshot
            expired = None if snapshot is None else expiry_behind(table, state.tags, snapshot.id)
            if expired is None:
                raise
            if not _moves_on(point) or attempt.is_last:
                raise expired from error
    raise AssertionError("the loop above returns or raises")


def _moves_on(point: ReadPoint) -> bool:
    """Return whether the point means a newer snapshot after its earlier one has expired."""
    return isinstance(point, Latest | CompactedFull | FromFileCreationTime)


def expiry_behind(table: TableContext, tags: Mapping[str, int], oldest_id: int) -> LakehouseError | None:
    """Return the error for a file that was deleted with its snapshot; None if every snapshot or tag that keeps it
    exists.

    `oldest_id`: the oldest snapshot whose files are read, unless they are read through `tags`.
    """
    for name, snapshot_id in tags.items():
        try:
            held = table.tags.tag(name).snapshot.id
        except NotFound as gone:
            return gone
        if held != snapshot_id:
            return NotFound(f"Tag {shown(name)} was replaced meanwhile. Read again.")
    if tags:
        return None
    try:
        table.snapshots.snapshot(oldest_id)
    except SnapshotExpired as expired:
        return None if oldest_id in table.changelogs.ids() else expired
    return None


def _meant(table: TableContext, point: AtVersion) -> ReadPoint:
    if table.tags.has(point.version):
        return AtTag(point.version)
    if (watermark := _WATERMARK.fullmatch(point.version)) is not None:
        return AtWatermark(int(watermark[1]))
    if point.version.isascii() and point.version.isdigit() and len(point.version) <= _LONGEST_ID_DIGITS:
        return AtSnapshot(int(point.version))
    # Raises NotFound, which names the existing tags.
    return AtTag(point.version)


def _as_of(table: TableContext, point: AsOf) -> Snapshot:
    ids = earliest_and_latest(table.snapshots)
    if ids is None:
        raise NotFound(f"No snapshot at {point.time.isoformat()}: the table has no snapshot yet. Write to it first.")
    found = newest_snapshot_until(table.snapshots, ids, point.time_millis)
    if found is not None:
        return found
    kind = SnapshotExpired if ids[0] > 1 else NotFound
    raise kind(
        f"No snapshot at {point.time.isoformat()} or before: the earliest, {ids[0]}, was committed at "
        f"{shown_time(table.snapshots.snapshot(ids[0]).time_millis)}. Ask for a later time."
    )


def _at_watermark(table: TableContext, point: AtWatermark) -> Snapshot:
    found = snapshot_with_watermark(table.snapshots, point.watermark)
    if found is None:
        raise NotFound(
            f"No snapshot has the watermark {point.watermark} or a later one. Ask for an earlier one, or wait for it."
        )
    return found


def _compacted(snapshots: SnapshotLog, delta_commits: int | None) -> Snapshot | None:
    latest = snapshots.latest()
    if latest is None:
        return None
    return next((one for one in snapshots.newest_first(latest) if is_compacted(one, delta_commits)), latest)


def _from_creation_time(table: TableContext, point: FromCreationTime) -> ReadState:
    ids = earliest_and_latest(table.snapshots)
    before = None if ids is None else newest_snapshot_until(table.snapshots, ids, point.time_millis - 1)
    if ids is not None and before is not None and before.id < ids[1]:
        return ReadState(snapshot=table.snapshots.snapshot(before.id + 1))
    return ReadState(snapshot=table.snapshots.latest(), created_from_millis=point.time_millis)
