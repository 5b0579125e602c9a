"""SQL conditions as predicates: `dt >= DATE '2013-01-05' AND amount > 10`.

sqlglot parses the text; this module maps the parts that a predicate can express. Rule: any other part is refused by
name, so that no part of a condition is ignored. Source: docs/conditions.md#what-a-condition-may-have.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import Tokenizer

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.format.data_types import AtomicType, TypeRoot, from_internal, parse_literal
from lakehouse_core.table.predicate import (
    And,
    Compare,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)

MAX_TEXT_LENGTH: Final = 1 << 20

_ALLOWED: Final = (
    "Use columns compared with literals (=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL, LIKE 'x%'), joined by AND, OR, NOT."
)


class _NotUnderstood(Exception):
    """Names the part of a condition that no predicate expresses."""


class ConditionDialect(Dialect):  # type: ignore[misc]
    """The dialect: names in double quotes or backticks, binary literals as X'CAFE'."""

    class Tokenizer(Tokenizer):  # type: ignore[misc]
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012  # sqlglot reads a plain list
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012


def parse_where(text: str) -> Predicate:
    """Return the condition of the SQL text as a predicate. Raises InvalidRequest naming the part that is not
    supported.
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidRequest(f"The condition has {len(text)} characters: at most {MAX_TEXT_LENGTH} are read.")
    try:
        return _condition(parse_one(text, dialect=ConditionDialect))
    except _NotUnderstood as error:
        raise InvalidRequest(f"Condition {shown(text)}: {error} is not understood. {_ALLOWED}") from None
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        place = f" at character {first['col']}" if first.get("col") else ""
        raise InvalidRequest(f"Condition {shown(text)} is not SQL{place}. {_ALLOWED}") from error
    except SqlglotError as error:
        raise InvalidRequest(f"Condition {shown(text)} is not SQL: a quote is not closed. {_ALLOWED}") from error
    except RecursionError as error:
        raise InvalidRequest(f"Condition {shown(text)} is nested too deeply: use IN for long lists.") from error


def literal_value(node: Any) -> Any:
    """Return the Python value of a literal in a parsed text; None for NULL. Raises InvalidRequest for another node."""
    try:
        return _literal(node)
    except _NotUnderstood as error:
        raise InvalidRequest(f"{error} is not understood.") from None


# The comparison of each node of a parsed text.
COMPARISONS: Final[dict[type, Comparison]] = {
    exp.EQ: Comparison.EQUAL,
    exp.NEQ: Comparison.NOT_EQUAL,
    exp.LT: Comparison.LESS,
    exp.LTE: Comparison.LESS_OR_EQUAL,
    exp.GT: Comparison.GREATER,
    exp.GTE: Comparison.GREATER_OR_EQUAL,
}


def _condition(node: Any) -> Predicate:
    if isinstance(node, exp.Paren):
        return _condition(node.this)
    if isinstance(node, exp.Column):
        return Compare(_column(node), Comparison.EQUAL, True)
    if type(node) in COMPARISONS:
        return _comparison(node, COMPARISONS[type(node)])
    if type(node) in _SHAPES:
        allowed, shape = _SHAPES[type(node)]
        if any(value and name not in allowed for name, value in node.args.items()):
            raise _NotUnderstood(shown(node.sql()))
        return shape(node)
    raise _NotUnderstood(shown(node.sql()))


def _comparison(node: Any, comparison: Comparison) -> Predicate:
    left, right = node.this, node.expression
    if _is_column(left):
        return Compare(_column(left), comparison, _literal(right))
    if _is_column(right):
        return Compare(_column(right), comparison.mirrored, _literal(left))
    raise _NotUnderstood(f"the comparison {shown(node.sql())}, in which neither side is a column by itself,")


def _and(node: Any) -> Predicate:
    return And(tuple(_condition(part) for part in node.flatten()))


def _or(node: Any) -> Predicate:
    return Or(tuple(_condition(part) for part in node.flatten()))


def _not(node: Any) -> Predicate:
    return Not(_condition(node.this))


def _in(node: Any) -> Predicate:
    if not node.expressions:
        raise _NotUnderstood("IN without values")
    return In(_column(node.this), tuple(_literal(value) for value in node.expressions))


def _between(node: Any) -> Predicate:
    column = _column(node.this)
    return And(
        (
            Compare(column, Comparison.GREATER_OR_EQUAL, _literal(node.args["low"])),
            Compare(column, Comparison.LESS_OR_EQUAL, _literal(node.args["high"])),
        )
    )


