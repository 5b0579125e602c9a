"""Assignments: check the new values of an update against the schema. Source: docs/row-changes.md#new-values."""

from collections.abc import Mapping
from typing import Any, Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.planning.row_changes.expressions import (
    ColumnValue,
    Default,
    Expression,
    FunctionCall,
    Literal,
    columns_in,
)
from lakehouse_core.table.schema import TableSchema

_ALLOWED: Final = "Use literals, columns, +, -, *, ||, COALESCE, NULL and DEFAULT."


def checked_assignments(given: Mapping[str, Any], schema: TableSchema) -> dict[str, Expression]:
    """Return the new values by column. A text is an expression in SQL, any other value stands for itself.

    Raises InvalidRequest for no assignment, unknown columns, and text that is not understood.
    """
    if not given:
        raise InvalidRequest("update({}): expected a new value for at least one column.")
    found: dict[str, Expression] = {}
    for name, value in given.items():
        schema.field(name)
        found[name] = _expression(name, value)
        for column in columns_in(found[name]):
            try:
                schema.field(column)
            except InvalidRequest as error:
                raise InvalidRequest(
                    f"New value of column {shown(name)}: {error} A text is in quotes, as in \"'void'\"."
                ) from error
    return found


def _expression(name: str, value: Any) -> Expression:
    match value:
        case Literal() | Default() | ColumnValue() | FunctionCall():
            return value
        case str():
            return _parsed(name, value)
        case _:
            return Literal(value)


def _parsed(column: str, text: str) -> Expression:
    """Return the SQL text of a new value of `column` as an expression. Raises InvalidRequest naming the part that is
    not understood.
    """
    # Programs that give no text need not load the parser.
    from lakehouse_core.planning.row_changes.expression_text import parse_expression  # noqa: PLC0415

    try:
        return parse_expression(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"New value of column {shown(column)}: {error} {_ALLOWED}") from error
