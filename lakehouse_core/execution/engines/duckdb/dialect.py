"""The text of a query for DuckDB: the parts that it would compute in another way than Spark are rewritten.

Rule: a part that cannot be said in DuckDB's SQL is an error, never left out.
"""

from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.execution.engines.duckdb.arrays import rewritten_array
from lakehouse_core.execution.engines.duckdb.casts import FLOATS, INTEGERS, rewritten_cast
from lakehouse_core.execution.engines.duckdb.decimals import decimal_text, kind_of, size_decimals, size_of
from lakehouse_core.execution.engines.duckdb.numbers import rewritten_number
from lakehouse_core.execution.engines.duckdb.spark_functions import call, cast, needs_spark
from lakehouse_core.execution.engines.duckdb.texts import rewritten_text
from lakehouse_core.execution.engines.duckdb.times import rewritten_time
from lakehouse_core.planning.sql.tokens import DIALECT


def duckdb_text(tree: Any, schema: Any) -> str:
    """Return the SQL of a query whose columns are resolved. Raises UnsupportedFeature."""
    try:
        typed = annotate_types(tree.copy(), schema=schema, dialect=DIALECT)
        size_decimals(typed)
        # Parts come before what they are in, which then holds their new form.
        for node in reversed(list(typed.dfs())):
            found = _rewritten(node)
            if found is not node:
                found.type = node.type if found.type is None else found.type
                node.replace(found)
        return str(typed.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE, comments=False))
    except SqlglotError as error:
        raise UnsupportedFeature(f"SQL: a part cannot be carried out without Spark: {error}.") from error


def _rewritten(node: Any) -> Any:
    if isinstance(node, exp.AggFunc | exp.Window | exp.Filter):
        return _aggregate(node)
    return _expression(node)


def _aggregate(node: Any) -> Any:
    match node:
        case exp.Max() | exp.Min() if kind_of(node.this) == "STRUCT":
            raise UnsupportedFeature(
                "SQL: max and min of a struct are not carried out without Spark. Compare its fields."
            )
        case exp.Quantile():
            return call("quantile_cont", cast(node.this, "DOUBLE"), node.args["quantile"])
        case exp.ArrayUniqueAgg() if kind_of(node.this) in FLOATS:
            raise needs_spark(f"collect_set of {kind_of(node.this)}", "Cast the values to DECIMAL")
    # OVER and FILTER belong to the function: the cast is around them.
    if isinstance(node.parent, exp.Window | exp.Filter) and node.arg_key == "this":
        return node
    function = node
    while isinstance(function, exp.Window | exp.Filter):
        function = function.this
    match function:
        case exp.ArrayAgg() | exp.ArrayUniqueAgg():
            # Of no rows it is an empty array.
            return call("coalesce", node, exp.Array())
        case exp.CountIf():
            return cast(node, "BIGINT")
        case exp.Sum() if kind_of(function.this) in INTEGERS:
            return cast(node, "BIGINT")
        case exp.Avg() | exp.Sum() if (size := size_of(function)) is not None:
            return cast(node, decimal_text(size))
    return node


def _expression(node: Any) -> Any:
    for rewritten in (rewritten_cast, rewritten_number, rewritten_time, rewritten_text, rewritten_array):
        found = rewritten(node)
        if found is not node:
            return found
    match node:
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.Between() | exp.In():
            return _with_doubles(node)
        case exp.Like() if isinstance(node.expression, exp.Literal) and "\\" in str(node.expression.this):
            return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
    return node


def _with_doubles(node: Any) -> Any:
    """Return a comparison in which a FLOAT column is a DOUBLE: DuckDB would round the literals to FLOAT."""
    for key, value in list(node.args.items()):
        if kind_of(value) == "FLOAT":
            node.set(key, cast(value, "DOUBLE"))
    return node
