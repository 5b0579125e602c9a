"""Placing: bring rows that wait for their buckets into them, as sorted files of level 0: in the table by a compaction,
in scratch files by a read.

Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.memory import keep_freed_memory
from lakehouse_core.data_files.writer import FileNames, FileSettings
from lakehouse_core.format.bucket_hash import buckets
from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import VALUE_KIND
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema, waiting_style
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.matching import matching_rows
from lakehouse_core.tasks.merge_scan import CHUNK_BYTES, CHUNK_ROWS, BucketFiles, batch_rows, split_files
from lakehouse_core.tasks.read import PlacedRows, ReadTask
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.waiting.scratch_files import ScratchFiles
from lakehouse_core.tasks.write.key_writer import KeyWriter
from lakehouse_core.tasks.write.rows import InputRows, without_ignored

# What is decoded at once: most often all rows of a row group, which the writer then keeps without a copy.
_BATCH_ROWS: Final = 1 << 20
# The rows that a read sorts at once; of more rows, sorted runs are on local disk.
_BUFFER_BYTES: Final = 64 << 20
_SCRATCH_FILE_BYTES: Final = 32 << 20


def waiting_rows(files: BucketFiles, waiting: Iterable[DataFile], schema: TableSchema) -> Iterator[InputRows]:
    """Yield the rows of waiting files, in their order, in the columns of `schema`, without those that it ignores.

    Raises CorruptTable, UnsupportedFeature.
    """
    names = list(schema.column_names)
    for file in waiting:
        with closing(files.open(file)) as reader:
            # The values of an Avro file are objects of Python before they are columns.
            most_rows = CHUNK_ROWS if file.format == "avro" else _BATCH_ROWS
            count = batch_rows(reader.row_bytes(schema.fields), most_rows, CHUNK_BYTES)
            for batch in reader.batches(schema.fields, system=[VALUE_KIND], batch_rows=count):
                kinds = fixed_values(batch.column(VALUE_KIND), np.int8)
                values = pa.RecordBatch.from_arrays([batch.column(name) for name in names], names)
                yield without_ignored(InputRows(values, kinds if kinds.any() else None), schema)


def place(rows: Iterable[InputRows], writer: KeyWriter, sinks: Sinks) -> list[CommitMessage]:
    """Write the rows into their buckets, and return a message with the new files of each. On an error no file is
    left.
    """
    keep_freed_memory()
    try:
        for each in rows:
            if each.values.num_rows:
                writer.write(each)
        writer.finish()
        sinks.settle()
    except BaseException as error:
        writer.abort(error)
        raise
    return writer.messages()


@contextmanager
def placed_rows(
    runtime: TaskRuntime, tasks: Sequence[ReadTask], store: FileOpener, key_filter: Predicate | None
) -> Iterator[PlacedRows]:
    """Give the waiting rows of the tasks' buckets, as newer rows than theirs, in scratch files. When the block ends,
    nothing is left of them.

    `key_filter`: on key columns; rows that do not satisfy it are left out. REQUIRES: the splits are of one partition.
    Raises CorruptTable, StorageFull, StorageUnavailable.
    """
    first, splits = tasks[0], [task.split for task in tasks]
    count = first.split.total_buckets
    placing = _placing_schema(first.schema, count)
    source = replace(
        split_files(first.split, first.schema, first.file_schemas, store), folder=first.split.waiting_folder
    )
    with closing(ScratchFiles(runtime.spill_folder)) as scratch:
        writer = KeyWriter(
            placing,
            runtime.output(scratch, placing, FileNames("placed")),
            next_numbers={(split.partition, split.bucket): _next_number(split) for split in splits},
            emits_changelog=False,
            spill_folder=runtime.spill_folder,
            kind=FileSettings(
                prefix=placing.table_options.data_file_prefix,
                target_bytes=_SCRATCH_FILE_BYTES,
                is_indexed=False,
                plain_style=waiting_style(placing),
            ),
        )
        wanted = {split.bucket for split in splits}
        own = None if len(wanted) == count else np.array(sorted(wanted))
        rows = (
            _kept(each, placing, own, count, key_filter) for each in waiting_rows(source, first.split.waiting, placing)
        )
        messages = place(rows, writer, scratch)
        yield PlacedRows(store=scratch, files={message.bucket: message.new_files for message in messages})


def _placing_schema(schema: TableSchema, bucket_count: int) -> TableSchema:
    """Return the schema of the scratch files of a partition with so many buckets."""
    buffer_bytes = min(schema.table_options.write_buffer_bytes, _BUFFER_BYTES)
    options = {"bucket": str(bucket_count), "write-buffer-size": f"{buffer_bytes} b"}
    keys = schema.primary_keys
    # As in a read of files: a null may be older than the rule that a column has none.
    fields = [
        each if each.name in keys else replace(each, type=replace(each.type, nullable=True)) for each in schema.fields
    ]
    return replace(schema, fields=tuple(fields), options={**schema.options, **options})


def _next_number(split: Split) -> int:
    return 1 + max((file.max_sequence_number for file in split.files), default=-1)


def _kept(
    rows: InputRows, schema: TableSchema, own: Rows | None, count: int, key_filter: Predicate | None
) -> InputRows:
    """Return the rows of the buckets `own` (None: of all), of so many, whose keys satisfy the condition."""
    kept = matching_rows(rows.values, key_filter, schema.fields)
    if own is not None:
        columns = [rows.values.column(name) for name in schema.bucket_keys]
        types = [each.type for each in schema.bucket_fields]
        found = buckets(columns, types, count, schema.table_options.bucket_function)
        kept = kept[np.isin(found[kept], own)]
    if len(kept) == rows.values.num_rows:
        return rows
    return InputRows(rows.values.take(pa.array(kept)), None if rows.kinds is None else rows.kinds[kept])
