"""Fast-forward: bring the newest state of a branch to main, as one new snapshot.

Rule: nothing is removed, and a main that has commits of its own is refused. Order: `forwarding` begins, main is
compared with the branch, the schemas of the branch, the snapshot, the new base of the branch, `forwarding` ends.
Source: docs/semantics/maintenance.md#branches, docs/reliability/deletion.md#branches.
"""

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Final

from lakehouse_core.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    WriteOutcomeUnknown,
    shown,
)
from lakehouse_core.execution.branches.closing import existing_branch
from lakehouse_core.execution.branches.descent import check_continues, removed_before, schemas_to_copy
from lakehouse_core.execution.branches.forwarding import Forwarding, begin_forwarding, end_forwarding
from lakehouse_core.execution.commit.loop import make_snapshot
from lakehouse_core.execution.commit.outcome import Committed
from lakehouse_core.execution.commit.own_commit import own_commit
from lakehouse_core.execution.commit.state import StepReader
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import check_understood
from lakehouse_core.execution.expiry.holding import states_held
from lakehouse_core.execution.presence import check_kept, check_table
from lakehouse_core.planning.commit.checks import check_properties
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.planning.commit.steps import RestoreStep, plan_step
from lakehouse_core.retry import Retry
from lakehouse_core.storage.outcomes import begun, replaced
from lakehouse_core.table.branch_base import identity_of, serialize_base
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import FORWARDED_FROM, RETURNS_FILES, Snapshot

_RACES: Final = Retry()
_AGAIN: Final = "Call fast_forward again, which finds out and completes it, before the branch is deleted or renamed."

_EARLIER_CALL: Final = (
    "An earlier call was interrupted and may go on, so that the branch cannot be renamed or deleted before the table "
    "has another snapshot. Write to the table first."
)
_SCHEMAS_TAKEN: Final = "The table has the schemas of the branch already, and not yet its rows."


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardResult:
    """The snapshot of the branch, and the new one of main with its changes; in a dry run, as they would be.

    `snapshot` is None when nothing was published; `noop_reason` then says why, unless it was a dry run. `schema_id`:
    the latest schema of main afterwards.
    """

    source: Snapshot
    schema_id: int
    snapshot: Snapshot | None = None
    snapshot_id_before: int | None = None
    changes: tuple[FileChanges, ...] = ()
    attempts: int = 0
    noop_reason: str | None = None


class _Overtaken(CommitConflict):
    """Another commit to main came first; what it means for this call is found out anew."""


def fast_forward(
    table: TableContext, name: str, *, properties: Mapping[str, str] | None = None, dry_run: bool = False
) -> ForwardResult:
    """Give main the newest state of the branch `name`, and its schemas, unless main has changed since the branch was
    made, or was last forwarded, from it.

    `properties` go into the snapshot. It has no changelog, as a rollback. Safe to repeat.
    Raises InvalidRequest for a branch, or for a table whose schemas are others; NotFound; CommitConflict if main has
    changed, or another verb works on the branch; CommitOutcomeUnknown and WriteOutcomeUnknown: call again.
    """
    check_properties(properties or {})
    if table.layout.branch is not None:
        raise InvalidRequest(
            f"{table.name}: fast_forward brings a branch to the table itself, and this is a branch. Call it on "
            f"{table.on_branch(None).name}."
        )
    branch = existing_branch(table, name)
    check_understood(table.store.uri(""), table.schemas.latest())
    # Raises NotFound for a branch that a verb has closed.
    branch.snapshots.boundary.first_id()
    if dry_run:
        return _planned(table, branch, properties or {})
    if branch.snapshots.boundary.mark().work is None:
        # What can be refused is refused before anything is written. A mark of an earlier call is ended below.
        _checked(table, branch)
    for attempt in _RACES.attempts():
        with begun(_AGAIN):
            forwarding = begin_forwarding(table, branch)
        try:
            result = _Attempt(table=table, branch=branch, forwarding=forwarding, properties=properties or {}).run()
        except CommitOutcomeUnknown as error:
            raise CommitOutcomeUnknown(f"{error} {_AGAIN}") from error
        except WriteOutcomeUnknown as error:
            raise WriteOutcomeUnknown(f"{error} {_AGAIN}") from error
        except LakehouseError as error:
            # What main had, or the whole branch, may have expired while it was read.
            is_overtaken = isinstance(error, _Overtaken) or (
                isinstance(error, CorruptTable) and _has_moved(table, forwarding)
            )
            has_ended = True
            with suppress(LakehouseError):
                has_ended = end_forwarding(table, branch, forwarding)
            if is_overtaken and not attempt.is_last:
                continue
            if not has_ended and isinstance(error, (CommitConflict, InvalidRequest)):
                raise type(error)(f"{error} {_EARLIER_CALL}") from error
            raise
        # What cannot be ended now is ended by the next call.
        with suppress(LakehouseError):
            end_forwarding(table, branch, forwarding)
        return result
    raise AssertionError("the last attempt returns or raises")


def _has_moved(table: TableContext, forwarding: Forwarding) -> bool:
    with suppress(LakehouseError):
        return (table.snapshots.ids.latest() or 0) > forwarding.base_id
    return False


