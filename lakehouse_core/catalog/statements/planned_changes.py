"""DELETE, UPDATE and MERGE as what is to be done: by a verb of the table, or by a join that an engine computes.

Rule: a condition is carried out by the verb if the verb gives it the meaning that it has in Spark's SQL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sqlglot import exp

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.prepared import is_in_utc
from lakehouse_core.catalog.statements.sources import session_of
from lakehouse_core.catalog.statements.subqueries import check_scalar, has_query
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.row_changes.expression_text import expression_of
from lakehouse_core.planning.row_changes.expressions import Default, Expression
from lakehouse_core.planning.row_changes.merge_clauses import (
    Clause,
    MergeRequest,
    WhenMatched,
    WhenNotMatched,
    WhenNotMatchedBySource,
)
from lakehouse_core.planning.row_changes.methods import update_method
from lakehouse_core.planning.row_changes.stored_alike import is_stored_alike
from lakehouse_core.planning.sql.conditions import translated_condition
from lakehouse_core.planning.sql.expressions import PartText, check_column, parse_part
from lakehouse_core.planning.sql.query import parse_query
from lakehouse_core.planning.sql.statement import (
    Assignment,
    DeleteRows,
    MergeBranch,
    MergeRows,
    Part,
    QueryText,
    UpdateRows,
)
from lakehouse_core.planning.sql.tokens import Name, SqlText
from lakehouse_core.table.predicate import And, IsNull, Not, Predicate
from lakehouse_core.tasks.change_rows.assigned import has_limit

# The source of a merge that stands for a DELETE or UPDATE, and its column. No table has such a name.
ONE_ROW: Final = "lakehouse row"


@dataclass(frozen=True, slots=True)
class VerbChange:
    """A change that the verb `delete` or, with new values, `update` makes. `condition` None: all rows."""

    condition: Predicate | None
    assignments: Mapping[str, Expression] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChange:
    """A change whose expressions Spark or DuckDB computes. `source`: the text of the source of a MERGE as a query;
    None: a DELETE or UPDATE, a merge without a source, under whose clause all rows fall that satisfy the condition.
    `parts`: its expressions that only an engine can compute; of a MERGE, its values that have a query inside.
    """

    request: MergeRequest
    source: SqlText | None = None
    parts: Sequence[Part] = field(default=())


Change: TypeAlias = VerbChange | EngineChange


def planned_change(call: StatementCall, statement: DeleteRows | UpdateRows | MergeRows, table: Table) -> Change:
    """Return what the statement does. Raises InvalidRequest and UnsupportedFeature with the place of what is wrong."""
    match statement:
        case DeleteRows():
            condition = _condition(call, statement, table, "DELETE")
            if isinstance(condition, Part):
                return _by_engine(call, statement, WhenMatched(delete=True), [condition])
            return VerbChange(condition)
        case UpdateRows():
            return _updated(call, statement, table)
        case MergeRows():
            return _merged(call, statement, table)


def _updated(call: StatementCall, statement: UpdateRows, table: Table) -> Change:
    condition = _condition(call, statement, table, "UPDATE")
    texts: dict[str, Part] = {}
    for one in statement.assignments:
        column = _assigned(call, statement.alias or statement.table.parts[-1], one, table)
        if column in texts:
            raise call.sql.invalid(one.column.start, f"column {column} is given twice. Give it once")
        texts[column] = one.value
    values = {
        column: _value(call, statement, part, table.schema.field(column), table) for column, part in texts.items()
    }
    known = {column: value for column, value in values.items() if not isinstance(value, Part)}
    if isinstance(condition, Part) or len(known) < len(values):
        update_method(table.schema, values)
        parts = [one for one in (condition, *values.values()) if isinstance(one, Part)]
        return _by_engine(call, statement, WhenMatched(update=texts), parts)
    return VerbChange(condition, known)


def _by_engine(
    call: StatementCall, statement: DeleteRows | UpdateRows, clause: Clause, parts: Sequence[Part]
) -> EngineChange:
    request = MergeRequest(
        on=statement.condition or Part(SqlText("TRUE"), 0, 4),
        clauses=(clause,),
        target=statement.alias or statement.table.parts[-1],
        source=ONE_ROW,
        parameters=call.parameters,
        in_sql=True,
        operation="DELETE" if isinstance(statement, DeleteRows) else "UPDATE",
    )
    return EngineChange(request=request, parts=parts)


def _merged(call: StatementCall, statement: MergeRows, table: Table) -> EngineChange:
    source = statement.source
    if isinstance(source, Name):
        text = PartText(Part(call.sql, source.start, source.end + 1), "SELECT * FROM ")
        named = source.parts[-1]
    else:
        text, named = PartText(source, ""), ""
    values = [one.value for branch in statement.branches for one in branch.assignments or ()]
    request = MergeRequest(
        on=statement.on,
        clauses=tuple(_clause(call, statement, one, table) for one in statement.branches),
        target=statement.alias or statement.table.parts[-1],
        source=statement.source_alias or named,
        parameters=call.parameters,
        in_sql=True,
    )
    return EngineChange(request=request, source=text, parts=[one for one in values if _has_query(call, one)])


def _has_query(call: StatementCall, value: Part) -> bool:
    """Return whether a value of a MERGE has a query inside. Raises UnsupportedFeature if it is not one value."""
    if "SELECT" not in value.text.upper():
        return False
    values = parse_query(QueryText(PartText(value), 0, 0), call.parameters).tree.expressions
    for tree in values:
        check_scalar(value, tree)
    return any(map(has_query, values))


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


def _value(
    call: StatementCall, statement: UpdateRows, part: Part, column: DataField, table: Table
) -> Expression | Part:
    """Return the new value, its text if only an engine can compute it, or stores it as SQL does."""
    if part.text.strip().upper() == "DEFAULT":
        return Default()
    tree = parse_part(part, _tables(statement, table), call.parameters, statement="UPDATE", queries=True)
    if has_query(tree):
        check_scalar(part, tree)
        return part
    for node in tree.find_all(exp.Column):
        node.set("table", None)
    try:
        found = expression_of(tree.transform(_joined))
    except InvalidRequest:
        return part
    return found if not has_limit(column.type) and is_stored_alike(found, column, table.schema) else part


def _joined(node: Any) -> Any:
    """Return texts that stand side by side as one, as Spark reads them."""
    if isinstance(node, exp.Concat) and all(isinstance(one, exp.Literal) and one.is_string for one in node.expressions):
        return exp.Literal.string("".join(str(one.this) for one in node.expressions))
    return node
