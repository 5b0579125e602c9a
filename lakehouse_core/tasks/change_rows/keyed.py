"""Row changes of key tables: new records with row kinds, or whole buckets merged and rewritten.

Source: docs/semantics/row-changes.md#methods.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.writer import DataFileWriter, FileSettings
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import closing_behind, reading_ahead
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile, FileSource
from lakehouse_core.table.schema import RESERVED_PREFIX
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.tasks.change_rows.effects import check_effect
from lakehouse_core.tasks.change_rows.new_values import with_new_values
from lakehouse_core.tasks.change_rows.values import Changed, ChangeTask, writing_schema
from lakehouse_core.tasks.matching import matching_rows
from lakehouse_core.tasks.merge_scan import merged_records, objects_of, split_files
from lakehouse_core.tasks.read import ReadTask, read_split
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.waiting.read import read_splits
from lakehouse_core.tasks.write.keys.bucket_index import KeyIndex
from lakehouse_core.tasks.write.task import WriteTask, write_batches

# Not the name of a column, which never begins like this.
_KIND: Final = f"{RESERVED_PREFIX}ROW_KIND"
_DELETE, _UPDATE = "-D", "+U"


def changed_records(task: ChangeTask, runtime: TaskRuntime) -> Changed:
    """Write a record for each row that satisfies the condition: a delete, or the row with its new values."""
    counted = [0]
    batches = _records(task, runtime, counted)
    if task.only_counts:
        for _ in batches:
            pass
        messages: tuple[CommitMessage, ...] = ()
    else:
        split = task.split
        write = WriteTask(
            store=task.store,
            schema=writing_schema(task),
            next_sequence_numbers={(split.partition, split.bucket): task.next_sequence_number},
            rowkind_column=_KIND,
            # Where buckets are dynamic: a changed row stays where its key is, whatever the index says.
            key_index=KeyIndex(bucket=split.bucket),
            commit_user=task.commit_user,
        )
        messages = tuple(write_batches(write, batches, runtime))
    splits = (task.split, *task.beside)
    return Changed(
        messages=messages,
        rows_read=sum(split.row_count for split in splits),
        rows_matched=counted[0],
        files_touched=sum(len(split.files) for split in splits) if counted[0] else 0,
    )


def changed_bucket(task: ChangeTask, runtime: TaskRuntime) -> Changed:
    """Merge the bucket, whose files the split holds, and write it without the rows that satisfy the condition, as one
    run of the top level.
    """
    matched = sum(batch.num_rows for batch in read_split(_reading(task, ()), runtime))
    rows_read, files = task.split.row_count, task.split.files
    if not matched or task.only_counts:
        return Changed(rows_read=rows_read, rows_matched=matched, files_touched=len(files) if matched else 0)
    split = task.split
    message = CommitMessage(
        partition=split.partition,
        bucket=split.bucket,
        total_buckets=split.total_buckets,
        new_files=_rewritten(task, runtime),
        deleted_files=files,
    )
    return Changed(messages=(message,), rows_read=rows_read, rows_matched=matched, files_touched=len(files))


def _records(task: ChangeTask, runtime: TaskRuntime, counted: list[int]) -> Iterator[pa.RecordBatch]:
    fields = task.schema.fields
    first = _reading(task, task.schema.column_names)
    for batch in read_splits([replace(first, split=split) for split in (task.split, *task.beside)], runtime):
        counted[0] += batch.num_rows
        rows, kind = batch, _DELETE
        if task.assignments is not None:
            rows, kind = with_new_values(batch, task.assignments, fields), _UPDATE
            check_effect(batch, rows, task.assignments, task.schema)
        yield rows.append_column(_KIND, pa.repeat(kind, rows.num_rows))


def _reading(task: ChangeTask, columns: tuple[str, ...]) -> ReadTask:
    return ReadTask(
        store=task.store,
        schema=task.schema,
        split=task.split,
        columns=columns,
        predicate=task.predicate,
        file_schemas=task.file_schemas,
    )


def _rewritten(task: ChangeTask, runtime: TaskRuntime) -> tuple[DataFile, ...]:
    store, split, schema = runtime.open_store(task.store), task.split, task.schema
    made: tuple[DataFile, ...] = ()
    with reading_ahead(store, objects_of(split.folder, split.files)) as opener, closing_behind(store) as sinks:
        files = split_files(split, schema, task.file_schemas, opener)
        records = merged_records(
            files,
            sections(keyed_files(split.files, [each.type for each in schema.key_fields])),
            schema,
            schema.fields,
            with_sequence_number=True,
            drops_deletes=True,
        )
        output = runtime.output(sinks, schema)
        options = schema.table_options
        settings = FileSettings(
            prefix=options.data_file_prefix,
            target_bytes=options.target_file_size_bytes(has_key=True),
            level=options.num_levels - 1,
            source=FileSource.COMPACT,
        )
        try:
            with closing(records), DataFileWriter(output, split.folder, settings) as writer:
                for batch in records:
                    kept = np.ones(batch.num_rows, np.bool_)
                    kept[matching_rows(batch, task.predicate, schema.fields)] = False
                    writer.write(batch.filter(pa.array(kept)))
                made = writer.close()
            sinks.settle()
        except BaseException:
            clear_away(sinks, [f"{split.folder}/{name}" for file in made for name in file.all_names])
            raise
    return made
