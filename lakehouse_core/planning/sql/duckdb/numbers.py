"""Numbers in a typed query: arithmetic and functions that DuckDB computes in another way than Spark.

Source: docs/sql.md#without-spark.
"""

from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.sql.duckdb.casts import FLOATS, INTEGERS, NUMBERS, UNKNOWN
from lakehouse_core.planning.sql.duckdb.decimals import (
    decimal_text,
    kind_of,
    number_size,
    size_of,
)
from lakehouse_core.planning.sql.duckdb.fragments import (
    cast_to,
    failure,
    fragment,
    integer_of,
    is_null,
    needs_spark,
)
from lakehouse_core.planning.sql.duckdb.quotients import exact_quotient
from lakehouse_core.planning.sql.duckdb.spark_functions import DIVIDED_BY_ZERO, call

_BITS_OF_INT: Final = 32
_BITS_OF_LONG: Final = 64
_LEAST_INT: Final = -(2**31)


def rewritten_number(node: Any) -> Any:
    """Return a node with Spark's value; the node itself where DuckDB's is the same. Raises UnsupportedFeature, and
    InvalidRequest for a number that no type holds.
    """
    match node:
        case exp.Literal() if not node.is_string and float(node.this) == float("inf"):
            raise InvalidRequest(f"SQL: the number {node.this} is too large for DOUBLE. Write a smaller one.")
        case exp.Neg(this=exp.Literal()) if integer_of(node) == _LEAST_INT:
            # DuckDB 2.0.1 negates a BIGINT instead.
            return cast_to(node, "INT")
        case exp.Div():
            return _division(node)
        case exp.IntDiv():
            return _whole_division(node)
        case exp.Mod():
            return node if _is_nonzero(node.expression) else _unless_zero(node, node)
        case exp.Ceil() | exp.Floor():
            return _next(node)
        case exp.Round() if kind_of(node.this) in FLOATS and integer_of(node.args.get("decimals")):
            rounded = call("spark_round", node.this, node.args["decimals"])
            return cast_to(rounded, "FLOAT") if kind_of(node.this) == "FLOAT" else rounded
        case exp.Ln():
            return call("spark_ln", node.this)
        case exp.Log() if node.expression is not None:
            return call("spark_log", node.this, node.expression)
        case exp.Sign() if kind_of(node.this) in FLOATS:
            return call("spark_sign", node.this)
        case exp.IsNan():
            return call("coalesce", node, exp.false())
        case exp.BitwiseLeftShift():
            return call("spark_shift_left" + _long(node.this), node.this, node.expression)
        case exp.BitwiseRightShift() if not _is_shift(node):
            return call("spark_shift_right" + _long(node.this), node.this, node.expression)
    return node


def _next(node: Any) -> Any:
    """Return the next number above or below one, which has so many digits behind the point, or none."""
    size = size_of(node)
    if node.args.get("decimals") is None:
        return call("spark_long", node) if kind_of(node.this) in FLOATS else node
    if size is None:
        return node
    decimals = integer_of(node.args["decimals"]) or 0
    step = f"CAST(1e{-decimals} AS DECIMAL({max(decimals, 1 - decimals)}, {max(decimals, 0)}))"
    further = f"+ CASE WHEN :x % {step} > 0 THEN" if isinstance(node, exp.Ceil) else f"- CASE WHEN :x % {step} < 0 THEN"
    kind = decimal_text(size)
    if decimals > 0 and size[1] < decimals:
        return cast_to(node.this, kind)
    return cast_to(fragment(f"CAST(:x - :x % {step} AS {kind}) {further} {step} ELSE 0 END", x=node.this), kind)


def _long(node: Any) -> str:
    return "_long" if kind_of(node) == "BIGINT" else ""


def _is_shift(node: Any) -> bool:
    """Return whether the number of bits is one that DuckDB takes."""
    bits = integer_of(node.expression)
    return bits is not None and 0 <= bits < (_BITS_OF_LONG if _long(node.this) else _BITS_OF_INT)


def _division(node: Any) -> Any:
    size = size_of(node)
    for key in ("this", "expression"):
        if kind_of(node.args[key]) == "FLOAT":
            node.set(key, cast_to(node.args[key], "DOUBLE"))
    divided = node
    if size is not None:
        of, by = number_size(node.this), number_size(node.expression)
        exact = None if of is None or by is None else exact_quotient(node.this, of, node.expression, by, size)
        # DuckDB divides as DOUBLE. Its text has no more digits than it knows, which a cast would add.
        divided = cast_to(cast_to(node, "STRING"), decimal_text(size)) if exact is None else exact
    return divided if _is_nonzero(node.expression) else _unless_zero(divided, node)


def _whole_division(node: Any) -> Any:
    kinds = {kind_of(node.this), kind_of(node.expression)}
    if kinds <= NUMBERS | UNKNOWN and (is_null(node.this) or is_null(node.expression)):
        return cast_to(exp.Null(), "BIGINT")
    if not kinds <= INTEGERS and not kinds <= INTEGERS | {""}:
        raise needs_spark(f"DIV of {', '.join(sorted(kinds - INTEGERS))}", "Cast both sides to BIGINT")
    if kind_of(node.this) in INTEGERS - {"BIGINT"}:
        # Spark's DIV is a BIGINT, whatever it divides.
        node.set("this", cast_to(node.this, "BIGINT"))
    return node if _is_nonzero(node.expression) else _unless_zero(node, node)


def _unless_zero(value: Any, division: Any) -> Any:
    """Return the value of a division, which is an error where the divisor is zero."""
    zero = exp.EQ(this=exp.Paren(this=division.expression.copy()), expression=exp.Literal.number(0))
    return exp.Paren(
        this=exp.Case(ifs=[exp.If(this=zero, true=failure(DIVIDED_BY_ZERO))], default=exp.Paren(this=value.copy()))
    )


def _is_nonzero(node: Any) -> bool:
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) != 0
