"""Queries inside the expressions of DELETE and UPDATE: what they read, pinned before the rows of the table are.

Rule: each is resolved here once, so that what is wrong in it is told with its place in the statement.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.prepared import is_in_utc
from lakehouse_core.catalog.statements.queries import EngineQuery, engine_query, plan_query
from lakehouse_core.catalog.statements.sources import Sources, session_of
from lakehouse_core.errors import LakehouseError
from lakehouse_core.execution.row_changes.bounds import ranged_pairs
from lakehouse_core.execution.row_changes.change_base import SourceRows
from lakehouse_core.format.data_types import DataField, field_from_arrow, in_backquotes
from lakehouse_core.planning.row_changes.merge_clauses import MergeRequest
from lakehouse_core.planning.row_changes.merge_join import TARGET_VIEW
from lakehouse_core.planning.sql.expressions import PartText
from lakehouse_core.planning.sql.memberships import Membership, memberships, with_answers
from lakehouse_core.planning.sql.pushing import QueryTable, analyse
from lakehouse_core.planning.sql.query import check_without_spark, parse_query
from lakehouse_core.planning.sql.statement import Part, QueryText

_VIEW: Final = "lakehouse_checked"
_ANSWER: Final = "lakehouse_answer"
# Of an answer of at most so many values, the values are put in the place of its query.
_MOST_VALUES: Final = 1_000


def has_query(tree: Any) -> bool:
    """Return whether an expression has a query inside."""
    return tree.find(exp.Query) is not None


def check_scalar(part: Part, tree: Any) -> None:
    """Raise UnsupportedFeature for a query in a new value that is not one value. What is inside of one may be any."""
    for node in tree.walk(prune=lambda node: isinstance(node, exp.Query)):
        if not isinstance(node, exp.In | exp.Exists | exp.Any | exp.All) or isinstance(node.expression, exp.Lambda):
            continue
        if not isinstance(node, exp.In) or node.args.get("query"):
            raise part.sql.unsupported(
                part.start,
                "a new value takes queries that give one value, as in (SELECT max(a) FROM s). Put IN and EXISTS with "
                "a query into WHERE",
            )


def with_queries(
    call: StatementCall, table: Table, request: MergeRequest, parts: Sequence[Part], rows: object
) -> SourceRows:
    """Return the rows of a DELETE or UPDATE with what the queries inside the parts read now, and with the request in
    which small answers are in the place of their queries. Raises as `queries_inside` does.
    """
    tables = {request.target: table.schema.fields}
    sources = queries_inside(call, tables, parts)
    asked = asked_first(call, table, request, sources) if request.on in parts else {}
    if not asked:
        return SourceRows(rows, sources.read_at(table.name), lambda reference: sources.of(call, reference))
    answered, held, close = _answered(call, request, asked)
    inside = replace(call, tables={**call.tables, **held})
    return SourceRows(
        rows, sources.read_at(table.name), lambda reference: sources.of(inside, reference), answered, close
    )


def queries_inside(
    call: StatementCall,
    tables: Mapping[str, Sequence[DataField]],
    parts: Sequence[Part],
    sources: Sources | None = None,
) -> Sources:
    """Return what the queries inside the parts read now. `tables`: by name in the statement, the columns of the table
    that it changes, and those of its source.

    Raises NotFound, InvalidRequest and UnsupportedFeature with the place of what is wrong in a query.
    """
    found = Sources() if sources is None else sources
    for part in parts:
        _resolve(call, tables, part, found)
    return found


def asked_first(
    call: StatementCall, table: Table, request: MergeRequest, sources: Sources
) -> dict[Membership, EngineQuery]:
    """Return the queries of `column IN (SELECT …)` that all rows satisfy which the statement changes: those that name
    no column of the row outside, and whose values are compared as those of the column are. Nothing is read.
    """
    found: dict[Membership, EngineQuery] = {}
    for one in memberships(request.on, table.schema.column_names, call.parameters):
        try:
            query = engine_query(plan_query(call.inside(one.query.sql), one.query, sources), call)
        except LakehouseError:
            # It names a column of the row outside; what else is wrong is told where the whole statement is carried out.
            continue
        if len(query.schema) == 1 and _is_comparable(query.schema.field(0), one.column, table):
            found[one] = query
    return found


def _answered(
    call: StatementCall, request: MergeRequest, asked: Mapping[Membership, EngineQuery]
) -> tuple[MergeRequest, dict[str, Any], Callable[[], object]]:
    """Return the request with the values that the queries give, so that files without them are not read, or with the
    names of answers of many values; these answers, and what ends their use.
    """
    answers: dict[Membership, list[Any] | str] = {}
    held: dict[str, Any] = {}
    with ExitStack() as kept:
        for one, query in asked.items():
            try:
                given = query.distinct(_MOST_VALUES)
            except LakehouseError:
                # Told where the whole statement is carried out, with its place.
                continue
            if given is None:
                # The statement as a whole runs the query again, where its values need not be held at once.
                continue
            kept.callback(given.close)
            values = _python_values(given.few)
            if values is None:
                name = _free_name(request.on.text, call.tables, held)
                held[name] = given.rows
            answers[one] = name if values is None else values
        if answers:
            on, parameters = with_answers(request.on, answers, request.parameters)
            request = replace(request, on=on, parameters=parameters)
        return request, held, kept.pop_all().close


def _free_name(text: str, *taken: Mapping[str, Any]) -> str:
    """Return a name that neither the text has nor data of the call."""
    used = " ".join([text, *(name for names in taken for name in names)]).casefold()
    return next(name for number in count() if (name := f"{_ANSWER}_{number}") not in used)


def _python_values(few: pa.Table | None) -> list[Any] | None:
    try:
        return None if few is None else few.column(0).drop_null().to_pylist()
    except OverflowError:
        # Python has no dates beyond the year 9999.
        return None


def _is_comparable(given: pa.Field, column: str, table: Table) -> bool:
    try:
        source = field_from_arrow(given)
    except LakehouseError:
        return False
    return bool(ranged_pairs([(column, source.name)], table.schema, [source]))


def _resolve(call: StatementCall, relations: Mapping[str, Sequence[DataField]], part: Part, sources: Sources) -> None:
    begin = "SELECT 1 FROM"
    starts: dict[int, Sequence[DataField]] = {}
    for name, columns in relations.items():
        begin += "," * bool(starts) + " "
        starts[len(begin)] = columns
        begin += f"{in_backquotes(TARGET_VIEW)} AS {in_backquotes(name)}"
    text = PartText(part, f"{begin} WHERE ")
    query, session = parse_query(QueryText(text, 0, 0), call.parameters), session_of(call)
    if session is None:
        check_without_spark(query)
    tables = {}
    for number, (start, reference) in enumerate(query.references.items()):
        view = f"{_VIEW}_{number}"
        if start in starts:
            tables[start] = QueryTable(view=view, fields=tuple(starts[start]), prunes=False)
        else:
            found = sources.of(call.inside(text), reference)
            tables[start] = QueryTable(view=view, fields=found.fields, prunes=found.prunes)
    analyse(query, tables, in_utc=is_in_utc(session))
