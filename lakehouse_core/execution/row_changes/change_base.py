"""The base of a row change: the files at one snapshot that its rows may be in.

Level 0 is always read, also where readers of the table leave it out until it is compacted: a change must not take the
values of an older version of a row.
Source: docs/semantics/row-changes.md#base.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lakehouse_core.errors import CommitConflict, CorruptTable, NotFound
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.waiting import waiting_row_count_at
from lakehouse_core.planning.read.read_point import Latest
from lakehouse_core.planning.read.scope import ScanScope, merges_waiting
from lakehouse_core.planning.read.splits import plan_splits
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.planning.row_changes.change_base import ChangeBase, next_numbers, whole_buckets
from lakehouse_core.planning.row_changes.methods import (
    Method,
    check_waiting,
    delete_method,
    merge_method,
    replacement_method,
    update_method,
)
from lakehouse_core.planning.row_changes.statements import Delete, Replacement, SourceMerge, Statement, Update
from lakehouse_core.table.bucketing import are_placed, may_wait
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import live_rows
from lakehouse_core.table.predicate import without_columns
from lakehouse_core.table.schema import TableSchema, read_supported, write_supported
from lakehouse_core.table.snapshot import Snapshot

if TYPE_CHECKING:
    from lakehouse_core.execution.read.relation import Named
    from lakehouse_core.planning.row_changes.merge_clauses import MergeRequest


@dataclass(frozen=True, slots=True)
class ReadAt:
    """The snapshot that rows of a table were read at. None: the table was empty."""

    snapshot_id: int | None


@dataclass(frozen=True, slots=True)
class FixedAt:
    """A snapshot that a statement begins with, although it may not be the latest. None: an empty table."""

    snapshot: Snapshot | None


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows that a caller gives, in a form that an engine takes. `read_at`: the snapshot at which they are read from
    the table that changes; None: they come from elsewhere, or from a state that the caller named. `named`: what the
    queries inside the statement read, which counts for `read_at` as well. `request`: that of the statement, with what
    some of these queries gave. `close`: to be called at the end.
    """

    rows: object
    read_at: ReadAt | None = None
    named: "Named | None" = None
    request: "MergeRequest | None" = None
    close: Callable[[], object] = lambda: None


def fixed_at(table: TableContext, read_at: ReadAt | None, operation: str) -> FixedAt | None:
    """Return the snapshot that a statement begins with if its source was read from the table itself, else None.

    Raises CommitConflict if it expired meanwhile.
    """
    if read_at is None:
        return None
    if read_at.snapshot_id is None:
        return FixedAt(None)
    snapshot = table.snapshots.found(read_at.snapshot_id)
    if snapshot is None:
        raise CommitConflict(
            f"The {operation} read snapshot {read_at.snapshot_id} as its source, which expired meanwhile. Nothing was "
            "applied: run it again, or expire less."
        )
    return FixedAt(snapshot)


def check_all_read(schema: TableSchema, waiting: int) -> None:
    """Raise UnsupportedFeature if so many rows wait for their buckets in what rows read from the table itself replace:
    the read did not have them, and they would be lost.
    """
    check_waiting(Replacement(condition=None), Method.PARTITIONS, waiting, schema)


def check_whole_read(table: TableContext, read_at: ReadAt) -> None:
    """As `check_all_read`, for all files of the snapshot that the rows were read at."""
    schema = table.schemas.latest()
    if read_at.snapshot_id is not None and may_wait(schema.bucketing):
        check_all_read(schema, waiting_row_count_at(table, table.snapshots.found(read_at.snapshot_id)))


def change_base(
    table: TableContext, make: Callable[[TableSchema], Statement], *, fixed: FixedAt | None = None
) -> ChangeBase:
    """Return the base of the statement that `make` binds to the latest schema. `fixed` None: at the latest snapshot.

    Raises InvalidRequest for a statement that does not fit the table, UnsupportedFeature, CorruptTable.
    """
    look = table.look()
    schema = table.schemas.latest(look)
    write_supported(schema, table=table.name)
    read_supported(schema, table=table.name)
    statement = make(schema)
    match statement:
        case Delete():
            method = delete_method(schema, statement)
        case Update(assignments=assignments):
            method = update_method(schema, assignments)
        case SourceMerge():
            method = merge_method(schema)
        case Replacement(condition=condition):
            method = replacement_method(schema, condition)
    empty = ChangeBase(schema=schema, statement=statement, method=method, snapshot=None, writer=table.clock.uuid())
    if fixed is not None:
        return empty if fixed.snapshot is None else _fixed_base(table, empty, fixed.snapshot)
    return table.snapshots.of_latest(lambda latest: empty if latest is None else _base_at(table, empty, latest), look)


def _fixed_base(table: TableContext, empty: ChangeBase, snapshot: Snapshot) -> ChangeBase:
    try:
        return _base_at(table, empty, snapshot)
    except (CorruptTable, NotFound) as error:
        if not table.snapshots.has_expired(snapshot):
            raise
        raise CommitConflict(
            f"The {empty.statement.operation} began with snapshot {snapshot.id}, which expired meanwhile. Nothing was "
            "applied: run it again, or expire less."
        ) from error


def _base_at(table: TableContext, empty: ChangeBase, snapshot: Snapshot) -> ChangeBase:
    schema, method, condition = empty.schema, empty.method, empty.statement.condition
    # Rows that wait for their buckets go with their partition; another statement sees them as reads do, or is refused.
    merges = merges_waiting(schema, schema, Latest()) and method is not Method.PARTITIONS
    scope = ScanScope(schema, condition, every_level=True, with_waiting=True, merges_waiting=merges)
    manifests = [manifest for manifest in table.manifests.of(snapshot) if scope.keeps_manifest(manifest)]
    entries = table.manifests.columns(
        manifests,
        keep=None if scope.is_everything else scope.keeps_entry,
        with_stats=scope.needs_statistics or method.commits_deletes,
    )
    live = live_rows(entries)
    base = replace(empty, snapshot=snapshot, indexes=table.manifests.index_entries(snapshot))
    if method is Method.PARTITIONS:
        indexes = [entry for entry in base.indexes if scope.keeps_entry(entry.partition, entry.bucket, 0)]
        return replace(base, files=tuple(entries.take(live).entries()), indexes=indexes)
    waits = live & ~are_placed(entries.buckets)
    check_waiting(empty.statement, method, int(entries.row_counts[waits].sum()), schema)
    ids = np.unique(entries.schema_ids[live]).tolist()
    file_schemas = {number: table.schemas.schema(number) for number in ids}
    deletions = deletion_files(base.indexes, DataLayout(schema))
    splits = tuple(
        plan_splits(entries, live, scope, snapshot_id=snapshot.id, file_schemas=file_schemas, deletions=deletions)
    )
    places = {(split.partition, split.bucket) for split in splits if not split.waiting}
    if method is Method.BUCKETS:
        splits = whole_buckets(splits, entries, live, deletions)
    return replace(
        base,
        rest=without_columns(condition, schema.partition_keys),
        splits=splits,
        file_schemas=file_schemas,
        next_numbers=next_numbers(entries, live, places),
    )
