"""Statements about tags, with the words of Paimon's extension of Spark's SQL. Source: docs/sql.md#changing-tables."""

from datetime import timedelta
from typing import Final

from lakehouse_core.planning.sql.literals import read_literal
from lakehouse_core.planning.sql.statement import ChangeTag, Statement
from lakehouse_core.planning.sql.tokens import Name, TokenCursor

_UNITS: Final = ("DAYS", "HOURS", "MINUTES")
_VERBS: Final = ("CREATE", "REPLACE", "DELETE", "RENAME", "DROP")


def is_about_tags(cursor: TokenCursor) -> bool:
    """Return whether what follows the name of ALTER TABLE is about a tag."""
    return cursor.is_at("CREATE", "OR", "REPLACE", "TAG") or any(cursor.is_at(verb, "TAG") for verb in _VERBS)


def read_tag(cursor: TokenCursor, table: Name) -> Statement:
    """Read CREATE [OR REPLACE] TAG, REPLACE TAG, DELETE TAG or RENAME TAG of ALTER TABLE. REQUIRES: `is_about_tags`."""
    start = cursor.start
    if cursor.takes("DROP", "TAG"):
        raise cursor.sql.unsupported(start, "DROP TAG is not carried out. Write DELETE TAG")
    if cursor.takes("DELETE", "TAG"):
        exists = cursor.takes("IF", "EXISTS")
        return ChangeTag(table=table, action="delete", tag=_tag(cursor), missing_ok=exists)
    if cursor.takes("RENAME", "TAG"):
        tag = _tag(cursor)
        cursor.expect("TO")
        return ChangeTag(table=table, action="rename", tag=tag, new_name=_tag(cursor))
    either = cursor.takes("CREATE", "OR")
    if cursor.takes("REPLACE", "TAG"):
        action, exist_ok = "create or replace" if either else "replace", False
    else:
        cursor.expect("CREATE", "TAG")
        action, exist_ok = "create", cursor.takes("IF", "NOT", "EXISTS")
    tag = _tag(cursor)
    snapshot = _whole(cursor, "the id of a snapshot") if cursor.takes("AS", "OF", "VERSION") else None
    retention = _retention(cursor) if cursor.takes("RETAIN") else None
    return ChangeTag(table=table, action=action, tag=tag, exist_ok=exist_ok, snapshot=snapshot, retention=retention)


def _tag(cursor: TokenCursor) -> str:
    return cursor.part("the name of a tag, in backquotes unless it is a plain word")


def _retention(cursor: TokenCursor) -> timedelta:
    start, count = cursor.start, _whole(cursor, "a number")
    unit = cursor.takes_one(*_UNITS)
    if unit is None:
        raise cursor.expected("DAYS, HOURS or MINUTES")
    try:
        return timedelta(**{unit.lower(): count})
    except OverflowError as error:
        raise cursor.sql.invalid(
            start, f"{count} {unit} is too long a time. Leave RETAIN out to keep the tag"
        ) from error


def _whole(cursor: TokenCursor, what: str) -> int:
    start, found = cursor.start, read_literal(cursor, what=what)
    if not isinstance(found, int) or isinstance(found, bool):
        raise cursor.sql.invalid(start, f"found {found}, expected {what}")
    return found
