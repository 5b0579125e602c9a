"""The text of a query for Spark: that of the user, in which tables have the names of their views.

Rule: nothing else of the text changes, so that Spark reads what the user wrote. Source: docs/sql.md#queries.
"""

from collections.abc import Mapping

from sqlglot import exp

from lakehouse_core.format.data_types import in_backquotes
from lakehouse_core.planning.sql.pushing import QueryTable
from lakehouse_core.planning.sql.query import Query


def spark_query(query: Query, tables: Mapping[int, QueryTable]) -> str:
    """Return the text of the query with the views of its tables."""
    spans: list[tuple[int, int, str]] = []
    for start, table in tables.items():
        reference = query.references[start]
        text = table.view
        if reference.alias is None:
            text += f" AS {in_backquotes(reference.title)}"
        spans.append((start, reference.end, text))
    for column in query.tree.find_all(exp.Column):
        first = column.args.get("catalog") or column.args.get("db")
        if first is not None and "start" in first.meta:
            # A view has no database before its alias.
            spans.append((int(first.meta["start"]), int(column.args["table"].meta["start"]) - 1, ""))
    text = query.text
    for start, end, instead in sorted(spans, reverse=True):
        text = text[:start] + instead + text[end + 1 :]
    return text.strip()
