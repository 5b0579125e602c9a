"""Data file reader: the common part of all formats: conversion of a file's columns to those of a read, and errors for
damage.

Source: docs/semantics/tables.md#reading-old-files.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakehouse_core.data_files.deletion_vectors import remaining_rows
from lakehouse_core.data_files.row_selection import chosen_rows
from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable, UnsupportedFeature
from lakehouse_core.format.cast import cast_array
from lakehouse_core.format.data_types import DataField, arrow_type, has_same_kind
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.format.int96 import with_timestamps
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.joined_changelog import Segment, segment_of
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.projection import ColumnProjection, file_projection, source_columns
from lakehouse_core.table.schema import TableSchema

# Arrow decodes text a fifth faster with 64-bit offsets. Returned text has 32-bit offsets, which address 2 GiB.
WIDE_TEXT: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
SYSTEM_TYPES: Final = {SEQUENCE_NUMBER: pa.int64(), VALUE_KIND: pa.int8()}
# A smaller file is read by one call instead of one for its footer and one for each column.
READ_AT_ONCE_BYTES: Final = 64 << 10
_MOST_INSERTS: Final = 128 << 10  # The maximum row count of a merge batch.
# Not made from NumPy: that would import pandas with this module.
_INSERTS: Final = pa.Array.from_buffers(pa.int8(), _MOST_INSERTS, [None, pa.py_buffer(bytes(_MOST_INSERTS))])


class DataFileReader(Protocol):
    """An open data file of any format."""

    def row_bytes(self, fields: Sequence[DataField]) -> float:
        """Return the estimated decoded size of a row of these columns in bytes."""
        ...

    def row_count_left(self, fields: Sequence[DataField], row_filter: Predicate) -> int:
        """Return how many rows `batches` would decode for these columns with `row_filter`. Decodes none."""
        ...

    def batches(
        self,
        fields: Sequence[DataField],
        *,
        system: Sequence[str] = (),
        batch_rows: int,
        held_bytes: int = 64 << 20,
        row_filter: Predicate | None = None,
        without: Positions | None = None,
        only: BitMap | None = None,
        in_threads: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order, as `fields` and then the system columns asked for.

        `row_filter` is a hint: rows that do not match may be left out. Rows at other positions than `only` (None: all)
        and rows at the positions `without` are always left out. Positions are rising. `in_threads`: columns may be
        decoded by all processors.
        """
        ...

    def decode_all(self) -> None:
        """Decode every column, also unneeded ones, and discard the values. Raises CorruptTable."""
        ...

    def close(self) -> None: ...


def open_source(store: FileOpener, key: str, entry: DataFile) -> pa.NativeFile:
    """Open the bytes of a data file. Raises CorruptTable if it is missing, or its size is not that of its manifest
    entry.
    """
    segment = segment_of(key)
    if segment is not None:
        return _open_segment(store, key, segment, entry)
    try:
        source = store.open_read(key, entry.file_size)
    except NotFound as error:
        raise CorruptTable.missing(store.uri(key)) from error
    with decoding(key, "its size"):
        size = source.size()
    if size != entry.file_size:
        source.close()
        raise corrupt_file(key, f"it has {size} bytes, its manifest entry says {entry.file_size}")
    if size > READ_AT_ONCE_BYTES:
        return source
    with source, decoding(key, "its bytes"):
        return pa.BufferReader(source.read_at(size, 0))


def _open_segment(store: FileOpener, key: str, segment: Segment, entry: DataFile) -> pa.NativeFile:
    """Open the segment of a changelog file that shares an object with others."""
    if segment.length != entry.file_size:
        raise corrupt_file(key, f"its name says {segment.length} bytes, its manifest entry {entry.file_size}")
    try:
        shared = store.open_read(segment.key)
    except NotFound as error:
        raise CorruptTable.missing(store.uri(segment.key)) from error
    with shared, decoding(key, "its bytes"):
        size = shared.size()
        if size < segment.end:
            raise corrupt_file(key, f"its segment ends at byte {segment.end} of {segment.key}, which has {size}")
        return pa.BufferReader(shared.read_at(segment.length, segment.offset))


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """The columns of a read from files of one schema. `readers`: for each, the function that makes it of a batch of the
    file with this key.
    """

    file_schema: TableSchema
    fields: tuple[DataField, ...]
    projections: tuple[ColumnProjection, ...]
    readers: tuple[Callable[[pa.RecordBatch, str], pa.Array], ...]

    def fits(self, file_schema: TableSchema, fields: Sequence[DataField]) -> bool:
        return self.file_schema is file_schema and self.fields == tuple(fields)

    @property
    def sources(self) -> list[str]:
        """The columns to read from the file, under their names there."""
        return source_columns(self.projections)


