"""ALTER TABLE … TAG, by the verbs of the table."""

import pyarrow as pa

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.reports import TagReport
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.planning.sql.statement import ChangeTag


def change_tag(call: StatementCall, statement: ChangeTag) -> Answer:
    """Carry out the statement. Raises the errors of the verbs about tags."""
    with call.placed(statement.table, (statement.tag, statement.new_name)):
        report = _changed(call.catalog.table(call.table(statement.table)), statement)
    return answer_of(call.sql.text, pa.table({}), [] if report is None else [report])


def _changed(table: Table, statement: ChangeTag) -> TagReport | None:
    """Return the report of the verb, None if there is nothing to do."""
    tag, snapshot, retention = statement.tag, statement.snapshot, statement.retention
    action = statement.action
    if action == "rename":
        return table.rename_tag(tag, statement.new_name)
    is_there = action != "replace" and tag in {one.name for one in table.tags()}
    if action == "delete":
        return None if statement.missing_ok and not is_there else table.delete_tag(tag)
    if action == "replace" or (action == "create or replace" and is_there):
        return table.replace_tag(tag, at=snapshot, retention=retention)
    if statement.exist_ok and is_there:
        return None
    return table.create_tag(tag, at=snapshot, retention=retention)