def _checked(table: TableContext, branch: TableContext) -> tuple[Snapshot, Snapshot | None, Mapping[int, bytes]]:
    """Return the newest snapshots of the branch and of main, and the schemas that main lacks, if the branch continues
    main. Raises as `fast_forward` does.
    """
    source = branch.snapshots.latest()
    if source is None:
        raise InvalidRequest(
            f"{table.name}: branch {shown(branch.layout.branch)} has no snapshot, so there is nothing to forward. "
            "Write to the branch first."
        )
    latest = table.snapshots.latest()
    check_continues(table, branch, latest)
    return source, latest, schemas_to_copy(table, branch)


def _step(
    table: TableContext,
    branch: TableContext,
    source: Snapshot,
    latest: Snapshot | None,
    *,
    schema_id: int,
    properties: Mapping[str, str],
    skips_empty: bool = True,
) -> RestoreStep:
    came_from = f"{source.id} {source.delta_manifest_list} {branch.layout.branch}"
    staged = own_commit(
        table,
        schema_id,
        base=latest,
        properties={**properties, FORWARDED_FROM: came_from},
        watermark=source.watermark,
    )
    return RestoreStep(staged=staged, target=source, skips_empty=skips_empty, verb="fast_forward to")


def _planned(table: TableContext, branch: TableContext, properties: Mapping[str, str]) -> ForwardResult:
    source, latest, schemas = _checked(table, branch)
    schema = branch.schemas.latest() if schemas else table.schemas.latest()
    write_supported(schema)
    step = _step(table, branch, source, latest, schema_id=schema.id, properties=properties)
    changes = _changes(table, step, latest, schema)
    return ForwardResult(
        source=source,
        schema_id=schema.id,
        snapshot_id_before=None if latest is None else latest.id,
        changes=() if changes.is_empty else (changes,),
        noop_reason=_why_nothing(branch, source) if changes.is_empty and not schemas else None,
    )


def _changes(table: TableContext, step: RestoreStep, latest: Snapshot | None, schema: TableSchema) -> FileChanges:
    return plan_step(step, StepReader(table).state(step, latest, schema)).changes


def _why_nothing(branch: TableContext, source: Snapshot) -> str:
    return f"the table has the files of snapshot {source.id} of branch {shown(branch.layout.branch)} already"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One attempt to bring `branch` to `table`, by a mark of its own."""

    table: TableContext
    branch: TableContext
    forwarding: Forwarding
    properties: Mapping[str, str]

    def run(self) -> ForwardResult:
        table = self.table
        source, latest, schemas = _checked(table, self.branch)
        self._check_first(latest)
        for schema_id, data in schemas.items():
            if not table.schemas.copy(schema_id, data):
                raise _Overtaken(
                    f"{table.name}: another call altered it while it was fast-forwarded. No row was forwarded: call "
                    "again."
                )
            # Else a schema of this branch would stay in a table that was created again, and no verb would use that one.
            check_kept(table, [table.layout.schema(schema_id)], content=data)
        # With the schemas something is done, whatever fails after it.
        with begun(_SCHEMAS_TAKEN) if schemas else nullcontext():
            return self._published(source, latest, brings_schemas=bool(schemas))

    def _check_first(self, previous: Snapshot | None) -> None:
        """Raise _Overtaken unless `previous` is the base: a call publishes after its own base alone."""
        if (0 if previous is None else previous.id) != self.forwarding.base_id:
            raise _Overtaken(
                f"{self.table.name}: others committed to it in each of {_RACES.max_attempts} attempts to fast-forward "
                "it. No row was forwarded: call again."
            )

    def _published(self, source: Snapshot, latest: Snapshot | None, *, brings_schemas: bool) -> ForwardResult:
        """Publish the state of `source` after `latest`, and record that the branch continues the new snapshot."""
        table, branch = self.table, self.branch
        look = table.look()
        schema = table.schemas.latest(look)
        write_supported(schema)
        step = _step(
            table,
            branch,
            source,
            latest,
            schema_id=schema.id,
            properties=self.properties,
            # The snapshot shuts an earlier call out, also if it changes nothing.
            skips_empty=self.forwarding.is_alone,
        )
        removed_by = removed_before(table, lambda: _changes(table, step, latest, schema))
        if removed_by:
            properties = {**step.staged.properties, RETURNS_FILES: "true"}
            step = replace(step, staged=replace(step.staged, properties=properties))
        with states_held(table, [id - 1 for id in removed_by]):
            outcome = make_snapshot(table, step, schema, look, before_publish=self._check_first)
        id_before = None if latest is None else latest.id
        if not isinstance(outcome, Committed):
            return ForwardResult(
                source=source,
                schema_id=schema.id,
                snapshot_id_before=id_before,
                attempts=outcome.attempts,
                noop_reason=None if brings_schemas else _why_nothing(branch, source),
            )
        # Without it the snapshots tell what the branch continues, as long as they exist.
        with suppress(LakehouseError):
            key = branch.layout.branch_base
            found = branch.store.read_versioned(key)
            # No two tables have the same content there.
            check_table(table)
            base = serialize_base(identity_of(outcome.snapshot))
            replaced(branch.store, key, base, if_version=None if found is None else found[1])
            check_kept(branch, [key], content=base)
        return ForwardResult(
            source=source,
            schema_id=schema.id,
            snapshot=outcome.snapshot,
            snapshot_id_before=id_before,
            changes=(outcome.plan.changes,),
            attempts=outcome.attempts,
        )