# Of the file that was read last: many small files are read with the same columns.
_latest: list[ReadColumns] = []


def read_columns(file_schema: TableSchema, fields: Sequence[DataField]) -> ReadColumns:
    """Return the columns of a read from files of a schema. Raises UnsupportedFeature as `file_projection` does."""
    for kept in _latest:
        if kept.fits(file_schema, fields):
            return kept
    projections = file_projection(file_schema, fields)
    made = ReadColumns(file_schema, tuple(fields), projections, tuple(map(_column_reader, projections)))
    _latest[:] = [made]
    return made


def as_read(
    stored: Iterable[pa.RecordBatch], columns: ReadColumns, system: Sequence[str], key: str
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a file's own columns as the columns of a read and then the system columns."""
    names = [field.name for field in columns.fields] + list(system)
    for batch in stored:
        with decoding(key, "a batch"):
            arrays = [read(batch, key) for read in columns.readers]
            arrays += [_system_column(name, batch) for name in system]
        yield pa.RecordBatch.from_arrays(arrays, names) if arrays else batch.select([])


def _column_reader(projection: ColumnProjection) -> Callable[[pa.RecordBatch, str], pa.Array]:
    """Return a function that makes a column of the read from a batch of the file."""
    source, target = projection.source, arrow_type(projection.target_type)
    is_same = source is not None and has_same_kind(source.type, projection.target_type)

    def read(batch: pa.RecordBatch, key: str) -> pa.Array:
        if source is None:
            return pa.nulls(batch.num_rows, target)
        array = batch.column(source.name)
        if is_same and array.type == target:
            return array
        if is_same and array.type == WIDE_TEXT.get(target):
            return array.cast(target)
        array = with_timestamps(array, source.type, f"{key}: column {source.name!r}")
        if is_same and array.type == target:
            return array
        try:
            return cast_array(array, source.type, projection.target_type)
        except UnsupportedFeature as error:
            raise UnsupportedFeature(f"Column {projection.target.name}: {error}") from error

    return read


def _system_column(name: str, batch: pa.RecordBatch) -> pa.Array:
    """Return a system column of a batch of the file. The file lacks the row kind only if all rows are +I."""
    if name not in batch.schema.names:
        return _inserts(batch.num_rows)
    array = batch.column(name)
    return array if array.type == SYSTEM_TYPES[name] else array.cast(SYSTEM_TYPES[name])


def _inserts(row_count: int) -> pa.Array:
    """Return the kind +I, row_count times."""
    return _INSERTS[:row_count] if row_count <= _MOST_INSERTS else pa.array(np.zeros(row_count, dtype=np.int8))


def selected_rows(
    batches: Iterator[pa.RecordBatch], row_count: int, key: str, *, without: Positions | None, only: BitMap | None
) -> Iterator[pa.RecordBatch]:
    """Return the batches of a whole file of `row_count` rows, restricted to `only` and without `without`."""
    if without is not None and len(without) and without[-1] >= row_count:
        raise corrupt_file(key, f"row {without[-1]} is marked as deleted, but the file has {row_count} rows")
    if only is not None:
        wanted = only if without is None else only - BitMap(without)
        return chosen_rows(batches, [(0, row_count)], wanted)
    return batches if without is None else remaining_rows(batches, without)


def check_columns(wanted: Iterable[str], held: Container[str], key: str, schema: TableSchema) -> None:
    """Raise CorruptTable for a wanted column that a file of `schema` must hold and does not."""
    for name in wanted:
        if name not in held:
            raise corrupt_file(key, f"its column {name!r} is missing, which schema {schema.id} has")


class decoding:
    """A block that translates Arrow's errors for damaged bytes into CorruptTable.

    A class, because each file enters some ten of these blocks, and those of generators take three times as long.
    """

    __slots__ = ("_key", "_place")

    def __init__(self, key: str, place: str) -> None:
        self._key = key
        self._place = place

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, (OSError, pa.ArrowException, UnicodeDecodeError)):
            return
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageUnavailable(
                f"{self._key}: {self._place} could not be read ({error}). Try again later."
            ) from error
        raise corrupt_file(self._key, f"{self._place} cannot be decoded ({error})") from error


def corrupt_file(key: str, found: str) -> CorruptTable:
    return CorruptTable(f"{key}: {found}. Keep the file as evidence; restore it from a copy of the table.")
