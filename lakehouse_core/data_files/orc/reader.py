"""ORC reader: read one ORC data file as record batches in the reader's schema. Memory is a few batches.

Arrow reads ORC's timestamps only as nanoseconds, and fails at those beyond 1677 to 2262. From there on pyorc reads the
columns that have timestamps, which is ten times slower and exact. Source: docs/format/data-files.md#orc,
docs/semantics/tables.md#reading-old-files.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import orc
from pyroaring import BitMap

from lakehouse_core.data_files.file_name import lasting_name_of
from lakehouse_core.data_files.orc.checksum import is_broken
from lakehouse_core.data_files.orc.timestamps import ExactColumns
from lakehouse_core.data_files.reader import (
    as_read,
    check_columns,
    corrupt_file,
    decoding,
    open_source,
    read_columns,
    selected_rows,
)
from lakehouse_core.format.data_types import TIMESTAMP_ROOTS, DataField, arrow_type, atomic_parts
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.format.orc_types import has_char, without_blanks
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import file_columns
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema

_SAMPLE_ROWS: Final = 256
_DECODED_ROWS: Final = 4096
# Arrow's message for a time that nanoseconds cannot hold.
_BEYOND_NANOSECONDS: Final = "out of range for nanosecond"


class OrcFileReader:
    """An open data file. `schema` is the one that the file was written with.

    Raises CorruptTable when the file is gone, or is not what its manifest entry says.
    """

    def __init__(self, store: FileOpener, key: str, entry: DataFile, schema: TableSchema, *, verify: bool) -> None:
        self._key = key
        self._schema = schema
        self._fields = {field.name: field for field in file_columns(schema).fields}
        self._source = open_source(store, key, entry)
        try:
            with decoding(key, "its footer"):
                if verify and is_broken(self._source.read_at, entry.file_size, lasting_name_of(key)):
                    raise corrupt_file(key, "its bytes or its name do not fit its checksum")
                file = orc.ORCFile(self._source)
            self._columns = frozenset(file.schema.names)
            self._row_count = file.nrows
            if self._row_count != entry.row_count:
                raise corrupt_file(
                    key, f"its footer counts {self._row_count} rows, its manifest entry {entry.row_count}"
                )
            self._fragment = ds.OrcFileFormat().make_fragment(self._source)
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        self._source.close()

    def row_bytes(self, fields: Sequence[DataField]) -> float:
        """Return the decoded size of a row of these columns in bytes, from the first rows."""
        names = [name for name in read_columns(self._schema, fields).sources if name in self._columns]
        first = next(self._stored(names, _SAMPLE_ROWS), None) if names else None
        return 0.0 if first is None or not first.num_rows else first.nbytes / first.num_rows

    def row_count_left(self, fields: Sequence[DataField], row_filter: Predicate) -> int:
        """Return the number of rows that `batches` decodes, which is all."""
        count: int = self._row_count
        return count

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
        `row_filter` and `in_threads` have no effect.
        """
        columns = read_columns(self._schema, fields)
        wanted = list(dict.fromkeys([*columns.sources, *system]))
        check_columns(wanted, self._columns, self._key, self._schema)
        # At least one column is read, because a batch without columns loses its row count.
        stored = self._stored(wanted or list(self._fields)[-1:], batch_rows)
        selected = selected_rows(stored, self._row_count, self._key, without=without, only=only)
        yield from as_read(selected, columns, system, self._key)

    def decode_all(self) -> None:
        """Decode every column, also unneeded ones, and discard the values."""
        for _ in self._stored([name for name in self._fields if name in self._columns], _DECODED_ROWS):
            pass

    def _stored(self, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the file's own columns. Raises CorruptTable if the file has fewer rows than its footer counts."""
        position = 0
        batches = self._scanned(names, batch_rows)
        while True:
            with decoding(self._key, f"rows from {position}"):
                try:
                    batch = next(batches, None)
                except pa.ArrowInvalid as error:
                    if _BEYOND_NANOSECONDS not in str(error):
                        raise
                    batches = self._exact(names, batch_rows, position)
                    continue
                if batch is not None:
                    batch = self._without_blanks(batch)
            if batch is None:
                break
            position += batch.num_rows
            yield batch
        if position != self._row_count:
            raise corrupt_file(self._key, f"it ends after {position} rows, its footer counts {self._row_count}")

    def _without_blanks(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for position, name in enumerate(batch.schema.names):
            field = self._fields.get(name)
            if field is not None and has_char(field.type):
                array = batch.column(position)
                wanted = arrow_type(field.type)
                array = without_blanks(array if array.type == wanted else array.cast(wanted), field.type)
                batch = batch.set_column(position, name, array)
        return batch

    def _scanned(self, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        columns = {name: ds.field(name) for name in names}
        scanner = self._fragment.scanner(
            columns=columns, batch_size=batch_rows, use_threads=False, batch_readahead=0, fragment_readahead=0
        )
        yield from scanner.to_batches()

    def _exact(self, names: Sequence[str], batch_rows: int, first_row: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from `first_row` on; timestamps are read value by value."""
        timed = [name for name in names if _has_times(self._fields[name])]
        plain = [name for name in names if name not in timed]
        exact = ExactColumns(self._source, [self._fields[name] for name in timed], self._key, first_row)
        position = 0
        # A column without timestamps gives the row count; if none was requested, the row kind or the first key does.
        for batch in self._plain_batches(plain, batch_rows):
            rest = batch.slice(max(0, first_row - position))
            position += batch.num_rows
            if rest.num_rows:
                arrays = dict(zip(timed, exact.read(rest.num_rows), strict=True))
                yield pa.RecordBatch.from_arrays(
                    [arrays[name] if name in arrays else rest.column(name) for name in names], list(names)
                )

    def _plain_batches(self, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if names:
            yield from self._scanned(names, batch_rows)
            return
        for start in range(0, self._row_count, batch_rows):
            count = min(batch_rows, self._row_count - start)
            yield pa.RecordBatch.from_arrays([pa.nulls(count)], [""])


def _has_times(field: DataField) -> bool:
    return any(part.root in TIMESTAMP_ROOTS for part in atomic_parts(field.type))
