"""ALTER TABLE: create the next schema under its id; compute it again when another writer took the id."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from lakehouse_core.errors import CommitConflict, InvalidRequest, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.schema_change import SchemaChange
from lakehouse_core.retry import ALTER
from lakehouse_core.table.schema import TableSchema


def alter(table: TableContext, changes: Sequence[SchemaChange]) -> tuple[TableSchema, TableSchema]:
    """Return the schema before the changes and the schema after them; twice the same one when nothing changes.

    Either all changes are applied or none. Raises InvalidRequest, UnsupportedFeature, CommitConflict when other writers
    took the schema id in every attempt, WriteOutcomeUnknown when the store does not answer.
    """
    if not changes:
        raise InvalidRequest("alter: give at least one change, such as AddColumn('note', 'STRING').")
    for change in changes:
        if not isinstance(change, get_args(SchemaChange)):
            raise InvalidRequest(f"alter: {shown(change)} is not a change, such as AddColumn('note', 'STRING').")
    for _ in ALTER.attempts():
        old = table.schemas.latest()
        has_snapshots = table.snapshots.latest_id() is not None
        new = apply_changes(old, changes, has_snapshots=has_snapshots, now_millis=table.clock.now_millis())
        if replace(new, id=old.id, version=old.version, time_millis=old.time_millis) == old:
            return old, old
        if table.schemas.create(new):
            table.snapshots.boundary.check_kept([table.layout.schema(new.id)])
            return old, new
    raise CommitConflict(
        f"{table.store.uri('')}: others altered the table in each of {ALTER.max_attempts} attempts, nothing was "
        "changed. Alter again."
    )
