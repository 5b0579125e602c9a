"""Read task: read the rows of one split in the current schema, merged if its files overlap.

Rule: conditions on value columns apply after the merge, because an older version may match where the newest does not.
Source: docs/semantics/reading.md#batch-scan, docs/semantics/reading.md#raw-reads.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakehouse_core.data_files.file_index import indexed_rows
from lakehouse_core.format.data_types import DataField, arrow_type
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.diff import differences
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.storage.object_store import FileOpener, StoreSpec
from lakehouse_core.storage.overlap import reading_ahead
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import ROW_KINDS, VALUE_KIND
from lakehouse_core.table.predicate import Predicate, columns_of, only_columns, to_expression
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.merge_scan import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    BucketFiles,
    RowTest,
    batch_rows,
    merged_records,
    objects_of,
    split_files,
)
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.small_buckets import BucketRuns, BucketsMerge, MergedBuckets

# The name of the first column of changes, as in Paimon's audit log.
ROW_KIND_COLUMN: Final = "rowkind"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """A split to read. `store` is rooted at the table; `file_schemas` holds, by id, every schema that its files name.

    `predicate` is bound to `schema`. `with_row_kinds`: the row kind as text is the first column, and deletes are
    included. `keeps`: by their keys, the rows that matter; a merge leaves out the others. `in_threads`: the columns of
    files that are not merged may be decoded by all processors.
    """

    store: StoreSpec
    schema: TableSchema
    split: Split
    columns: tuple[str, ...]
    predicate: Predicate | None = None
    file_schemas: Mapping[int, TableSchema] = field(default_factory=dict)
    with_row_kinds: bool = False
    keeps: RowTest | None = None
    in_threads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRows:
    """The waiting rows of a partition as sorted files of level 0 in `store`, by bucket."""

    store: FileOpener
    files: Mapping[int, tuple[DataFile, ...]]


Placing: TypeAlias = Callable[[Sequence[ReadTask], FileOpener, Predicate | None], AbstractContextManager[PlacedRows]]
"""Gives the waiting rows of the buckets of splits of one partition, by their keys also those that satisfy a condition
on key columns, until the block ends.
"""


def rows_schema(schema: TableSchema, columns: Iterable[str], *, with_row_kinds: bool) -> pa.Schema:
    """Return the schema of the batches of a read."""
    fields = [pa.field(name, arrow_type(schema.field(name).type)) for name in columns]
    return pa.schema([pa.field(ROW_KIND_COLUMN, pa.string()), *fields] if with_row_kinds else fields)


def read_schema(task: ReadTask) -> pa.Schema:
    """Return the schema of the batches that `read_split` yields."""
    return rows_schema(task.schema, task.columns, with_row_kinds=task.with_row_kinds)


def read_split(task: ReadTask, runtime: TaskRuntime) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the split, which has no waiting ones, that satisfy the predicate; no batch is empty.

    Raises CorruptTable if a file is missing, or differs from its manifest entry.
    """
    with reading_ahead(runtime.open_store(task.store), split_objects([task.split])) as store:
        yield from split_rows(task, store)


def split_objects(splits: Iterable[Split]) -> Iterator[tuple[str, int]]:
    """Yield the key and the size in bytes of each object that reading the splits opens, in their order."""
    waited = None
    for split in splits:
        if split.waiting and split.partition != waited:
            yield from objects_of(split.waiting_folder, split.waiting)
        waited = split.partition if split.waiting else None
        yield from objects_of(split.folder, chain(split.before or (), split.files))


def split_rows(task: ReadTask, store: FileOpener) -> Iterator[pa.RecordBatch]:
    """Yield the rows as `read_split` does; `store` opens the files."""
    return splits_rows([task], store)


