"""Rollback: bring back the state of an earlier snapshot or tag, as a new snapshot.

Rule: nothing is unlinked, so what came after the state stays readable, and no commit of another writer is lost unseen.
Source: docs/semantics/maintenance.md#rollback, docs/reliability/commit.md#rollback.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, shown
from lakehouse_core.execution.commit.loop import make_snapshot
from lakehouse_core.execution.commit.outcome import AlreadyCommitted, Committed, NothingToCommit
from lakehouse_core.execution.commit.own_commit import own_commit
from lakehouse_core.execution.commit.state import StepReader
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.holding import held_for_rollback
from lakehouse_core.execution.read.state import ReadState, expiry_behind, state_at
from lakehouse_core.planning.commit.checks import check_properties
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.planning.commit.steps import RestoreStep, plan_step
from lakehouse_core.planning.read.read_point import ReadPoint
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import ROLLED_BACK_DELTA, ROLLED_BACK_TO, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult:
    """The snapshot whose state was brought back, and the new one with its changes; in a dry run, as they would be.

    `snapshot` is None when nothing was published; `noop_reason` then says why, unless it was a dry run.
    """

    target: Snapshot
    snapshot: Snapshot | None = None
    snapshot_id_before: int | None = None
    changes: tuple[FileChanges, ...] = ()
    attempts: int = 0
    clock_note: str | None = None
    noop_reason: str | None = None


def roll_back(
    table: TableContext, point: ReadPoint, *, properties: Mapping[str, str] | None = None, dry_run: bool = False
) -> RollbackResult:
    """Publish a snapshot with the files of the state that `point` means, unless the latest snapshot has them.

    `properties` go into the snapshot. It has no changelog: a reader that follows the changes does not see it.
    Raises NotFound, SnapshotExpired, InvalidRequest for the point; the errors of a commit.
    """
    check_properties(properties or {})
    look = table.look()
    schema = table.schemas.latest(look)
    write_supported(schema)
    latest = table.snapshots.latest(look)
    state = state_at(table, point)
    if latest is None or state.snapshot is None:
        raise NotFound(f"{table.store.uri('')}: there is no snapshot to roll back to. Write to the table first.")
    if state.created_from_millis is not None:
        raise InvalidRequest(
            f"{shown(point)}: it leaves out some files of a state. Give a point that names a snapshot."
        )
    target = {ROLLED_BACK_TO: str(state.snapshot.id), ROLLED_BACK_DELTA: state.snapshot.delta_manifest_list}
    staged = own_commit(table, schema.id, base=latest, properties={**(properties or {}), **target})
    step = RestoreStep(staged=staged, target=state.snapshot)
    if dry_run:
        return _planned(table, step, latest, schema)
    key, data = _file_of(table, state, state.snapshot)
    # Else an expiry could delete the files before the snapshot that names them again, and another engine's even later.
    with held_for_rollback(table, state.snapshot, key, data) as tags:
        outcome = make_snapshot(table, step, schema, look, before_publish=tags.keep_returns_until)
    match outcome:
        case Committed(previous=previous, snapshot=snapshot, plan=plan):
            return RollbackResult(
                target=state.snapshot,
                snapshot=snapshot,
                snapshot_id_before=None if previous is None else previous.id,
                changes=(plan.changes,),
                attempts=outcome.attempts,
                clock_note=outcome.clock_note,
            )
        case NothingToCommit(previous=previous):
            tags.release()
            return _nothing(state.snapshot, previous, attempts=outcome.attempts)
        case AlreadyCommitted():
            raise AssertionError("a fresh user has committed nothing before")
        case _:
            assert_never(outcome)


def _planned(table: TableContext, step: RestoreStep, latest: Snapshot, schema: TableSchema) -> RollbackResult:
    plan = plan_step(step, StepReader(table).state(step, latest, schema))
    if plan.changes.is_empty:
        return _nothing(step.target, latest)
    return RollbackResult(target=step.target, snapshot_id_before=latest.id, changes=(plan.changes,))


def _nothing(target: Snapshot, latest: Snapshot | None, *, attempts: int = 0) -> RollbackResult:
    return RollbackResult(
        target=target,
        snapshot_id_before=None if latest is None else latest.id,
        attempts=attempts,
        noop_reason=f"the table has the files of snapshot {target.id} already",
    )


def _file_of(table: TableContext, state: ReadState, snapshot: Snapshot) -> tuple[str, bytes]:
    """Return key and content of the tag that names the state, or of the snapshot's file."""
    key = next(map(table.layout.tag, state.tags), table.layout.snapshot(snapshot.id))
    try:
        return key, table.store.read(key)
    except NotFound as error:
        raise expiry_behind(table, state.tags, snapshot.id) or CorruptTable(str(error)) from error
