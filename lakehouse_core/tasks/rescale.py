"""Rescale task: rewrite some buckets of a partition into those that their rows have by another bucket count.

Rows of key tables are merged, and keep their sequence numbers: the new files are one run of the top level in each
bucket. Rows of append tables keep their order within the old bucket. Dynamic buckets get their hash indexes.
Source: docs/semantics/maintenance.md#rescaling.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.hash_index import write_hashes
from lakehouse_core.data_files.writer import DataFileWriter
from lakehouse_core.format.binary_row import hash_rows
from lakehouse_core.format.bucket_hash import buckets
from lakehouse_core.format.hash_index import Hashes
from lakehouse_core.storage.object_store import FileOpener, StoreReader, StoreSpec
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import Sinks, closing_behind, reading_ahead
from lakehouse_core.table.bucketing import Dynamic, Fixed, has_hash_index, total_buckets
from lakehouse_core.table.commit_json import messages_to_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.tasks.compact import compacted_kind, copied_rows, storable
from lakehouse_core.tasks.keys.new_buckets import NewBuckets, OldBucket, in_order, partition_keys
from lakehouse_core.tasks.merge_scan import BucketFiles, merged_records, objects_of
from lakehouse_core.tasks.runtime import TaskRuntime

_MOST_PENDING_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleTask:
    """The files of some buckets of one partition. `store` is rooted at the table.

    `schema` says how many buckets there will be. `folders`: by file name, the folder of each of the `files`.
    `file_schemas`: by id, every schema that the files name. `deletions`: by file name, the location of the file's
    deletion vector. `indexes`: where buckets are dynamic, by the folder of a bucket that has a hash index, the index's
    folder and its entry; the task then has all buckets of its partition.
    """

    store: StoreSpec
    schema: TableSchema
    partition: bytes
    files: tuple[DataFile, ...]
    folders: Mapping[str, str]
    file_schemas: Mapping[int, TableSchema]
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    indexes: Mapping[str, tuple[str, IndexFile]] = field(default_factory=dict)


def run_rescale(task: RescaleTask, runtime: TaskRuntime) -> str:
    """Carry out the task where an engine runs it; return the new files as the text of commit messages."""
    return messages_to_json(rescale_buckets(task, runtime))


def rescale_buckets(task: RescaleTask, runtime: TaskRuntime) -> list[CommitMessage]:
    """Write the rows of the files into their new buckets, and return a message with the new files of each.

    A failed task leaves no new file. Raises InvalidRequest for nulls that the schema forbids now, CorruptTable (also
    for a missing file), StorageFull, StorageUnavailable.
    """
    store, clock, schema = runtime.open_store(task.store), runtime.clock, task.schema
    layout, stored = DataLayout(schema), _stored(task, store)
    kind = compacted_kind(schema, level=0 if schema.is_append else schema.table_options.num_levels - 1)
    objects = (found for file in task.files for found in objects_of(task.folders[file.file_name], [file]))
    with reading_ahead(store, objects) as opener, closing_behind(store) as sinks, ExitStack() as stack:
        output = runtime.output(sinks, schema)
        writers: dict[int, DataFileWriter] = {}
        for batch in stack.enter_context(closing(_rows(schema, stored, opener))):
            for bucket, rows in _by_bucket(schema, stored.new, storable(batch, schema)):
                if bucket not in writers:
                    writer = DataFileWriter(output, layout.bucket(task.partition, bucket), kind)
                    writers[bucket] = stack.enter_context(writer)
                writers[bucket].write(rows)
            if sum(writer.pending_bytes for writer in writers.values()) > _MOST_PENDING_BYTES:
                for writer in writers.values():
                    writer.flush()
        indexes = stack.enter_context(_indexes_of(sinks))
        messages = []
        for bucket in sorted(writers):
            made: tuple[IndexFile, ...] = ()
            if stored.new is not None and has_hash_index(schema.bucketing):
                folder = layout.index_folder(task.partition, bucket) or INDEX_FOLDER
                made = (indexes(folder, f"index-{clock.uuid()}-0", stored.new.hashes(bucket)),)
            messages.append(
                CommitMessage(
                    partition=task.partition,
                    bucket=bucket,
                    total_buckets=total_buckets(schema.bucketing),
                    new_files=writers[bucket].close(),
                    new_index_files=made,
                )
            )
        sinks.settle()
    return messages


@dataclass(frozen=True, slots=True)
class _Stored:
    """The files to read, in order, and where they are. `new`: the buckets of their keys, None if a hash gives them."""

    files: tuple[DataFile, ...]
    source: BucketFiles
    new: NewBuckets | None = None


def _stored(task: RescaleTask, store: StoreReader) -> _Stored:
    schema = task.schema
    source = BucketFiles(
        store=store,
        folder="",
        schemas={schema.id: schema, **task.file_schemas},
        verify=schema.table_options.read_verify,
        deletions=task.deletions,
        elsewhere=task.folders,
    )
    if not isinstance(schema.bucketing, Dynamic):
        return _Stored(task.files, source)
    old: dict[str, list[DataFile]] = {}
    for file in task.files:
        old.setdefault(task.folders[file.file_name], []).append(file)
    buckets = [OldBucket(files=tuple(files), index=task.indexes.get(folder)) for folder, files in old.items()]
    keys = partition_keys(buckets, source, store, schema)
    ordered, files = in_order(source, task.files, keys, schema)
    return _Stored(files, ordered, NewBuckets(keys.hashes, schema))


def _rows(schema: TableSchema, stored: _Stored, opener: FileOpener) -> Generator[pa.RecordBatch, None, None]:
    source = replace(stored.source, store=opener)
    if schema.is_append:
        return copied_rows(schema, stored.files, source)
    return merged_records(
        source,
        sections(keyed_files(stored.files, [each.type for each in schema.key_fields])),
        schema,
        schema.fields,
        with_sequence_number=True,
        drops_deletes=True,
    )


def _by_bucket(
    schema: TableSchema, new: NewBuckets | None, batch: pa.RecordBatch
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each bucket, in their order."""
    fields = schema.bucket_fields
    columns, types = [batch.column(each.name) for each in fields], [each.type for each in fields]
    if new is not None:
        numbers = new.of(hash_rows(columns, types))
    else:
        assert isinstance(schema.bucketing, Fixed)
        numbers = buckets(columns, types, schema.bucketing.count, schema.bucketing.function)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for bucket, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield bucket, batch if len(found) == 1 else batch.take(pa.array(rows))


@contextmanager
def _indexes_of(sinks: Sinks) -> Iterator[Callable[[str, str, Hashes], IndexFile]]:
    """Yield what writes a hash index. If the block fails, those that were written are deleted."""
    written: list[str] = []

    def write(folder: str, name: str, hashes: Hashes) -> IndexFile:
        written.append(f"{folder}/{name}")
        return write_hashes(sinks, folder, name, hashes)

    try:
        yield write
    except BaseException:
        clear_away(sinks, written)
        raise
