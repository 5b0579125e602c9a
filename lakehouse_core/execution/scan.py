"""Scans carried out: the snapshot found, its manifests read, the splits planned, the rows read split by split.

A plan is pinned to its snapshot. What expiry removed meanwhile is told as SnapshotExpired, never as missing rows.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import pyarrow as pa

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, SnapshotExpired
from lakehouse_core.execution.schema_log import SchemaLog
from lakehouse_core.execution.snapshot_log import SnapshotLog
from lakehouse_core.execution.tasks.read import ReadTask, read_split
from lakehouse_core.format.data_types import arrow_type
from lakehouse_core.planning.live_files import BucketFolders
from lakehouse_core.planning.read_point import AsOf, AtSnapshot, AtTag, Latest, ReadPoint, newest_until, shown_time
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.planning.scan import ScanScope, plan_splits
from lakehouse_core.storage import StoreSpec
from lakehouse_core.table.predicate import Predicate, beyond, columns_of
from lakehouse_core.table.schema import TableSchema, read_supported
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.split import Split

R = TypeVar("R")

_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """What a scan reads: splits that a task each can read. `snapshot` None: the table was empty.

    `store` is rooted at the table; `file_schemas` holds, by id, every schema that files of the splits name.
    `predicate`: what rows must still be tested for; partitions are exact already. Sizes in bytes, `row_count` before
    any merge.
    """

    table: str
    store: StoreSpec
    snapshot: Snapshot | None
    schema: TableSchema
    columns: tuple[str, ...]
    predicate: Predicate | None
    splits: Sequence[Split]
    file_schemas: Mapping[int, TableSchema] = field(default_factory=dict)
    manifests_total: int = 0
    manifests_read: int = 0

    @property
    def snapshot_id(self) -> int | None:
        return None if self.snapshot is None else self.snapshot.id

    @property
    def file_count(self) -> int:
        return sum(len(split.files) for split in self.splits)

    @property
    def row_count(self) -> int:
        return sum(split.row_count for split in self.splits)

    @property
    def size_bytes(self) -> int:
        return sum(split.size_bytes for split in self.splits)


def plan_read(
    log: SnapshotLog,
    schemas: SchemaLog,
    point: ReadPoint,
    *,
    table: str,
    columns: Sequence[str] | None,
    condition: Callable[[TableSchema], Predicate | None],
) -> ScanPlan:
    """Plan a scan. `condition` binds the caller's condition to the schema that is read.

    Raises NotFound, SnapshotExpired, InvalidRequest for columns and conditions, UnsupportedFeature, CorruptTable.
    """
    for attempt in range(_ATTEMPTS):
        snapshot = resolve(log, point)
        if snapshot is None or isinstance(point, Latest):
            schema = schemas.latest()
        else:
            schema = schemas.schema(snapshot.schema_id)
        predicate = condition(schema)
        chosen = _chosen(schema, columns, table)
        needed = {*chosen, *schema.primary_keys, *(columns_of(predicate) if predicate is not None else ())}
        read_supported(schema, columns=needed, table=table)
        if snapshot is None:
            return ScanPlan(
                table=table,
                store=log.store.spec,
                snapshot=None,
                schema=schema,
                columns=chosen,
                predicate=predicate,
                splits=(),
            )
        try:
            return _plan(log, schemas, snapshot, schema, predicate, table=table, columns=chosen)
        except CorruptTable as error:
            expired = expiry_behind(log, snapshot, point)
            if expired is None:
                raise
            if not isinstance(point, Latest) or attempt == _ATTEMPTS - 1:
                raise expired from error
    raise AssertionError("the loop above returns or raises")


def read_tasks(plan: ScanPlan) -> list[ReadTask]:
    """Return the tasks that read the plan's splits, in their order."""
    return list(_tasks(plan))


def scan_schema(plan: ScanPlan) -> pa.Schema:
    """Return the Arrow schema of the rows that the plan gives."""
    return pa.schema([pa.field(name, arrow_type(plan.schema.field(name).type)) for name in plan.columns])