def _is(node: Any) -> Predicate:
    if not isinstance(node.expression, exp.Null):
        raise _NotUnderstood("IS with anything but NULL")
    return IsNull(_column(node.this))


def _like(node: Any) -> Predicate:
    column, pattern = _column(node.this), _literal(node.expression)
    if not isinstance(pattern, str):
        raise _NotUnderstood("LIKE with anything but a text")
    prefix = pattern.removesuffix("%")
    if any(wildcard in prefix for wildcard in "%_\\"):
        raise _NotUnderstood(f"the pattern {shown(pattern)} (only a trailing % is)")
    found: Predicate = Compare(column, Comparison.EQUAL, pattern) if prefix == pattern else StartsWith(column, prefix)
    return Not(found) if node.args.get("negate") else found


_SHAPES: Final[dict[type, tuple[frozenset[str], Callable[[Any], Predicate]]]] = {
    exp.And: (frozenset({"this", "expression"}), _and),
    exp.Or: (frozenset({"this", "expression"}), _or),
    exp.Not: (frozenset({"this"}), _not),
    exp.In: (frozenset({"this", "expressions"}), _in),
    exp.Between: (frozenset({"this", "low", "high"}), _between),
    exp.Is: (frozenset({"this", "expression"}), _is),
    exp.Like: (frozenset({"this", "expression", "negate"}), _like),
}


def _is_column(node: Any) -> bool:
    return isinstance(node.unnest() if isinstance(node, exp.Paren) else node, exp.Column)


def _column(node: Any) -> str:
    column = node.unnest() if isinstance(node, exp.Paren) else node
    if not isinstance(column, exp.Column):
        raise _NotUnderstood(f"{shown(column.sql())} where a column is expected")
    if column.args.get("table"):
        raise _NotUnderstood("a nested or qualified column (quote a name that has a dot)")
    if not isinstance(column.this, exp.Identifier):
        raise _NotUnderstood(shown(column.sql()))
    return str(column.this.this)


_ZONE: Final = re.compile(r"(Z|[+-]\d{2}:?\d{2})$", re.IGNORECASE)
_TYPED: Final = {
    "DATE": AtomicType(TypeRoot.DATE),
    "TIME": AtomicType(TypeRoot.TIME, precision=3),
    "TIMESTAMP": AtomicType(TypeRoot.TIMESTAMP, precision=9),
    "TIMESTAMPNTZ": AtomicType(TypeRoot.TIMESTAMP, precision=9),
    "DATETIME": AtomicType(TypeRoot.TIMESTAMP, precision=9),
    "TIMESTAMPLTZ": AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=9),
    "TIMESTAMPTZ": AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=9),
}


def _literal(node: Any) -> Any:
    """Return the Python value of a literal; None for NULL, which binding then refuses with advice."""
    match node:
        case exp.Paren():
            return _literal(node.unnest())
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal() if node.is_string:
            return str(node.this)
        case exp.Literal():
            return _number(node, str(node.this))
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return -_number(node, str(node.this.this))
        case exp.HexString():
            return _bytes(node)
        case exp.Cast() if isinstance(node.this, exp.Literal) and node.this.is_string and not node.to.expressions:
            return _typed(node)
    if isinstance(node, exp.Column):
        raise _NotUnderstood(
            f"the column {shown(node.sql())} where a literal is expected (a text is in single quotes: 'paid')"
        )
    raise _NotUnderstood(f"{shown(node.sql())} where a literal is expected")


def _number(node: Any, text: str) -> int | Decimal:
    if text.isdecimal() and text.isascii():
        return int(text) if len(text) <= 400 else Decimal(text)
    try:
        return Decimal(text)
    except ArithmeticError as error:
        raise _NotUnderstood(f"the number {shown(text[:50])}") from error


def _bytes(node: Any) -> bytes:
    # sqlglot keeps the digits as text, also an odd number of them, which is not a byte string.
    try:
        return bytes.fromhex(str(node.this))
    except ValueError as error:
        raise _NotUnderstood("an odd number of hexadecimal digits") from error


def _typed(node: Any) -> Any:
    name, text = node.to.this.name, str(node.this.this)
    kind = _TYPED.get("TIMESTAMPLTZ" if name == "TIMESTAMP" and _ZONE.search(text) else name)
    if kind is None:
        raise _NotUnderstood(f"a literal of type {name}")
    parsed = parse_literal(text, kind)
    try:
        return from_internal(parsed, kind)
    except InvalidRequest:
        # Python has no such time; the text is parsed again by the column's type.
        return text
