"""Renumbering task: write staged files anew with higher sequence numbers, after other commits wrote their bucket.

Rule: nothing but the numbers changes: rows, their order, kinds, keys, format, statistics and indexes stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.data_files.writer import DataFileWriter, FileNames, FileOutput, FileSettings
from lakehouse_core.storage.object_store import StoreSpec
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import closing_behind, reading_ahead
from lakehouse_core.table.commit_json import messages_to_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.merge_scan import CHUNK_BYTES, CHUNK_ROWS, BucketFiles, batch_rows, objects_of
from lakehouse_core.tasks.runtime import TaskRuntime

# One file becomes one file, never more: at level 0 each file is a sorted run of its own.
_NEVER_FULL = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RenumberTask:
    """The new files of one commit message, and the amount to add to their sequence numbers. `store` is rooted at the
    table.

    `file_schemas`: by id, the schemas that the files were written with. `folder` is the bucket's.
    """

    store: StoreSpec
    folder: str
    message: CommitMessage
    shift: int
    file_schemas: Mapping[int, TableSchema]


def run_renumber(task: RenumberTask, runtime: TaskRuntime) -> str:
    """Carry out a task where an engine runs it; the answer is the text of its message."""
    return messages_to_json([renumbered(task, runtime)])


def renumbered(task: RenumberTask, runtime: TaskRuntime) -> CommitMessage:
    """Return a message with the files before and after, in the same order. A failed task leaves no file.

    Raises CorruptTable (also for a missing file), StorageFull, StorageUnavailable.
    """
    store, clock = runtime.open_store(task.store), runtime.clock
    names = FileNames(clock.uuid())
    made: list[DataFile] = []
    with (
        reading_ahead(store, objects_of(task.folder, task.message.new_files)) as opener,
        closing_behind(store) as sinks,
    ):
        files = BucketFiles(store=opener, folder=task.folder, schemas=task.file_schemas)
        try:
            for file in task.message.new_files:
                schema = task.file_schemas[file.schema_id]
                output = runtime.output(sinks, schema, names)
                made.append(_shifted(task, file, files, output))
            sinks.settle()
        except BaseException:
            clear_away(sinks, [f"{task.folder}/{name}" for file in made for name in file.all_names])
            raise
    return CommitMessage(
        partition=task.message.partition,
        bucket=task.message.bucket,
        total_buckets=task.message.total_buckets,
        compact_before=task.message.new_files,
        compact_after=tuple(made),
    )


def _shifted(task: RenumberTask, file: DataFile, files: BucketFiles, output: FileOutput) -> DataFile:
    schema = output.encoding.schema
    kind = FileSettings(prefix=schema.table_options.data_file_prefix, target_bytes=_NEVER_FULL, level=file.level)
    reader = files.open(file)
    try:
        with DataFileWriter(output, task.folder, kind) as writer:
            rows = batch_rows(reader.row_bytes(schema.fields), CHUNK_ROWS, CHUNK_BYTES)
            for batch in reader.batches(schema.fields, system=(SEQUENCE_NUMBER, VALUE_KIND), batch_rows=rows):
                writer.write(_with_higher_numbers(batch, task.shift))
            (made,) = writer.close()
    finally:
        reader.close()
    assert (made.row_count, made.min_key, made.max_key) == (file.row_count, file.min_key, file.max_key)
    return made


def _with_higher_numbers(batch: pa.RecordBatch, shift: int) -> pa.RecordBatch:
    place = batch.schema.get_field_index(SEQUENCE_NUMBER)
    numbers = pc.add(batch.column(place), pa.scalar(shift, pa.int64()))
    return batch.set_column(place, batch.schema.field(place), numbers)
