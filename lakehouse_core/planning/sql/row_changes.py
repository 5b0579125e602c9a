"""DELETE, UPDATE, MERGE, TRUNCATE and DROP PARTITION: the text of a statement → its value.

Source: docs/sql.md#changing-tables.
"""

from typing import Any

from lakehouse_core.planning.sql.clauses import read_alias, read_part, read_partition
from lakehouse_core.planning.sql.statement import (
    Assignment,
    DeleteRows,
    DropPartitions,
    MergeBranch,
    MergeRows,
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


def read_merge(cursor: TokenCursor, start: int, parameters: dict[str, Any]) -> Statement:
    if cursor.is_at("WITH", "SCHEMA"):
        raise cursor.sql.unsupported(
            cursor.start,
            "MERGE WITH SCHEMA EVOLUTION is not carried out. Leave it out, and set write.merge-schema = true",
        )
    cursor.expect("INTO")
    table = cursor.name("the name of a table")
    alias = read_alias(cursor, "USING")
    cursor.expect("USING")
    source: Name | Part
    if cursor.takes("("):
        source = read_part(cursor, "a query", ")")
        cursor.expect(")")
    else:
        source = cursor.name("the name of a table, or a query in parentheses")
    at, source_alias = cursor.start, read_alias(cursor, "ON")
    if isinstance(source, Part) and source_alias is None:
        raise cursor.sql.invalid(at, "the query of USING has no name. Write one behind it, as in (SELECT …) AS s")
    cursor.expect("ON")
    on = read_part(cursor, "a condition", "WHEN")
    branches = []
    while not cursor.is_done:
        cursor.expect("WHEN")
        branches.append(_branch(cursor))
    if not branches:
        raise cursor.expected("WHEN MATCHED or WHEN NOT MATCHED")
    return MergeRows(
        table=table, source=source, on=on, branches=tuple(branches), alias=alias, source_alias=source_alias
    )


def _branch(cursor: TokenCursor) -> MergeBranch:
    rows = "new" if cursor.takes("NOT") else "matched"
    cursor.expect("MATCHED")
    if rows == "new" and cursor.takes("BY"):
        side = cursor.takes_one("SOURCE", "TARGET")
        if side is None:
            raise cursor.expected("SOURCE or TARGET")
        rows = "rest" if side == "SOURCE" else "new"
    condition = read_part(cursor, "a condition", "THEN") if cursor.takes("AND") else None
    cursor.expect("THEN")
    if rows == "new":
        cursor.expect("INSERT")
        return MergeBranch(rows=rows, action="insert", condition=condition, assignments=_inserted(cursor))
    if cursor.takes("DELETE"):
        return MergeBranch(rows=rows, action="delete", condition=condition)
    if not cursor.takes("UPDATE", "SET"):
        raise cursor.expected("UPDATE SET or DELETE")
    at = cursor.start
    if not cursor.takes("*"):
        return MergeBranch(
            rows=rows, action="update", condition=condition, assignments=read_assignments(cursor, "WHEN")
        )
    if rows == "rest":
        raise cursor.sql.invalid(at, "there is no row of the source, so UPDATE SET * has no values. Name the columns")
    return MergeBranch(rows=rows, action="update", condition=condition)


def _inserted(cursor: TokenCursor) -> tuple[Assignment, ...] | None:
    if cursor.takes("*"):
        return None
    at = cursor.start
    cursor.expect("(")
    columns = [cursor.name("a column")]
    while cursor.takes(","):
        columns.append(cursor.name("a column"))
    cursor.expect(")", "VALUES", "(")
    values = [read_part(cursor, "a value", ",", ")")]
    while cursor.takes(","):
        values.append(read_part(cursor, "a value", ",", ")"))
    cursor.expect(")")
    if len(columns) != len(values):
        raise cursor.sql.invalid(
            at, f"INSERT has {len(columns)} and {len(values)} of columns and values. Give each column one value"
        )
    return tuple(Assignment(column=one, value=value) for one, value in zip(columns, values, strict=True))


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
