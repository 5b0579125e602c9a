"""Literals: the values that the text of a statement holds or names: texts, numbers, times, maps and parameters.

Rule: each function reads one literal at the cursor, and refuses what is not one with its place.
Source: docs/sql.md#queries.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot.tokens import TokenType

from lakehouse_core.errors import shown
from lakehouse_core.planning.sql.tokens import TEXTS, TokenCursor


def is_at_text(cursor: TokenCursor) -> bool:
    """Return whether the next token is a text in quotes."""
    token = cursor.token()
    return token is not None and token.token_type in TEXTS


def read_text(cursor: TokenCursor, what: str = "a text in quotes") -> str:
    token = cursor.token()
    if token is None or token.token_type not in TEXTS:
        raise cursor.expected(what)
    cursor.skip()
    return str(token.text)


def read_literal(cursor: TokenCursor, parameters: dict[str, Any] | None = None, what: str = "a literal") -> Any:
    """Read a literal, or a parameter, and return its value."""
    if cursor.takes(":"):
        return _read_parameter(cursor, parameters or {})
    if is_at_text(cursor):
        return read_text(cursor)
    for word, value in (("NULL", None), ("TRUE", True), ("FALSE", False)):
        if cursor.takes(word):
            return value
    if cursor.is_at("DATE") or cursor.is_at("TIMESTAMP"):
        return _read_time(cursor)
    if cursor.takes("-"):
        return -_read_number(cursor, what)
    return _read_number(cursor, what)


def read_map(cursor: TokenCursor, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    """Read `map('k', 'v', …)`."""
    cursor.expect("MAP", "(")
    found: dict[str, Any] = {}
    while not cursor.takes(")"):
        if found:
            cursor.expect(",")
        key = read_text(cursor)
        cursor.expect(",")
        found[key] = read_literal(cursor, parameters)
    return found


def _read_parameter(cursor: TokenCursor, parameters: dict[str, Any]) -> Any:
    start = cursor.start
    name = cursor.part("the name of a parameter")
    if name not in parameters:
        raise cursor.sql.invalid(start, f"parameter :{name} has no value. Pass it: sql(text, {{{name!r}: …}})")
    return parameters[name]


def _read_number(cursor: TokenCursor, what: str) -> int | Decimal:
    token = cursor.token()
    if token is None or token.token_type is not TokenType.NUMBER:
        raise cursor.expected(what)
    cursor.skip()
    text = str(token.text)
    # The suffix of a number's type, as in 3L, is a cast for the tokenizer.
    if cursor.takes("::"):
        cursor.skip()
    return int(text) if text.isdecimal() and len(text) < 400 else Decimal(text)


def _read_time(cursor: TokenCursor) -> Any:
    start, is_date = cursor.start, cursor.is_at("DATE")
    cursor.skip()
    text = read_text(cursor)
    try:
        return date.fromisoformat(text) if is_date else datetime.fromisoformat(text)
    except ValueError as error:
        raise cursor.sql.invalid(start, f"{shown(text)} is not a time, expected one such as '2013-01-05'") from error