def scan_batches(plan: ScanPlan, log: SnapshotLog, point: ReadPoint) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the plan, split by split, in this process; no batch is empty.

    Raises SnapshotExpired or NotFound when what was planned is gone, CorruptTable when a file is not what it should be.
    """
    for task in _tasks(plan):
        yield from guarded(read_split(task), log, plan, point)


def count_rows(plan: ScanPlan, log: SnapshotLog, point: ReadPoint) -> int:
    """Return the number of rows. Splits of which the metadata tells it are not opened, unless a condition is left."""
    total = 0
    for task in _tasks(replace(plan, columns=())):
        known = task.split.exact_row_count if plan.predicate is None else None
        if known is not None:
            total += known
        else:
            total += sum(batch.num_rows for batch in guarded(read_split(task), log, plan, point))
    return total


def schemas_of(splits: Iterable[Split], schemas: SchemaLog) -> dict[int, TableSchema]:
    """Return every schema that files of the splits name, by id. Raises NotFound."""
    ids = {file.schema_id for split in splits for file in split.files}
    return {schema_id: schemas.schema(schema_id) for schema_id in sorted(ids)}


def resolve(log: SnapshotLog, point: ReadPoint) -> Snapshot | None:
    """Return the snapshot that `point` means; None only for Latest on an empty table."""
    match point:
        case Latest():
            return log.latest()
        case AtSnapshot(snapshot_id):
            return log.snapshot(snapshot_id)
        case AtTag(name):
            return log.tag(name).snapshot
        case AsOf():
            return _as_of(log, point)
        case _:
            # Types alone do not keep a plain number out, and no row would be the answer.
            raise InvalidRequest(f"at={point!r}: expected Latest(), AtSnapshot(id), AtTag(name) or AsOf(time).")


def expiry_behind(log: SnapshotLog, snapshot: Snapshot, point: ReadPoint) -> SnapshotExpired | NotFound | None:
    """Return what to tell when a file of `snapshot` is gone because the snapshot is; None when it is still there."""
    if isinstance(point, AtTag):
        try:
            held = log.tag(point.name).snapshot.id
        except NotFound as gone:
            return gone
        return None if held == snapshot.id else NotFound(f"Tag {point.name!r} was replaced meanwhile. Read again.")
    try:
        log.snapshot(snapshot.id)
    except SnapshotExpired as expired:
        return expired
    return None


def guarded(rows: Iterator[R], log: SnapshotLog, plan: ScanPlan, point: ReadPoint) -> Iterator[R]:
    """Yield `rows`; a missing file of a snapshot that has expired meanwhile is told as such."""
    try:
        yield from rows
    except (NotFound, CorruptTable) as error:
        expired = None if plan.snapshot is None else expiry_behind(log, plan.snapshot, point)
        if expired is None:
            raise
        raise expired from error


def _tasks(plan: ScanPlan) -> Iterator[ReadTask]:
    """One at a time: the splits of a large plan are made as they are asked for."""
    for split in plan.splits:
        yield ReadTask(
            store=plan.store,
            schema=plan.schema,
            split=split,
            columns=plan.columns,
            predicate=plan.predicate,
            file_schemas=plan.file_schemas,
        )


def _as_of(log: SnapshotLog, point: AsOf) -> Snapshot:
    earliest, latest = log.earliest_id(), log.latest_id()
    if earliest is None or latest is None:
        raise NotFound(f"No snapshot at {point.time.isoformat()}: the table has no snapshot yet. Write to it first.")
    known: dict[int, Snapshot] = {}

    def time_of(snapshot_id: int) -> int:
        known[snapshot_id] = log.snapshot(snapshot_id)
        return known[snapshot_id].time_millis

    found = newest_until(earliest, latest, point.time_millis, time_of=time_of)
    if found is not None:
        return known.get(found) or log.snapshot(found)
    kind = SnapshotExpired if earliest > 1 else NotFound
    raise kind(
        f"No snapshot at {point.time.isoformat()} or before: the earliest, {earliest}, was committed at "
        f"{shown_time(time_of(earliest))}. Ask for a later time."
    )


def _chosen(schema: TableSchema, columns: Sequence[str] | None, table: str) -> tuple[str, ...]:
    if columns is None:
        return schema.column_names
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise InvalidRequest(f"{table}: columns={columns!r}: give a list with at least one column name.")
    for name in columns:
        if not schema.has_field(name):
            near = difflib.get_close_matches(str(name), schema.column_names, n=3, cutoff=0.5)
            hint = (
                f"Did you mean {' or '.join(map(repr, near))}?"
                if near
                else f"Columns: {', '.join(schema.column_names)}."
            )
            raise InvalidRequest(f"{table}: there is no column {name!r}. {hint}")
    if len(set(columns)) < len(columns):
        raise InvalidRequest(f"{table}: columns={list(columns)!r} names a column twice. Name each once.")
    return tuple(columns)


def _plan(
    log: SnapshotLog,
    schemas: SchemaLog,
    snapshot: Snapshot,
    schema: TableSchema,
    predicate: Predicate | None,
    *,
    table: str,
    columns: tuple[str, ...],
) -> ScanPlan:
    scope = ScanScope(schema, predicate)
    manifests = log.manifests_of(snapshot)
    wanted = [manifest for manifest in manifests if scope.keeps_manifest(manifest)]
    keep = None if scope.is_everything else scope.keeps_entry
    entries = log.entry_columns(wanted, keep=keep, with_stats=scope.needs_statistics)
    deletions = deletion_files(log.index_entries(snapshot), BucketFolders(schema))
    planned = plan_splits(entries, scope, snapshot_id=snapshot.id, file_schema=schemas.schema, deletions=deletions)
    return ScanPlan(
        table=table,
        store=log.store.spec,
        snapshot=snapshot,
        schema=schema,
        columns=columns,
        predicate=beyond(predicate, schema.partition_keys),
        splits=planned.splits,
        file_schemas={number: schemas.schema(number) for number in planned.schema_ids},
        manifests_total=len(manifests),
        manifests_read=len(wanted),
    )
