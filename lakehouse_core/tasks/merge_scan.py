"""Merge scan: read the sections of a bucket as one record for each key, in key order, in bounded memory.

Source: docs/semantics/compaction.md#compaction-task, docs/semantics/reading.md#merge-reads.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.deletion_vectors import load_positions, remaining_rows
from lakehouse_core.data_files.memory import keep_freed_memory
from lakehouse_core.data_files.opening import open_data_file
from lakehouse_core.data_files.reader import DataFileReader
from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.data_types import FLOAT_ROOTS, AtomicType, DataField, arrow_type
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.merge.chunk import LEVEL, MergeRule, merge_chunk
from lakehouse_core.merge.compact import NOWHERE, POSITION_BITS, ROW_ADDRESS
from lakehouse_core.merge.frontier import RunSlice, frontier_chunks
from lakehouse_core.merge.positions import Flags
from lakehouse_core.merge.reduce import BY_ROW
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.storage.overlap import drawing_ahead
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.joined_changelog import segment_of
from lakehouse_core.table.merge_spec import MergeSpec, merge_spec
from lakehouse_core.table.predicate import And, Compare, Comparison, Predicate, columns_of, point_values
from lakehouse_core.table.record_expiry import RecordExpiry, expired_rows
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import Section, oldest_first
from lakehouse_core.table.sorted_run import Key, SortedRun
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.matching import matching_rows

# Larger chunks exceed the processor's cache and need memory; smaller ones pay the fixed cost of a chunk more often.
CHUNK_ROWS: Final = 128 * 1024
CHUNK_BYTES: Final = 32 << 20
_LEAST_BATCH_ROWS: Final = 16
# In a merge of at most this many runs, each run holds a whole stored row group in memory. With more runs, each reads
# windows of a row group: for ten runs this takes no longer, and memory does not grow with the number of files.
_MOST_HOLDING_RUNS: Final = 5
_HELD_BYTES: Final = 64 << 20
_EQUAL_PART: Final = 1 / 8

# Of the files whose bounds admit so few keys, most have none of them.
_FEW_KEYS: Final = 16

RowTest: TypeAlias = Callable[[pa.RecordBatch], Flags]
"""Tells of each row of a batch whether it is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The location of a bucket's files, and the schemas that they were written with, by id.

    `deletions`: by file name, the location of the file's deletion vector. `elsewhere`: by name, the folders of files
    that are not in `folder`. `stores`: by name, the stores of files that are not in `store`. `around`: by name, what is
    put around the readers of files that are not read as they are stored.
    """

    store: FileOpener
    folder: str
    schemas: Mapping[int, TableSchema]
    verify: bool = True
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, FileOpener] = field(default_factory=dict)
    around: Mapping[str, Callable[[DataFileReader], DataFileReader]] = field(default_factory=dict)

    def deleted_rows(self, file: DataFile) -> Positions | None:
        """Return the positions of a file's rows that are marked as deleted, None if there are none.

        The caller passes them to the file's reader as `without=`. Raises CorruptTable.
        """
        deletion = self.deletions.get(file.file_name)
        return None if deletion is None else load_positions(self.store, deletion, file.file_name)

    def open(self, file: DataFile) -> DataFileReader:
        """Open a file. Raises CorruptTable, UnsupportedFeature."""
        schema = self.schemas.get(file.schema_id)
        folder = self.elsewhere.get(file.file_name, self.folder)
        if schema is None:
            raise CorruptTable(
                f"{folder}/{file.file_name}: it was written with schema {file.schema_id}, which is missing. "
                "Restore schema files from a copy of the table."
            )
        store = self.stores.get(file.file_name, self.store)
        reader = open_data_file(store, folder, file, schema, verify=self.verify)
        return self.around.get(file.file_name, _as_stored)(reader)


def _as_stored(reader: DataFileReader) -> DataFileReader:
    return reader


def split_files(
    split: Split, schema: TableSchema, file_schemas: Mapping[int, TableSchema], store: FileOpener
) -> BucketFiles:
    """Return the files of a split for a reader with this schema; `file_schemas`: those of the files, by id."""
    return BucketFiles(
        store=store,
        folder=split.folder,
        schemas={schema.id: schema, **file_schemas},
        verify=schema.table_options.read_verify,
        deletions=split.deletions,
    )


def objects_of(folder: str, files: Iterable[DataFile]) -> Iterator[tuple[str, int]]:
    """Yield the key and the size in bytes of each file's object; none for a file that shares its object."""
    for file in files:
        key = f"{folder}/{file.file_name}"
        if segment_of(key) is None:
            yield key, file.file_size


