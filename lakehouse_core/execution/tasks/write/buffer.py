"""Write buffer: the rows of a write task in memory, as whole columns, and the rows of one bucket among them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakehouse_core.execution.tasks.merge_scan import CHUNK_BYTES, CHUNK_ROWS, batch_rows
from lakehouse_core.execution.tasks.write.router import BucketPath
from lakehouse_core.execution.tasks.write.rows import InputRows, Kinds
from lakehouse_core.format.rows import Rows, take_all
from lakehouse_core.table.file_columns import record_schema
from lakehouse_core.table.schema import TableSchema


@dataclass(frozen=True, slots=True)
class Buffered:
    """Rows in order of arrival as whole columns, by name; `kinds` None: all are +I."""

    columns: dict[str, pa.Array]
    kinds: Kinds | None
    row_count: int
    schema: pa.Schema
    size_bytes: int

    def taken(self, rows: Rows) -> "Buffered":
        """Return these rows only, in the given order."""
        columns = dict(zip(self.columns, take_all(list(self.columns.values()), rows), strict=True))
        kinds = None if self.kinds is None else self.kinds[rows]
        return Buffered(columns, kinds, len(rows), self.schema, _size_bytes(columns))

    def records(self, rows: Rows, numbers: Rows) -> pa.RecordBatch:
        """Return these rows with their sequence numbers and kinds."""
        columns = take_all(list(self.columns.values()), rows)
        kinds = np.zeros(len(rows), dtype=np.int8) if self.kinds is None else self.kinds[rows]
        return pa.RecordBatch.from_arrays([*columns, pa.array(numbers), pa.array(kinds)], schema=self.schema)


@dataclass(frozen=True, slots=True)
class BufferedBucket:
    """The rows of one bucket in the buffer (`rows` None: all), numbered from 0 in order of arrival."""

    place: BucketPath
    buffered: Buffered
    rows: Rows | None
    first_number: int

    @property
    def count(self) -> int:
        return self.buffered.row_count if self.rows is None else len(self.rows)

    @property
    def row_bytes(self) -> float:
        """The bytes of a row, on average."""
        return self.buffered.size_bytes / self.buffered.row_count

    @property
    def kinds(self) -> Kinds | None:
        kinds = self.buffered.kinds
        return kinds if kinds is None or self.rows is None else kinds[self.rows]

    def at(self, arrivals: Rows) -> Rows:
        """Return the positions of these rows in the buffer."""
        return arrivals if self.rows is None else self.rows[arrivals]

    def records(self, arrivals: Rows) -> pa.RecordBatch:
        """Return these rows as records."""
        return self.buffered.records(self.at(arrivals), arrivals + self.first_number)

    def batches(self, arrivals: Rows) -> Iterator[pa.RecordBatch]:
        """Yield these rows as records, in chunks."""
        row_count = batch_rows(self.row_bytes, CHUNK_ROWS, CHUNK_BYTES)
        for start in range(0, len(arrivals), row_count):
            yield self.records(arrivals[start : start + row_count])


def joined(buffer: list[InputRows], schema: TableSchema) -> Buffered:
    """Join the buffer's batches column by column and empty the buffer, so that at most one column is in memory
    twice.
    """
    row_count = sum(rows.values.num_rows for rows in buffer)
    kinds: Kinds | None = None
    if any(rows.kinds is not None for rows in buffer):
        kinds = np.concatenate([_kinds_of(rows) for rows in buffer])
    pieces = {name: [rows.values.column(name) for rows in buffer] for name in schema.column_names}
    buffer.clear()
    columns = {name: pa.concat_arrays(pieces.pop(name)) for name in schema.column_names}
    return Buffered(columns, kinds, row_count, record_schema(schema), _size_bytes(columns))


def _size_bytes(columns: Mapping[str, pa.Array]) -> int:
    return sum(column.nbytes for column in columns.values())


def _kinds_of(rows: InputRows) -> Kinds:
    return np.zeros(rows.values.num_rows, dtype=np.int8) if rows.kinds is None else rows.kinds
