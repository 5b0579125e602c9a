"""EXPLAIN of statements that write: what would be read and done, as lines. No row is read, and nothing is written."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.inserts import PlannedInsert, planned_insert
from lakehouse_core.catalog.statements.merged_schema import (
    SchemaChanges,
    change_texts,
    schema_after,
    schema_changes,
)
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.planned_changes import Change, EngineChange, planned_change
from lakehouse_core.catalog.statements.prepared import is_in_utc
from lakehouse_core.catalog.statements.queries import (
    PlannedQuery,
    condition_text,
    engine_query,
    plan_query,
    query_lines,
)
from lakehouse_core.catalog.statements.row_changes import table_to_change
from lakehouse_core.catalog.statements.sources import Sources, session_of
from lakehouse_core.catalog.statements.subqueries import asked_first, queries_inside
from lakehouse_core.display import count_text
from lakehouse_core.execution.row_changes.change_base import change_base
from lakehouse_core.format.data_types import DataField, field_from_arrow
from lakehouse_core.planning.row_changes.change_base import ChangeBase
from lakehouse_core.planning.row_changes.merge_plan import plan_merge
from lakehouse_core.planning.row_changes.methods import Method
from lakehouse_core.planning.row_changes.statements import Delete, SourceMerge, Statement, Update
from lakehouse_core.planning.sql.statement import DeleteRows, Explain, Insert, MergeRows, QueryText, Select, UpdateRows
from lakehouse_core.table.predicate import bind
from lakehouse_core.table.schema import TableSchema

_METHODS: Final = {
    Method.RECORDS: "new records of the rows are added",
    Method.MARKS: "the rows are marked as deleted, and new ones are added",
    Method.FILES: "files that hold such rows are written again",
    Method.BUCKETS: "buckets that hold such rows are merged and written again",
    Method.PARTITIONS: "files are removed, and no row is read",
}


def explain(call: StatementCall, statement: Explain) -> Answer:
    """Return what a statement would do. Raises as the statement does for what is wrong in its text."""
    match statement.statement:
        case Select(query):
            planned = plan_query(call, query)
            lines = list(query_lines(planned, engine_query(planned, call)))
        case Insert() as found:
            lines = list(_insert(call, planned_insert(call, found)))
        case found:
            lines = list(_change(call, found))
    return answer_of(call.sql.text, pa.table({"plan": pa.array(lines, pa.string())}))


def _insert(call: StatementCall, planned: PlannedInsert) -> Iterator[str]:
    table = planned.table
    yield f"INSERT into {table.name}: schema {table.schema.id}"
    yield f"  rows: {planned.effect}"
    yield f"  columns: {', '.join(field.name for field in planned.targets)}"
    yield from _schema_lines(table, planned.changes)
    if planned.fixed:
        yield f"  partition: {', '.join(f'{name} = {value}' for name, value in planned.fixed.items())}"
    yield from query_lines(planned.query, planned.found)


def _change(call: StatementCall, statement: DeleteRows | UpdateRows | MergeRows) -> Iterator[str]:
    table = table_to_change(call, statement.table)
    change = planned_change(call, statement, table)
    source: PlannedQuery | None = None
    query: Any = None
    fields: list[DataField] = []
    others: list[str] = []
    if isinstance(change, EngineChange) and change.source is not None:
        source = plan_query(call.inside(change.source), QueryText(change.source, 0, 0))
        query = engine_query(source, call)
        fields = [field_from_arrow(each) for each in query.schema]
        tables = {change.request.target: table.schema.fields, change.request.source: tuple(fields)}
        others = queries_inside(call, tables, change.parts).lines()
    elif isinstance(change, EngineChange):
        sources = queries_inside(call, {change.request.target: table.schema.fields}, change.parts)
        others = [*_asked_lines(call, table, change, sources), *sources.lines()]
    session = session_of(call)
    base = change_base(call.context(table.name), lambda schema: _statement(change, schema, fields, session))
    yield from _base_lines(table.name, base)
    if isinstance(change, EngineChange):
        yield f"  computed by: {'DuckDB' if session is None else 'Spark'}"
        if source is not None and change.request.takes_all:
            yield from _schema_lines(table, schema_changes(call, table, query.schema))
    yield from others
    if source is not None:
        yield from query_lines(source, query)


def _schema_lines(table: Table, changes: SchemaChanges) -> Iterator[str]:
    """Yield how the schema is altered. Raises as the statement does for what cannot be."""
    if changes is not None and (found := changes(schema := table.schema)):
        schema_after(schema, changes)
        yield f"  schema: {', '.join(change_texts(found))}"


def _asked_lines(call: StatementCall, table: Table, change: EngineChange, sources: Sources) -> Iterator[str]:
    """Yield the conditions that come from queries, which are asked first."""
    if change.request.on in change.parts:
        for one in asked_first(call, table, change.request, sources):
            text = " ".join(one.query.sql.text.split())
            yield f"  condition of a query, asked first: {one.column} IN ({text})"


def _statement(change: Change, schema: TableSchema, source: list[DataField], session: Any) -> Statement:
    if isinstance(change, EngineChange):
        plan = plan_merge(change.request, schema, source, in_utc=is_in_utc(session))
        return SourceMerge(condition=plan.condition, operation=change.request.operation)
    condition = None if change.condition is None else bind(change.condition, schema.fields)
    if change.assignments is None:
        return Delete(condition=condition)
    return Update(condition=condition, assignments=change.assignments)


def _base_lines(name: str, base: ChangeBase) -> Iterator[str]:
    snapshot = "no snapshot" if base.snapshot is None else f"snapshot {base.snapshot.id}"
    yield f"{base.statement.operation} of {name}: {snapshot}, schema {base.schema.id}"
    yield f"  method: {base.method}: {_METHODS[base.method]}"
    condition = base.statement.condition
    yield f"  condition: {'none' if condition is None else condition_text(condition)}"
    if base.method is Method.PARTITIONS:
        yield f"  files: {len(base.files)} of {sum(entry.file.file_size for entry in base.files):,} bytes are removed"
        return
    files = sum(len(split.files) for split in base.splits)
    size = sum(split.size_bytes for split in base.splits)
    yield f"  files: {files} of {size:,} bytes in {count_text(len(base.splits), 'split')} may hold such rows"
