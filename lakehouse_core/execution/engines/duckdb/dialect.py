"""The text of a query for DuckDB: the parts that it would compute in another way than Spark are rewritten.

Rule: a part that cannot be said in DuckDB's SQL is an error, never left out.
"""

import re
from typing import Any, Final

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.planning.sql.tokens import DIALECT

_INTEGERS: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_FRACTIONS: Final = frozenset({"DECIMAL", "DOUBLE", "FLOAT"})
_INSTANTS: Final = frozenset({"TIMESTAMPTZ", "TIMESTAMPLTZ"})
_TEXTS: Final = frozenset({"TEXT", "VARCHAR", "CHAR"})
_DECIMAL_LITERAL: Final = re.compile(r"\d*\.\d+")
_MOST_DIGITS: Final = 38
_EXACT_SCALE: Final = 12
_LEAST_SCALE: Final = 6
# Digits of the integers as decimals, as Spark widens them.
_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}


def duckdb_text(tree: Any, schema: Any) -> str:
    """Return the SQL of a query whose columns are resolved. Raises UnsupportedFeature."""
    try:
        typed = annotate_types(tree.copy(), schema=schema, dialect=DIALECT)
        # Parts come before what they are in, which then holds their new form.
        for node in reversed(list(typed.dfs())):
            if (size := _size_in_spark(node)) is not None:
                node.type = exp.DataType.from_str(_decimal_text(*size), dialect=DIALECT)
            found = _rewritten(node)
            if found is not node:
                found.type = node.type if found.type is None else found.type
                node.replace(found)
        return str(typed.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE))
    except SqlglotError as error:
        raise UnsupportedFeature(f"SQL: a part cannot be carried out without Spark: {error}.") from error


def _rewritten(node: Any) -> Any:
    if isinstance(node, exp.AggFunc | exp.Window | exp.Filter):
        return _aggregate(node)
    return _expression(node)


def _aggregate(node: Any) -> Any:
    match node:
        case exp.Max() | exp.Min() if _kind(node.this) == "STRUCT":
            raise UnsupportedFeature(
                "SQL: max and min of a struct are not carried out without Spark. Compare its fields."
            )
        case exp.Quantile():
            value = exp.cast(node.this.copy(), exp.DType.DOUBLE)
            return exp.Anonymous(this="quantile_cont", expressions=[value, node.args["quantile"].copy()])
    # OVER and FILTER belong to the function: the cast is around them.
    if isinstance(node.parent, exp.Window | exp.Filter) and node.arg_key == "this":
        return node
    function = node
    while isinstance(function, exp.Window | exp.Filter):
        function = function.this
    match function:
        case exp.CountIf():
            return _cast(node, "BIGINT")
        case exp.Sum() if _kind(function.this) in _INTEGERS:
            return _cast(node, "BIGINT")
        case exp.Avg() | exp.Sum() if (size := _decimal(function)) is not None:
            return _cast(node, _decimal_text(*size))
    return node


def _expression(node: Any) -> Any:
    match node:
        case exp.DayOfWeek():
            # DuckDB counts from Sunday, 0.
            return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
        case exp.DateTrunc() if _kind(node.this) != "":
            # `trunc`, unlike `date_trunc`, gives a date.
            return _cast(node, "DATE")
        case exp.Cast() if _kind(node.this) in _FRACTIONS and node.to.this.name in _INTEGERS:
            # Spark cuts the digits behind the point, DuckDB rounds.
            node.set("this", exp.Anonymous(this="trunc", expressions=[node.this.copy()]))
        case exp.Cast() if _kind(node.this) in _INSTANTS and node.to.this.name in _TEXTS:
            node.set("this", _cast(node.this, "TIMESTAMP_NTZ"))
        case exp.Div():
            return _division(node)
        case exp.Mod() | exp.IntDiv() if not _is_nonzero(node.expression):
            return _unless_zero(node, node.expression)
        case exp.TsOrDsAdd() | exp.DateAdd() | exp.DateSub() if _kind(node) == "DATE":
            return _cast(node, "DATE")
        case exp.Add() | exp.Sub() if _kind(node.this) == "DATE" and _is_of_days(node.expression):
            return _cast(node, "DATE")
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.Between() | exp.In():
            return _with_doubles(node)
        case exp.Like() if isinstance(node.expression, exp.Literal) and "\\" in str(node.expression.this):
            return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
    return node


