"""Rows in the JSON of the judge as records of comparable values, and back."""

import json
from typing import Any

import pyarrow as pa

from lakehouse_core.format.data_types import arrow_schema, column_of, values_of
from lakehouse_core.table.schema import TableSchema
from tests.interop.values import Row, arrow_rows, java_rows
from tests.oracle.aggregation import Record


def records(rows: list[Row], schema: TableSchema) -> list[Record]:
    table = arrow_rows(rows, schema.fields)
    columns = {field.name: values_of(table.column(field.name), field.type) for field in schema.fields}
    return [
        Record(row.get("_kind", "+I"), {name: column[index] for name, column in columns.items()})
        for index, row in enumerate(rows)
    ]


def shown(found: dict[Any, Record], schema: TableSchema) -> list[str]:
    columns = [
        column_of([record.values[field.name] for record in found.values()], field.type) for field in schema.fields
    ]
    table = pa.Table.from_arrays(columns, schema=arrow_schema(schema.fields))
    return canonical(java_rows(table, schema.fields))


def canonical(rows: list[Row]) -> list[str]:
    """What lies in arrays has no order: Java takes that of a hash map."""
    return sorted(json.dumps(unordered(row), sort_keys=True) for row in rows)


def unordered(value: Any) -> Any:
    if isinstance(value, list):
        return sorted((unordered(item) for item in value), key=json.dumps)
    return (
        {name: unordered(item) for name, item in value.items() if name != "_kind"} if isinstance(value, dict) else value
    )
