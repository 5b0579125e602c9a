"""SQL expressions as values: the text of a new value, parsed by sqlglot. Source: docs/row-changes.md#new-values."""

from functools import reduce
from typing import Any, Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.planning.read.where import MAX_TEXT_LENGTH, ConditionDialect, literal_value
from lakehouse_core.planning.row_changes.expressions import (
    ColumnValue,
    Default,
    Expression,
    Function,
    FunctionCall,
    Literal,
)

_BINARY: Final = {
    exp.Add: Function.ADD,
    exp.Sub: Function.SUBTRACT,
    exp.Mul: Function.MULTIPLY,
    exp.DPipe: Function.CONCAT,
}


def parse_expression(text: str) -> Expression:
    """Return the expression of the text. Raises InvalidRequest naming the part that is not understood."""
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidRequest(f"the expression has {len(text)} characters, at most {MAX_TEXT_LENGTH} are read.")
    if text.strip().upper() == "DEFAULT":
        return Default()
    try:
        return expression_of(parse_one(text, dialect=ConditionDialect))
    except SqlglotError as error:
        raise InvalidRequest(
            f"{shown(text)} is not an expression in SQL. A text is in quotes, as in \"'void'\"."
        ) from error
    except RecursionError as error:
        raise InvalidRequest(f"{shown(text)} is nested too deeply.") from error


def expression_of(node: Any) -> Expression:
    """Return the expression of a tree. Raises InvalidRequest naming the part that is not understood."""
    match node:
        case exp.Paren():
            return expression_of(node.this)
        case exp.Column():
            if isinstance(node.this, exp.Identifier) and len(node.parts) == 1:
                return ColumnValue(str(node.this.this))
            raise _refused(node)
        case exp.Coalesce():
            return FunctionCall(Function.COALESCE, tuple(map(expression_of, (node.this, *node.expressions))))
        case exp.Neg() if not isinstance(node.this, exp.Literal):
            return FunctionCall(Function.SUBTRACT, (Literal(0), expression_of(node.this)))
    if type(node) in _BINARY:
        parts = [expression_of(node.this), expression_of(node.expression)]
        function = _BINARY[type(node)]
        return reduce(lambda left, right: FunctionCall(function, (left, right)), parts)
    try:
        return Literal(literal_value(node))
    except InvalidRequest as error:
        raise _refused(node) from error


def _refused(node: Any) -> InvalidRequest:
    return InvalidRequest(f"{shown(node.sql())} is not understood.")
