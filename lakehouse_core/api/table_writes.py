"""Writing verbs of `Table`: rows and the schema.

Rule: a wrong argument is refused before the verb writes anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lakehouse_core.api import report_building as answers
from lakehouse_core.api.arguments import (
    CallOptions,
    GivenRows,
    checked_missing,
    column_name,
    overwrite_mode,
)
from lakehouse_core.api.records import PendingRecord
from lakehouse_core.api.reports import CommitReport, SchemaReport
from lakehouse_core.api.scan import Scan, is_of_latest, planned_anew
from lakehouse_core.api.table_row_changes import overwrite_by_itself
from lakehouse_core.api.tagging import tagging
from lakehouse_core.api.verb import names_table, reported
from lakehouse_core.errors import CommitConflict, InvalidRequest, NotFound, shown
from lakehouse_core.execution.alter.alter import alter as alter_schema
from lakehouse_core.execution.alter.alter import alter_by as alter_schema_by
from lakehouse_core.execution.branches.former import former_branch
from lakehouse_core.execution.commit.check import refusals
from lakehouse_core.execution.commit.loop import commit as commit_staged
from lakehouse_core.execution.commit.loop import commit_or_discard
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.commit.staged_files import discard, discard_of_dropped
from lakehouse_core.execution.compaction.after_commit import compact_written
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.presence import check_before, check_kept
from lakehouse_core.execution.row_changes.change_base import ReadAt, check_whole_read
from lakehouse_core.execution.write.stage import OpenStage, close_append_stage
from lakehouse_core.execution.write.stage import open_stage as open_staged
from lakehouse_core.execution.write.stage import stage as stage_files
from lakehouse_core.metadata.staged_commits import keep_pending as write_pending
from lakehouse_core.metadata.staged_commits import load_all_pending, load_pending
from lakehouse_core.metadata.staged_commits import remove as remove_kept
from lakehouse_core.planning.alter.schema_change import SchemaChange
from lakehouse_core.planning.commit.checks import check_commit, check_staged_commit, check_staged_commits
from lakehouse_core.planning.commit.read_scope import ReadScope
from lakehouse_core.planning.commit.together import check_replayed, joined
from lakehouse_core.planning.row_changes.statements import Isolation
from lakehouse_core.progress import Watch, log_outcome
from lakehouse_core.retry import Retry
from lakehouse_core.row_files.files import RowFiles
from lakehouse_core.table.bucketing import Fixed, may_wait, places_keys
from lakehouse_core.table.commit_message import (
    BATCH_IDENTIFIER,
    Append,
    CommitMessage,
    StaticOverwrite,
    WriteMode,
)
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.write.input import can_be_read_again

# Each further attempt means that another commit brought one of the keys to another bucket or partition meanwhile, or
# other rows to a partition for whose buckets the rows were staged.
_CLASHES: Final = Retry(10)


@reported
@tagging
def write(table: TableContext, rows: GivenRows, call: CallOptions) -> CommitReport:
    return _write(table, rows, Append(), call, call.watch("write", table.name))


@reported
@tagging
def overwrite(
    table: TableContext,
    rows: GivenRows,
    call: CallOptions,
    *,
    partition: Mapping[str, Any] | None,
    dynamic: bool | None,
    isolation: Isolation,
) -> CommitReport:
    if call.dry_run or isolation != "snapshot":
        name = f"isolation={shown(isolation)}" if not call.dry_run else "dry_run=True"
        raise InvalidRequest(
            f"overwrite({name}): that is for an overwrite by a condition. Give where, or leave it out."
        )
    watch = call.watch("overwrite", table.name)
    mode = overwrite_mode(partition, dynamic, table.schemas.latest())
    if isinstance(mode, StaticOverwrite) and isinstance(rows.data, Scan) and is_of_latest(rows.data, table):
        # Rows that others add between the read and the commit would be lost.
        return overwrite_by_itself(table, rows, partition, call)
    return _write(table, rows, mode, call, watch)


@names_table
def stage(
    table: TableContext,
    rows: GivenRows,
    commit_user: str,
    commit_identifier: int,
    call: CallOptions,
    *,
    mode: WriteMode,
    behind: Sequence[StagedCommit],
) -> StagedCommit:
    watch = call.watch("stage", table.name)
    staged = _stage(table, rows, commit_user, commit_identifier, call, watch=watch, mode=mode, behind=behind)
    files = [file for message in staged.messages for file in message.new_files]
    row_count = sum(file.row_count for file in files)
    log_outcome("stage", table.name, f"{len(files):,} files and {row_count:,} rows staged")
    return staged


@names_table
def open_stage(
    table: TableContext, commit_user: str, commit_identifier: int, mode: WriteMode, call: CallOptions
) -> OpenStage:
    """Begin a write whose files tasks of the caller write. Raises the errors of `stage`."""
    properties = call.checked_properties()
    return open_staged(
        table, commit_user=commit_user, commit_identifier=commit_identifier, mode=mode, properties=properties
    )


@reported
@tagging
def commit_open(
    table: TableContext, opened: OpenStage, messages: Sequence[CommitMessage], call: CallOptions
) -> CommitReport:
    """Commit what the tasks of an opened write to an append table have written, or delete it if it certainly is not
    applied.

    REQUIRES: no other call commits these files. Raises the errors of `commit`.
    """
    watch = call.watch("write", table.name)
    watch.at("committing")
    staged = close_append_stage(table, opened, messages)
    return _committed(table, staged, commit_or_discard(table, staged, named_by="the write"), watch)


@names_table
def discard_open(table: TableContext, schema_id: int, messages: Sequence[CommitMessage]) -> None:
    """Delete what tasks of an opened write have written. REQUIRES: no call has committed these files, or ever will."""
    discard(table.store, table.schemas.schema(schema_id), messages, named_by="the write")


@reported
@tagging
def commit(table: TableContext, staged: StagedCommit, call: CallOptions) -> CommitReport:
    check_staged_commit("commit", staged)
    _check_own(table, staged)
    watch = call.watch("commit", table.name)
    watch.at("committing")
    return _committed(table, staged, commit_staged(table, staged), watch)


@reported
@tagging
def commit_together(
    table: TableContext,
    staged: Sequence[StagedCommit],
    commit_user: str,
    commit_identifier: int,
    call: CallOptions,
) -> CommitReport:
    check_staged_commits("commit_together", staged)
    properties = call.checked_properties()
    joint = joined(staged, commit_user=commit_user, commit_identifier=commit_identifier, properties=properties)
    _check_own(table, joint)
    watch = call.watch("commit", table.name)
    watch.at("committing")
    result = commit_staged(table, joint, parts=tuple(staged))
    if result.replayed:
        check_replayed(joint, result.snapshots)
    return _committed(table, joint, result, watch)


@names_table
def keep_pending(table: TableContext, staged: StagedCommit) -> None:
    check_staged_commit("keep_pending", staged)
    _keep(table, staged)


def _keep(table: TableContext, staged: StagedCommit) -> None:
    try:
        write_pending(table.store, table.layout, staged)
        check_kept(table, [table.layout.staged_commit(staged.commit_user, staged.commit_identifier)])
    except (NotFound, InvalidRequest):
        discard_of_dropped(table, staged)
        raise


@names_table
def pending(table: TableContext, commit_user: str, commit_identifier: int) -> StagedCommit | None:
    check_commit(commit_user, commit_identifier)
    return load_pending(table.store, table.layout, commit_user, commit_identifier)


@names_table
def all_pending(table: TableContext, commit_user: str, *, only_readable: bool) -> list[StagedCommit]:
    check_commit(commit_user, 0)
    return load_all_pending(table.store, table.layout, commit_user, only_readable=only_readable)


@names_table
def why_not_committed(table: TableContext, staged: Sequence[StagedCommit]) -> list[str | None]:
    check_staged_commits("why_not_committed", staged)
    return refusals(table, staged)


@names_table
def forget_pending(table: TableContext, staged: Sequence[StagedCommit | PendingRecord]) -> None:
    for each in staged:
        if not isinstance(each, PendingRecord):
            check_staged_commit("forget_pending", each)
    check_before(table)
    remove_kept(
        table.store,
        [
            each.key
            if isinstance(each, PendingRecord)
            else table.layout.staged_commit(each.commit_user, each.commit_identifier)
            for each in staged
        ],
    )


@reported
def alter(table: TableContext, *changes: SchemaChange) -> SchemaReport:
    # The latest id is read first, because after the schema change nothing may fail.
    latest_id = table.snapshots.ids.latest()
    old, new = alter_schema(table, changes)
    return answers.schema_report(table.name, old, new, latest_id)


@reported
def alter_by(table: TableContext, make: Callable[[TableSchema], Sequence[SchemaChange]]) -> SchemaReport:
    """As `alter`, by the changes that `make` returns for the latest schema. Without changes it does nothing."""
    latest_id = table.snapshots.ids.latest()
    old, new = alter_schema_by(table, make)
    return answers.schema_report(table.name, old, new, latest_id)


def _write(table: TableContext, rows: GivenRows, mode: WriteMode, call: CallOptions, watch: Watch) -> CommitReport:
    for attempt in _CLASHES.attempts():
        if not isinstance(mode, Append) and (own := _read_at(table, rows)) is not None:
            check_whole_read(table, own)
        try:
            staged = _stage(table, rows, table.clock.uuid(), BATCH_IDENTIFIER, call, watch=watch, mode=mode)
            reads = None
            if not isinstance(mode, Append) and (read_at := _read_at(table, rows)) is not None:
                staged, reads = _as_read(table, staged, read_at), _whole_table(table)
            watch.at("committing")
            result = commit_or_discard(table, staged, named_by="the write", reads=reads)
        except CommitConflict:
            if attempt.is_last or not _may_stage_again(table, mode, rows.data):
                raise
            if not isinstance(mode, Append) and isinstance(rows.data, Scan):
                rows = replace(rows, data=planned_anew(rows.data))
            continue
        return _committed(table, staged, result, watch)
    raise AssertionError("the last attempt returns or raises")


def _read_at(table: TableContext, rows: GivenRows) -> ReadAt | None:
    """Return the snapshot at which the rows were read from the table itself, None if they come from elsewhere."""
    if isinstance(rows.data, Scan) and is_of_latest(rows.data, table):
        return ReadAt(rows.data.plan().snapshot_id)
    return rows.read_at


def _whole_table(table: TableContext) -> ReadScope:
    """Return that an overwrite may have been made of any row of the table: each change since then is a conflict."""
    return ReadScope(operation="OVERWRITE", schema=table.schemas.latest(), sees_appends=True, sees_removals=True)


def _as_read(table: TableContext, staged: StagedCommit, read_at: ReadAt) -> StagedCommit:
    """Return the overwrite by rows of the table itself as if it had been staged at the snapshot of these rows."""
    read = read_at.snapshot_id or 0
    if read >= (staged.base_snapshot_id or 0):
        return staged
    snapshot = table.snapshots.found(read) if read else None
    return replace(
        staged,
        base_snapshot_id=None if snapshot is None else snapshot.id,
        base_time_millis=None if snapshot is None else snapshot.time_millis,
    )


def _may_stage_again(table: TableContext, mode: WriteMode, data: object) -> bool:
    """Return whether a write that has a conflict may put its rows elsewhere: where other commits brought their keys
    meanwhile, behind rows that came to wait, or into as many buckets as the partition has by then. An overwrite by rows
    of the table itself may read them again.
    """
    if not isinstance(mode, Append):
        return isinstance(data, Scan) and is_of_latest(data, table)
    schema = table.schemas.known.newest
    if schema is None:
        return False
    is_renumbered = schema.table_options.postponed_buckets.next_bucket is not None
    bucketing = schema.bucketing
    has_places = isinstance(bucketing, Fixed) or places_keys(bucketing) or (may_wait(bucketing) and not is_renumbered)
    return has_places and (isinstance(data, RowFiles | Scan) or can_be_read_again(data))


def _stage(
    table: TableContext,
    rows: GivenRows,
    commit_user: str,
    commit_identifier: int,
    call: CallOptions,
    *,
    watch: Watch,
    mode: WriteMode,
    behind: Sequence[StagedCommit] = (),
) -> StagedCommit:
    check_staged_commits("behind", behind)
    rowkind_column = column_name("rowkind_column", rows.rowkind_column)
    missing = checked_missing(rows.missing)
    data = rows.data
    if isinstance(data, RowFiles):
        data = data.rows(table.schemas.latest().fields, rowkind_column=rowkind_column, missing=missing)
    return stage_files(
        table,
        data,
        commit_user=commit_user,
        commit_identifier=commit_identifier,
        rowkind_column=rowkind_column,
        mode=mode,
        properties=call.checked_properties(),
        behind=behind,
        missing=missing,
        watch=watch,
    )


def _check_own(table: TableContext, staged: StagedCommit) -> None:
    """Raise InvalidRequest for a commit that was staged for another table."""
    if staged.table != table.name and (former := former_branch(table, staged)) is not None:
        raise InvalidRequest(former)
    if staged.table != table.name:
        raise InvalidRequest(f"{table.name}: found a commit staged for {staged.table}. Commit it to that table.")


def _committed(table: TableContext, staged: StagedCommit, result: CommitResult, watch: Watch) -> CommitReport:
    compaction = compact_written(table, staged, replayed=result.replayed, watch=watch)
    return answers.commit_report(staged, result, compaction)
