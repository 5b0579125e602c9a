"""DELETE, UPDATE, MERGE, TRUNCATE and DROP PARTITION: by the verbs of the table.

Rule: what is wrong in the text of a statement is refused before a row is read.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from typing import Any, assert_never

import pyarrow as pa

from lakehouse_core.api import table_row_changes
from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.arguments import CallOptions
from lakehouse_core.api.reports import Report, RowChangeReport
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.names import is_system_name
from lakehouse_core.catalog.statements.merged_schema import (
    SchemaChanges,
    altered,
    schema_after,
    schema_changes,
)
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.planned_changes import (
    ONE_ROW,
    Change,
    EngineChange,
    VerbChange,
    planned_change,
)
from lakehouse_core.catalog.statements.prepared import is_in_utc
from lakehouse_core.catalog.statements.queries import (
    engine_query,
    plan_query,
    read_at,
    rows_at_once,
)
from lakehouse_core.catalog.statements.sources import Sources, session_of, source_fields
from lakehouse_core.catalog.statements.subqueries import queries_inside, with_queries
from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.execution.row_changes.change_base import SourceRows
from lakehouse_core.planning.row_changes.merge_plan import plan_merge
from lakehouse_core.planning.sql.expressions import check_column
from lakehouse_core.planning.sql.statement import (
    DeleteRows,
    DropPartitions,
    MergeRows,
    QueryText,
    Truncate,
    UpdateRows,
)
from lakehouse_core.planning.sql.tokens import Name, SqlText


def change_rows(
    call: StatementCall, statement: DeleteRows | UpdateRows | MergeRows | Truncate | DropPartitions
) -> Answer:
    """Carry out the statement. Raises the errors of the table's verbs."""
    table = table_to_change(call, statement.table)
    match statement:
        case DeleteRows() | UpdateRows() | MergeRows():
            with _placed(call, statement):
                reports = _changed(call, planned_change(call, statement, table), table)
            return answer_of(call.sql.text, pa.table({}), reports)
        case Truncate(partition=partition):
            values = _partition(call, statement.table, table, partition) if partition else None
            report = table.truncate() if values is None else table.drop_partitions(values)
        case DropPartitions():
            report = _dropped(call, statement, table)
        case _:
            assert_never(statement)
    return answer_of(call.sql.text, pa.table({}), [report])


@contextmanager
def _placed(call: StatementCall, statement: DeleteRows | UpdateRows | MergeRows) -> Iterator[None]:
    """Give an error about a new value the place of its column in the statement, and others that of the table."""
    try:
        yield
    except (InvalidRequest, UnsupportedFeature) as error:
        meant = [column for column in _assigned(statement) if f"olumn '{column.parts[-1]}'" in str(error)]
        with call.placed(meant[0] if len(meant) == 1 else statement.table):
            raise


def _assigned(statement: DeleteRows | UpdateRows | MergeRows) -> Iterator[Name]:
    match statement:
        case UpdateRows(assignments=assignments):
            yield from (one.column for one in assignments)
        case MergeRows(branches=branches):
            yield from (one.column for branch in branches for one in branch.assignments or ())


def _changed(call: StatementCall, change: Change, table: Table) -> list[Report]:
    match change:
        case VerbChange(condition, assignments):
            return [table.delete(condition) if assignments is None else table.update(assignments, condition)]
        case EngineChange(request=request, source=None, parts=parts):
            read: Callable[[], SourceRows] = partial(with_queries, call, table, request, parts, [{ONE_ROW: 1}])
        case EngineChange(source=source):
            assert source is not None
            read = partial(_source, call, change, source, table)
    # Read before the verb runs, which would name the table that changes in an error about the source.
    first = read()
    sources = chain([first], (read() for _ in count()))
    changes = _merge_changes(call, change, table, first.rows)
    with altered(call, table, changes) as reports:
        report = table_row_changes.merge(
            call.context(table.name), lambda: next(sources), change.request, CallOptions(), isolation="snapshot"
        )
    return [report, *reports]


def _merge_changes(call: StatementCall, change: EngineChange, table: Table, rows: Any) -> SchemaChanges:
    """Return what the rows of the source change in the schema of the table. A MERGE that is wrong changes nothing."""
    changes = schema_changes(call, table, rows) if change.request.takes_all else None
    if changes is not None and changes(schema := table.schema):
        in_utc = is_in_utc(session_of(call))
        plan_merge(change.request, schema_after(schema, changes), source_fields(rows), in_utc=in_utc)
    return changes


def _source(call: StatementCall, change: EngineChange, source: SqlText, table: Table) -> SourceRows:
    """Return the rows of USING, with what the queries inside the values read. If these are rows of the table itself,
    the MERGE changes the same snapshot.
    """
    sources, request = Sources(), change.request
    query = plan_query(call.inside(source), QueryText(source, 0, 0), sources)
    if query.session is None:
        rows: Any = rows_at_once(query)
    else:
        rows = engine_query(query, call).frame
    read = read_at(query, table.name)
    if not change.parts:
        return SourceRows(rows, read)
    tables = {request.target: table.schema.fields, request.source: source_fields(rows)}
    queries_inside(call, tables, change.parts, sources)
    return SourceRows(rows, read or sources.read_at(table.name), lambda reference: sources.of(call, reference))


def _dropped(call: StatementCall, statement: DropPartitions, table: Table) -> RowChangeReport:
    """Drop partitions. Without IF EXISTS, one that has no rows is an error, as in Spark."""
    partitions = [_partition(call, statement.table, table, one) for one in statement.partitions]
    if not statement.missing_ok:
        for one in partitions:
            if table.drop_partitions(one, dry_run=True).noop_reason is not None:
                named = ", ".join(f"{name} = {value}" for name, value in one.items())
                raise call.sql.invalid(
                    statement.table.start,
                    f"{table.name} has no partition {named}. Write DROP IF EXISTS PARTITION to accept that",
                )
    return table.drop_partitions(partitions)


def table_to_change(call: StatementCall, name: Name) -> Table:
    """Return the table whose rows a statement changes. Raises NotFound with the place of its name, InvalidRequest."""
    with call.placed(name):
        full = call.table(name)
        if is_system_name(full):
            raise call.sql.invalid(name.start, f"{name} is a system table, whose rows cannot be changed")
        return call.catalog.table(full)


def _partition(call: StatementCall, name: Name, table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    keys = table.schema.partition_keys
    if not keys:
        raise call.sql.invalid(name.start, f"{table.name} has no partitions. Delete rows with DELETE or TRUNCATE")
    return {check_column(call.sql, name.start, column, keys): value for column, value in given.items()}
