"""Clause rows: what a clause of a MERGE makes of the joined rows that fall under it.

Rule: each column has the type of the table; a value that does not fit is refused. Nothing is written here.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import DataField, arrow_type
from lakehouse_core.planning.row_changes.expressions import Default
from lakehouse_core.planning.row_changes.merge_join import ACTION, ADDRESS, MergePlan, PlannedClause
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.change_rows.assigned import assigned_column, not_stored
from lakehouse_core.tasks.change_rows.effects import check_effect
from lakehouse_core.tasks.change_rows.new_values import default_values, with_defaults
from lakehouse_core.tasks.write.input import input_batches

_ADVICE: Final = "Assign a value that fits the column."


@dataclass(frozen=True, slots=True)
class ClauseRows:
    """The rows that a clause inserts, updates or deletes: new ones with all columns of the table, deleted ones with
    those of a key table, or with their ADDRESS in an append table.
    """

    clause: PlannedClause
    rows: pa.Table


def clause_rows(plan: MergePlan, schema: TableSchema, joined: pa.Table) -> list[ClauseRows]:
    """Return the rows of each clause, in their order. Raises InvalidRequest for a value that does not fit a column, and
    for an update that has no effect in this table.
    """
    return [
        ClauseRows(clause, _rows_of(clause, plan, schema, _under(number, joined)))
        for number, clause in enumerate(plan.clauses)
    ]


def _under(number: int, joined: pa.Table) -> pa.Table:
    return joined.filter(pc.fill_null(pc.equal(joined.column(ACTION), number), False))


def _rows_of(clause: PlannedClause, plan: MergePlan, schema: TableSchema, rows: pa.Table) -> pa.Table:
    if clause.action == "delete" and schema.is_append:
        return rows.select([ADDRESS])
    old = {name: rows.column(alias) for name, alias in plan.kept.items()}
    if clause.action == "delete":
        return _fitting(old, schema.fields)
    new = {name: _value(value, schema.field(name), rows, plan) for name, value in clause.values.items()}
    if clause.action == "insert":
        return with_defaults(_fitting(new, schema.fields), new, schema.fields)
    made = with_defaults(_fitting({**old, **new}, schema.fields), new, schema.fields)
    if not schema.is_append and rows.num_rows:
        before = _fitting(old, [field for field in schema.fields if field.name in old])
        check_effect(_one_batch(before), _one_batch(made), list(clause.values), schema)
    return made


def _value(value: "str | Default", field: DataField, rows: pa.Table, plan: MergePlan) -> pa.ChunkedArray:
    if isinstance(value, Default):
        return pa.chunked_array([default_values(field, rows.num_rows)])
    column = rows.column(value)
    if plan.in_sql:
        # Every engine gives NULL another type.
        if column.null_count < len(column) and (why := not_stored(column.type, field)) is not None:
            raise InvalidRequest(f"SQL, {plan.places.get(value, 'the source')}: {why}.")
        column = assigned_column(column, field)
    return column


def assigned_fields(plan: MergePlan, schema: TableSchema) -> dict[str, DataField]:
    """Return the column of the table that each value of the joined rows is assigned to; none outside of SQL."""
    if not plan.in_sql:
        return {}
    values = [one for clause in plan.clauses for one in clause.values.items()]
    return {value: schema.field(name) for name, value in values if isinstance(value, str)}


def _fitting(columns: Mapping[str, pa.ChunkedArray], fields: Sequence[DataField]) -> pa.Table:
    """Return the columns in the types of the table. Raises InvalidRequest for a value that does not fit."""
    given = pa.table([_typed(columns[each.name], each) for each in fields], names=[each.name for each in fields])
    types = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])
    return pa.Table.from_batches(list(input_batches(given, fields, advice=_ADVICE)), schema=types)


def _typed(column: pa.ChunkedArray, field: DataField) -> pa.ChunkedArray:
    """Return the column; one without a value in the type of the table, because every engine gives NULL another type."""
    if column.null_count < len(column):
        return column
    return pa.chunked_array([pa.nulls(len(column), arrow_type(field.type))])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]
