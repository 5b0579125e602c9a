"""SHOW and DESCRIBE: what there is, in Spark's columns."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.errors import shown
from lakehouse_core.options import NEXT_BUCKET_OPTION
from lakehouse_core.planning.sql.statement import Describe, Show
from lakehouse_core.planning.sql.types import quoted, spark_text


def show(call: StatementCall, statement: Show) -> Answer:
    """Return what a SHOW asks for."""
    match statement.what:
        case "databases":
            return _rows(call, {"namespace": _like(call.catalog.databases(), statement.like)})
        case "tables":
            database = call.database_name(statement.name)
            with nullcontext() if statement.name is None else call.placed(statement.name):
                names = _like(call.catalog.tables(database), statement.like)
            return _rows(
                call, {"namespace": [database] * len(names), "tableName": names, "isTemporary": [False] * len(names)}
            )
    assert statement.name is not None
    table = call.existing(statement.name)
    match statement.what:
        case "tblproperties":
            found = {**table.schema.options, **_keys(table)}
            if statement.like is not None and statement.like not in found:
                raise call.sql.invalid(
                    statement.name.start,
                    f"{table.name}: property {shown(statement.like)} is not set. SHOW TBLPROPERTIES lists those set",
                )
            pairs = sorted((key, value) for key, value in found.items() if statement.like in (None, key))
            return _rows(call, {"key": [key for key, _ in pairs], "value": [value for _, value in pairs]})
        case "create":
            return _rows(call, {"createtab_stmt": [create_text(table)]})
        case "columns":
            return _rows(call, {"col_name": list(table.schema.column_names)})
        case "tags":
            return _rows(call, {"tag": [tag.name for tag in table.tags()]})
    if not table.schema.partition_keys:
        raise call.sql.invalid(statement.name.start, f"{table.name}: the table is not partitioned")
    return _rows(call, {"partition": [_partition(one.partition) for one in table.partitions()]})


def describe(call: StatementCall, statement: Describe) -> Answer:
    """Return what a DESCRIBE asks for."""
    match statement.what:
        case "database":
            return _database(call, statement)
        case "history":
            found = call.catalog.system_table(f"{call.existing(statement.name).name}$snapshots").to_arrow()
            return answer_of(call.sql.text, found.take(list(reversed(range(found.num_rows)))))
    table = call.existing(statement.name)
    rows = list(_columns(table))
    if statement.column is not None:
        rows = [row for row in rows if row[0].casefold() == statement.column.casefold()]
        if not rows:
            start = call.sql.tokens[-1].start
            raise call.sql.no_column(start, statement.column, table.schema.column_names)
    else:
        rows += _partitioning(table)
        rows += _details(table) if statement.extended else []
    names = ("col_name", "data_type", "comment")
    return _rows(call, {name: [row[index] for row in rows] for index, name in enumerate(names)})


def create_text(table: Table) -> str:
    """Return the statement that makes such a table."""
    schema = table.schema
    columns = []
    for field in schema.fields:
        text = f"  {quoted(field.name)} {spark_text(field.type)}"
        text += "" if field.type.nullable else " NOT NULL"
        text += "" if field.default_value is None else f" DEFAULT {_string(field.default_value)}"
        columns.append(text + ("" if field.description is None else f" COMMENT {_string(field.description)}"))
    lines = [
        f"CREATE TABLE {'.'.join(map(quoted, table.name.split('.', 1)))} (",
        ",\n".join(columns) + ")",
        "USING paimon",
    ]
    if schema.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted, schema.partition_keys))})")
    if schema.comment is not None:
        lines.append(f"COMMENT {_string(schema.comment)}")
    options = {**_keys(table), **schema.options}
    # No new table takes it.
    options.pop(NEXT_BUCKET_OPTION, None)
    if options:
        pairs = ",\n".join(f"  {_string(key)} = {_string(value)}" for key, value in sorted(options.items()))
        lines.append(f"TBLPROPERTIES (\n{pairs})")
    return "\n".join(lines)


def _keys(table: Table) -> dict[str, str]:
    keys = table.schema.primary_keys
    return {"primary-key": ",".join(keys)} if keys else {}


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _database(call: StatementCall, statement: Describe) -> Answer:
    name = call.database_name(statement.name)
    with call.placed(statement.name):
        properties = call.catalog.database_properties(name)
    pairs = [("Namespace Name", name), ("Location", f"{call.catalog.uri.rstrip('/')}/{name}.db")]
    if "comment" in properties:
        pairs.append(("Comment", properties["comment"]))
    if statement.extended:
        others = {key: value for key, value in properties.items() if key != "comment"}
        pairs.append(("Properties", f"({', '.join(f'({key},{value})' for key, value in sorted(others.items()))})"))
    return _rows(call, {"info_name": [key for key, _ in pairs], "info_value": [value for _, value in pairs]})


def _columns(table: Table) -> Iterator[tuple[str, str, str | None]]:
    for field in table.schema.fields:
        yield field.name, spark_text(field.type).lower(), field.description


def _partitioning(table: Table) -> list[tuple[str, str, str | None]]:
    keys = table.schema.partition_keys
    if not keys:
        return []
    columns = [row for row in _columns(table) if row[0] in keys]
    return [("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), *columns]


def _details(table: Table) -> list[tuple[str, str, str | None]]:
    options = {**_keys(table), **table.schema.options}
    return [
        ("", "", ""),
        ("# Detailed Table Information", "", ""),
        ("Name", table.name, ""),
        ("Comment", table.schema.comment or "", ""),
        ("Location", table.uri, ""),
        ("Provider", "paimon", ""),
        ("Table Properties", f"[{','.join(f'{key}={value}' for key, value in sorted(options.items()))}]", ""),
    ]


def _partition(values: Any) -> str:
    return "/".join(f"{key}={'__DEFAULT_PARTITION__' if value is None else value}" for key, value in values.items())


def _like(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that fit a pattern of Spark: `*` for any characters, `|` between patterns."""
    if pattern is None:
        return list(names)
    parts = [one.strip().casefold().replace("%", "*") for one in pattern.split("|")]
    return [name for name in names if any(fnmatchcase(name.casefold(), part) for part in parts)]


def _rows(call: StatementCall, columns: dict[str, Sequence[Any]]) -> Answer:
    kinds = {name: pa.bool_() if name == "isTemporary" else pa.string() for name in columns}
    return answer_of(call.sql.text, pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()}))
