"""Staging: write rows to files that no snapshot names yet, by the engine of the table or by tasks of the caller.

Rule: a wrong call is refused before a file is written if possible; else its files are deleted.
Source: docs/reliability/commit.md#steps, docs/semantics/writing.md#sequence-numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakehouse_core.errors import CommitConflict, CorruptTable, InvalidRequest, shown
from lakehouse_core.execution.commit.replay import applied_snapshot_ids
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.compaction.placing import with_placed_rows
from lakehouse_core.execution.compaction.precommit import with_joined_changelog, with_packed_files
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.key_places import key_places
from lakehouse_core.planning.append_numbers import numbered
from lakehouse_core.planning.commit.checks import check_bucket_counts, check_partition_times, check_staged
from lakehouse_core.planning.commit.hash_indexes import known_indexes
from lakehouse_core.planning.commit.ledger import ledger_of
from lakehouse_core.planning.commit.overwrites import overwritten
from lakehouse_core.planning.commit.steps import commit_steps
from lakehouse_core.planning.write_base import NOTHING_WRITTEN, WriteBase, write_base
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.storage.outcomes import named_by_nobody
from lakehouse_core.table.bucketing import has_order, may_wait, moves_keys, places_keys
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, Append, CommitMessage, Missing, WriteMode
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.write.keys.bucket_index import KeyIndex
from lakehouse_core.tasks.write.task import WriteTask


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStage:
    """A staged commit whose files are still to be written, by any number of tasks.

    `base`: the snapshot on which it stands. `task` None: the commit is applied already, so there is nothing to write.
    `bucket_counts`: those of the partitions that have files, by serialized partition.
    """

    staged: StagedCommit
    base: Snapshot | None
    task: WriteTask | None
    bucket_counts: Mapping[bytes, int] = field(default_factory=dict)


def stage(
    table: TableContext,
    data: object,
    *,
    commit_user: str,
    commit_identifier: int,
    rowkind_column: str | None,
    mode: WriteMode,
    properties: Mapping[str, str],
    behind: Sequence[StagedCommit] = (),
    missing: Missing = "null",
    watch: Watch = NO_WATCH,
) -> StagedCommit:
    """Write `data` to files and return the staged commit, which has no messages if there are no rows.

    `behind`: staged commits that will be committed before this one, so the new rows get higher sequence numbers than
    theirs. `missing`: whether a column that the data lacks is null or an error. If this user has committed this
    identifier already, nothing is written and `data` is not read: the commit returns its earlier result.
    Raises InvalidRequest for data and partitions that do not fit, UnsupportedFeature, StorageFull, StaleCommit;
    CommitConflict when the files that tell where known keys are expired during the write.
    """
    opened = open_stage(
        table,
        commit_user=commit_user,
        commit_identifier=commit_identifier,
        rowkind_column=rowkind_column,
        mode=mode,
        properties=properties,
        behind=behind,
        missing=missing,
    )
    if opened.task is None:
        return opened.staged
    base = opened.base
    try:
        return _written(table, opened.task, data, opened, watch=watch)
    except CorruptTable as error:
        if base is None or not places_keys(opened.task.schema.bucketing) or not table.snapshots.has_expired(base):
            raise
        raise CommitConflict(
            f"{error} This write needs the file to find known keys, and other commits replaced it meanwhile. Nothing "
            "was applied: stage the data again."
        ) from error


def open_stage(
    table: TableContext,
    *,
    commit_user: str,
    commit_identifier: int,
    rowkind_column: str | None = None,
    mode: WriteMode,
    properties: Mapping[str, str],
    behind: Sequence[StagedCommit] = (),
    missing: Missing = "null",
) -> OpenStage:
    """Return the task that writes rows of this commit; `close_stage` takes what its tasks answer.

    Raises as `stage` does before it writes.
    """
    look = table.look()
    schema = table.schemas.latest(look)
    write_supported(schema, table=table.name)
    # An overwrite replaces all earlier rows; without buckets or keys rows have no order.
    continues_sequence = isinstance(mode, Append) and (has_order(schema.bucketing) or _places_rows(schema))
    # An overwrite gives its keys new buckets.
    knows_buckets = continues_sequence and places_keys(schema.bucketing)

    def read(base: Snapshot | None) -> tuple[Snapshot | None, WriteBase, KeyIndex]:
        places = key_places(table, schema, base, mode, behind) if moves_keys(schema.bucketing) else None
        written = NOTHING_WRITTEN
        if base is not None and continues_sequence:
            written = write_base(table.manifests.columns(table.manifests.of(base)))
        if not knows_buckets:
            return base, written, KeyIndex(places=places)
        live = () if base is None else table.manifests.index_entries(base)
        return base, written, KeyIndex(known_indexes(live, behind, schema), places=places)

    base, written, key_index = table.snapshots.of_latest(read, look)
    staged = StagedCommit(
        table=table.name,
        commit_user=commit_user,
        commit_identifier=commit_identifier,
        mode=mode,
        messages=(),
        schema_id=schema.id,
        base_snapshot_id=None if base is None else base.id,
        base_time_millis=None if base is None else base.time_millis,
        properties=dict(properties),
    )
    check_staged(staged)
    if not isinstance(mode, Append):
        overwritten(staged, schema)
    if _was_committed(table, base, staged):
        # The commit recognises the replay by itself; no snapshot would ever name files written for it.
        return OpenStage(staged=staged, base=base, task=None)
    _check_rowkind_column(table.name, schema, rowkind_column)
    if behind:
        written = written.after(message for one in behind for message in one.messages)
    task = WriteTask(
        store=table.store.spec,
        schema=schema,
        next_sequence_numbers=written.next_numbers,
        rowkind_column=rowkind_column,
        missing=missing,
        # An overwrite has no changelog. Java writes one and never commits it.
        emits_changelog=isinstance(mode, Append),
        key_index=key_index,
        commit_user=commit_user,
    )
    return OpenStage(staged=staged, base=base, task=task, bucket_counts=written.bucket_counts)


def _written(table: TableContext, task: WriteTask, data: object, opened: OpenStage, *, watch: Watch) -> StagedCommit:
    """Return the staged commit with the files that hold the rows of `data`. On an error, delete the files."""
    messages: list[CommitMessage] = []
    try:
        with named_by_nobody():
            for message in table.engine().write(task, data, watch):
                messages.append(message)
    except BaseException:
        discard(table.store, task.schema, messages, named_by="the write")
        raise
    return close_stage(table, opened, messages)


def close_stage(table: TableContext, opened: OpenStage, messages: Sequence[CommitMessage]) -> StagedCommit:
    """Return the staged commit with the messages of its tasks, some of whose files may be packed into fewer.

    On an error, deletes the files. Raises InvalidRequest for partitions that do not fit.
    REQUIRES: the commit has a task, so it was not applied before.
    """
    assert opened.task is not None
    schema = opened.task.schema
    try:
        if _places_rows(schema):
            messages = _placed(table, opened, opened.task, messages)
        staged = replace(opened.staged, messages=tuple(messages))
        check_bucket_counts(table.name, schema, opened.bucket_counts, messages)
        check_partition_times(schema, messages)
        if not isinstance(staged.mode, Append):
            overwritten(staged, schema)
        if schema.table_options.precommit.is_enabled:
            with named_by_nobody():
                messages = list(with_packed_files(table, schema, messages))
                messages = list(with_joined_changelog(table, schema, messages))
        return replace(staged, messages=tuple(messages))
    except BaseException:
        discard(table.store, schema, messages, named_by="the write")
        raise


def _placed(
    table: TableContext, opened: OpenStage, task: WriteTask, messages: Sequence[CommitMessage]
) -> Sequence[CommitMessage]:
    before = WriteBase(next_numbers=task.next_sequence_numbers, bucket_counts=opened.bucket_counts)
    with named_by_nobody():
        return with_placed_rows(
            table,
            task.schema,
            messages,
            before,
            emits_changelog=task.emits_changelog,
            named_by="the write",
            watch=NO_WATCH,
        )


def _places_rows(schema: TableSchema) -> bool:
    """Return whether a write brings rows that would wait for their buckets into them."""
    return may_wait(schema.bucketing) and schema.table_options.postponed_buckets.are_written


def close_append_stage(table: TableContext, opened: OpenStage, messages: Sequence[CommitMessage]) -> StagedCommit:
    """As `close_stage`, for an append table whose tasks may have written one bucket at once. Number their files one
    after the other.
    """
    assert opened.task is not None
    if has_order(opened.task.schema.bucketing):
        messages = numbered(messages, opened.task.next_sequence_numbers)
    return close_stage(table, opened, messages)


def _check_rowkind_column(table: str, schema: TableSchema, rowkind_column: str | None) -> None:
    """Raise InvalidRequest for another column than the one that the table's options name."""
    named = schema.table_options.rowkind_field
    if rowkind_column is not None and named not in (None, rowkind_column):
        raise InvalidRequest(
            f"{table}: rowkind_column is {shown(rowkind_column)}, and the table's option rowkind.field names "
            f"{shown(named)}. Leave rowkind_column out."
        )


def _was_committed(table: TableContext, base: Snapshot | None, staged: StagedCommit) -> bool:
    """Return whether the ledger of `base` shows that the user has committed this identifier.

    False if another engine committed last, which writes no ledger, and for batch commits, each of which has a fresh
    user.
    """
    is_named = staged.commit_identifier != BATCH_IDENTIFIER
    ledger = ledger_of(base, table.layout.snapshot(base.id)) if base is not None and is_named else None
    if ledger is None:
        return False
    first = commit_steps(staged, skips_empty=True)[0]
    return applied_snapshot_ids(table.snapshots, base, ledger, staged, first.kind) is not None
