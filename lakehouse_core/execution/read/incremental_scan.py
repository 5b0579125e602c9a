"""Incremental scan: read the changes between two snapshots as they were written, or the difference of two states.

Changes as written are not merged across snapshots: a key may occur several times. The long-lived changelog of an
expired snapshot is read in its place.
Source: docs/semantics/reading.md#increments.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakehouse_core.display import line, page
from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, SnapshotExpired, UnsupportedFeature, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.increments import (
    Increment,
    StateDiff,
    diff_of_tags,
    increment_splits,
    range_of,
    schemas_of,
)
from lakehouse_core.execution.read.state import expiry_behind
from lakehouse_core.format.stored import is_int64
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.planning.read.read_point import AtSnapshot, AtTag, IncrementalMode
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.storage.overlap import reading_ahead
from lakehouse_core.table.schema import TableSchema, read_supported
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.read import (
    ROW_KIND_COLUMN,
    ReadTask,
    read_schema,
    read_split,
    split_objects,
    split_rows,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class IncrementalPlan:
    """The files that hold the changes of the snapshots (after, until], in the order of the snapshots.

    `tags`: the tags that keep the files, with their snapshot ids, if the caller named both ends by tags.
    """

    table: str
    after: int
    until: int
    schema: TableSchema
    tasks: tuple[ReadTask, ...]
    arrow_schema: pa.Schema
    tags: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return line("IncrementalPlan", self.table, self._facts())

    def _repr_html_(self) -> str:
        return page("IncrementalPlan", self.table, self._facts())

    def _facts(self) -> dict[str, object]:
        return {"after": self.after, "until": self.until, "splits": len(self.tasks)}

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(task.split for task in self.tasks)

    @property
    def row_count(self) -> int:
        return sum(split.row_count for split in self.splits)


def plan_changes(table: TableContext, after: int, until: int | None) -> IncrementalPlan:
    """Plan to read the changes of the snapshots (after, until]; `until` None is the latest snapshot.

    Raises SnapshotExpired if a part of the range has expired, NotFound if it does not exist yet, InvalidRequest.
    """
    check_range(after, until)
    schema = _schema(table.schemas, table.name)
    last = (table.snapshots.ids.latest() or 0) if until is None else until
    increment = range_of(table.snapshots, schema, after, last, IncrementalMode.AUTO)
    return _plan(table, schema, increment, after=after, until=last)


def plan_diff(table: TableContext, after: int | str, until: int | str) -> IncrementalPlan:
    """Plan to read the difference between the states of two snapshots, or of two tags.

    Raises SnapshotExpired, NotFound, InvalidRequest; UnsupportedFeature for files that cannot be read.
    """
    check_states(after, until)
    schema = _schema(table.schemas, table.name)
    if isinstance(after, str) and isinstance(until, str):
        increment = diff_of_tags(table, after, until)
        low, high = table.tags.tag(after).snapshot.id, table.tags.tag(until).snapshot.id
    else:
        low, high = int(after), int(until)
        increment = None
        if low < high:
            increment = StateDiff(
                before=table.snapshots.snapshot(low) if low else None, after=table.snapshots.snapshot(high)
            )
    return _plan(table, schema, increment, after=low, until=high)


def change_batches(plan: IncrementalPlan, table: TableContext) -> Iterator[pa.RecordBatch]:
    """Yield the changes, snapshot by snapshot. Raises SnapshotExpired if a file was deleted with its snapshot."""
    if not plan.tasks:
        return
    with reading_ahead(table.runtime.open_store(plan.tasks[0].store), split_objects(plan.splits)) as store:
        for task in plan.tasks:
            yield from _explained(split_rows(task, store), task, plan, table)


def task_changes(task: ReadTask, plan: IncrementalPlan, table: TableContext) -> Iterator[pa.RecordBatch]:
    """Yield the changes of one task of the plan. Raises as `change_batches` does."""
    yield from _explained(read_split(task, table.runtime), task, plan, table)


def _explained(
    rows: Iterator[pa.RecordBatch], task: ReadTask, plan: IncrementalPlan, table: TableContext
) -> Iterator[pa.RecordBatch]:
    """Yield `rows` of a task. Raises SnapshotExpired if a file is missing because its snapshot expired meanwhile."""
    try:
        yield from rows
    except (NotFound, CorruptTable) as error:
        if plan.tags and (gone := expiry_behind(table, plan.tags, 0)) is not None:
            raise gone from error
        needed = (task.split.snapshot_id,) if task.split.before is None else (plan.after, plan.until)
        for snapshot_id in () if plan.tags else needed:
            if snapshot_id and not _is_kept(table, snapshot_id):
                raise SnapshotExpired(
                    f"Snapshot {snapshot_id} expired while its changes were read. "
                    f"The earliest is {table.snapshots.ids.earliest()}: read again from there."
                ) from error
        raise


def _schema(schemas: SchemaLog, table: str) -> TableSchema:
    schema = schemas.latest()
    if schema.has_field(ROW_KIND_COLUMN):
        raise UnsupportedFeature(
            f"{table}: a column is named {shown(ROW_KIND_COLUMN)}, the name of the row kind column. Rename it."
        )
    read_supported(schema, table=table)
    return schema


def _plan(
    table: TableContext,
    schema: TableSchema,
    increment: Increment | None,
    *,
    after: int,
    until: int,
) -> IncrementalPlan:
    # Changes are read as soon as they are committed, also if a read of the table shows them after the compaction only.
    scope = ScanScope(schema, None, every_level=True)
    splits = [] if increment is None else increment_splits(table, schema, increment, scope)
    file_schemas = schemas_of(splits, table.schemas)
    empty = Split(snapshot_id=0, partition=b"", bucket=0, total_buckets=0, folder="", files=(), raw=True)
    tasks = [
        ReadTask(
            store=table.store.spec,
            schema=schema,
            split=split,
            columns=schema.column_names,
            file_schemas=file_schemas,
            with_row_kinds=True,
        )
        for split in (empty, *splits)
    ]
    return IncrementalPlan(
        table=table.name,
        after=after,
        until=until,
        schema=schema,
        tasks=tuple(tasks[1:]),
        arrow_schema=read_schema(tasks[0]),
        tags=increment.tags if isinstance(increment, StateDiff) else {},
    )


def check_range(after: int, until: int | None) -> None:
    """Raise InvalidRequest for values that are not a range of snapshots in any table."""
    for name, value in (("after", after), *(() if until is None else (("until", until),))):
        if not is_int64(value) or value < 0:
            raise InvalidRequest(
                f"changes: {name}={shown(value)}: {_written(name, value)}expected a snapshot id, or after=0 for all "
                "changes."
            )
    if until is not None and until < after:
        raise InvalidRequest(f"The range ({after}, {until}] ends before it begins. Swap the two.")


def check_states(after: int | str, until: int | str) -> None:
    """Raise InvalidRequest for values that do not name two states in any table."""
    if isinstance(after, str) and isinstance(until, str):
        return
    if isinstance(after, str) or isinstance(until, str):
        raise InvalidRequest(
            f"diff: after={shown(after)} and until={shown(until)}: give two snapshot ids, or two tags."
        )
    if until is None:
        raise InvalidRequest(f"diff: until={shown(until)}: give two snapshot ids, or two tags.")
    check_range(after, until)


def _written(name: str, value: object) -> str:
    match value:
        case AtSnapshot(snapshot_id):
            return f"write {name}={shown(snapshot_id)}; "
        case AtTag(tag):
            return f"write {name}={shown(tag)} in `diff`, which takes two tags; "
    return ""


def _is_kept(table: TableContext, snapshot_id: int) -> bool:
    try:
        table.snapshots.snapshot(snapshot_id)
    except NotFound:
        return snapshot_id in table.changelogs.ids()
    return True
