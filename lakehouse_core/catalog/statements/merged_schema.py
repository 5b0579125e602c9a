"""Rows with new columns: the table is altered before they are written, if the settings of the statement say so.

Rule: what the rows need is decided anew for each schema that is altered, so no statement takes back another's change.
Source: docs/sql.md#rows-with-new-columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from lakehouse_core.api.reports import SchemaReport
from lakehouse_core.api.table import Table
from lakehouse_core.api.table_writes import alter_by
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.queries import error_of_query
from lakehouse_core.catalog.statements.sources import source_columns
from lakehouse_core.errors import InvalidRequest, LakehouseError, retell
from lakehouse_core.format.data_types import DataField
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.schema_change import AddColumn, SchemaChange, UpdateColumnType
from lakehouse_core.planning.alter.wider import wider_changes
from lakehouse_core.table.schema import TableSchema

MERGES: Final = "write.merge-schema"
WIDENS: Final = "write.merge-schema.type-widening"
# The changes by which a schema takes the rows of a statement; None where its settings ask for none.
SchemaChanges: TypeAlias = Callable[[TableSchema], Sequence[SchemaChange]] | None


def schema_changes(call: StatementCall, table: Table, rows: Any) -> SchemaChanges:
    """Return how a schema must be altered to take the rows of a query. Raises InvalidRequest for a new column whose
    type no table has.
    """
    if call.settings.get(MERGES) != "true":
        return None
    given = list(_typed(source_columns(rows), table.schema))
    return partial(wider_changes, given=given, widens=call.settings.get(WIDENS) == "true")


def _typed(columns: Iterable[tuple[str, Callable[[], DataField]]], schema: TableSchema) -> Iterator[DataField]:
    """Yield the columns, without those that the table has and whose types no table has, such as that of NULL alone."""
    known = {name.casefold() for name in schema.column_names}
    for name, typed in columns:
        try:
            yield typed()
        except InvalidRequest:
            if name.casefold() not in known:
                raise


def schema_after(schema: TableSchema, changes: SchemaChanges) -> TableSchema:
    """Return the schema that `altered` will make of this one. Raises as `Table.alter`."""
    found = () if changes is None else changes(schema)
    return apply_changes(schema, found, has_snapshots=True, now_millis=schema.time_millis) if found else schema


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
def altered(call: StatementCall, table: Table, changes: SchemaChanges) -> Iterator[list[SchemaReport]]:
    """Alter the table, if there are changes, and yield the report. An error of the block says that they stay."""
    if changes is None or not (planned := changes(table.schema)):
        yield []
        return
    report = alter_by(call.context(table.name), changes)
    if report.noop_reason is not None:
        # Others have made the same changes meanwhile.
        yield []
        return
    try:
        yield [report]
    except LakehouseError as failed:
        error = error_of_query(call, failed)
        stays = f"But the schema was changed before, and stays so: {', '.join(change_texts(planned))}."
        retell(error, lambda told: f"{told} {stays}")
        raise error from failed.__cause__
