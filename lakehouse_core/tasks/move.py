"""Move task: bring rows that wait for their buckets into them, as files of level 0.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.memory import keep_freed_memory
from lakehouse_core.data_files.parquet.writer import Encoding
from lakehouse_core.data_files.writer import FileNames, FileOutput
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.storage.overlap import closing_behind, reading_ahead
from lakehouse_core.table.commit_json import messages_to_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import VALUE_KIND
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.compact import storable
from lakehouse_core.tasks.merge_scan import CHUNK_BYTES, CHUNK_ROWS, BucketFiles, batch_rows, objects_of
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.key_writer import KeyWriter
from lakehouse_core.tasks.write.rows import InputRows, without_ignored

# What is decoded at once: most often all rows of a row group, which the writer then keeps without a copy.
_BATCH_ROWS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTask:
    """Waiting files of one partition, in the order of their rows. `store` is rooted at the table.

    `schema` is the table's, with the bucket count of the partition; `file_schemas` holds, by id, every schema that the
    files name. `folder` is that of the files. `next_numbers`: the first sequence number of the rows in each bucket.
    `emits_changelog`: write a changelog, as the producer `input` does.
    """

    store: StoreSpec
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]
    partition: bytes
    folder: str
    files: tuple[DataFile, ...]
    next_numbers: Mapping[int, int]
    emits_changelog: bool = True


def run_move(task: MoveTask, runtime: TaskRuntime) -> str:
    """Carry out the task where an engine runs it; return the new files as the text of commit messages."""
    return messages_to_json(move_rows(task, runtime))


def move_rows(task: MoveTask, runtime: TaskRuntime) -> list[CommitMessage]:
    """Write the rows into their buckets, and return a message with the new files of each bucket.

    A failed task leaves no new file. Raises InvalidRequest for nulls that the schema forbids now, CorruptTable (also
    for a missing file), StorageFull, StorageUnavailable.
    """
    keep_freed_memory()
    store, clock, schema = runtime.open_store(task.store), runtime.clock, task.schema
    with reading_ahead(store, objects_of(task.folder, task.files)) as opener, closing_behind(store) as sinks:
        writer = KeyWriter(
            schema,
            FileOutput(store=sinks, encoding=Encoding(schema), names=FileNames(clock.uuid()), clock=clock),
            next_numbers={(task.partition, bucket): number for bucket, number in task.next_numbers.items()},
            emits_changelog=task.emits_changelog,
            spill_folder=runtime.spill_folder,
        )
        files = BucketFiles(
            store=opener,
            folder=task.folder,
            schemas={schema.id: schema, **task.file_schemas},
            verify=schema.table_options.read_verify,
        )
        try:
            for rows in _rows(task, files):
                if rows.values.num_rows:
                    writer.write(rows)
            writer.finish()
            sinks.settle()
        except BaseException as error:
            writer.abort(error)
            raise
    return writer.messages()


def _rows(task: MoveTask, files: BucketFiles) -> Iterator[InputRows]:
    schema = task.schema
    names = list(schema.column_names)
    for file in task.files:
        reader = files.open(file)
        try:
            # The values of an Avro file are objects of Python before they are columns.
            most_rows = CHUNK_ROWS if file.format == "avro" else _BATCH_ROWS
            count = batch_rows(reader.row_bytes(schema.fields), most_rows, CHUNK_BYTES)
            for batch in reader.batches(schema.fields, system=[VALUE_KIND], batch_rows=count):
                kinds = fixed_values(batch.column(VALUE_KIND), np.int8)
                columns = [batch.column(name) for name in names]
                values = storable(pa.RecordBatch.from_arrays(columns, names), schema)
                yield without_ignored(InputRows(values, kinds if kinds.any() else None), schema)
        finally:
            reader.close()