def splits_rows(
    tasks: Iterable[ReadTask], store: FileOpener, placing: Placing | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of splits in their order as `split_rows` yields those of each; small ones are merged together, and
    share batches. `placing` brings waiting rows into their buckets, those of consecutive splits at once.

    REQUIRES: the tasks differ in their splits only.
    """
    for is_merged, group in groupby(tasks, key=merges):
        merged = [_merged_splits(group, store, placing)] if is_merged else []
        for rows in merged or (_unmerged_split(task, store) for task in group):
            with closing(rows):
                yield from rows


def merged_splits(
    tasks: Iterable[ReadTask], store: FileOpener, placing: Placing | None = None
) -> Generator[MergedBuckets, None, None]:
    """Yield the merged rows of splits, small ones together. Close it, as `BucketsMerge.merged`.

    REQUIRES: there is a task, the tasks differ in their splits only, and each `merges`. Raises as `read_split` does.
    """
    remaining = iter(tasks)
    first = next(remaining)
    schema = first.schema
    merge = BucketsMerge(
        schema=schema,
        fields=_read_fields(first),
        with_sequence_number=False,
        drops_deletes=not first.with_row_kinds,
        key_filter=only_columns(first.predicate, schema.trimmed_primary_keys),
        row_filter=first.predicate,
        keeps=first.keeps,
    )
    runs = _runs(chain([first], remaining), store, placing, merge.key_filter)
    with closing(runs), closing(merge.merged(runs)) as merged:
        yield from merged


def _runs(
    tasks: Iterable[ReadTask], store: FileOpener, placing: Placing | None, key_filter: Predicate | None
) -> Generator[BucketRuns, None, None]:
    """Yield the sections of each task's bucket, with the waiting rows of the bucket as its newest runs."""
    for waiting_folder, group in groupby(tasks, key=lambda task: task.split.waiting_folder):
        if not waiting_folder:
            for task in group:
                yield _bucket_runs(task, split_files(task.split, task.schema, task.file_schemas, store))
            continue
        assert placing is not None, "The split has rows that wait for their buckets."
        waited = list(group)
        with placing(waited, store, key_filter) as placed:
            for task in waited:
                source = split_files(task.split, task.schema, task.file_schemas, store)
                files = placed.files.get(task.split.bucket, ())
                yield _bucket_runs(
                    task, replace(source, stores={file.file_name: placed.store for file in files}), files
                )


def _bucket_runs(task: ReadTask, source: BucketFiles, placed: Iterable[DataFile] = ()) -> BucketRuns:
    key_types = [field.type for field in task.schema.key_fields]
    keyed = keyed_files([*task.split.files, *placed], key_types)
    return BucketRuns(task.split.partition, source, sections(keyed))


def merges(task: ReadTask) -> bool:
    """Return whether the rows of a split are merged by key, and not compared with an earlier state."""
    return not (task.schema.is_append or task.split.raw or task.split.before is not None)


def _unmerged_split(task: ReadTask, store: FileOpener) -> Generator[pa.RecordBatch, None, None]:
    files = split_files(task.split, task.schema, task.file_schemas, store)
    fields = _read_fields(task)
    if task.split.before is None:
        batches = _raw(task, files, fields)
    else:
        batches = _differing(task, files, task.split.before)
        fields = list(task.schema.fields)
    with closing(batches):
        yield from _matching(batches, task, fields)


def _merged_splits(
    tasks: Iterable[ReadTask], store: FileOpener, placing: Placing | None = None
) -> Generator[pa.RecordBatch, None, None]:
    remaining = iter(tasks)
    first = next(remaining)
    with closing(merged_splits(chain([first], remaining), store, placing)) as merged:
        yield from _matching((each.batch for each in merged), first, _read_fields(first))


def _matching(
    batches: Iterable[pa.RecordBatch], task: ReadTask, fields: Sequence[DataField]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that satisfy the predicate, in the columns of the task; `fields` are those of the batches."""
    schema = read_schema(task)
    types = {field.name: field.type for field in fields}
    expression = None if task.predicate is None else to_expression(task.predicate, types)
    for batch in batches:
        kept = batch if expression is None else batch.filter(expression)
        if kept.num_rows:
            yield _shaped(kept, task, schema)


def _read_fields(task: ReadTask) -> list[DataField]:
    """Return the requested columns, then those that only the predicate needs."""
    asked = dict.fromkeys(task.columns)
    if task.predicate is not None:
        asked |= dict.fromkeys(sorted(columns_of(task.predicate)))
    return [task.schema.field(name) for name in asked]


def _raw(task: ReadTask, files: BucketFiles, fields: Sequence[DataField]) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of the files in sequence, without a merge."""
    system = () if task.schema.is_append else (VALUE_KIND,)
    for file in task.split.files:
        only = _indexed(task, files, file)
        if only is not None and not only:
            continue
        deleted = files.deleted_rows(file)
        reader = files.open(file)
        try:
            rows = batch_rows(reader.row_bytes(fields), CHUNK_ROWS, CHUNK_BYTES)
            batches = reader.batches(
                fields,
                system=system,
                batch_rows=rows,
                row_filter=task.predicate,
                without=deleted,
                only=only,
                in_threads=task.in_threads,
            )
            for batch in batches:
                yield batch if task.with_row_kinds or task.schema.is_append else _adds(batch)
        finally:
            reader.close()


def _indexed(task: ReadTask, files: BucketFiles, file: DataFile) -> BitMap | None:
    """Return the positions of rows that may match by the file's index; None if it has no index or all rows may
    match.
    """
    file_schema = files.schemas.get(file.schema_id)
    if task.predicate is None or file_schema is None or not task.schema.table_options.file_index_read:
        return None
    return indexed_rows(
        files.store, files.folder, file, file_schema, predicate=task.predicate, fields=task.schema.fields
    )


def _differing(task: ReadTask, files: BucketFiles, before: Sequence[DataFile]) -> Generator[pa.RecordBatch, None, None]:
    """Yield the differences. Rows are compared in all columns, also in those that were not requested."""
    schema = task.schema
    key_types = [field.type for field in schema.key_fields]

    def state(source: BucketFiles, state_files: Sequence[DataFile]) -> Generator[pa.RecordBatch, None, None]:
        return merged_records(
            source,
            sections(keyed_files(state_files, key_types)),
            schema,
            schema.fields,
            with_sequence_number=False,
            drops_deletes=not task.with_row_kinds,
        )

    with (
        closing(state(replace(files, deletions=task.split.deletions_before), before)) as old,
        closing(state(files, task.split.files)) as new,
    ):
        yield from differences(
            old,
            new,
            schema.trimmed_primary_keys,
            VALUE_KIND,
            names=(*schema.column_names, VALUE_KIND),
            keeps_deletes=task.with_row_kinds,
            chunk_rows=CHUNK_ROWS,
            chunk_bytes=CHUNK_BYTES,
        )


def _adds(batch: pa.RecordBatch) -> pa.RecordBatch:
    kept = is_add(fixed_values(batch.column(VALUE_KIND), np.int8))
    return batch if kept.all() else batch.filter(pa.array(kept))


def _shaped(batch: pa.RecordBatch, task: ReadTask, schema: pa.Schema) -> pa.RecordBatch:
    if not schema.names:
        return batch.select([])
    columns = [batch.column(name) for name in task.columns]
    if task.with_row_kinds:
        columns.insert(0, _kind_texts(batch, task))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _kind_texts(batch: pa.RecordBatch, task: ReadTask) -> pa.Array:
    if task.schema.is_append:
        return pa.repeat(ROW_KINDS[0], batch.num_rows)
    return pa.array(ROW_KINDS).take(batch.column(VALUE_KIND))