def _division(node: Any) -> Any:
    size = _decimal(node)
    divided = node
    if size is not None:
        # DuckDB divides as DOUBLE. Its text has no more digits than it knows, which a cast would add.
        divided = _cast(node if size[1] <= _EXACT_SCALE else _cast(node, "STRING"), _decimal_text(*size))
    return divided if _is_nonzero(node.expression) else _unless_zero(divided, node.expression)


def _unless_zero(node: Any, divisor: Any) -> Any:
    zero = exp.EQ(this=exp.Paren(this=divisor.copy()), expression=exp.Literal.number(0))
    failure = exp.Anonymous(this="error", expressions=[exp.Literal.string("Division by zero")])
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=zero, true=failure)], default=exp.Paren(this=node.copy())))


def _is_nonzero(node: Any) -> bool:
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) != 0


def _with_doubles(node: Any) -> Any:
    """Return a comparison in which a FLOAT column is a DOUBLE: DuckDB would round the literals to FLOAT."""
    for key, value in list(node.args.items()):
        if _kind(value) == "FLOAT":
            node.set(key, _cast(value, "DOUBLE"))
    return node


def _is_of_days(node: Any) -> bool:
    """Return whether a date plus the interval is a date in Spark."""
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    return isinstance(unit, exp.Var) and str(unit.this).upper().removesuffix("S") in ("DAY", "WEEK", "MONTH", "YEAR")


def _kind(node: Any) -> str:
    kind = getattr(node, "type", None)
    return "" if kind is None else str(kind.this.name)


def _decimal(node: Any) -> tuple[int, int] | None:
    if (
        isinstance(node, exp.Literal)
        and not node.is_string
        and "." in str(node.this)
        and "e" not in str(node.this).lower()
    ):
        return _decimal_or_integer(node)
    kind = getattr(node, "type", None)
    if kind is None or kind.this.name != "DECIMAL":
        return None
    numbers = [int(str(each.this)) for each in kind.expressions]
    return (numbers[0], numbers[1] if len(numbers) > 1 else 0) if numbers else (10, 0)


def _size_in_spark(node: Any) -> tuple[int, int] | None:
    """Return the digits, and those behind the point, of Spark's result; None for a node that is not a decimal.

    The parts of the node have their types. Beyond 38 digits Spark keeps those before the point.
    """
    match node:
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Max() | exp.Min() | exp.Window() | exp.Filter():
            return _decimal(node.this)
        case exp.Sum() if (size := _decimal(node.this)) is not None:
            return _bounded(size[0] + 10, size[1])
        case exp.Avg() if (size := _decimal(node.this)) is not None:
            return _bounded(size[0] + 4, size[1] + 4)
        case exp.Case():
            return _widest([*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")])
        case exp.Coalesce():
            return _widest([node.this, *node.expressions])
        case exp.Mul() | exp.Add() | exp.Sub() | exp.Div():
            left, right = _decimal_or_integer(node.this), _decimal_or_integer(node.expression)
            if left is None or right is None or (_decimal(node.this) or _decimal(node.expression)) is None:
                return None
            return _arithmetic(node, left, right)
    return None


def _arithmetic(node: Any, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    match node:
        case exp.Mul():
            return _bounded(left[0] + right[0] + 1, left[1] + right[1])
        case exp.Div():
            scale = max(6, left[1] + right[0] + 1)
            return _bounded(left[0] - left[1] + right[1] + scale, scale)
    scale = max(left[1], right[1])
    return _bounded(max(left[0] - left[1], right[0] - right[1]) + scale + 1, scale)


def _widest(nodes: list[Any]) -> tuple[int, int] | None:
    sizes = [_decimal(node) for node in nodes if node is not None and not isinstance(node, exp.Null)]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return None
    scale = max(size[1] for size in known)
    return _bounded(max(size[0] - size[1] for size in known) + scale, scale)


def _bounded(digits: int, scale: int) -> tuple[int, int]:
    if digits <= _MOST_DIGITS:
        return digits, scale
    return _MOST_DIGITS, max(_MOST_DIGITS - (digits - scale), min(scale, _LEAST_SCALE))


def _decimal_or_integer(node: Any) -> tuple[int, int] | None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string and "e" not in str(node.this).lower():
        whole, _, fraction = str(node.this).partition(".")
        return len(whole.lstrip("0")) + len(fraction) or 1, len(fraction)
    kind = _kind(node)
    return _decimal(node) or ((_DIGITS[kind], 0) if kind in _DIGITS else None)


def _decimal_text(digits: int, scale: int) -> str:
    return f"DECIMAL({digits}, {scale})"


def _cast(node: Any, kind: str) -> Any:
    return exp.Cast(this=node.copy(), to=exp.DataType.from_str(kind, dialect=DIALECT))
