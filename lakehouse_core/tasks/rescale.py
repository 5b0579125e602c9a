"""Rescale task: rewrite some buckets of a partition into those that their rows have by another bucket count.

Rows of key tables are merged, and keep their sequence numbers: the new files are one run of the top level in each
bucket. Rows of append tables keep their order within the old bucket.
Source: docs/semantics/maintenance.md#rescaling.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.parquet.writer import Encoding
from lakehouse_core.data_files.writer import DataFileWriter, FileNames, FileOutput
from lakehouse_core.format.bucket_hash import buckets
from lakehouse_core.storage.object_store import FileOpener, StoreSpec
from lakehouse_core.storage.overlap import closing_behind, reading_ahead
from lakehouse_core.table.commit_json import messages_to_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.tasks.compact import compacted_kind, copied_rows, storable
from lakehouse_core.tasks.merge_scan import BucketFiles, merged_records, objects_of
from lakehouse_core.tasks.runtime import TaskRuntime

_MOST_PENDING_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleTask:
    """The files of some buckets of one partition. `store` is rooted at the table.

    `schema` has `count` buckets. `folders`: by file name, the folder of each of the `files`. `file_schemas`: by id,
    every schema that the files name. `deletions`: by file name, the location of the file's deletion vector.
    """

    store: StoreSpec
    schema: TableSchema
    count: int
    function: str
    partition: bytes
    files: tuple[DataFile, ...]
    folders: Mapping[str, str]
    file_schemas: Mapping[int, TableSchema]
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)


def run_rescale(task: RescaleTask, runtime: TaskRuntime) -> str:
    """Carry out the task where an engine runs it; return the new files as the text of commit messages."""
    return messages_to_json(rescale_buckets(task, runtime))


def rescale_buckets(task: RescaleTask, runtime: TaskRuntime) -> list[CommitMessage]:
    """Write the rows of the files into their new buckets, and return a message with the new files of each.

    A failed task leaves no new file. Raises InvalidRequest for nulls that the schema forbids now, CorruptTable (also
    for a missing file), StorageFull, StorageUnavailable.
    """
    store, clock, schema = runtime.open_store(task.store), runtime.clock, task.schema
    layout = DataLayout(schema)
    objects = (found for file in task.files for found in objects_of(task.folders[file.file_name], [file]))
    kind = compacted_kind(schema, level=0 if schema.is_append else schema.table_options.num_levels - 1)
    with reading_ahead(store, objects) as opener, closing_behind(store) as sinks, ExitStack() as stack:
        output = FileOutput(store=sinks, encoding=Encoding(schema), names=FileNames(clock.uuid()), clock=clock)
        writers: dict[int, DataFileWriter] = {}
        for batch in stack.enter_context(closing(_rows(task, opener))):
            for bucket, rows in _by_bucket(task, storable(batch, schema)):
                if bucket not in writers:
                    writer = DataFileWriter(output, layout.bucket(task.partition, bucket), kind)
                    writers[bucket] = stack.enter_context(writer)
                writers[bucket].write(rows)
            if sum(writer.pending_bytes for writer in writers.values()) > _MOST_PENDING_BYTES:
                for writer in writers.values():
                    writer.flush()
        messages = [
            CommitMessage(
                partition=task.partition, bucket=bucket, total_buckets=task.count, new_files=writers[bucket].close()
            )
            for bucket in sorted(writers)
        ]
        sinks.settle()
    return messages


def _rows(task: RescaleTask, opener: FileOpener) -> Generator[pa.RecordBatch, None, None]:
    schema = task.schema
    files = BucketFiles(
        store=opener,
        folder="",
        schemas={schema.id: schema, **task.file_schemas},
        verify=schema.table_options.read_verify,
        deletions=task.deletions,
        elsewhere=task.folders,
    )
    if schema.is_append:
        return copied_rows(schema, task.files, files)
    return merged_records(
        files,
        sections(keyed_files(task.files, [each.type for each in schema.key_fields])),
        schema,
        schema.fields,
        with_sequence_number=True,
        drops_deletes=True,
    )


def _by_bucket(task: RescaleTask, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each bucket, in their order."""
    fields = task.schema.bucket_fields
    columns = [batch.column(each.name) for each in fields]
    numbers = buckets(columns, [each.type for each in fields], task.count, task.function)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for bucket, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield bucket, batch if len(found) == 1 else batch.take(pa.array(rows))
