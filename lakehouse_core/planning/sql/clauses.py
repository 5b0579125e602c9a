"""Parts that several statements have: queries inside them, names in parentheses, and properties.

Rule: each function reads one part at the cursor, and refuses what is not one with its place.
Source: docs/sql.md#queries.
"""

from decimal import Decimal
from typing import Any, Final

from lakehouse_core.errors import shown
from lakehouse_core.planning.sql.literals import is_at_text, read_literal, read_text
from lakehouse_core.planning.sql.statement import Part, QueryText
from lakehouse_core.planning.sql.tokens import TokenCursor

QUERIES: Final = ("SELECT", "WITH", "VALUES", "FROM", "(")


def read_query(cursor: TokenCursor) -> QueryText:
    if not any(cursor.is_at(word) for word in QUERIES):
        raise cursor.expected("a query: SELECT, WITH or VALUES")
    return QueryText(cursor.sql, cursor.index, cursor.start)


def is_query(cursor: TokenCursor, ahead: int, word: str) -> bool:
    token = cursor.token(ahead)
    return token is not None and token.text.upper() == word


def read_part(cursor: TokenCursor, what: str, *stops: str) -> Part:
    """Read an expression to the end of the text, or up to one of the words or marks in `stops`. Inside parentheses and
    inside CASE they do not stop it, nor does the FROM of IS DISTINCT FROM.
    """
    start, depth = cursor.start, 0
    while not cursor.is_done:
        if cursor.takes("DISTINCT", "FROM"):
            continue
        if depth == 0 and any(cursor.is_at(stop) for stop in stops):
            break
        if any(cursor.is_at(opening) for opening in ("(", "[", "CASE")):
            depth += 1
        elif any(cursor.is_at(closing) for closing in (")", "]", "END")):
            depth -= 1
        cursor.skip()
    if cursor.start == start:
        raise cursor.expected(what)
    return Part(cursor.sql, start, cursor.end)


def read_alias(cursor: TokenCursor, *stops: str) -> str | None:
    """Read the name that a statement gives to a table; `stops` are the words that may follow."""
    if cursor.takes("AS"):
        return cursor.part("a name for the table")
    return None if cursor.is_done or any(cursor.is_at(stop) for stop in stops) else cursor.part()


def read_partition(cursor: TokenCursor, parameters: dict[str, Any]) -> dict[str, Any]:
    """Read `(column = value, …)`."""
    cursor.expect("(")
    found: dict[str, Any] = {}
    while True:
        start, column = cursor.start, cursor.part("a partition column")
        if not cursor.takes("="):
            raise cursor.expected("'=' and a value")
        if column in found:
            raise cursor.sql.invalid(start, f"column {column} is given twice. Give it once")
        found[column] = read_literal(cursor, parameters)
        if not cursor.takes(","):
            break
    cursor.expect(")")
    return found


def read_properties(cursor: TokenCursor) -> dict[str, str]:
    cursor.expect("(")
    found: dict[str, str] = {}
    while True:
        start, key = cursor.start, read_key(cursor)
        if key in found:
            raise cursor.sql.invalid(start, f"property {shown(key)} is given twice. Give it once")
        cursor.takes("=")
        found[key] = option_text(read_literal(cursor, what="a value")) or ""
        if not cursor.takes(","):
            break
    cursor.expect(")")
    return found


def read_key(cursor: TokenCursor) -> str:
    if is_at_text(cursor):
        return read_text(cursor)
    found = cursor.part("the name of a property")
    while (mark := cursor.takes_one(".", "-")) is not None:
        found += mark + cursor.part("the name of a property")
    return found


def read_names(cursor: TokenCursor, what: str) -> list[str]:
    """Read names of one part in parentheses."""
    cursor.expect("(")
    found = [cursor.part(what)]
    while cursor.takes(","):
        found.append(cursor.part(what))
    cursor.expect(")")
    return found


def read_keys(cursor: TokenCursor) -> list[str]:
    cursor.expect("(")
    keys = [read_key(cursor)]
    while cursor.takes(","):
        keys.append(read_key(cursor))
    cursor.expect(")")
    return keys


def option_text(value: Any) -> str | None:
    """Return a literal as the text of an option or of a default."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case Decimal():
            return f"{value:f}"
    return str(value)
