"""Target rows: the rows of a table that a MERGE joins, each with an address by which it is found again.

Rule: a split gives the same rows in the same order to each read for one source, so an address means the same row in
all of them.
Source: docs/semantics/row-changes.md#merge.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakehouse_core.format.data_types import arrow_type
from lakehouse_core.format.rows import take_all
from lakehouse_core.merge.compact import POSITION_BITS
from lakehouse_core.storage.object_store import FileOpener, StoreSpec
from lakehouse_core.storage.overlap import reading_ahead
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.predicate import Predicate, columns_of
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split, sharing
from lakehouse_core.tasks.change_rows.among import Among
from lakehouse_core.tasks.matching import matching_rows
from lakehouse_core.tasks.merge_scan import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    batch_rows,
    objects_of,
    split_files,
)
from lakehouse_core.tasks.read import ReadTask
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.waiting.read import read_splits


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTask:
    """The rows of one split. `store` is rooted at the table.

    `first_number`: of the split, in a key table; of its first file, in an append table. The number and the position of
    a row make its address. `address`: the name of the column with it.
    """

    store: StoreSpec
    schema: TableSchema
    split: Split
    columns: tuple[str, ...]
    address: str
    first_number: int
    predicate: Predicate | None = None
    file_schemas: Mapping[int, TableSchema] = field(default_factory=dict)


def target_schema(schema: TableSchema, columns: tuple[str, ...], address: str) -> pa.Schema:
    """Return the schema of the batches that `target_rows` yields."""
    return pa.schema(
        [*(pa.field(name, arrow_type(schema.field(name).type)) for name in columns), pa.field(address, pa.int64())]
    )


def target_rows(
    tasks: Iterable[TargetTask], runtime: TaskRuntime, among: Among | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the splits that satisfy the predicate and are among those of a source, with their addresses.

    Consecutive splits with the same waiting rows are read at once, and the numbers of their rows are those of the
    first. REQUIRES: the tasks differ in their splits only. Raises as `read_splits` does.
    """
    for together in sharing(tasks, lambda task: task.split):
        task = together[0]
        schema = target_schema(task.schema, task.columns, task.address)
        batches = _of_files(task, runtime) if task.schema.is_append else _of_buckets(together, runtime, among)
        for columns, numbers in batches:
            batch = pa.RecordBatch.from_arrays([*columns, pa.array(numbers, pa.int64())], schema=schema)
            if among is not None:
                batch = batch.filter(pa.array(among.holds(batch)))
            if batch.num_rows:
                yield batch


def _of_buckets(
    tasks: Sequence[TargetTask], runtime: TaskRuntime, among: Among | None
) -> Iterator[tuple[list[pa.Array], np.ndarray]]:
    # All versions of a key stay or go, so those of other keys need not be merged.
    keys = None if among is None else among.only(tasks[0].schema.trimmed_primary_keys)
    readings = [
        ReadTask(
            store=task.store,
            schema=task.schema,
            split=task.split,
            columns=task.columns,
            predicate=task.predicate,
            file_schemas=task.file_schemas,
            keeps=None if keys is None else keys.may_hold,
        )
        for task in tasks
    ]
    first = tasks[0].first_number << POSITION_BITS
    for batch in read_splits(readings, runtime):
        yield batch.columns, np.arange(first, first + batch.num_rows)
        first += batch.num_rows


def _of_files(task: TargetTask, runtime: TaskRuntime) -> Iterator[tuple[list[pa.Array], np.ndarray]]:
    split = task.split
    store = runtime.open_store(task.store)
    with reading_ahead(store, objects_of(split.folder, split.files)) as opener:
        for number, file in enumerate(split.files, task.first_number):
            yield from _of_file(task, opener, file, number)


def _of_file(
    task: TargetTask, opener: FileOpener, file: DataFile, number: int
) -> Iterator[tuple[list[pa.Array], np.ndarray]]:
    files = split_files(task.split, task.schema, task.file_schemas, opener)
    asked = set(task.columns) | (set() if task.predicate is None else set(columns_of(task.predicate)))
    fields = [each for each in task.schema.fields if each.name in asked]
    stays = np.ones(file.row_count, np.bool_)
    if (marked := files.deleted_rows(file)) is not None:
        stays[marked] = False
    reader = files.open(file)
    try:
        start = 0
        rows = batch_rows(reader.row_bytes(fields), CHUNK_ROWS, CHUNK_BYTES)
        for batch in reader.batches(fields, batch_rows=rows):
            kept = matching_rows(batch, task.predicate, task.schema.fields)
            kept = kept[stays[start + kept]]
            if len(kept):
                columns = [batch.column(name) for name in task.columns]
                taken = columns if len(kept) == batch.num_rows else take_all(columns, kept)
                yield taken, kept + ((number << POSITION_BITS) + start)
            start += batch.num_rows
    finally:
        reader.close()
