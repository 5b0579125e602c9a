"""Scans: find the state or the changes, read manifests, plan splits.

Rule: a plan is pinned to its snapshot. If expiry deleted files meanwhile, the read raises SnapshotExpired and never
leaves rows out.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lakehouse_core.display import line, page
from lakehouse_core.errors import (
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    UnsupportedFeature,
    near_hint,
    shown,
)
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.increments import (
    Increment,
    StateDiff,
    increment_of,
    increment_splits,
    oldest_id,
    range_of,
    schemas_of,
)
from lakehouse_core.execution.read.state import ReadState, expiry_behind, read_at
from lakehouse_core.format.stored import is_int64
from lakehouse_core.metadata.look import Look
from lakehouse_core.options import SCAN_KEYS, ChangelogProducer
from lakehouse_core.planning.read.lazy_splits import LazySplits, totals_of
from lakehouse_core.planning.read.limit import needed_splits
from lakehouse_core.planning.read.options import point_of
from lakehouse_core.planning.read.read_point import (
    Between,
    BetweenTimes,
    IncrementalMode,
    LatestDelta,
    ReadPoint,
    ToAutoTag,
    is_pinned,
)
from lakehouse_core.planning.read.scope import ScanScope, merges_waiting
from lakehouse_core.planning.read.splits import plan_splits
from lakehouse_core.planning.readable import check_all_placed, deletion_files
from lakehouse_core.storage import StoreSpec
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import live_rows
from lakehouse_core.table.predicate import Predicate, columns_of, without_columns
from lakehouse_core.table.schema import TableSchema, read_supported
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.read import ROW_KIND_COLUMN, ReadTask, rows_schema
from lakehouse_core.tasks.runtime import TaskRuntime

R = TypeVar("R")


def no_condition(schema: TableSchema) -> Predicate | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A read request. `point` None: the point that the table's options and `options` together name, else the latest.

    `condition` binds the caller's condition to the schema of the read; `columns` None: all. `limit`: the maximum number
    of rows, arbitrary ones. `read_optimized`: read only the top level of a key table, which needs no merge.
    `with_row_kinds`: add the row kind as the first column, and include deletes. `starts_stream`: leave out the rows
    that later snapshots give as changes, and no others. Raises InvalidRequest for values that fit no table.
    """

    table: str
    point: ReadPoint | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[str] | None = None
    condition: Callable[[TableSchema], Predicate | None] = no_condition
    limit: int | None = None
    read_optimized: bool = False
    with_row_kinds: bool = False
    starts_stream: bool = False

    def __post_init__(self) -> None:
        _check_options(self.table, self.point, self.options)
        _check_columns(self.table, self.columns)
        if self.limit is not None and (not is_int64(self.limit) or self.limit < 0):
            raise InvalidRequest(f"{self.table}: limit={shown(self.limit)}: expected a number of rows, 0 or more.")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScanPlan:
    """The plan of a scan: splits, each read by one task. `snapshot` None: there is nothing to read.

    `store` is rooted at the table; `file_schemas` holds, by id, every schema that files of the splits name.
    `predicate`: the condition that each row must still be tested for; the partitions satisfy it already. Sizes in
    bytes, `row_count` before any merge. `is_increment`: the rows are changes, not a state. `tags` and `oldest_id` name
    what keeps the files: tags with their snapshot ids, or a snapshot. `merges_waiting`: the rows of the state include
    those that wait for their buckets.
    """

    table: str
    store: StoreSpec
    snapshot: Snapshot | None
    schema: TableSchema
    columns: tuple[str, ...]
    predicate: Predicate | None
    splits: Collection[Split]
    file_schemas: Mapping[int, TableSchema] = field(default_factory=dict)
    manifests_total: int = 0
    manifests_read: int = 0
    limit: int | None = None
    with_row_kinds: bool = False
    is_increment: bool = False
    tags: Mapping[str, int] = field(default_factory=dict)
    oldest_id: int = 0
    merges_waiting: bool = False

    def __repr__(self) -> str:
        return line("ScanPlan", self.table, self.facts())

    def _repr_html_(self) -> str:
        return page("ScanPlan", self.table, self.facts())

    def facts(self) -> dict[str, object]:
        """Return the facts of the plan, for display."""
        return {
            "snapshot_id": self.snapshot_id,
            "schema_id": self.schema.id,
            "columns": list(self.columns),
            "predicate": self.predicate,
            "limit": self.limit,
            "splits": "many" if isinstance(self.splits, LazySplits) else len(self.splits),
            "manifests_read": self.manifests_read,
            "manifests_total": self.manifests_total,
        }

    @property
    def snapshot_id(self) -> int | None:
        return None if self.snapshot is None else self.snapshot.id

    @property
    def file_count(self) -> int:
        return totals_of(self.splits).file_count

    @property
    def row_count(self) -> int:
        return totals_of(self.splits).row_count

    @property
    def size_bytes(self) -> int:
        return totals_of(self.splits).size_bytes


