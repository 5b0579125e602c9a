"""Statements of a history (`tests/oracle/statements.py`), as calls of the front door."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

import lakehouse_core as lc
from lakehouse_core.format.data_types import AtomicType, DataType, TypeRoot
from tests.interop.values import arrow_rows, python_value
from tests.oracle.history import Json


def state(table: lc.Table, operation: Json, given: Callable[[pa.Table], Any]) -> None:
    """Carry out a statement; `given` makes what is written of Arrow rows."""
    types = {each.name: each.type for each in table.schema.fields}
    match operation["verb"]:
        case "overwrite":
            partition = operation["partition"]
            typed = None if partition is None else _values(partition, types)
            dynamic = operation["dynamic"] if partition is None else None
            table.overwrite(given(arrow_rows(operation["rows"], table.schema.fields)), partition=typed, dynamic=dynamic)
        case "truncate":
            table.truncate()
        case "drop":
            table.drop_partitions([_values(each, types) for each in operation["partitions"]])
        case "rescale":
            table.rescale(operation["buckets"])
        case "delete":
            table.delete(condition(operation["where"], types))
        case "update":
            values = _values(operation["set"], types)
            texts = {name: _text(value) if isinstance(value, str) else value for name, value in values.items()}
            table.update(texts, condition(operation["where"], types))
        case "replace":
            rows = arrow_rows(operation["rows"], table.schema.fields)
            table.overwrite(given(rows), where=condition(operation["where"], types))
        case "merge":
            rows = arrow_rows(operation["rows"], table.schema.fields)
            on = " AND ".join(f"t.{name} = s.{name}" for name in table.schema.primary_keys)
            table.merge(given(rows), on, *_clauses(operation["clauses"], table))
        case other:
            raise AssertionError(other)


def condition(where: Json, types: Mapping[str, DataType]) -> str:
    """Return a condition as SQL."""
    if "or" in where:
        return " OR ".join(condition(each, types) for each in where["or"])
    column, op = where["field"], where["op"]
    if op in ("isNull", "isNotNull"):
        return f"{column} IS {'NOT ' * (op == 'isNotNull')}NULL"
    values = where["value"] if op == "in" else [where["value"]]
    literals = [_literal(value, types[column]) for value in values]
    return f"{column} IN ({', '.join(literals)})" if op == "in" else f"{column} {op} {literals[0]}"


def _literal(value: Any, type_: DataType) -> str:
    assert isinstance(type_, AtomicType)
    match type_.root:
        case TypeRoot.DATE | TypeRoot.TIMESTAMP:
            return f"{type_.root.name} '{value.replace('T', ' ')}'"
        case TypeRoot.VARCHAR:
            return _text(value)
    return str(value)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _values(values: Json, types: Mapping[str, DataType]) -> dict[str, Any]:
    return {name: python_value(value, types[name]) for name, value in values.items()}


def _clauses(names: list[str], table: lc.Table) -> list[Any]:
    columns = table.schema.column_names
    keys = table.schema.primary_keys
    clauses: dict[str, Any] = {
        "update": lc.WhenMatched(update={name: f"s.{name}" for name in columns if name not in keys}),
        "delete": lc.WhenMatched(delete=True),
        "insert": lc.WhenNotMatched(insert={name: f"s.{name}" for name in columns}),
    }
    return [clauses[name] for name in names]
