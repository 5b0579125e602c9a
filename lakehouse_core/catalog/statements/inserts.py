"""INSERT: the rows of a query into a table, by the writing verbs of the table.

Rule: columns are matched by position, as in Spark, or by name where the statement says so; OVERWRITE is static.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import pyarrow as pa

from lakehouse_core.api import table_row_changes, table_writes
from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.arguments import CallOptions, Condition, GivenRows, bound_condition
from lakehouse_core.api.reports import CommitReport
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.merged_schema import (
    SchemaChanges,
    altered,
    schema_after,
    schema_changes,
)
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.planned_changes import condition_of
from lakehouse_core.catalog.statements.queries import PlannedQuery, engine_query, plan_query, read_at
from lakehouse_core.catalog.statements.sources import session_of
from lakehouse_core.display import count_text
from lakehouse_core.errors import InvalidRequest, near_hint, shown
from lakehouse_core.execution.row_changes.change_base import SourceRows
from lakehouse_core.format.data_types import AtomicType, DataField, arrow_type, to_internal
from lakehouse_core.interchange.arrow_rows import ArrowRows
from lakehouse_core.planning.partitions import partition_condition
from lakehouse_core.planning.sql.defaults import check_defaults, default_places, with_defaults
from lakehouse_core.planning.sql.expressions import without_case
from lakehouse_core.planning.sql.query import parse_query
from lakehouse_core.planning.sql.statement import Insert, Part
from lakehouse_core.table.predicate import Predicate, scalar
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.change_rows.assigned import assigned_column, assigned_type, has_limit, not_stored
from lakehouse_core.tasks.change_rows.new_values import default_values
from lakehouse_core.tasks.write.arrow_casts import Misfits, lossless_cast

_MODE = "spark.sql.sources.partitionOverwriteMode"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInsert:
    """An INSERT of which no row is read yet. `call` has the values of DEFAULT as parameters. `found`: the query as its
    engine has accepted it. `targets`: the column that each column of the query is written to. `fixed`: the values of
    PARTITION (…). `condition`: that of REPLACE WHERE, if the statement has one; None for all rows. `changes`: of the
    schema, before the rows are written.
    """

    call: StatementCall
    statement: Insert
    table: Table
    query: PlannedQuery
    found: Any
    targets: Sequence[DataField]
    fixed: Mapping[str, Any]
    condition: Condition
    changes: SchemaChanges = None

    @property
    def effect(self) -> str:
        """What becomes of the rows, for people."""
        if self.statement.replaced is not None:
            return f"replace those where {self.statement.replaced.text.strip()}"
        if not self.statement.overwrites:
            return "added"
        if _is_dynamic(self.call):
            return "replace the partitions that they are in"
        return "replace the partition" if self.fixed else "replace all rows"


def planned_insert(call: StatementCall, statement: Insert) -> PlannedInsert:
    """Resolve an INSERT. Raises NotFound, InvalidRequest, UnsupportedFeature with the place of what is wrong."""
    table = call.existing(statement.table)
    fixed = {_column(call, statement, table, name): value for name, value in statement.partition.items()}
    for name in [*statement.partition, *statement.dynamic]:
        if _column(call, statement, table, name) not in table.schema.partition_keys:
            raise call.sql.invalid(
                statement.table.start, f"PARTITION names {name}, which is not a partition column of {table.name}"
            )
    call, statement = _with_defaults(call, statement, table, fixed)
    planned = plan_query(call, statement.query)
    found = engine_query(planned, call)
    given = found.schema
    changes = schema_changes(call, table, given) if statement.by_name else None
    targets = _targets(call, statement, table, given.names, fixed=fixed, schema=schema_after(table.schema, changes))
    _check_types(call, statement, given, targets)
    condition = None if statement.replaced is None else _condition(call, statement, statement.replaced, table)
    return PlannedInsert(
        call=call,
        statement=statement,
        table=table,
        query=planned,
        found=found,
        targets=targets,
        fixed=fixed,
        condition=condition,
        changes=changes,
    )


def insert(call: StatementCall, statement: Insert) -> Answer:
    """Write the rows of the query. Raises the errors of `Table.write` and `Table.overwrite`."""
    found = planned_insert(call, statement)
    columns, end = [target.name for target in found.targets], statement.query.start
    with call.placed(statement.table, columns, until=end), altered(call, found.table, found.changes) as reports:
        return answer_of(call.sql.text, pa.table({}), [_inserted(found), *reports])


def _inserted(found: PlannedInsert) -> CommitReport:
    call, statement, table, planned = found.call, found.statement, found.table, found.query
    full, fixed = table.name, found.fixed
    constants = {table.schema.field(name): value for name, value in fixed.items()}

    def rows(query: Any) -> Any:
        return renamed_rows(call, query, found.targets, constants)

    if statement.replaced is not None:
        return _replaced(call, statement, planned, rows, bound_condition(found.condition))
    if statement.overwrites and _is_dynamic(call):
        given = GivenRows(rows(found.found), read_at=read_at(planned, full))
        return _of_named_partitions(call, full, given)
    if statement.overwrites and read_at(planned, full) is not None:
        # Rows that others add between the read and the commit would be lost.
        return _replaced(call, statement, planned, rows, lambda schema: partition_condition(fixed, schema))
    return _write(statement, table, rows(found.found), fixed)


def _with_defaults(
    call: StatementCall, statement: Insert, table: Table, fixed: Mapping[str, Any]
) -> tuple[StatementCall, Insert]:
    """Return the statement with parameters in the place of DEFAULT, and the call with their values."""
    places = default_places(statement.query)
    if not places:
        return call, statement
    if statement.by_name:
        raise call.sql.invalid(
            min(places), "DEFAULT and BY NAME are both given. Leave out the columns that get their default"
        )
    names = _named_columns(call, statement, table, fixed)

    def value(column: int) -> Any:
        # With too many values the number of columns is wrong, which is told later.
        field = table.schema.field(names[column]) if column < len(names) else None
        return None if field is None else default_values(field, 1)[0].as_py()

    values = {column: value(column) for column in places.values()}
    query, parameters = with_defaults(statement.query, places, values, call.parameters)
    check_defaults(statement.query, places, parse_query(query, parameters).tree)
    return replace(call, parameters=parameters), replace(statement, query=query)


def _named_columns(call: StatementCall, statement: Insert, table: Table, fixed: Mapping[str, Any]) -> list[str]:
    """Return the columns that the values are for, in order."""
    if statement.columns is not None:
        return [_column(call, statement, table, name) for name in statement.columns]
    return [name for name in table.schema.column_names if name not in fixed]


def _condition(call: StatementCall, statement: Insert, replaced: Part, table: Table) -> Condition:
    """Return the condition of REPLACE WHERE, None for all rows."""
    tables = {statement.table.parts[-1]: table.schema.column_names}
    condition = condition_of(call, replaced, tables, table, "INSERT")
    if isinstance(condition, Part):
        raise call.sql.unsupported(
            replaced.start,
            "REPLACE WHERE takes conditions that compare columns with literals, by =, <, IN, IS NULL and the like. "
            "Delete the rows with DELETE, and insert the new ones",
        )
    return condition


def _replaced(
    call: StatementCall,
    statement: Insert,
    planned: PlannedQuery,
    rows: Callable[[Any], Any],
    condition: Callable[[TableSchema], Predicate | None],
) -> CommitReport:
    """Replace the rows that satisfy the condition. A query that reads the table itself is planned anew in each run."""
    name = call.table(statement.table)

    def given(planned: PlannedQuery) -> SourceRows:
        return SourceRows(rows(engine_query(planned, call)), read_at(planned, name))

    plans = chain([planned], (plan_query(call, statement.query) for _ in count()))
    return table_row_changes.overwrite_by(
        call.context(name), condition, lambda: given(next(plans)), CallOptions(), isolation="snapshot"
    )


def renamed_rows(
    call: StatementCall, found: Any, fields: Sequence[DataField], constants: Mapping[DataField, Any]
) -> Any:
    """Return the rows of a query under the names of the fields, with constant columns, as the verbs take them."""
    if session_of(call) is not None:
        from lakehouse_core.execution.engines.spark.sql.stored import named_frame  # noqa: PLC0415

        return named_frame(found.frame, fields, constants)
    return _Renamed(found, fields, constants)


def _is_dynamic(call: StatementCall) -> bool:
    return call.settings.get(_MODE) == "dynamic"


def _of_named_partitions(call: StatementCall, name: str, rows: GivenRows) -> CommitReport:
    """Replace the partitions that the rows name."""
    return table_writes.overwrite(
        call.context(name), rows, CallOptions(), partition=None, dynamic=True, isolation="snapshot"
    )


def _write(statement: Insert, table: Table, data: Any, fixed: Mapping[str, Any]) -> CommitReport:
    if not statement.overwrites:
        return table.write(data)
    return table.overwrite(data, partition=fixed) if fixed else table.overwrite(data, dynamic=False)


def _targets(
    call: StatementCall,
    statement: Insert,
    table: Table,
    given: Sequence[str],
    *,
    fixed: Mapping[str, Any],
    schema: TableSchema,
) -> list[DataField]:
    """Return the column that each column of the query is written to, by the schema that it is written with."""
    names = _named_columns(call, statement, table, fixed)
    if statement.by_name:
        names = [_column(call, statement, table, name, schema.column_names) for name in given]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1 or name in fixed]
    if twice:
        raise call.sql.invalid(statement.table.start, f"column {twice[0]} is given twice. Give each column once")
    if len(names) != len(given):
        raise call.sql.invalid(
            statement.query.start,
            f"the query has {count_text(len(given), 'column')}, the table {len(names)} ({', '.join(names)}). List "
            "the columns that the query has behind the name of the table",
        )
    return [schema.field(name) for name in names]


def _check_types(call: StatementCall, statement: Insert, given: pa.Schema, targets: Sequence[DataField]) -> None:
    """Raise InvalidRequest for a column of the query whose values the table does not take."""
    for source, field in zip(given, targets, strict=True):
        why = not_stored(source.type, field)
        if why is not None:
            raise call.sql.invalid(statement.query.start, why)
        try:
            lossless_cast(assigned_type(source.type, field), field, Misfits(0, "", in_sql=True))
        except InvalidRequest as error:
            raise call.sql.invalid(statement.query.start, str(error).rstrip(".")) from None


def _column(
    call: StatementCall, statement: Insert, table: Table, name: str, columns: Sequence[str] | None = None
) -> str:
    known = table.schema.column_names if columns is None else columns
    if len(found := without_case(name, known)) == 1:
        return found[0]
    hint = near_hint(name, known, f"Columns: {', '.join(known)}.")
    raise call.sql.invalid(statement.table.start, f"{table.name} has no column {shown(name)}. {hint}")


class _Renamed(ArrowRows):
    """Rows as they are stored under other names, with constant columns behind them."""

    def __init__(self, found: Any, fields: Sequence[DataField], constants: Mapping[DataField, Any]) -> None:
        self._found = found
        self._fields = tuple(fields)
        self._constants = [_constant(field, value) for field, value in constants.items()]
        kinds = [assigned_type(source.type, field) for field, source in zip(fields, found.schema, strict=True)]
        columns = [pa.field(field.name, kind) for field, kind in zip(fields, kinds, strict=True)]
        columns += [pa.field(field.name, one.type) for field, one in zip(constants, self._constants, strict=True)]
        self._schema = pa.schema(columns)

    def schema(self) -> pa.Schema:
        return self._schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._found.batches():
            columns = [
                assigned_column(column, field) for column, field in zip(batch.columns, self._fields, strict=True)
            ]
            columns += [pa.repeat(one, batch.num_rows) for one in self._constants]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _constant(field: DataField, value: Any) -> pa.Scalar:
    one = scalar_of(field, value)
    return assigned_column(pa.array([one.as_py()], one.type), field)[0] if has_limit(field.type) else one


def scalar_of(field: DataField, value: Any) -> pa.Scalar:
    """Return a constant of a column. Raises InvalidRequest for a value that the column cannot hold."""
    if value is None or not isinstance(field.type, AtomicType):
        return pa.scalar(None, arrow_type(field.type))
    return scalar(to_internal(value, field.type), field.type)