def plan_read(table: TableContext, request: ReadRequest, look: Look | None = None) -> ScanPlan:
    """Plan a read. `look`: the look that answers the latest snapshot and schema; None reads now.

    Raises NotFound, SnapshotExpired, InvalidRequest for a request that does not fit the table, UnsupportedFeature,
    CorruptTable.
    """
    look = table.look() if look is None else look
    latest = table.schemas.latest(look)
    point = read_point(latest, request.table, request.point, request.options)
    if isinstance(point, LatestDelta | Between | BetweenTimes | ToAutoTag):
        empty = _empty_plan(table, latest, request)
        return _increment_plan(table, increment_of(table, latest, point), empty)

    def plan(state: ReadState) -> ScanPlan:
        pinned = state.snapshot if is_pinned(point) else None
        schema = latest if pinned is None else table.schemas.schema(pinned.schema_id)
        empty = _empty_plan(table, schema, request)
        # The changes after the state are read by the newest options, whatever schema the state has.
        is_whole = not (request.read_optimized or request.starts_stream)
        empty = replace(empty, merges_waiting=is_whole and merges_waiting(schema, latest, point))
        producer = latest.table_options.changelog_producer if request.starts_stream else None
        return _state_plan(table, state, empty, _state_scope(state, empty, request, producer))

    return read_at(table, point, plan, look)


def plan_range(table: TableContext, request: ReadRequest, after: int, until: int) -> ScanPlan:
    """Plan to read the changes of the snapshots (after, until], from the changelog if the table has a producer.

    The request's point and options do not count. Raises as `plan_read` does.
    """
    schema = table.schemas.latest()
    increment = range_of(table.snapshots, schema, after, until, IncrementalMode.AUTO)
    return _increment_plan(table, increment, _empty_plan(table, schema, request))


def read_point(latest: TableSchema, table: str, point: ReadPoint | None, options: Mapping[str, str]) -> ReadPoint:
    """Return `point`, else the read point that the options of the latest schema and `options` name. Raises
    InvalidRequest if both are given.
    """
    _check_options(table, point, options)
    if point is not None:
        return point
    return point_of({**latest.options, **options})


def _check_options(table: str, point: ReadPoint | None, options: Mapping[str, str]) -> None:
    if point is not None and options:
        raise InvalidRequest(
            f"{table}: at={shown(point)} and options={shown(dict(options))} both name a read point. Give one of them."
        )
    for key in options:
        if key not in SCAN_KEYS:
            hint = near_hint(key, SCAN_KEYS, f"Read options: {', '.join(sorted(SCAN_KEYS))}.", cutoff=0.6)
            raise InvalidRequest(f"{table}: option {key} is not a read option. {hint}")


def _check_columns(table: str, columns: Sequence[str] | None) -> None:
    if columns is None:
        return
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not columns:
        raise InvalidRequest(f"{table}: columns={shown(columns)}: give a list with at least one column name.")
    if not all(isinstance(name, str) for name in columns):
        raise InvalidRequest(f"{table}: columns={shown(columns)}: give a list of column names.")
    if len(set(columns)) < len(columns):
        raise InvalidRequest(f"{table}: columns={shown(list(columns))} names a column twice. Name each once.")


def read_tasks(plan: ScanPlan) -> list[ReadTask]:
    """Return the tasks that read the plan's splits, in their order."""
    return list(tasks_of(plan))


def tasks_of(plan: ScanPlan, here: TaskRuntime | None = None) -> Iterator[ReadTask]:
    """Yield the tasks one at a time: the splits of a large plan are made when they are needed. `here`: the runtime
    of this process, if the tasks run in it.
    """
    for split in plan.splits:
        yield ReadTask(
            store=plan.store,
            schema=plan.schema,
            split=split,
            columns=plan.columns,
            predicate=plan.predicate,
            file_schemas=plan.file_schemas,
            with_row_kinds=plan.with_row_kinds,
            in_threads=here is not None and here.tasks_at_once > 1,
        )


def scan_schema(plan: ScanPlan) -> pa.Schema:
    """Return the Arrow schema of the plan's rows."""
    return rows_schema(plan.schema, plan.columns, with_row_kinds=plan.with_row_kinds)


def explain_missing_files(rows: Iterator[R], table: TableContext, plan: ScanPlan) -> Iterator[R]:
    """Yield `rows` of the plan. Raises SnapshotExpired if a file is missing because its snapshot expired meanwhile."""
    try:
        yield from rows
    except (NotFound, CorruptTable) as error:
        if (expired := expiry_of(plan, table)) is None:
            raise
        raise expired from error


