"""Row changes, row by row: what DELETE and UPDATE leave of the rows that readers see, whatever the table's layout."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakehouse_core.planning.read.where import parse_where
from lakehouse_core.table.predicate import bind
from lakehouse_core.table.schema import TableSchema
from tests.oracle.conditions import truth

Row = dict[str, Any]
NewValue = Callable[[Row], Any]


def is_hit(row: Row, where: str | None, schema: TableSchema) -> bool:
    """Only TRUE counts: FALSE and NULL leave the row."""
    return where is None or truth(bind(parse_where(where), schema.fields), row) is True


def deleted(rows: Sequence[Row], where: str | None, schema: TableSchema) -> list[Row]:
    return [row for row in rows if not is_hit(row, where, schema)]


def updated(
    rows: Sequence[Row], new_values: Mapping[str, NewValue], where: str | None, schema: TableSchema
) -> list[Row]:
    """New values are computed from the old row, all of them before one is assigned."""
    return [
        {**row, **{name: value(row) for name, value in new_values.items()}} if is_hit(row, where, schema) else row
        for row in rows
    ]
