"""Data file writer: write the data files of one bucket, begin a new file when one is full, and return their entries.

Source: docs/format/data-files.md#columns-and-order, docs/semantics/writing.md#rolling.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from lakehouse_core.clock import Clock
from lakehouse_core.data_files.avro.writer import AvroFileWriter
from lakehouse_core.data_files.bounds import stats_modes
from lakehouse_core.data_files.orc.writer import OrcFileWriter
from lakehouse_core.data_files.parquet.writer import Encoding, ParquetFileWriter
from lakehouse_core.data_files.written_file import FileWriter, WrittenFile
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.file_index import serialize_container
from lakehouse_core.options import FileStyle
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.data_file import EMPTY_ROW, DataFile, FileSource, SimpleStats
from lakehouse_core.table.file_index import INDEX_SUFFIX
from lakehouse_core.table.growing_file_index import GrowingFileIndex
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sorted_run import Key
from lakehouse_core.table.stats import KEY_MODE, NOTHING_KNOWN, ColumnBounds, encode_stats, reduce_bounds, value_stats

ROW_GROUP_ROWS: Final = 128 * 1024
# Decoded bytes of a row group. A reader holds about one row group of each file, so this bounds its memory.
_ROW_GROUP_BYTES: Final = 64 << 20
_LEAST_ROW_GROUP_BYTES: Final = 64 << 10
# Each batch takes 2 KB beside its values, which is more than the values if rows of many buckets arrive mixed.
_SMALL_BATCH_BYTES: Final = 32 << 10
_MOST_SMALL_BATCHES: Final = 32


class FileNames:
    """Unique file names: a counter after the UUID of one attempt, shared by all files of a task."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._count = 0

    def next(self, prefix: str, file_format: str) -> str:
        name = f"{prefix}{self._uuid}-{self._count}.{file_format}"
        self._count += 1
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """The common settings of the files of one writer."""

    prefix: str
    is_changelog: bool = False
    target_bytes: int
    target_rows: int = 2**63 - 1
    level: int = 0
    source: FileSource = FileSource.APPEND
    # Files of a changelog are read whole: they have no index.
    is_indexed: bool = True
    # How the files are stored, without statistics; None: as the options say.
    plain_style: FileStyle | None = None