def expiry_of(plan: ScanPlan, table: TableContext) -> LakehouseError | None:
    """Return the error of a plan whose snapshot expired, None if its snapshot is there."""
    return None if plan.snapshot is None else expiry_behind(table, plan.tags, plan.oldest_id)


def _empty_plan(table: TableContext, schema: TableSchema, request: ReadRequest) -> ScanPlan:
    """Return the plan of the request for an empty table. Raises as a plan with files does."""
    predicate = request.condition(schema)
    chosen = _chosen(schema, request.columns, request.table)
    needed = {*chosen, *schema.primary_keys, *(columns_of(predicate) if predicate is not None else ())}
    read_supported(schema, columns=needed, table=request.table)
    if request.with_row_kinds and schema.has_field(ROW_KIND_COLUMN):
        raise UnsupportedFeature(
            f"{request.table}: a column is named {shown(ROW_KIND_COLUMN)}, the name of the row kind column. Rename it."
        )
    return ScanPlan(
        table=request.table,
        store=table.store.spec,
        snapshot=None,
        schema=schema,
        columns=chosen,
        predicate=predicate,
        splits=(),
        limit=request.limit,
        with_row_kinds=request.with_row_kinds,
    )


def _chosen(schema: TableSchema, columns: Sequence[str] | None, table: str) -> tuple[str, ...]:
    for name in () if columns is None else columns:
        if not schema.has_field(name):
            hint = near_hint(name, schema.column_names, f"Columns: {', '.join(schema.column_names)}.")
            raise InvalidRequest(f"{table}: there is no column {shown(name)}. {hint}")
    return schema.column_names if columns is None else tuple(columns)


def _state_scope(
    state: ReadState, empty: ScanPlan, request: ReadRequest, producer: ChangelogProducer | None
) -> ScanScope:
    """Return the scope of a state; `producer` of the changes that follow it in a stream, None for no stream."""
    schema = empty.schema
    is_top_level = request.read_optimized or producer is ChangelogProducer.FULL_COMPACTION
    return ScanScope(
        schema,
        empty.predicate,
        only_level=schema.table_options.num_levels - 1 if is_top_level and not schema.is_append else None,
        created_from_millis=state.created_from_millis,
        every_level=producer in (ChangelogProducer.NONE, ChangelogProducer.INPUT),
        above_level_0=producer is ChangelogProducer.LOOKUP,
        # Without a producer no compaction tells of rows that wait.
        with_waiting=producer is ChangelogProducer.NONE,
        merges_waiting=empty.merges_waiting,
    )


def _state_plan(table: TableContext, state: ReadState, empty: ScanPlan, scope: ScanScope) -> ScanPlan:
    snapshot, schema = state.snapshot, empty.schema
    if snapshot is None:
        return empty
    manifests = table.manifests.of(snapshot)
    is_whole = scope.is_everything
    wanted = manifests if is_whole else [manifest for manifest in manifests if scope.keeps_manifest(manifest)]
    keep = None if is_whole else scope.keeps_entry
    entries = table.manifests.columns(wanted, keep=keep, with_stats=scope.needs_statistics)
    deletions = deletion_files(table.manifests.index_entries(snapshot), DataLayout(schema))
    live = live_rows(entries)
    if empty.merges_waiting and state.created_from_millis is not None:
        check_all_placed(
            entries.buckets[live].tolist(), f"{empty.table}: a read of the files that were created since some time"
        )
    file_schemas = {number: table.schemas.schema(number) for number in np.unique(entries.schema_ids[live]).tolist()}
    splits = plan_splits(entries, live, scope, snapshot_id=snapshot.id, file_schemas=file_schemas, deletions=deletions)
    predicate = without_columns(empty.predicate, schema.partition_keys)
    return replace(
        empty,
        snapshot=snapshot,
        predicate=predicate,
        splits=splits if predicate is not None or empty.limit is None else needed_splits(splits, empty.limit),
        file_schemas=file_schemas,
        manifests_total=len(manifests),
        manifests_read=len(wanted),
        tags=state.tags,
        oldest_id=snapshot.id,
    )


def _increment_plan(table: TableContext, increment: Increment | None, empty: ScanPlan) -> ScanPlan:
    if increment is None:
        return empty
    splits = increment_splits(table, empty.schema, increment, ScanScope(empty.schema, empty.predicate))
    return replace(
        empty,
        snapshot=table.snapshots.latest(),
        predicate=without_columns(empty.predicate, empty.schema.partition_keys),
        splits=tuple(splits),
        file_schemas=schemas_of(splits, table.schemas),
        is_increment=True,
        tags=increment.tags if isinstance(increment, StateDiff) else {},
        oldest_id=oldest_id(increment),
    )
