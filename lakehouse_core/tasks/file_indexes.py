"""File index task: compute the indexes of some data files from their rows, and write those that differ from what is
there.

Rule: a data file is only read. Its index covers all of its rows, also those that are marked as deleted, because indexes
number the rows by their position in the file.
Source: docs/semantics/maintenance.md#file-indexes.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from lakehouse_core.data_files.file_index import stored_bodies
from lakehouse_core.data_files.writer import FileNames
from lakehouse_core.format.file_index import serialize_container
from lakehouse_core.options import IndexedColumn
from lakehouse_core.planning.file_indexes import Bodies, NewIndex, is_up_to_date, wanted_indexes
from lakehouse_core.storage.object_store import FileOpener, StoreSpec
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import closing_behind, reading_ahead
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.growing_file_index import GrowingFileIndex
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.merge_scan import CHUNK_BYTES, CHUNK_ROWS, BucketFiles, batch_rows, objects_of
from lakehouse_core.tasks.runtime import TaskRuntime


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexTask:
    """Data files, each with its folder. `store` is rooted at the table.

    `schema` has the options; `file_schemas`: by id, every schema that the files name. `dry_run`: write nothing.
    """

    store: StoreSpec
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]
    files: tuple[tuple[str, DataFile], ...]
    dry_run: bool = False


def run_file_indexes(task: FileIndexTask, runtime: TaskRuntime) -> str:
    """Carry out the task where an engine runs it; `indexes_from` parses the returned text."""
    found = write_indexes(task, runtime)
    return json.dumps({file.file_name: _fields(found.get(file.file_name)) for _, file in task.files})


def indexes_from(text: str) -> dict[str, NewIndex | None]:
    """Return the new index of each data file of a task, by its name; None for a file whose index stays."""
    return {
        name: found
        and NewIndex(
            embedded=None if found["embedded"] is None else base64.b64decode(found["embedded"]),
            file_name=found["file_name"],
            size_bytes=found["size_bytes"],
        )
        for name, found in json.loads(text).items()
    }


def write_indexes(task: FileIndexTask, runtime: TaskRuntime) -> dict[str, NewIndex]:
    """Return the new index of each data file whose index is not the one that the options ask for.

    A failed task leaves no new file. Raises CorruptTable (also for a missing file, and for a damaged index),
    StorageFull, StorageUnavailable.
    """
    store = runtime.open_store(task.store)
    names = FileNames(runtime.clock.uuid())
    objects = (found for folder, file in task.files for found in objects_of(folder, [file]))
    found: dict[str, NewIndex] = {}
    written: list[str] = []
    with reading_ahead(store, objects) as opener, closing_behind(store) as sinks:
        try:
            for folder, file in task.files:
                # Never the name of an earlier index: tags, and readers at work, may need that one.
                name = names.next(f"{file.file_name}-", "index")
                index = _changed(task, _bucket_files(task, opener, folder), file, name)
                if index is None:
                    continue
                found[file.file_name] = index.described
                if index.beside is not None and not task.dry_run:
                    written.append(f"{folder}/{index.described.file_name}")
                    sinks.write({written[-1]: index.beside})
            sinks.settle()
        except BaseException:
            clear_away(sinks, written)
            raise
    return found


def _bucket_files(task: FileIndexTask, opener: FileOpener, folder: str) -> BucketFiles:
    verify = task.schema.table_options.read_verify
    return BucketFiles(store=opener, folder=folder, schemas=task.file_schemas, verify=verify)


@dataclass(frozen=True, slots=True)
class _Index:
    """A new index, and the bytes of the file beside the data file that holds it, if it is large."""

    described: NewIndex
    beside: bytes | None = None


def _changed(task: FileIndexTask, files: BucketFiles, file: DataFile, name: str) -> _Index | None:
    """Return the new index of a file, None if the file has it; `name`: of a new file for it."""
    file_schema = task.file_schemas[file.schema_id]
    wanted = wanted_indexes(task.schema, file_schema)
    if not wanted:
        # What is not wanted any more need not be readable.
        return _Index(NewIndex())
    bodies = _bodies(files, file, file_schema, wanted)
    embedded = serialize_container(bodies)
    is_small = len(embedded) <= task.schema.table_options.file_index_embedded_bytes
    if is_up_to_date(file, stored_bodies(files.store, files.folder, file), bodies, is_small=is_small):
        return None
    if is_small:
        return _Index(NewIndex(embedded=embedded, size_bytes=len(embedded)))
    container = serialize_container(bodies, checked_for=file.file_name)
    return _Index(NewIndex(file_name=name, size_bytes=len(container)), beside=container)


def _bodies(files: BucketFiles, file: DataFile, file_schema: TableSchema, wanted: Sequence[IndexedColumn]) -> Bodies:
    index = GrowingFileIndex(file_schema, wanted)
    columns = dict.fromkeys(one.column for one in wanted)
    for batch in _rows(files, file, file_schema, list(columns)):
        index.add(pa.Table.from_batches([batch]))
    return index.bodies()


def _rows(
    files: BucketFiles, file: DataFile, file_schema: TableSchema, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    fields = [file_schema.field(name) for name in columns]
    reader = files.open(file)
    try:
        yield from reader.batches(fields, batch_rows=batch_rows(reader.row_bytes(fields), CHUNK_ROWS, CHUNK_BYTES))
    finally:
        reader.close()


def _fields(index: NewIndex | None) -> dict[str, Any] | None:
    if index is None:
        return None
    embedded = None if index.embedded is None else base64.b64encode(index.embedded).decode()
    return {**asdict(index), "embedded": embedded}
