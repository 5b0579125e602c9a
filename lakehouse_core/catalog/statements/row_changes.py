"""DELETE, UPDATE, MERGE, TRUNCATE and DROP PARTITION: by the verbs of the table.

Rule: a condition is carried out by the verb if the verb gives it the meaning that it has in Spark's SQL.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, count
from typing import Any, Final, assert_never

import pyarrow as pa
from sqlglot import exp

from lakehouse_core.api import table_row_changes
from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.arguments import CallOptions
from lakehouse_core.api.reports import RowChangeReport
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.names import is_system_name
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.prepared import is_in_utc
from lakehouse_core.catalog.statements.queries import (
    engine_query,
    plan_query,
    read_at,
    rows_at_once,
)
from lakehouse_core.catalog.statements.sources import session_of
from lakehouse_core.catalog.statements.subqueries import check_scalar, has_query, with_queries
from lakehouse_core.errors import InvalidRequest, LakehouseError
from lakehouse_core.execution.row_changes.change_base import SourceRows
from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.row_changes.expression_text import expression_of
from lakehouse_core.planning.row_changes.expressions import Default, Expression, Literal
from lakehouse_core.planning.row_changes.merge_clauses import (
    Clause,
    MergeRequest,
    WhenMatched,
    WhenNotMatched,
    WhenNotMatchedBySource,
)
from lakehouse_core.planning.row_changes.methods import update_method
from lakehouse_core.planning.sql.conditions import translated_condition
from lakehouse_core.planning.sql.expressions import PartText, check_column, parse_part
from lakehouse_core.planning.sql.statement import (
    Assignment,
    DeleteRows,
    DropPartitions,
    MergeBranch,
    MergeRows,
    Part,
    QueryText,
    Truncate,
    UpdateRows,
)
from lakehouse_core.planning.sql.tokens import Name, SqlText
from lakehouse_core.table.predicate import And, IsNull, Not, Predicate
from lakehouse_core.tasks.change_rows.assigned import has_limit, is_floating

# The source of a merge that stands for a DELETE or UPDATE, and its column. No table has such a name.
_ONE_ROW: Final = "lakehouse row"


def change_rows(
    call: StatementCall, statement: DeleteRows | UpdateRows | MergeRows | Truncate | DropPartitions
) -> Answer:
    """Carry out the statement. Raises the errors of the table's verbs."""
    table = _table(call, statement.table)
    match statement:
        case DeleteRows():
            report = _deleted(call, statement, table)
        case UpdateRows():
            report = _updated(call, statement, table)
        case MergeRows():
            report = _merged(call, statement, table)
        case Truncate(partition=partition):
            values = _partition(call, statement.table, table, partition) if partition else None
            report = table.truncate() if values is None else table.drop_partitions(values)
        case DropPartitions():
            report = _dropped(call, statement, table)
        case _:
            assert_never(statement)
    return answer_of(call.sql.text, pa.table({}), [report])


def _deleted(call: StatementCall, statement: DeleteRows, table: Table) -> RowChangeReport:
    condition = _condition(call, statement, table, "DELETE")
    if isinstance(condition, Part):
        return _by_engine(call, statement, table, WhenMatched(delete=True), [condition])
    return table.delete(condition)


def _updated(call: StatementCall, statement: UpdateRows, table: Table) -> RowChangeReport:
    condition = _condition(call, statement, table, "UPDATE")
    texts: dict[str, Part] = {}
    for one in statement.assignments:
        column = _assigned(call, statement.alias or statement.table.parts[-1], one, table)
        if column in texts:
            raise call.sql.invalid(one.column.start, f"column {column} is given twice. Give it once")
        texts[column] = one.value
    values = {
        column: part if _is_stored_otherwise(value, table.schema.field(column)) else value
        for column, part in texts.items()
        for value in [_value(call, statement, part, table)]
    }
    known = {column: value for column, value in values.items() if not isinstance(value, Part)}
    if isinstance(condition, Part) or len(known) < len(values):
        update_method(table.schema, values)
        parts = [one for one in (condition, *values.values()) if isinstance(one, Part)]
        return _by_engine(call, statement, table, WhenMatched(update=texts), parts)
    return table.update(known, condition)


def _by_engine(
    call: StatementCall,
    statement: DeleteRows | UpdateRows,
    table: Table,
    clause: Clause,
    parts: Sequence[Part],
) -> RowChangeReport:
    """Carry out a statement whose expressions Spark or DuckDB computes: a merge without a source, under whose clause
    all rows fall that satisfy the condition. `parts`: those that only an engine can compute.
    """
    name = statement.alias or statement.table.parts[-1]
    request = MergeRequest(
        on=statement.condition or Part(SqlText("TRUE"), 0, 4),
        clauses=(clause,),
        target=name,
        source=_ONE_ROW,
        parameters=call.parameters,
        in_sql=True,
        operation="DELETE" if isinstance(statement, DeleteRows) else "UPDATE",
    )
    read = partial(with_queries, call, table, name, parts, [{_ONE_ROW: 1}])
    return table_row_changes.merge(
        call.context(table.name), _after_first(read), request, CallOptions(), isolation="snapshot"
    )


def _merged(call: StatementCall, statement: MergeRows, table: Table) -> RowChangeReport:
    source = statement.source
    if isinstance(source, Name):
        text = PartText(Part(call.sql, source.start, source.end + 1), "SELECT * FROM ")
        named = source.parts[-1]
    else:
        text, named = PartText(source, ""), ""
    request = MergeRequest(
        on=statement.on,
        clauses=tuple(_clause(call, statement, one, table) for one in statement.branches),
        target=statement.alias or statement.table.parts[-1],
        source=statement.source_alias or named,
        parameters=call.parameters,
        in_sql=True,
    )
    read = _after_first(partial(_source, call.inside(text), table))
    return table_row_changes.merge(call.context(table.name), read, request, CallOptions(), isolation="snapshot")


