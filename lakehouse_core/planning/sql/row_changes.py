"""DELETE, UPDATE, TRUNCATE and DROP PARTITION: the text of a statement → its value."""

from typing import Any

from lakehouse_core.planning.sql.clauses import read_alias, read_part, read_partition
from lakehouse_core.planning.sql.statement import (
    Assignment,
    DeleteRows,
    DropPartitions,
    Part,
    Statement,
    Truncate,
    UpdateRows,
)
from lakehouse_core.planning.sql.tokens import Name, TokenCursor


def read_delete(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    cursor.expect("FROM")
    table = cursor.name("the name of a table")
    alias = read_alias(cursor, "WHERE", "USING")
    if cursor.is_at("USING"):
        raise cursor.sql.unsupported(
            cursor.start, "DELETE … USING is not carried out. Name the rows by a condition on the columns of the table"
        )
    return DeleteRows(table=table, alias=alias, condition=_condition(cursor))


def read_update(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    table = cursor.name("the name of a table")
    alias = read_alias(cursor, "SET", "WHERE")
    cursor.expect("SET")
    assignments = read_assignments(cursor, "WHERE", "FROM")
    if cursor.is_at("FROM"):
        raise cursor.sql.unsupported(
            cursor.start, "UPDATE … FROM is not carried out. Query the new rows, and write them with INSERT INTO"
        )
    return UpdateRows(table=table, alias=alias, assignments=assignments, condition=_condition(cursor))


def read_assignments(cursor: TokenCursor, *stops: str) -> tuple[Assignment, ...]:
    """Read `column = value, …`, up to one of the words."""
    found = []
    while True:
        column = cursor.name("a column")
        cursor.expect("=")
        found.append(Assignment(column=column, value=read_part(cursor, "a value", ",", *stops)))
        if not cursor.takes(","):
            return tuple(found)


def read_truncate(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    cursor.expect("TABLE")
    table = cursor.name("the name of a table")
    partition = read_partition(cursor, parameters) if cursor.takes("PARTITION") else {}
    return Truncate(table=table, partition=partition)


def read_drop_partitions(cursor: TokenCursor, table: Name, parameters: dict[str, Any]) -> Statement:
    """Read DROP [IF EXISTS] PARTITION (…), PARTITION (…) of ALTER TABLE."""
    cursor.expect("DROP")
    missing_ok = cursor.takes("IF", "EXISTS")
    partitions = []
    while True:
        cursor.expect("PARTITION")
        partitions.append(read_partition(cursor, parameters))
        if not cursor.takes(","):
            break
    cursor.takes("PURGE")
    return DropPartitions(table=table, partitions=tuple(partitions), missing_ok=missing_ok)


def _condition(cursor: TokenCursor) -> Part | None:
    return read_part(cursor, "a condition") if cursor.takes("WHERE") else None
