"""Rows with new columns: the table is altered before they are written, if the settings of the statement say so.

Source: docs/sql.md#rows-with-new-columns.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from lakehouse_core.api.reports import SchemaReport
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.errors import LakehouseError
from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.schema_change import AddColumn, SchemaChange, UpdateColumnType
from lakehouse_core.planning.alter.wider import wider_changes
from lakehouse_core.table.schema import TableSchema

MERGES: Final = "write.merge-schema"
WIDENS: Final = "write.merge-schema.type-widening"


def schema_changes(
    call: StatementCall, table: Table, given: Callable[[], Sequence[DataField]]
) -> tuple[SchemaChange, ...]:
    """Return what the table must be altered by to take rows of the columns that `given` returns; nothing where the
    settings do not ask for it.
    """
    if call.settings.get(MERGES) != "true":
        return ()
    return tuple(wider_changes(table.schema.fields, given(), widens=call.settings.get(WIDENS) == "true"))


def schema_after(table: Table, changes: Sequence[SchemaChange]) -> TableSchema:
    """Return the schema of the table as `altered` will make it. Raises as `Table.alter`."""
    schema = table.schema
    return apply_changes(schema, changes, has_snapshots=True, now_millis=schema.time_millis) if changes else schema


def change_texts(changes: Sequence[SchemaChange]) -> list[str]:
    """Return the changes for people, as in `note STRING is added`."""
    told = []
    for change in changes:
        match change:
            case AddColumn(name, type=text):
                told.append(f"{'.'.join(name)} {text} is added")
            case UpdateColumnType(name, text):
                told.append(f"{'.'.join(name)} becomes {text}")
    return told


@contextmanager
def altered(table: Table, changes: Sequence[SchemaChange]) -> Iterator[list[SchemaReport]]:
    """Alter the table, if there are changes, and yield the report. An error of the block says that they stay."""
    if not changes:
        yield []
        return
    report = table.alter(*changes)
    try:
        yield [report]
    except LakehouseError as error:
        told = f"{error} The schema was changed before, and stays so: {', '.join(change_texts(changes))}."
        error.args = (told, *error.args[1:])
        raise
