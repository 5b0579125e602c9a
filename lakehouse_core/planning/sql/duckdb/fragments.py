"""Parts of a tree for DuckDB, written as its SQL with places for the parts that they are made of.

Source: docs/sql.md#without-spark.
"""

from functools import cache
from typing import Any, Final

from sqlglot import exp, parse_one

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.planning.sql.duckdb.spark_functions import FAILED
from lakehouse_core.planning.sql.tokens import DIALECT

# Never the part of an operator that binds more closely than they do.
_CLOSED: Final = (exp.Column, exp.Literal, exp.Paren, exp.Func, exp.Null, exp.Boolean, exp.Identifier)


def fragment(text: str, /, **parts: Any) -> Any:
    """Return the tree of a text in DuckDB's SQL, in which `:name` stands for a copy of that part."""
    made = _parsed(text).copy()
    for place in list(made.find_all(exp.Placeholder)):
        part = parts[place.name].copy()
        if isinstance(part, exp.Binary) or not isinstance(part, _CLOSED):
            part = exp.Paren(this=part)
        if place is made:
            return part
        place.replace(part)
    return made


def cast_to(node: Any, kind: str) -> Any:
    """Return a copy of the node as another type, which is named as in Spark's SQL."""
    to = exp.DataType.from_str(kind, dialect=DIALECT)
    made = exp.Cast(this=node.copy(), to=to)
    made.type = to.copy()
    return made


def failure(message: str) -> Any:
    """Return an expression that cannot be computed, of an integer type; `message` says why."""
    return cast_to(exp.Literal.string(message + FAILED), "TINYINT")


def integer_of(node: Any) -> int | None:
    """Return the value of an integer that is written in the query; None for other nodes."""
    while isinstance(node, exp.Paren):
        node = node.this
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
        return sign * int(node.this)
    return None


def is_null(node: Any) -> bool:
    """Return whether a node is the word NULL."""
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, exp.Null)


def text_of(node: Any) -> str | None:
    """Return a text that is written in the query; None for other nodes."""
    while isinstance(node, exp.Paren):
        node = node.this
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def aggregated(function: Any) -> Any:
    """Return the value that an aggregate takes, without the DISTINCT before it."""
    return function.this.expressions[0] if isinstance(function.this, exp.Distinct) else function.this


def needs_spark(what: str, instead: str) -> UnsupportedFeature:
    """Return the error for a part of a query that DuckDB would compute in another way."""
    return UnsupportedFeature(f"SQL: {what} is not carried out without Spark. {instead}, or run the query with Spark.")


@cache
def _parsed(text: str) -> Any:
    return parse_one(text, dialect="duckdb")
