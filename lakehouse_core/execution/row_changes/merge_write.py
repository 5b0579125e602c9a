"""Writing a MERGE: the files without the rows that it removes or replaces, or marks on those rows, and the new rows.

Rule: if one file fails, the files of all are deleted. Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.row_changes.change import discarded_on_failure, index_messages, run_changes
from lakehouse_core.execution.row_changes.clause_rows import ClauseRows
from lakehouse_core.execution.row_changes.new_rows import new_rows, written_rows
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.planning.row_changes.change_base import ChangeBase
from lakehouse_core.planning.row_changes.methods import Method
from lakehouse_core.progress import Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.schema import RESERVED_PREFIX
from lakehouse_core.tasks.change_rows.values import Changed, ChangeTask

_KIND: Final = f"{RESERVED_PREFIX}ROW_KIND"
_KINDS: Final = {"insert": "+I", "update": "+U", "delete": "-D"}


def write_merge(
    table: TableContext,
    base: ChangeBase,
    parts: Sequence[ClauseRows],
    hits: Mapping[str, Positions],
    watch: Watch,
) -> Sequence[CommitMessage]:
    """Write the new files and return their messages. `hits`: by file of an append table, the positions of the rows that
    are updated or deleted. Raises TaskFailed, StorageUnavailable, and what a write refuses.
    """
    messages: list[CommitMessage] = []
    with discarded_on_failure(table, base, messages):
        changed = _changed(table, base, hits, messages, watch)
        for message in index_messages(table, base, changed):
            messages.append(message)
        for message in _new_rows(table, base, parts, messages, watch):
            messages.append(message)
    return messages


def _changed(
    table: TableContext,
    base: ChangeBase,
    hits: Mapping[str, Positions],
    messages: list[CommitMessage],
    watch: Watch,
) -> list[Changed]:
    if not hits:
        return []
    if base.method is Method.MARKS:
        return [Changed(marks=hits)]
    tasks = [
        ChangeTask(
            store=table.store.spec,
            schema=base.schema,
            split=split,
            file_schemas=base.file_schemas,
            method=Method.FILES,
            predicate=None,
            hits=own,
        )
        for split in base.splits
        if (own := {file.file_name: hits[file.file_name] for file in split.files if file.file_name in hits})
    ]
    return run_changes(table, tasks, messages, watch)


def _new_rows(
    table: TableContext,
    base: ChangeBase,
    parts: Sequence[ClauseRows],
    before: Sequence[CommitMessage],
    watch: Watch,
) -> Iterator[CommitMessage]:
    schema = base.schema
    given = [part for part in parts if part.rows.num_rows and not (schema.is_append and part.clause.action == "delete")]
    if not given:
        return
    rows = [
        part.rows
        if schema.is_append
        else part.rows.append_column(_KIND, pa.repeat(pa.scalar(_KINDS[part.clause.action]), part.rows.num_rows))
        for part in given
    ]
    settings = new_rows(table, base, before)
    # The values of the clauses have their defaults already, and an old null stays one.
    task = replace(
        settings.task,
        schema=replace(schema, fields=tuple(replace(each, default_value=None) for each in schema.fields)),
        rowkind_column=None if schema.is_append else _KIND,
    )
    yield from written_rows(table, base, replace(settings, task=task), pa.concat_tables(rows), watch)
