"""Sizes of decimals in a typed query, as Spark has them: DuckDB's are others, and those of the parser are often wrong.

Rule: a size that is not known stays unknown. What is computed from it keeps DuckDB's type, so that no digit is lost.
Source: docs/sql.md#without-spark.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, TypeAlias

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from lakehouse_core.planning.sql.duckdb.fragments import aggregated, integer_of
from lakehouse_core.planning.sql.tokens import DIALECT

# Digits, and how many of them are behind the point.
Size: TypeAlias = tuple[int, int]

_MOST_DIGITS: Final = 38
_LEAST_SCALE: Final = 6
# Of DECIMAL without numbers.
_DEFAULT: Final = (10, 0)
# Digits of the integers as decimals, as Spark widens them.
_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_OF_THEIR_ARGUMENT: Final = (
    exp.Paren,
    exp.Alias,
    exp.Neg,
    exp.Abs,
    exp.Max,
    exp.Min,
    exp.Window,
    exp.Filter,
    exp.Nullif,
    exp.First,
    exp.Last,
    exp.FirstValue,
    exp.LastValue,
    exp.AnyValue,
    exp.Lag,
    exp.Lead,
    exp.NthValue,
    exp.IgnoreNulls,
    exp.RespectNulls,
)


def size_decimals(typed: Any) -> None:
    """Set the type of each decimal in a query whose columns are resolved and whose nodes have types. A size that is not
    known becomes DECIMAL without numbers.
    """
    outputs: dict[int, dict[str, Size | None]] = {}
    for scope in traverse_scope(typed):
        query = scope.expression
        if isinstance(query, exp.SetOperation):
            names = [each.alias_or_name for each in query.selects]
            outputs[id(query)] = dict(zip(names, map(size_of, columns_of(query)), strict=False))
            continue
        # Parts come before what they are in.
        for node in reversed(list(scope.walk())):
            size = _size(node, scope, outputs)
            if size is not None:
                node.type = _decimal(size)
            elif kind_of(node) == "DECIMAL":
                node.type = exp.DType.DECIMAL
        if isinstance(query, exp.Select):
            outputs[id(query)] = {each.alias_or_name: size_of(each) for each in query.selects}
        elif isinstance(query, exp.Values):
            rows = zip(*(row.expressions for row in query.expressions), strict=False)
            outputs[id(query)] = dict(zip(query.alias_column_names, map(_widest, rows), strict=False))


def columns_of(query: Any) -> list[Any]:
    """Return nodes of the types that the columns of a query of known sizes have; of a set operation, of both sides."""
    inner = query.unnest()
    if not isinstance(inner, exp.SetOperation):
        return [each.unalias() for each in inner.selects]
    return [_beside(*pair) for pair in zip(columns_of(inner.this), columns_of(inner.expression), strict=False)]


def _beside(one: Any, other: Any) -> Any:
    if isinstance(one, exp.Null) or isinstance(other, exp.Null):
        return other if isinstance(one, exp.Null) else one
    made, size = exp.Expression(), _widest([one, other])
    made.type = (one.type if one.type == other.type else None) if size is None else _decimal(size)
    return made


def size_of(node: Any) -> Size | None:
    """Return the size of a node of a typed query; None if it is not a decimal, or its size is not known."""
    if isinstance(node, exp.Literal) and not node.is_string and "." in str(node.this):
        return _of_literal(node)
    kind = getattr(node, "type", None)
    if kind is None or kind.this.name != "DECIMAL" or not kind.expressions:
        return None
    numbers = [int(str(each.this)) for each in kind.expressions]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def number_size(node: Any) -> Size | None:
    """Return the size of a number in arithmetic, where a written integer has no more digits than it shows."""
    written = node
    while isinstance(written, exp.Paren):
        written = written.this
    if isinstance(written, exp.Neg):
        written = written.this
    if isinstance(written, exp.Literal) and not written.is_string:
        return _of_literal(written)
    return size_of(node) or _of_integer(node)


def kind_of(node: Any) -> str:
    """Return the name of the type of a node; an empty text if it is not known."""
    kind = getattr(node, "type", None)
    return "" if kind is None else str(kind.this.name)


def decimal_text(size: Size) -> str:
    """Return the type in SQL."""
    return f"DECIMAL({size[0]}, {size[1]})"


@cache
def _decimal(size: Size) -> Any:
    """Return the type, which nodes may share."""
    return exp.DataType.from_str(decimal_text(size), dialect=DIALECT)


def _size(node: Any, scope: Scope, outputs: dict[int, dict[str, Size | None]]) -> Size | None:
    """Return the size of Spark's result; None for a node that is not a decimal, or whose size is not known.

    The parts of the node have their sizes.
    """
    match node:
        case exp.Column():
            source = _source(node, scope)
            if isinstance(source, Scope):
                return outputs.get(id(source.expression.unnest()), {}).get(node.name)
            return size_of(node)
        case exp.Subquery():
            sizes = list(outputs.get(id(node.unnest()), {}).values())
            return sizes[0] if len(sizes) == 1 else None
        case exp.Cast() if kind_of(node) == "DECIMAL":
            return size_of(node) or _DEFAULT
        case exp.Literal() | exp.Identifier() | exp.Extract():
            return size_of(node)
        case exp.Round() | exp.Ceil() | exp.Floor():
            return _rounded(node)
        case exp.Sum() | exp.Avg():
            return _of_aggregate(node)
        case exp.Case():
            return _widest([*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")])
        case exp.If():
            return _widest([node.args["true"], node.args.get("false")])
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return _widest([node.this, *node.expressions])
        case exp.Mul() | exp.Add() | exp.Sub() | exp.Div() | exp.Mod():
            left, right = number_size(node.this), number_size(node.expression)
            if left is None or right is None or (size_of(node.this) or size_of(node.expression)) is None:
                return None
            return _arithmetic(node, left, right)
    return size_of(node.this) if isinstance(node, _OF_THEIR_ARGUMENT) else None


def _of_aggregate(node: Any) -> Size | None:
    """Return the size of a sum or an average."""
    size = size_of(aggregated(node))
    if size is None:
        return None
    if isinstance(node, exp.Sum):
        return min(size[0] + 10, _MOST_DIGITS), size[1]
    return min(size[0] + 4, _MOST_DIGITS), min(size[1] + 4, _MOST_DIGITS)


def _rounded(node: Any) -> Size | None:
    """Return the size of a decimal that is rounded, which may have one digit more before the point."""
    size, decimals = size_of(node.this), node.args.get("decimals")
    if decimals is not None and not isinstance(node, exp.Round):
        size = size or _of_integer(node.this)
    kept = 0 if decimals is None else integer_of(decimals)
    if size is None or kept is None or (decimals is None and size[1] == 0):
        return size if kept is not None else None
    digits = size[0] - size[1] + 1
    if kept < 0:
        return min(max(digits, 1 - kept), _MOST_DIGITS), 0
    scale = min(size[1], kept)
    return min(digits + scale, _MOST_DIGITS), scale


def _source(column: Any, scope: Scope) -> Any:
    """Return what a column is of: a table, or the scope of a query."""
    at: Scope | None = scope
    while at is not None:
        if column.table in at.sources:
            return at.sources[column.table]
        at = at.parent
    return None


def _arithmetic(node: Any, left: Size, right: Size) -> Size:
    match node:
        case exp.Mul():
            return _bounded(left[0] + right[0] + 1, left[1] + right[1])
        case exp.Div():
            scale = max(6, left[1] + right[0] + 1)
            return _bounded(left[0] - left[1] + right[1] + scale, scale)
        case exp.Mod():
            scale = max(left[1], right[1])
            return min(left[0] - left[1], right[0] - right[1]) + scale, scale
    scale = max(left[1], right[1])
    return _bounded(max(left[0] - left[1], right[0] - right[1]) + scale + 1, scale)


def _widest(nodes: Iterable[Any]) -> Size | None:
    """Return the size that holds all values; NULL has none. None where one is not known, or all are integers."""
    values = [node for node in nodes if node is not None and not isinstance(node, exp.Null)]
    sizes = [size_of(node) or _of_integer(node) for node in values]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or not any(map(size_of, values)):
        return None
    widest = known[0]
    for size in known[1:]:
        widest = _wider(widest, size)
    return widest


def _wider(one: Size, other: Size) -> Size:
    scale = max(one[1], other[1])
    before = max(one[0] - one[1], other[0] - other[1])
    return min(before + scale, _MOST_DIGITS), min(scale, _MOST_DIGITS - before)


def _bounded(digits: int, scale: int) -> Size:
    """Return the size of a computed number of at most 38 digits: of those behind the point six stay, if there were as
    many, and more if those before it leave room.
    """
    if digits <= _MOST_DIGITS:
        return digits, scale
    return _MOST_DIGITS, max(_MOST_DIGITS - (digits - scale), min(scale, _LEAST_SCALE))


def _of_integer(node: Any) -> Size | None:
    kind = kind_of(node)
    return (_DIGITS[kind], 0) if kind in _DIGITS else None


def _of_literal(node: Any) -> Size | None:
    text = str(node.this).lower()
    if "e" in text:
        return None
    whole, _, fraction = text.partition(".")
    return len(whole.lstrip("0")) + len(fraction) or 1, len(fraction)