def go_on() -> None:
    """Raise nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutput:
    """The settings that all writers of a task share. `check_stopped` is called for each batch; an error that it raises
    ends the task.
    """

    store: Sinks
    encoding: Encoding
    names: FileNames
    clock: Clock
    check_stopped: Callable[[], None] = go_on


class DataFileWriter:
    """Write records in key order (append tables: any order) and return the entries of their files.

    Use in a `with` block: an exception that leaves the block deletes every file written so far.
    """

    def __init__(self, output: FileOutput, folder: str, kind: FileSettings, *, first_sequence_number: int = 0) -> None:
        self._output = output
        self._folder = folder
        self._kind = kind
        self._style = file_style(output.encoding.schema, kind)
        # Append tables number rows by position; records of key tables carry their numbers.
        self._next_sequence_number = first_sequence_number
        self._row_group_bytes = row_group_bytes(kind)
        self._pending: list[pa.RecordBatch] = []
        # The number of small batches at the end of the list.
        self._small_count = 0
        self._pending_rows = 0
        self._pending_bytes = 0
        self._open: tuple[str, FileWriter] | None = None
        self._index: GrowingFileIndex | None = None
        self._files: list[DataFile] = []

    @property
    def pending_bytes(self) -> int:
        """Bytes of rows that wait for a full row group."""
        return self._pending_bytes

    @property
    def is_open(self) -> bool:
        """Whether a file is begun and not finished."""
        return self._open is not None

    def write(self, records: pa.RecordBatch) -> None:
        """Add rows. Raises StorageFull, StorageUnavailable."""
        self._output.check_stopped()
        if not records.num_rows:
            return
        size_bytes = records.nbytes
        self._pending.append(records)
        self._pending_rows += records.num_rows
        self._pending_bytes += size_bytes
        self._small_count = self._small_count + 1 if size_bytes < _SMALL_BATCH_BYTES else 0
        if self._small_count == _MOST_SMALL_BATCHES:
            small = pa.Table.from_batches(self._pending[-self._small_count :]).combine_chunks()
            self._pending[-self._small_count :] = small.to_batches()
            self._small_count = 0
        while self._pending_rows >= (rows := self._row_group_rows()):
            self._write_row_group(rows)

    def flush(self) -> None:
        """Write the pending rows, to free their memory."""
        while self._pending_rows:
            self._write_row_group(min(self._pending_rows, self._row_group_rows()))

    def finish_file(self) -> None:
        """Write the pending rows and finish the file; the next row begins a new file."""
        self.flush()
        self._finish_file()

    def close(self) -> tuple[DataFile, ...]:
        """Write the pending rows, and return the entries of all files, in the order of their rows."""
        self.finish_file()
        return tuple(self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            return
        names = [name for file in self._files for name in file.all_names]
        if self._open is not None:
            name, writer = self._open
            writer.abort(error)
            # The close may have failed after the file and its index appeared.
            names += [name, name + INDEX_SUFFIX]
        clear_away(self._output.store, [f"{self._folder}/{name}" for name in names])
        self._open = self._index = None
        self._files.clear()

    def _row_group_rows(self) -> int:
        rows = self._row_group_bytes * self._pending_rows // max(1, self._pending_bytes)
        left_in_file = self._kind.target_rows - (self._open[1].row_count if self._open is not None else 0)
        return max(1, min(ROW_GROUP_ROWS, rows, left_in_file))

    def _write_row_group(self, rows: int) -> None:
        pending = pa.Table.from_batches(self._pending)
        row_group, rest = pending.slice(0, rows), pending.slice(rows)
        self._pending = rest.to_batches() if rest.num_rows else []
        self._small_count = 0
        self._pending_rows = rest.num_rows
        self._pending_bytes = sum(batch.nbytes for batch in self._pending)
        if self._open is None:
            self._open = self._begin_file(row_group)
            self._index = self._new_index()
        writer = self._open[1]
        stored = writer.write(row_group)
        if self._index is not None:
            self._index.add(stored)
        if writer.size_bytes >= self._kind.target_bytes or writer.row_count >= self._kind.target_rows:
            self._finish_file()

    def _begin_file(self, sample: pa.Table) -> tuple[str, FileWriter]:
        store, encoding, style = self._output.store, self._output.encoding, self._style
        name = self._output.names.next(self._kind.prefix, style.format)
        key = f"{self._folder}/{name}"
        match style.format:
            case "avro":
                return name, AvroFileWriter(store, key, encoding.schema, style.compression)
            case "orc":
                return name, OrcFileWriter(
                    store, key, encoding.schema, style.compression, stripe_bytes=self._row_group_bytes
                )
            case _:
                return name, ParquetFileWriter(store, key, encoding, style.compression, sample)

    def _finish_file(self) -> None:
        if self._open is None:
            return
        name, writer = self._open
        written = writer.close()
        self._files.append(self._with_index(self._entry(name, written)))
        self._open = self._index = None

    def _new_index(self) -> GrowingFileIndex | None:
        schema = self._output.encoding.schema
        indexed = schema.table_options.indexed_columns
        return GrowingFileIndex(schema, indexed) if self._kind.is_indexed and indexed else None

    def _with_index(self, file: DataFile) -> DataFile:
        """Return the entry with the index in it or, if the index is large, in a side file."""
        if self._index is None:
            return file
        bodies = self._index.bodies()
        embedded = serialize_container(bodies)
        if len(embedded) <= self._output.encoding.schema.table_options.file_index_embedded_bytes:
            return replace(file, embedded_index=embedded)
        name = file.file_name + INDEX_SUFFIX
        container = serialize_container(bodies, checked_for=file.file_name)
        self._output.store.write({f"{self._folder}/{name}": container})
        return replace(file, extra_files=(name,))

    def _entry(self, name: str, written: WrittenFile) -> DataFile:
        schema = self._output.encoding.schema
        if written.sequence_numbers is None:
            first = self._next_sequence_number
            self._next_sequence_number += written.row_count
            sequence_numbers = first, self._next_sequence_number - 1
        else:
            sequence_numbers = written.sequence_numbers
        bounds = written.bounds if self._kind.plain_style is None else {}
        values, value_names = _value_stats(schema, self._style, bounds, is_plain=self._kind.plain_style is not None)
        return DataFile(
            file_name=name,
            file_size=written.size_bytes,
            row_count=written.row_count,
            min_key=_serialized_key(schema, written.min_key),
            max_key=_serialized_key(schema, written.max_key),
            key_stats=_key_stats(schema, bounds),
            value_stats=values,
            value_stats_cols=value_names,
            min_sequence_number=sequence_numbers[0],
            max_sequence_number=sequence_numbers[1],
            schema_id=schema.id,
            level=self._kind.level,
            creation_time_millis=self._output.clock.local_now_millis(),
            delete_row_count=written.delete_row_count,
            file_source=self._kind.source,
        )


def row_group_bytes(kind: FileSettings) -> int:
    """Return the decoded bytes of a full row group."""
    return max(_LEAST_ROW_GROUP_BYTES, min(_ROW_GROUP_BYTES, kind.target_bytes))


def file_style(schema: TableSchema, kind: FileSettings) -> FileStyle:
    """Return how the files of one kind are stored."""
    options = schema.table_options
    if kind.plain_style is not None:
        return kind.plain_style
    if schema.is_append:
        return options.style
    return options.changelog_style_at(kind.level) if kind.is_changelog else options.style_at(kind.level)


def _serialized_key(schema: TableSchema, key: Key | None) -> bytes:
    return EMPTY_ROW if key is None else serialize_row(key, [field.type for field in schema.key_fields])


def _key_stats(schema: TableSchema, bounds: Mapping[str, ColumnBounds]) -> SimpleStats:
    reduced = [reduce_bounds(bounds.get(field.name, NOTHING_KNOWN), KEY_MODE) for field in schema.key_fields]
    return encode_stats(reduced, [field.type for field in schema.key_fields])


def _value_stats(
    schema: TableSchema, style: FileStyle, bounds: Mapping[str, ColumnBounds], *, is_plain: bool
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Return the statistics by the table's options; columns of types without an order have none."""
    modes = stats_modes(schema, style, is_plain=is_plain)
    reduced = [
        reduce_bounds(bounds.get(field.name, NOTHING_KNOWN), mode)
        for field, mode in zip(schema.fields, modes, strict=True)
    ]
    types = [field.type for field in schema.fields]
    return value_stats(schema.column_names, types, reduced, is_dense=schema.table_options.stats_dense)
