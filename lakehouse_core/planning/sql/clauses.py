"""Parts that several statements have: queries inside them, and properties.

Rule: each function reads one part at the cursor, and refuses what is not one with its place.
"""

from decimal import Decimal
from typing import Any, Final

from lakehouse_core.errors import shown
from lakehouse_core.planning.sql.statement import QueryText
from lakehouse_core.planning.sql.tokens import Cursor

QUERIES: Final = ("SELECT", "WITH", "VALUES", "FROM", "(")


# Statements that Spark knows and that are not carried out here, with what to do instead.
def read_query(cursor: Cursor) -> QueryText:
    if not any(cursor.is_at(word) for word in QUERIES):
        raise cursor.expected("a query: SELECT, WITH or VALUES")
    return QueryText(cursor.sql, cursor.index, cursor.start)


def is_query(cursor: Cursor, ahead: int, word: str) -> bool:
    token = cursor.token(ahead)
    return token is not None and token.text.upper() == word


def read_properties(cursor: Cursor) -> dict[str, str]:
    cursor.expect("(")
    found: dict[str, str] = {}
    while True:
        start, key = cursor.start, read_key(cursor)
        if key in found:
            raise cursor.sql.invalid(start, f"property {shown(key)} is given twice. Give it once")
        cursor.takes("=")
        found[key] = option_text(cursor.literal(what="a value")) or ""
        if not cursor.takes(","):
            break
    cursor.expect(")")
    return found


def read_key(cursor: Cursor) -> str:
    if cursor.is_text():
        return cursor.string()
    found = cursor.part("the name of a property")
    while (mark := cursor.takes_one(".", "-")) is not None:
        found += mark + cursor.part("the name of a property")
    return found


def read_keys(cursor: Cursor) -> list[str]:
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
