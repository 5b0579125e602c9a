"""ALTER TABLE: create the next schema under its id; compute it again when another writer took the id.

A number of buckets for a table whose rows wait for theirs is announced first, in a schema with which no rows come to
wait, and then by a snapshot that changes nothing: every commit after it has seen that schema. Then no row can wait.
Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Final, get_args

from lakehouse_core.errors import CommitConflict, InvalidRequest, LakehouseError, shown
from lakehouse_core.execution.commit.loop import make_snapshot
from lakehouse_core.execution.commit.own_commit import own_commit
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.presence import check_kept
from lakehouse_core.execution.read.waiting import waiting_row_count, waiting_row_count_at
from lakehouse_core.metadata.roots import branch_names
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.announcement import announcing, taken_back
from lakehouse_core.planning.alter.schema_change import SchemaChange
from lakehouse_core.planning.commit.steps import CompactStep
from lakehouse_core.retry import ALTER
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.bucketing import may_wait
from lakehouse_core.table.data_layout import moved_places
from lakehouse_core.table.partition_time import skipped_by_compaction
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.waiting_files import waiting_rows

_LEFT: Final = "The table may have a snapshot that changes nothing, and be altered: alter it again."


def alter(table: TableContext, changes: Sequence[SchemaChange]) -> tuple[TableSchema, TableSchema]:
    """Return the schema before the changes and the schema after them; twice the same one when nothing changes.

    Either all changes are applied or none. Raises InvalidRequest, UnsupportedFeature, CommitConflict when other writers
    took the schema id in every attempt, WriteOutcomeUnknown when the store does not answer or failed after a number of
    buckets was announced.
    """
    if not changes:
        raise InvalidRequest("alter: give at least one change, such as AddColumn('note', 'STRING').")
    for change in changes:
        if not isinstance(change, get_args(SchemaChange)):
            raise InvalidRequest(f"alter: {shown(change)} is not a change, such as AddColumn('note', 'STRING').")
    return alter_by(table, lambda schema: changes)


def alter_by(
    table: TableContext, make: Callable[[TableSchema], Sequence[SchemaChange]]
) -> tuple[TableSchema, TableSchema]:
    """As `alter`, by the changes that `make` returns for the latest schema of each attempt. Without changes it does
    nothing.
    """
    for _ in ALTER.attempts():
        old = table.schemas.latest()
        if not (changes := make(old)):
            return old, old
        has_snapshots = table.snapshots.ids.latest() is not None
        new = apply_changes(old, changes, has_snapshots=has_snapshots, now_millis=table.clock.now_millis())
        if replace(new, id=old.id, version=old.version, time_millis=old.time_millis) == old:
            return old, old
        if moved := moved_places(old, new):
            _check_alone(table, moved[0])
        announced = None
        if may_wait(old.bucketing) and not may_wait(new.bucketing):
            _check_waiting(waiting_row_count(table), old)
            announced = _announced(table, old, new.bucket_setting)
            if announced is None:
                continue
            new = replace(new, id=announced.id + 1)
        with nullcontext() if announced is None else _ending(table):
            if table.schemas.create(new):
                check_kept(table, [table.layout.schema(new.id)], content=table.schemas.known.content(new.id))
                return old, new
        if announced is not None:
            _withdraw(table)
    raise CommitConflict(
        f"{table.store.uri('')}: others altered the table in each of {ALTER.max_attempts} attempts, nothing was "
        "changed. Alter again."
    )


def _check_alone(table: TableContext, option: str) -> None:
    """Raise InvalidRequest if other branches have the same files, which are searched by one value of the option."""
    if table.layout.branch is not None or branch_names(table.store):
        raise InvalidRequest(
            f"Option {option} cannot change in a table with branches, also while one of them has no rows: all branches "
            "have their files in the same folders. Delete the branches first, or create a new table."
        )


def _skipped(schema: TableSchema) -> str:
    """Return what to do about the rows that a compaction leaves where they are, if it may skip a partition."""
    if skipped_by_compaction(schema, local_now_millis=0) is None:
        return ""
    return (
        " A compaction skips expired partitions (compaction.skip-expired-partitions): drop these with "
        "expire_partitions, or unset the option."
    )


def _check_waiting(count: int, schema: TableSchema) -> None:
    """Raise InvalidRequest if rows wait for their buckets: no compaction would move them any more."""
    if count:
        raise InvalidRequest(
            f"Option bucket is {schema.bucket_setting} and {waiting_rows(count)}, where they would stay: compact the "
            f"table first, then set bucket.{_skipped(schema)}"
        )


def _announced(table: TableContext, old: TableSchema, bucket: str) -> TableSchema | None:
    """Return the schema that announces the value of `bucket`, when no row waits and none will while it is the latest;
    None if another schema has its id. Raises InvalidRequest if rows wait.
    """
    announced = announcing(old, bucket, now_millis=table.clock.now_millis())
    if not table.schemas.create(announced):
        return None
    check_kept(table, [table.layout.schema(announced.id)], content=table.schemas.known.content(announced.id))
    with _withdrawn(table):
        look = table.look()
        make_snapshot(
            table,
            CompactStep(staged=own_commit(table, announced.id), messages=(), skips_empty=False),
            table.schemas.latest(look),
            look,
            before_publish=lambda previous: _check_waiting(waiting_row_count_at(table, previous), old),
        )
    return announced


@contextmanager
def _ending(table: TableContext) -> Iterator[None]:
    """The block ends an alteration that was announced. Raises WriteOutcomeUnknown for StorageUnavailable."""
    with begun(_LEFT), _withdrawn(table):
        yield


@contextmanager
def _withdrawn(table: TableContext) -> Iterator[None]:
    """End the announcement if the block raises a LakehouseError."""
    try:
        yield
    except LakehouseError:
        _withdraw(table)
        raise


def _withdraw(table: TableContext) -> None:
    """End the announcement, so that rows may wait further. If that fails, the next commit of such rows tells what to
    do.
    """
    with suppress(LakehouseError):
        schema = taken_back(table.schemas.latest(), now_millis=table.clock.now_millis())
        if schema is not None and table.schemas.create(schema):
            check_kept(table, [table.layout.schema(schema.id)], content=table.schemas.known.content(schema.id))
