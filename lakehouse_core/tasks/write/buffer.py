"""Write buffer: the rows of a write task in memory, as whole columns, and the rows of one bucket among them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.format.rows import Rows, take_all
from lakehouse_core.merge.key_words import Words
from lakehouse_core.table.file_columns import record_schema
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.merge_scan import CHUNK_BYTES, CHUNK_ROWS, batch_rows
from lakehouse_core.tasks.write.router import BucketPath
from lakehouse_core.tasks.write.rows import InputRows, Kinds


@dataclass(frozen=True, slots=True)
class Buffered:
    """Rows in order of arrival as whole columns, by name; `kinds` None: all are +I. `buckets`: as of `InputRows`."""

    columns: dict[str, pa.Array]
    kinds: Kinds | None
    row_count: int
    schema: pa.Schema
    size_bytes: int
    buckets: npt.NDArray[np.int32] | None = None

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
    """The rows of one bucket in the buffer (`rows` None: all), numbered from 0 in order of arrival.

    `numbers`: the sequence number of each, None: they rise by one from `first_number`.
    """

    place: BucketPath
    buffered: Buffered
    rows: Rows | None
    first_number: int
    numbers: Rows | None = None

    @property
    def size_bytes(self) -> float:
        return self.row_bytes * self.count

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
        numbers = arrivals + self.first_number if self.numbers is None else self.numbers[arrivals]
        return self.buffered.records(self.at(arrivals), numbers)

    def batches(self, arrivals: Rows) -> Iterator[pa.RecordBatch]:
        """Yield these rows as records, in chunks."""
        for part in parts(arrivals, self.row_bytes):
            yield self.records(part)


def parts(arrivals: Rows, row_bytes: float) -> Iterator[Rows]:
    """Yield the rows, of `row_bytes` each, in parts of the size of a chunk."""
    row_count = batch_rows(row_bytes, CHUNK_ROWS, CHUNK_BYTES)
    for start in range(0, len(arrivals), row_count):
        yield arrivals[start : start + row_count]


def together(buckets: Sequence[BufferedBucket]) -> tuple[BufferedBucket, Words]:
    """Return the rows of several buckets of one buffer as if they were of one, and the number of each row's bucket."""
    rows = np.concatenate([bucket.at(np.arange(bucket.count)) for bucket in buckets])
    numbers = [np.arange(bucket.first_number, bucket.first_number + bucket.count) for bucket in buckets]
    bucket_of = np.repeat(np.arange(len(buckets), dtype=np.uint64), [bucket.count for bucket in buckets])
    return replace(buckets[0], rows=rows, numbers=np.concatenate(numbers)), bucket_of


def joined(buffer: list[InputRows], schema: TableSchema) -> Buffered:
    """Join the buffer's batches column by column and empty the buffer, so that at most one column is in memory
    twice.
    """
    row_count = sum(rows.values.num_rows for rows in buffer)
    kinds: Kinds | None = None
    if any(rows.kinds is not None for rows in buffer):
        kinds = np.concatenate([_kinds_of(rows) for rows in buffer])
    given = [rows.buckets for rows in buffer if rows.buckets is not None]
    buckets = np.concatenate(given) if given else None
    pieces = {name: [rows.values.column(name) for rows in buffer] for name in schema.column_names}
    buffer.clear()
    columns = {name: pa.concat_arrays(pieces.pop(name)) for name in schema.column_names}
    return Buffered(columns, kinds, row_count, record_schema(schema), _size_bytes(columns), buckets)


def _size_bytes(columns: Mapping[str, pa.Array]) -> int:
    return sum(column.nbytes for column in columns.values())


def _kinds_of(rows: InputRows) -> Kinds:
    return np.zeros(rows.values.num_rows, dtype=np.int8) if rows.kinds is None else rows.kinds
