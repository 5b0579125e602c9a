"""Live keys: the keys of a table's state and the place of each, read from the key columns of its files.

Source: docs/semantics/tables.md#cross-partition-updates.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from lakehouse_core.format.data_types import DataField
from lakehouse_core.merge.deduplicate import Kinds
from lakehouse_core.merge.key_digests import Digests, key_digests
from lakehouse_core.merge.key_words import fixed_values
from lakehouse_core.storage.object_store import FileOpener, StoreReader, StoreSpec
from lakehouse_core.storage.overlap import reading_ahead
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import VALUE_KIND
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.merge_scan import CHUNK_ROWS, BucketFiles
from lakehouse_core.tasks.read import ReadTask, merged_splits, merges, split_objects, split_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFiles:
    """Data files of one bucket. `partition` is a serialized BinaryRow."""

    partition: bytes
    bucket: int
    folder: str
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """The files that have the keys of a table. `store` is rooted at it; `file_schemas`: by id, the schemas of files.

    `splits`: of the table's state. `behind`: files that are staged and will be committed before those of the reader, in
    this order.
    """

    store: StoreSpec
    schema: TableSchema
    splits: tuple[Split, ...] = ()
    behind: tuple[PlacedFiles, ...] = ()
    file_schemas: Mapping[int, TableSchema] = field(default_factory=dict)

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        """The columns of the whole primary key."""
        return tuple(map(self.schema.field, self.schema.primary_keys))


def live_keys(source: KeySource, store: StoreReader, seed: int) -> Iterator[tuple[Split, Digests]]:
    """Yield the keys of the state, and the split that has them. Raises CorruptTable, StorageUnavailable."""
    names = source.schema.primary_keys
    tasks = [
        ReadTask(store=source.store, schema=source.schema, split=split, columns=names, file_schemas=source.file_schemas)
        for split in source.splits
    ]
    # Those that are merged come together, so that small ones are merged at once.
    tasks.sort(key=merges)
    with reading_ahead(store, split_objects(task.split for task in tasks)) as opener:
        for is_merged, group in groupby(tasks, key=merges):
            if is_merged:
                yield from _merged_keys(list(group), opener, seed)
                continue
            for task in group:
                for batch in split_rows(task, opener):
                    yield task.split, key_digests(batch.columns, seed)


def _merged_keys(tasks: Sequence[ReadTask], store: FileOpener, seed: int) -> Iterator[tuple[Split, Digests]]:
    with closing(merged_splits(tasks, store)) as merged:
        for found in merged:
            keys = key_digests([found.batch.column(name) for name in tasks[0].columns], seed)
            for number, rows in found.slices():
                yield tasks[number].split, keys.take(rows)


def stored_keys(
    source: KeySource, placed: PlacedFiles, store: FileOpener, seed: int
) -> Iterator[tuple[Digests, Kinds]]:
    """Yield the keys of all records of some files, and the row kinds of the records. Raises as `live_keys` does."""
    files = BucketFiles(store=store, folder=placed.folder, schemas=source.file_schemas)
    for file in placed.files:
        with closing(files.open(file)) as reader:
            for batch in reader.batches(source.key_fields, system=(VALUE_KIND,), batch_rows=CHUNK_ROWS):
                yield key_digests(batch.columns[:-1], seed), _kinds(batch.column(VALUE_KIND))


def _kinds(column: pa.Array) -> Kinds:
    return fixed_values(column.cast(pa.int8()), np.int8)
