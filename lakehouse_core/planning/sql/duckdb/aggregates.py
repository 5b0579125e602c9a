"""Aggregates, windows and orders that DuckDB would compute in another way than Spark.

Rule: OVER, FILTER and IGNORE NULLS belong to the function; what is computed from its value is around all of them.
Source: docs/sql.md#without-spark.
"""

from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.planning.sql.duckdb.casts import INTEGERS, rewritten_cast
from lakehouse_core.planning.sql.duckdb.decimals import Size, decimal_text, kind_of, size_of
from lakehouse_core.planning.sql.duckdb.fragments import aggregated, cast_to, failure, fragment, integer_of
from lakehouse_core.planning.sql.duckdb.quotients import exact_quotient
from lakehouse_core.planning.sql.duckdb.spark_functions import DIVIDED_BY_ZERO

_AROUND: Final = (exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
_FIRST: Final = (exp.First, exp.FirstValue, exp.AnyValue)
_ONE_OF_THEM: Final = (*_FIRST, exp.Last, exp.LastValue)
# Digits that a sum of decimals has more than they.
_DIGITS_OF_SUMS: Final = 10
_SIZE_OF_COUNTS: Final = (19, 0)
_NESTED: Final = ("STRUCT", "ARRAY")


def rewritten_aggregate(node: Any) -> Any:
    """Return what DuckDB computes instead of an aggregate with what is around it; the node itself if that is the same.

    The parts of the node are rewritten, and types are known. Raises InvalidRequest, UnsupportedFeature.
    """
    match node:
        case exp.Ordered() if kind_of(node.this) in _NESTED:
            raise UnsupportedFeature(
                f"SQL: an order by a value of type {kind_of(node.this)} is not carried out without Spark. Order by its "
                "parts, or run the query with Spark."
            )
        case exp.Max() | exp.Min() if kind_of(node.this) in _NESTED:
            raise UnsupportedFeature(
                f"SQL: max and min of a value of type {kind_of(node.this)} are not carried out without Spark. Compare "
                "its parts, or run the query with Spark."
            )
        case exp.Quantile():
            value = rewritten_cast(cast_to(node.this, "DOUBLE"))
            return exp.Anonymous(this="quantile_cont", expressions=[value, node.args["quantile"].copy()])
        case exp.WithinGroup():
            # DuckDB would compute between two decimals as the type that they have.
            for each in node.expression.expressions:
                if kind_of(each.this) == "DECIMAL":
                    each.this.replace(cast_to(each.this, "DOUBLE"))
    if not isinstance(node, exp.AggFunc | exp.Window | exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        return node
    if isinstance(node.parent, _AROUND) and node.arg_key == "this":
        return node
    function = node
    while isinstance(function, _AROUND):
        function = function.this
    _prepare(function)
    return _around(node, function)


def _prepare(function: Any) -> None:
    """Change the arguments of a function whose name is the same in DuckDB."""
    match function:
        case exp.ArrayUniqueAgg() if isinstance(function.this, exp.Distinct):
            function.set("this", aggregated(function))
        case exp.Median():
            value = aggregated(function)
            if kind_of(value) not in ("DOUBLE", ""):
                # DuckDB would compute the mean of two as the type that they have.
                value.replace(cast_to(value, "DOUBLE"))
        case exp.Count() if function.expressions:
            values = [fragment(":x IS NOT NULL", x=each) for each in (function.this, *function.expressions)]
            function.set("this", fragment("CASE WHEN :all THEN 1 END", all=exp.and_(*values, copy=False)))
            function.set("expressions", None)
        case exp.Lag() | exp.Lead():
            default = function.args.get("default")
            if default is not None and kind_of(function.this) in INTEGERS and kind_of(default) not in INTEGERS:
                default.replace(rewritten_cast(cast_to(default, kind_of(function.this))))


def _around(node: Any, function: Any) -> Any:
    """Return the rewritten function with what is around it."""
    match function:
        case exp.CountIf():
            # DuckDB counts NULL where there is nothing but NULL.
            return cast_to(fragment("coalesce(:x, 0)", x=node), "BIGINT")
        case exp.Sum() if kind_of(function.this) in INTEGERS:
            return cast_to(node, "BIGINT")
        case exp.Avg() if (size := size_of(function)) is not None:
            exact = _average(node, function, size)
            return cast_to(node, decimal_text(size)) if exact is None else exact
        case exp.Sum() if (size := size_of(function)) is not None:
            return cast_to(node, decimal_text(size))
        case exp.ArrayAgg():
            return fragment("coalesce(:x, [])", x=node)
        case exp.ArrayUniqueAgg():
            return fragment("coalesce(:x, [])", x=_filtered(node, function, "list(DISTINCT :x)"))
        case exp.Corr():
            return _correlation(node, function)
        case exp.NthValue() if (integer_of(function.args.get("offset")) or 1) < 1:
            raise InvalidRequest("SQL: nth_value takes a place of 1 or more.")
        case _ if isinstance(function, _ONE_OF_THEM):
            return _one_of_them(node, function)
    return node


def _average(node: Any, function: Any, size: Size) -> Any | None:
    """Return the average of decimals by their sum and their number; None where that has too many digits."""
    of = size_of(aggregated(function))
    if of is None:
        return None
    total, count = (_replaced(node, function, kind(this=function.this.copy())) for kind in (exp.Sum, exp.Count))
    return exact_quotient(total, (of[0] + _DIGITS_OF_SUMS, of[1]), count, _SIZE_OF_COUNTS, size)


def _one_of_them(node: Any, function: Any) -> Any:
    """Return the first or last value, which DuckDB names in another way in windows and elsewhere."""
    is_first = isinstance(function, _FIRST)
    if isinstance(node, exp.Window):
        kind = exp.FirstValue if is_first else exp.LastValue
        return node if isinstance(function, kind) else _replaced(node, function, kind(this=function.this.copy()))
    name = "first" if is_first else "last"
    if any(isinstance(each, exp.IgnoreNulls) for each in _layers(node)):
        return _filtered(node, function, f"{name}(:x)")
    return _replaced(node, function, exp.Anonymous(this=name, expressions=[function.this.copy()]))


def _filtered(node: Any, function: Any, text: str) -> Any:
    """Return the aggregate of a text over the values that are not NULL, with the FILTER and OVER of the node."""
    conditions = [each.expression.this for each in _layers(node) if isinstance(each, exp.Filter)]
    values = [fragment(":x IS NOT NULL", x=function.this), *(exp.Paren(this=each.copy()) for each in conditions)]
    made = exp.Filter(this=fragment(text, x=function.this), expression=exp.Where(this=exp.and_(*values, copy=False)))
    if not isinstance(node, exp.Window):
        return made
    window = node.copy()
    window.set("this", made)
    return window


def _correlation(node: Any, function: Any) -> Any:
    """Return a correlation: NULL of less than two pairs, an error where one side has one value only."""
    pair = {"x": function.this, "y": function.expression}
    return fragment(
        "CASE WHEN :count < 2 THEN NULL WHEN isnan(:found) AND :together = 0 THEN :failed ELSE :found END",
        failed=failure(DIVIDED_BY_ZERO),
        found=node,
        count=_replaced(node, function, fragment("regr_count(:x, :y)", **pair)),
        together=_replaced(node, function, fragment("covar_pop(:x, :y)", **pair)),
    )


def _layers(node: Any) -> list[Any]:
    """Return what is around a function, from the outside."""
    found = []
    while isinstance(node, _AROUND):
        found.append(node)
        node = node.this
    return found


def _replaced(node: Any, function: Any, other: Any) -> Any:
    """Return a copy of the node with another function."""
    if node is function:
        return other
    changed = node.copy()
    inner = changed
    while isinstance(inner.this, _AROUND):
        inner = inner.this
    inner.set("this", other)
    return changed
