"""Avro reader: read one Avro data file as record batches in the reader's schema. Memory is one block and the batch.

Source: docs/format/data-files.md#avro, docs/semantics/tables.md#reading-old-files.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyroaring import BitMap

from lakehouse_core.data_files.file_name import FILE_NAME_KEY, check_file_name
from lakehouse_core.data_files.reader import (
    as_read,
    check_columns,
    corrupt_file,
    decoding,
    open_source,
    read_columns,
    selected_rows,
)
from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.avro_container import (
    MAX_HEADER_BYTES,
    AvroBlock,
    AvroHeader,
    check_streamed_header,
    read_header,
    stream_blocks,
)
from lakehouse_core.format.avro_rows import Record, RowDecoder
from lakehouse_core.format.data_types import DataField
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import file_columns
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema

_USUAL_HEADER_BYTES = 256 << 10


class AvroFileReader:
    """An open data file. `schema` is the one that the file was written with.

    Raises CorruptTable when the file is gone, or is not what its manifest entry says.
    """

    def __init__(self, store: FileOpener, key: str, entry: DataFile, schema: TableSchema, *, verify: bool) -> None:
        self._key = key
        self._entry = entry
        self._schema = schema
        self._fields = {field.name: field for field in file_columns(schema).fields}
        self._source = open_source(store, key, entry)
        try:
            self._header = self._read_header()
            if verify:
                check_streamed_header(self._header, key)
                check_file_name(self._header.metadata.get(FILE_NAME_KEY), key)
            self._decoder = RowDecoder(self._header.schema, key)
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        self._source.close()

    def row_bytes(self, fields: Sequence[DataField]) -> float:
        """Return the size of a row of all columns in the first block: a record is read whole."""
        first = next(self._blocks(), None)
        return 0.0 if first is None else len(first.data) / max(1, first.count)

    def row_count_left(self, fields: Sequence[DataField], row_filter: Predicate) -> int:
        """Return the number of rows that `batches` decodes, which is all."""
        return self._entry.row_count

    def batches(
        self,
        fields: Sequence[DataField],
        *,
        system: Sequence[str] = (),
        batch_rows: int,
        held_bytes: int = 0,
        row_filter: Predicate | None = None,
        without: Positions | None = None,
        only: BitMap | None = None,
        in_threads: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows at the positions `only` (None: all) without those at `without`, as `fields` and then the
        system columns.

        Columns are found by field id, cast where their type has changed since, and null where the file lacks them.
        `row_filter` has no effect, because Avro files have no statistics, and `in_threads` has none.
        """
        columns = read_columns(self._schema, fields)
        wanted = [*columns.sources, *system]
        check_columns(wanted, self._decoder.column_names, self._key, self._schema)
        # At least one column is read, because a batch without columns loses its row count.
        read = wanted or list(self._fields)[:1]
        stored = (self._stored(records, read) for records in self._pieces(batch_rows))
        selected = selected_rows(stored, self._entry.row_count, self._key, without=without, only=only)
        yield from as_read(selected, columns, system, self._key)

    def decode_all(self) -> None:
        """Decode every column, also unneeded ones, and discard the values."""
        for records in self._pieces(4096):
            self._stored(records, [name for name in self._fields if name in self._decoder.column_names])

    def _stored(self, records: Sequence[Record], names: Sequence[str]) -> pa.RecordBatch:
        """Return the file's own columns, in the types of its schema."""
        distinct = list(dict.fromkeys(names))
        arrays = [self._decoder.column(records, self._fields[name]) for name in distinct]
        return pa.RecordBatch.from_arrays(arrays, distinct)

    def _pieces(self, most_rows: int) -> Iterator[list[Record]]:
        """Yield the records in lists of at most `most_rows`. Raises CorruptTable if their number is not that of the
        manifest entry.
        """
        pending: list[Record] = []
        row_count = 0
        for block in self._blocks():
            pending += self._decoder.records(block)
            row_count += block.count
            while len(pending) >= most_rows:
                yield pending[:most_rows]
                pending = pending[most_rows:]
        if row_count != self._entry.row_count:
            raise corrupt_file(self._key, f"found {row_count} rows, its manifest entry says {self._entry.row_count}")
        if pending:
            yield pending

    def _blocks(self) -> Iterator[AvroBlock]:
        return stream_blocks(self._read_at, self._entry.file_size, self._header, self._key)

    def _read_header(self) -> AvroHeader:
        size = self._entry.file_size
        try:
            return read_header(self._read_at(min(size, _USUAL_HEADER_BYTES), 0), self._key)
        except CorruptTable:
            if size <= _USUAL_HEADER_BYTES:
                raise
            return read_header(self._read_at(min(size, MAX_HEADER_BYTES), 0), self._key)

    def _read_at(self, count: int, position: int) -> bytes:
        with decoding(self._key, f"bytes from {position}"):
            data: bytes = self._source.read_at(min(count, self._entry.file_size - position), position)
        return data
