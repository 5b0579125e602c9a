"""The text of a query for DuckDB: the parts that it would compute in another way than Spark are rewritten.

Rule: a part that cannot be said in DuckDB's SQL is an error, never left out. Source: docs/sql.md#without-spark.
"""

from typing import Any, Final

from sqlglot.errors import ErrorLevel, SqlglotError

from lakehouse_core.errors import InvalidRequest, LakehouseError, UnsupportedFeature, retell
from lakehouse_core.planning.sql.duckdb.aggregates import rewritten_aggregate
from lakehouse_core.planning.sql.duckdb.answers import align_queries, type_answers, write_out_orders
from lakehouse_core.planning.sql.duckdb.arrays import rewritten_array, rewritten_view
from lakehouse_core.planning.sql.duckdb.casts import rewritten_cast
from lakehouse_core.planning.sql.duckdb.decimals import size_decimals
from lakehouse_core.planning.sql.duckdb.lambdas import rename_arguments, rewritten_lambda
from lakehouse_core.planning.sql.duckdb.numbers import rewritten_number
from lakehouse_core.planning.sql.duckdb.spark_types.annotated import as_returned, with_types
from lakehouse_core.planning.sql.duckdb.texts import rewritten_text
from lakehouse_core.planning.sql.duckdb.times import rewritten_time
from lakehouse_core.planning.sql.duckdb.widening import rewritten_operands
from lakehouse_core.planning.sql.error_places import place_of
from lakehouse_core.planning.sql.tokens import SqlText


def duckdb_text(tree: Any, schema: Any, sql: SqlText | None = None) -> str:
    """Return the SQL of a query whose columns are resolved. `sql`: the text in which the parts of the tree have their
    places, if there is one. Raises InvalidRequest for types that do not fit, UnsupportedFeature.
    """
    try:
        written = tree.copy()
        rename_arguments(written)
        written = write_out_orders(written)
        typed = with_types(written, schema)
        # Parts come before what they are in, which then holds their new form.
        nodes = list(typed.dfs())[::-1]
        if align_queries(nodes):
            typed = with_types(typed, schema)
            nodes = list(typed.dfs())[::-1]
        size_decimals(typed)
        for node in nodes:
            try:
                found = as_returned(node, _rewritten(node))
            except (InvalidRequest, UnsupportedFeature) as error:
                raise _placed(error, node, sql) from error.__cause__
            if found is not node:
                found.type = node.type if found.type is None else found.type
                node.replace(found)
        type_answers(typed)
        return str(typed.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE, comments=False))
    except SqlglotError as error:
        raise UnsupportedFeature(
            f"SQL: a part cannot be carried out without Spark: {str(error).rstrip('.')}."
        ) from error


def _placed(error: LakehouseError, node: Any, sql: SqlText | None) -> LakehouseError:
    """Return the error about a part with the place of the part."""
    start = place_of(node)
    if sql is not None and start is not None:
        retell(error, lambda told: told.replace("SQL: ", f"SQL, {sql.place(start)}: ", 1))
    return error


def _rewritten(node: Any) -> Any:
    for rewrite in _REWRITES:
        found = rewrite(node)
        if found is not node:
            return found
    return node


_REWRITES: Final = (
    rewritten_operands,
    rewritten_aggregate,
    rewritten_cast,
    rewritten_text,
    rewritten_number,
    rewritten_time,
    rewritten_array,
    rewritten_lambda,
    rewritten_view,
)
