"""Expressions: the new values of columns, `amount * 2` or `'void'`, as values.

Source: docs/row-changes.md#new-values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias


class Function(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    CONCAT = "||"
    COALESCE = "COALESCE"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as the caller gave it; None is NULL."""

    value: Any


@dataclass(frozen=True, slots=True)
class Default:
    """The default of the column that is assigned; NULL without one."""


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The value of a column of the old row."""

    name: str


@dataclass(frozen=True, slots=True)
class FunctionCall:
    function: Function
    arguments: "tuple[Expression, ...]"


Expression: TypeAlias = Literal | Default | ColumnValue | FunctionCall


def columns_in(expression: Expression) -> Iterator[str]:
    """Yield the columns that the expression reads; a column may come twice."""
    match expression:
        case ColumnValue(name):
            yield name
        case FunctionCall(_, arguments):
            for argument in arguments:
                yield from columns_in(argument)
        case _:
            return