def _after_first(read: Callable[[], SourceRows]) -> Callable[[], SourceRows]:
    """Read once, and return what gives these rows first, then those that are read anew: what is wrong in the text of a
    source is not an error about the table that changes.
    """
    sources = chain([read()], (read() for _ in count()))
    return lambda: next(sources)


def _source(call: StatementCall, table: Table) -> SourceRows:
    """Return the rows of USING. If they are rows of the table itself, the MERGE changes the same snapshot."""
    query = plan_query(call, QueryText(call.sql, 0, 0))
    if query.session is None:
        rows: Any = rows_at_once(query)
    else:
        rows = engine_query(query, call).frame
    return SourceRows(rows, read_at(query, table.name))


def _clause(call: StatementCall, statement: MergeRows, branch: MergeBranch, table: Table) -> Clause:
    values: Any = "*" if branch.assignments is None else {}
    name = statement.alias or statement.table.parts[-1]
    for one in branch.assignments or ():
        column = _assigned(call, name, one, table)
        if column in values:
            raise call.sql.invalid(one.column.start, f"column {column} is given twice. Give it once")
        values[column] = one.value
    match branch:
        case MergeBranch(rows="new", condition=condition):
            return WhenNotMatched(insert=values, where=condition)
        case MergeBranch(rows="rest", action="delete", condition=condition):
            return WhenNotMatchedBySource(delete=True, where=condition)
        case MergeBranch(rows="rest", condition=condition):
            return WhenNotMatchedBySource(update=values, where=condition)
        case MergeBranch(action="delete", condition=condition):
            return WhenMatched(delete=True, where=condition)
    return WhenMatched(update=values, where=branch.condition)


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


def _table(call: StatementCall, name: Name) -> Table:
    try:
        full = call.table(name)
        if is_system_name(full):
            raise call.sql.invalid(name.start, f"{name} is a system table, whose rows cannot be changed")
        return call.catalog.table(full)
    except LakehouseError as error:
        raise call.at(name, error) from None


def _partition(call: StatementCall, name: Name, table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    keys = table.schema.partition_keys
    if not keys:
        raise call.sql.invalid(name.start, f"{table.name} has no partitions. Delete rows with DELETE or TRUNCATE")
    return {check_column(call.sql, name.start, column, keys): value for column, value in given.items()}


def _tables(statement: DeleteRows | UpdateRows, table: Table) -> dict[str, tuple[str, ...]]:
    return {statement.alias or statement.table.parts[-1]: table.schema.column_names}


def _condition(
    call: StatementCall, statement: DeleteRows | UpdateRows, table: Table, word: str
) -> Predicate | Part | None:
    """Return the condition, None for all rows, its text if only an engine can test it."""
    part = statement.condition
    return None if part is None else condition_of(call, part, _tables(statement, table), table, word)


def condition_of(
    call: StatementCall, part: Part, tables: Mapping[str, tuple[str, ...]], table: Table, word: str
) -> Predicate | Part | None:
    """Return the condition, None if it is TRUE, its text if only an engine can test it. `tables`: by name, their
    columns; `word`: the statement.
    """
    tree = parse_part(part, tables, call.parameters, statement=word, queries=word != "INSERT")
    while isinstance(tree, exp.Paren):
        tree = tree.this
    match tree:
        case exp.Boolean(this=True):
            return None
        case exp.Boolean() | exp.Null():
            return _never(table)
    found = translated_condition(tree, table.schema.fields, in_utc=is_in_utc(session_of(call)))
    return part if found is None else found


def _never(table: Table) -> Predicate:
    """Return a condition that no row satisfies."""
    is_null = IsNull(table.schema.column_names[0])
    return And((is_null, Not(is_null)))


def _assigned(call: StatementCall, name: str, one: Assignment, table: Table) -> str:
    parts = one.column.parts
    if len(parts) > 1 and parts[0].casefold() != name.casefold():
        raise call.sql.unsupported(
            one.column.start, f"{one.column} is not a column of {name}. A field of a row is set with its whole row"
        )
    return check_column(call.sql, one.column.start, parts[-1], table.schema.column_names)


def _value(call: StatementCall, statement: UpdateRows, part: Part, table: Table) -> Expression | Part:
    """Return the new value, its text if only an engine can compute it."""
    if part.text.strip().upper() == "DEFAULT":
        return Default()
    tree = parse_part(part, _tables(statement, table), call.parameters, statement="UPDATE", queries=True)
    if has_query(tree):
        check_scalar(part, tree)
        return part
    for column in tree.find_all(exp.Column):
        column.set("table", None)
    try:
        return expression_of(tree.transform(_joined))
    except InvalidRequest:
        return part


def _is_stored_otherwise(value: Expression | Part, field: DataField) -> bool:
    """Return whether SQL stores a value in another way than the verb: if its length counts, or it is rounded."""
    if isinstance(value, Part | Default):
        return False
    return has_limit(field.type) or (is_floating(field.type) and not isinstance(value, Literal))


def _joined(node: Any) -> Any:
    """Return texts that stand side by side as one, as Spark reads them."""
    if isinstance(node, exp.Concat) and all(isinstance(one, exp.Literal) and one.is_string for one in node.expressions):
        return exp.Literal.string("".join(str(one.this) for one in node.expressions))
    return node
