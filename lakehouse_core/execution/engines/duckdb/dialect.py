"""The text of a query for DuckDB: the parts that it would compute in another way than Spark are rewritten.

Rule: a part that cannot be said in DuckDB's SQL is an error, never left out.
"""

from typing import Any, Final

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.execution.engines.duckdb.aggregates import rewritten_aggregate
from lakehouse_core.execution.engines.duckdb.casts import rewritten_cast
from lakehouse_core.execution.engines.duckdb.decimals import decimal_text, kind_of, size_decimals, size_of
from lakehouse_core.execution.engines.duckdb.exploded import type_exploded
from lakehouse_core.execution.engines.duckdb.query import CAST_BY_ZERO, DIVIDED_BY_ZERO
from lakehouse_core.execution.engines.duckdb.texts import rewritten_text
from lakehouse_core.planning.sql.tokens import DIALECT

_EXACT_SCALE: Final = 12


def duckdb_text(tree: Any, schema: Any) -> str:
    """Return the SQL of a query whose columns are resolved. Raises UnsupportedFeature."""
    try:
        typed = annotate_types(tree.copy(), schema=schema, dialect=DIALECT)
        type_exploded(typed)
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
    for rewrite in (rewritten_aggregate, rewritten_cast, rewritten_text, _expression):
        found = rewrite(node)
        if found is not node:
            return found
    return node


def _expression(node: Any) -> Any:
    match node:
        case exp.DayOfWeek():
            # DuckDB counts from Sunday, 0.
            return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
        case exp.DateTrunc() if kind_of(node.this) != "":
            # `trunc`, unlike `date_trunc`, gives a date.
            return _cast(node, "DATE")
        case exp.Div():
            return _division(node)
        case exp.Mod() | exp.IntDiv() if not _is_nonzero(node.expression):
            return _unless_zero(node, node)
        case exp.TsOrDsAdd() | exp.DateAdd() | exp.DateSub() if kind_of(node) == "DATE":
            return _cast(node, "DATE")
        case exp.Add() | exp.Sub() if kind_of(node.this) == "DATE" and _is_of_days(node.expression):
            return _cast(node, "DATE")
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.Between() | exp.In():
            return _with_doubles(node)
    return node


def _division(node: Any) -> Any:
    size = size_of(node)
    divided = node
    if size is not None:
        # DuckDB divides as DOUBLE. Its text has no more digits than it knows, which a cast would add.
        divided = _cast(node if size[1] <= _EXACT_SCALE else _cast(node, "STRING"), decimal_text(size))
    return divided if _is_nonzero(node.expression) else _unless_zero(divided, node)


def _unless_zero(value: Any, division: Any) -> Any:
    """Return the value of a division, which is an error where the divisor is zero."""
    zero = exp.EQ(this=exp.Paren(this=division.expression.copy()), expression=exp.Literal.number(0))
    # In a window DuckDB refuses `error`, which it takes for volatile; there a text that is no number is the failure.
    if isinstance(division.find_ancestor(exp.Window, exp.Select), exp.Window):
        failure = _cast(exp.Literal.string(CAST_BY_ZERO), "TINYINT")
    else:
        failure = exp.Anonymous(this="error", expressions=[exp.Literal.string(DIVIDED_BY_ZERO)])
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=zero, true=failure)], default=exp.Paren(this=value.copy())))


def _is_nonzero(node: Any) -> bool:
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) != 0


def _with_doubles(node: Any) -> Any:
    """Return a comparison in which a FLOAT column is a DOUBLE: DuckDB would round the literals to FLOAT."""
    for key, value in list(node.args.items()):
        if kind_of(value) == "FLOAT":
            node.set(key, _cast(value, "DOUBLE"))
    return node


def _is_of_days(node: Any) -> bool:
    """Return whether a date plus the interval is a date in Spark."""
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    return isinstance(unit, exp.Var) and str(unit.this).upper().removesuffix("S") in ("DAY", "WEEK", "MONTH", "YEAR")


def _cast(node: Any, kind: str) -> Any:
    return exp.Cast(this=node.copy(), to=exp.DataType.from_str(kind, dialect=DIALECT))
