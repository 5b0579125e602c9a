"""Queries inside the expressions of DELETE and UPDATE: what they read, pinned before the rows of the table are.

Rule: each is resolved here once, so that what is wrong in it is told with its place in the statement.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.prepared import is_in_utc
from lakehouse_core.catalog.statements.sources import Sources, session_of
from lakehouse_core.execution.row_changes.change_base import SourceRows
from lakehouse_core.format.data_types import in_backquotes
from lakehouse_core.planning.row_changes.merge_join import TARGET_VIEW
from lakehouse_core.planning.sql.expressions import PartText
from lakehouse_core.planning.sql.pushing import QueryTable, analyse
from lakehouse_core.planning.sql.query import check_without_spark, parse_query
from lakehouse_core.planning.sql.statement import Part, QueryText

_BEGIN: Final = "SELECT 1 FROM "
_VIEW: Final = "lakehouse_checked"


def has_query(tree: Any) -> bool:
    """Return whether an expression has a query inside."""
    return tree.find(exp.Query) is not None


def check_scalar(part: Part, tree: Any) -> None:
    """Raise UnsupportedFeature for a query in a new value that is not one value."""
    for node in tree.find_all(exp.In, exp.Exists, exp.Any, exp.All):
        if not isinstance(node, exp.In) or node.args.get("query"):
            raise part.sql.unsupported(
                part.start,
                "a new value takes queries that give one value, as in (SELECT max(a) FROM s). Put IN and EXISTS with "
                "a query into WHERE",
            )


def with_queries(call: StatementCall, table: Table, name: str, parts: Sequence[Part], rows: object) -> SourceRows:
    """Return the rows with what the queries inside the parts read now. Takes the other arguments of `queries_inside`,
    and raises as it does.
    """
    sources = queries_inside(call, table, name, parts)
    return SourceRows(rows, sources.read_at(table.name), lambda reference: sources.of(call, reference))


def queries_inside(call: StatementCall, table: Table, name: str, parts: Sequence[Part]) -> Sources:
    """Return what the queries inside the parts read now. `name`: that of the table in the statement.

    Raises NotFound, InvalidRequest and UnsupportedFeature with the place of what is wrong in a query.
    """
    sources = Sources()
    for part in parts:
        _resolve(call, table, name, part, sources)
    return sources


def _resolve(call: StatementCall, table: Table, name: str, part: Part, sources: Sources) -> None:
    text = PartText(part, f"{_BEGIN}{in_backquotes(TARGET_VIEW)} AS {in_backquotes(name)} WHERE ")
    query, session = parse_query(QueryText(text, 0, 0), call.parameters), session_of(call)
    if session is None:
        check_without_spark(query)
    tables = {}
    for number, (start, reference) in enumerate(query.references.items()):
        view = f"{_VIEW}_{number}"
        if start == len(_BEGIN):
            tables[start] = QueryTable(view=view, fields=table.schema.fields, prunes=False)
        else:
            found = sources.of(call.inside(text), reference)
            tables[start] = QueryTable(view=view, fields=found.fields, prunes=found.prunes)
    analyse(query, tables, in_utc=is_in_utc(session))
