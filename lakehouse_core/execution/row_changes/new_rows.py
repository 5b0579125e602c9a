"""New rows of a statement: written as those of a write are, behind the rows of the statement's base.

Rule: the caller deletes the files of the yielded messages if the statement fails.
Source: docs/semantics/writing.md#sequence-numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.compaction.placing import with_placed_rows
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.key_places import key_places
from lakehouse_core.planning.commit.checks import check_bucket_counts, check_partition_times
from lakehouse_core.planning.commit.hash_indexes import known_indexes
from lakehouse_core.planning.row_changes.change_base import ChangeBase
from lakehouse_core.planning.write_base import NOTHING_WRITTEN, WriteBase, write_base
from lakehouse_core.progress import Watch
from lakehouse_core.table.bucketing import has_order, may_wait, moves_keys, places_keys
from lakehouse_core.table.commit_message import Append, CommitMessage
from lakehouse_core.tasks.write.keys.bucket_index import KeyIndex
from lakehouse_core.tasks.write.task import WriteTask


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """How new rows are written. `before`: the base, and what the statement has written itself. `are_placed`: bring
    those that would wait for their buckets into them, where no earlier ones of their partition wait.
    """

    task: WriteTask
    before: WriteBase
    are_placed: bool = False


def new_rows(
    table: TableContext,
    base: ChangeBase,
    written: Sequence[CommitMessage],
    *,
    whole_partitions: bool = False,
    is_stored: bool = True,
) -> RowsToWrite:
    """Return how rows are written that are newer than those of the base and of the messages `written`; `is_stored`:
    their files are there.

    `whole_partitions`: they come in place of all rows of their partitions, so a bucket count of before does not matter.
    Known keys of dynamic buckets get new ones then, unless no file goes, and with it no hash index.
    """
    schema = base.schema
    before, key_index = NOTHING_WRITTEN, KeyIndex()
    waits = may_wait(schema.bucketing)
    if base.snapshot is not None and (has_order(schema.bucketing) or waits):
        before = write_base(table.manifests.columns(table.manifests.of(base.snapshot)))
        if whole_partitions:
            before = replace(before, bucket_counts={})
        if places_keys(schema.bucketing) and not (whole_partitions and base.files):
            key_index = KeyIndex(known_indexes(base.indexes, (), schema))
    if moves_keys(schema.bucketing):
        rewritten = written if is_stored else [replace(message, new_files=()) for message in written]
        places = key_places(table, schema, base.snapshot, Append(), rewritten=rewritten)
        key_index = replace(key_index, places=places)
    task = WriteTask(
        store=table.store.spec,
        schema=schema,
        next_sequence_numbers={} if waits else before.after(written).next_numbers,
        key_index=key_index,
        commit_user=base.writer,
    )
    if waits and whole_partitions:
        # Nothing stays that waits before the new rows, which are treated as those of a write.
        is_placed = is_stored and schema.table_options.postponed_buckets.are_written
        return RowsToWrite(task, NOTHING_WRITTEN, are_placed=is_placed)
    return RowsToWrite(task, before.after(written), are_placed=waits and is_stored)


def written_rows(
    table: TableContext, base: ChangeBase, rows: RowsToWrite, data: object, watch: Watch
) -> Iterator[CommitMessage]:
    """Write the rows of `data` and yield their messages. Raises as a write does, also after the last message."""
    if rows.are_placed:
        placed = _placed_rows(table, base, rows, data, watch)
        yield from placed
        check_partition_times(base.schema, placed)
        return
    new = []
    for message in table.engine().write(rows.task, data, watch):
        new.append(message)
        yield message
    check_bucket_counts(table.name, base.schema, rows.before.bucket_counts, new)
    check_partition_times(base.schema, new)


def _placed_rows(
    table: TableContext, base: ChangeBase, rows: RowsToWrite, data: object, watch: Watch
) -> Sequence[CommitMessage]:
    staged: list[CommitMessage] = []
    try:
        for message in table.engine().write(rows.task, data, watch):
            staged.append(message)
        return with_placed_rows(
            table,
            base.schema,
            staged,
            rows.before,
            emits_changelog=rows.task.emits_changelog,
            named_by="the statement",
            watch=watch,
        )
    except BaseException:
        discard(table.store, base.schema, staged, named_by="the statement")
        raise