def merged_records(
    source: BucketFiles,
    sections: Sequence[Section],
    schema: TableSchema,
    fields: Sequence[DataField],
    *,
    with_sequence_number: bool,
    drops_deletes: bool,
    key_filter: Predicate | None = None,
    row_filter: Predicate | None = None,
    expiry: RecordExpiry | None = None,
    keeps: RowTest | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield, for each key, `fields` of the merged record, the sequence number if requested, and the row kind. Close it,
    for threads may read for it.

    `key_filter` and `row_filter` leave out whole row groups: `key_filter`, on key columns, in all sections;
    `row_filter`, on any column, in sections of one run. A `key_filter` of a few keys leaves out single records, too.
    `drops_deletes`: deleted keys are left out. `expiry`: expired records are ignored. `keeps`: by their keys, the
    records that are merged; the others are left out.
    """
    keep_freed_memory()
    spec = merge_spec(schema)
    read = with_merge_columns(fields, schema, spec)
    # Merge engines that pick one whole version pick the right one without levels.
    uses_levels = schema.table_options.needs_lookup and spec.engine not in BY_ROW
    points = point_values(key_filter, schema.trimmed_primary_keys)
    few_keys = key_filter if points is not None and len(points) <= _FEW_KEYS else None
    output = [field.name for field in fields] + ([SEQUENCE_NUMBER] if with_sequence_number else []) + [VALUE_KIND]
    for section in sections:
        runs, is_decided = oldest_first(section)
        needs_number = with_sequence_number or (len(runs) > 1 and not is_decided)
        rule = MergeRule(
            spec=spec,
            kind_column=VALUE_KIND,
            sequence_number=None if is_decided else SEQUENCE_NUMBER,
            level=LEVEL if uses_levels else None,
            drops_deletes=drops_deletes,
        )
        scan = RunScan(
            source=source,
            fields=tuple(read),
            system=(SEQUENCE_NUMBER, VALUE_KIND) if needs_number else (VALUE_KIND,),
            row_filter=row_filter if len(runs) == 1 else key_filter,
            few_keys=few_keys,
            with_level=uses_levels,
            expiry=expiry,
            keeps=keeps,
        )
        with closing(chunks_of([(scan, run) for run in runs], spec)) as chunks:
            for chunk in chunks:
                yield from merge_chunk(chunk, rule, output)


def chunks_of(
    runs: Sequence[tuple["RunScan", SortedRun]], spec: MergeSpec
) -> Generator[tuple[RunSlice, ...], None, None]:
    """Yield key-complete chunks of the runs; close it, for threads may read for it.

    `runs`: oldest first, all with the same columns.
    """
    first, _ = runs[0]
    names = [field.name for field in first.fields]
    shares = _shares([run.row_count for _, run in runs])
    held_bytes = _HELD_BYTES if len(runs) <= _MOST_HOLDING_RUNS else 0
    sources = [
        scan.batches(run, share=share, held_bytes=held_bytes) for (scan, run), share in zip(runs, shares, strict=True)
    ]
    largest = max(file.file_size for _, run in runs for file in run.data_files)
    with drawing_ahead(first.source.store, sources, object_bytes=largest) as batches:
        yield from frontier_chunks(
            batches,
            [names.index(name) for name in spec.key_columns],
            chunk_rows=CHUNK_ROWS,
            chunk_bytes=CHUNK_BYTES,
            shares=shares,
        )


def _shares(row_counts: Sequence[int]) -> list[float]:
    """Return the fraction of a chunk that each run gets, in proportion to its rows, so that all runs end together.

    A part is divided equally, so that a small run with keys close together does not make many small chunks.
    """
    total = max(1, sum(row_counts))
    return [_EQUAL_PART / len(row_counts) + (1 - _EQUAL_PART) * count / total for count in row_counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScan:
    """How the files of a run are read. `row_filter` leaves out whole row groups; `few_keys`, on key columns, files that
    have none of the keys, and single rows.

    `places`: a number for each file name, from which each record gets its row address; records of other files get none.
    None: no such column. `read_only`: the names of the fields to read, the others are null; None: all. `keeps_expired`:
    expired records are read too and get level 0, which looked-up records never have. `keeps`: None: all rows.
    """

    source: BucketFiles
    fields: tuple[DataField, ...]
    system: tuple[str, ...]
    row_filter: Predicate | None = None
    few_keys: Predicate | None = None
    with_level: bool = False
    expiry: RecordExpiry | None = None
    places: Mapping[str, int] | None = None
    read_only: frozenset[str] | None = None
    keeps_expired: bool = False
    keeps: RowTest | None = None

    def batches(self, run: SortedRun, *, share: float, held_bytes: int) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a run in batches of `share` of a chunk; the shares of all runs sum up to 1.

        A file is opened after the previous one is read completely. `held_bytes`: see the file readers.
        """
        read = [field for field in self.fields if self.read_only is None or field.name in self.read_only]
        for file in run.data_files:
            reader = self.source.open(file)
            try:
                if self.few_keys is not None and not self._has_key(reader, self.few_keys):
                    continue
                rows = batch_rows(reader.row_bytes(read), int(CHUNK_ROWS * share), CHUNK_BYTES * share)
                deleted = self.source.deleted_rows(file)
                if self.places is None:
                    found = reader.batches(
                        read,
                        system=self.system,
                        batch_rows=rows,
                        held_bytes=held_bytes,
                        row_filter=self.row_filter,
                        without=deleted,
                    )
                else:
                    # Row addresses are counted over all rows, so no row may be left out.
                    stored = reader.batches(read, system=self.system, batch_rows=rows, held_bytes=held_bytes)
                    placed = _placed(stored, self.places.get(file.file_name))
                    found = placed if deleted is None else remaining_rows(placed, deleted)
                if self.expiry is not None and not self.keeps_expired:
                    found = _passing(found, partial(_is_unexpired, expiry=self.expiry))
                if self.keeps is not None:
                    found = _passing(found, self.keeps)
                if self.few_keys is not None:
                    found = _matching(found, self.few_keys, read)
                found = found if len(read) == len(self.fields) else (_filled(batch, self.fields) for batch in found)
                yield from (self._leveled(batch, file.level) for batch in found) if self.with_level else found
            finally:
                reader.close()

    def _has_key(self, reader: DataFileReader, few_keys: Predicate) -> bool:
        """Return whether the file has one of the keys; it reads the key columns that the condition names. Of a file
        without the keys no other column is read.
        """
        names = columns_of(few_keys)
        fields = [field for field in self.fields if field.name in names]
        rows = batch_rows(reader.row_bytes(fields), CHUNK_ROWS, CHUNK_BYTES)
        found = reader.batches(fields, system=(), batch_rows=rows, row_filter=self.row_filter)
        return any(len(matching_rows(batch, few_keys, fields)) for batch in found)

    def _leveled(self, batch: pa.RecordBatch, level: int) -> pa.RecordBatch:
        """Return the batch with the level of its file as the last column."""
        if self.expiry is not None and self.keeps_expired:
            levels = pa.array(np.where(expired_rows(batch, self.expiry), 0, level), pa.int8())
        else:
            levels = pa.repeat(pa.scalar(level, pa.int8()), batch.num_rows)
        return batch.append_column(LEVEL, levels)


def key_range(low: Key, high: Key, schema: TableSchema) -> Predicate | None:
    """Return a condition that all keys from `low` to `high` satisfy, by their first column; None if there is none."""
    first = schema.key_fields[0]
    if isinstance(first.type, AtomicType) and first.type.root in FLOAT_ROOTS:
        # Keys order floating-point values in another way than conditions do.
        return None
    return And(
        (
            Compare(first.name, Comparison.GREATER_OR_EQUAL, low[0]),
            Compare(first.name, Comparison.LESS_OR_EQUAL, high[0]),
        )
    )


def _filled(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """Return the batch with all `fields` first, in their order, nulls for missing ones; then its other columns."""
    names = {field.name: None for field in fields} | dict.fromkeys(batch.schema.names)
    kinds = {field.name: field.type for field in fields}
    there = set(batch.schema.names)
    arrays = [
        batch.column(name) if name in there else pa.nulls(batch.num_rows, arrow_type(kinds[name])) for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, list(names))


def _placed(batches: Iterable[pa.RecordBatch], file_number: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the batches with each row's address as the last column."""
    position = 0
    for batch in batches:
        if file_number is None:
            places = np.full(batch.num_rows, NOWHERE)
        else:
            places = np.arange(position, position + batch.num_rows) + (file_number << POSITION_BITS)
        position += batch.num_rows
        yield batch.append_column(ROW_ADDRESS, pa.array(places, pa.int64()))


def _is_unexpired(batch: pa.RecordBatch, *, expiry: RecordExpiry) -> Flags:
    return ~expired_rows(batch, expiry)


def _passing(batches: Iterable[pa.RecordBatch], test: RowTest) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        passes = test(batch)
        kept = batch if passes.all() else batch.filter(pa.array(passes))
        if kept.num_rows:
            yield kept


def _matching(
    batches: Iterable[pa.RecordBatch], predicate: Predicate, fields: Sequence[DataField]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = matching_rows(batch, predicate, fields)
        if len(rows):
            yield batch.take(pa.array(rows))


def batch_rows(row_bytes: float, most_rows: int, most_bytes: float) -> int:
    """Return the number of rows of a batch within both limits."""
    return max(_LEAST_BATCH_ROWS, min(most_rows, int(most_bytes / max(1.0, row_bytes))))


def with_merge_columns(fields: Sequence[DataField], schema: TableSchema, spec: MergeSpec) -> list[DataField]:
    """Return the requested fields, then further ones that the merge needs."""
    asked = {field.name for field in fields}
    needed = [*schema.key_fields, *map(schema.field, spec.sequence_fields)]
    for group in spec.groups:
        # A sequence group can matter to other columns, or remove the whole row.
        if asked & {*group.fields, *group.protected} or set(group.fields) & set(spec.removing_fields):
            needed += map(schema.field, group.fields)
    return list({field.name: field for field in [*fields, *needed]}.values())
