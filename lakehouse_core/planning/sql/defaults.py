"""DEFAULT among the values of an INSERT: where it stands, and the query with values in its place.

Rule: only a value that is the word DEFAULT alone means the column's default, as in Spark; a name in backquotes is one.
Source: docs/sql.md#changing-tables.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sqlglot import exp

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.sql.statement import QueryText
from lakehouse_core.planning.sql.tokens import SqlText, TokenCursor

_WORD: Final = "DEFAULT"
_BEFORE: Final = ("SELECT", "ALL", "DISTINCT", ",")
# Behind a select list.
_ENDS: Final = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "LATERAL")


def default_places(query: QueryText) -> dict[int, int]:
    """Return, by the place of each DEFAULT of VALUES (…), (…) or of a SELECT list, which column of the rows it is.

    Raises InvalidRequest for one where Spark takes none: behind a star, whose columns are not known, in a part of a
    query, beside aggregates.
    """
    cursor = TokenCursor(query.sql, query.first)
    while cursor.takes("("):
        pass
    found: dict[int, int] = {}
    if cursor.takes("SELECT"):
        found = _of_items(cursor, *_ENDS, ")")
    elif cursor.takes("VALUES"):
        while cursor.takes("("):
            found.update(_of_items(cursor, ")"))
            cursor.skip()
            cursor.takes(",")
    for place in _standing(query):
        if place not in found:
            raise _misplaced(query, place)
    return found


def check_defaults(query: QueryText, places: Mapping[int, int], tree: Any) -> None:
    """Raise InvalidRequest for a query whose rows cannot have defaults, as in Spark. `tree`: with values in their
    places.
    """
    inner = tree.unnest()
    is_plain = isinstance(inner, exp.Values) and not any(inner.args.get(key) for key in ("limit", "order", "offset"))
    if isinstance(inner, exp.Select):
        is_plain = not any(inner.args.get(key) for key in ("group", "having", "distinct", "with_"))
        is_plain = is_plain and not any(each.find(exp.AggFunc) for each in inner.expressions)
    if not is_plain:
        raise _misplaced(query, min(places))


def _misplaced(query: QueryText, place: int) -> InvalidRequest:
    return query.sql.invalid(
        place,
        "DEFAULT is taken in VALUES (…) and in the columns of one SELECT without WITH, UNION, DISTINCT and aggregates. "
        "Name the other columns behind the table, and leave this one out",
    )


def _standing(query: QueryText) -> Iterator[int]:
    """Yield the places of DEFAULT where it is a column of some query."""
    cursor, before = TokenCursor(query.sql, query.first), ""
    while not cursor.is_done:
        if before in _BEFORE and cursor.is_at(_WORD) and _ends_value(cursor, *_ENDS, ")"):
            yield cursor.start
        token = cursor.token()
        before = "" if token is None else token.text.upper()
        cursor.skip()


def with_defaults(
    query: QueryText, places: Mapping[int, int], values: Mapping[int, Any], parameters: Mapping[str, Any]
) -> tuple[QueryText, dict[str, Any]]:
    """Return the query with a parameter in the place of each DEFAULT, and the parameters with its value. Places in the
    text stay as they are. `values`: by the number of the column.
    """
    text, found = query.sql.text, dict(parameters)
    numbers = iter(range(10 ** (len(_WORD) - 2)))
    for start, column in places.items():
        # A colon and this name are as long as the word.
        name = next(one for number in numbers if (one := f"d{number:0{len(_WORD) - 2}}") not in found)
        found[name] = values[column]
        text = f"{text[:start]}:{name}{text[start + len(_WORD) :]}"
    return QueryText(SqlText(text), query.first, query.start), found


def _of_items(cursor: TokenCursor, *ends: str) -> dict[int, int]:
    """Read a list of values, up to one of the words or marks behind it."""
    found: dict[int, int] = {}
    column, length, depth, has_star = 0, 0, 0, False
    while not cursor.is_done and (depth or not any(cursor.is_at(end) for end in ends)):
        if not depth and cursor.is_at(","):
            column, length = column + 1, 0
            cursor.skip()
            continue
        if not length and cursor.is_at(_WORD) and _ends_value(cursor, *ends):
            if has_star:
                raise cursor.sql.invalid(cursor.start, "DEFAULT stands behind '*'. Name the columns before it")
            found[cursor.start] = column
        has_star = has_star or (not depth and cursor.is_at("*") and _ends_value(cursor, *ends))
        depth += any(cursor.is_at(mark) for mark in ("(", "[")) - any(cursor.is_at(mark) for mark in (")", "]"))
        length += 1
        cursor.skip()
    return found


def _ends_value(cursor: TokenCursor, *ends: str) -> bool:
    after = cursor.token(1)
    return after is None or after.text.upper() in (",", "AS", *ends)
