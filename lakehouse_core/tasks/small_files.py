"""Small files: read the rows of many small files, the columns of which are decoded at once where that is possible.

Rule: what fails together is read file by file, so that the error names the damaged file.
Source: docs/semantics/reading.md#merge-reads.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lakehouse_core.data_files.parquet.joined import StoredColumns, decode_joined
from lakehouse_core.data_files.parquet.reader import ParquetFileReader
from lakehouse_core.data_files.reader import DataFileReader
from lakehouse_core.errors import LakehouseError
from lakehouse_core.format.data_types import DataField
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.storage.forked import OneProcess
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.tasks.merge_scan import BucketFiles
from lakehouse_core.threads import Threads


@dataclass(frozen=True, slots=True)
class FileRead:
    """How the rows of a small file are read: as `fields` and then the system columns. `row_filter` leaves out whole row
    groups, `without` the rows at these positions.
    """

    source: BucketFiles
    file: DataFile
    fields: Sequence[DataField]
    system: Sequence[str]
    row_filter: Predicate | None
    without: Positions | None = None

    def rows(self, reader: DataFileReader) -> "list[FileRows]":
        """Return the rows of the file, which `reader` has open until then."""
        if isinstance(reader, ParquetFileReader) and self.without is None:
            columns = reader.stored_columns(self.fields, system=self.system, row_filter=self.row_filter)
            if columns is not None:
                return [StoredFile(self, columns)]
        return [*self._batches(reader)]

    def batches(self) -> list[pa.RecordBatch]:
        """Open the file and return its rows. Raises CorruptTable."""
        with closing(self.source.open(self.file)) as reader:
            return list(self._batches(reader))

    def _batches(self, reader: DataFileReader) -> Iterator[pa.RecordBatch]:
        return reader.batches(
            self.fields,
            system=self.system,
            batch_rows=max(1, self.file.row_count),
            row_filter=self.row_filter,
            without=self.without,
        )


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The rows of a file as it holds them, to be decoded with those of others."""

    read: FileRead
    columns: StoredColumns

    @property
    def num_rows(self) -> int:
        return self.columns.row_count


FileRows: TypeAlias = pa.RecordBatch | StoredFile


def memory_bytes(rows: FileRows) -> int:
    """Return about the bytes that the rows take in memory."""
    return rows.columns.size_bytes if isinstance(rows, StoredFile) else rows.get_total_buffer_size()


def decoded(rows: Sequence[FileRows]) -> list[pa.RecordBatch]:
    """Return the rows as batches, in their order. Raises CorruptTable, which names the damaged file."""
    try:
        return _decoded_at_once(rows)
    except (LakehouseError, pa.ArrowException, OSError):
        return [batch for each in rows for batch in (each.read.batches() if isinstance(each, StoredFile) else [each])]


def _decoded_at_once(rows: Sequence[FileRows]) -> list[pa.RecordBatch]:
    """Return the rows as `decoded` does; which file is damaged, an error does not tell."""
    batches: list[pa.RecordBatch] = []
    joined: list[StoredColumns] = []
    for each in rows:
        if joined and not (isinstance(each, StoredFile) and each.columns.joins(joined[0])):
            batches += decode_joined(joined)
            joined = []
        if isinstance(each, StoredFile):
            joined.append(each.columns)
        else:
            batches.append(each)
    return batches + decode_joined(joined) if joined else batches


class DecodingThread:
    """A thread that decodes rows; it is started when there is something to decode."""

    def __init__(self) -> None:
        self._pool: Threads | None = None
        self._process = OneProcess()

    def decoding(self, rows: Sequence[FileRows]) -> "Decoding":
        """Begin to decode rows."""
        return Decoding(rows, self._begun(rows) if any(isinstance(each, StoredFile) for each in rows) else None)

    def close(self) -> None:
        """Wait for what is being decoded. In a forked process the thread is gone."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _begun(self, rows: Sequence[FileRows]) -> Future[list[pa.RecordBatch]] | None:
        if not self._process.is_this:
            return None
        if self._pool is None:
            self._pool = Threads(1, thread_name_prefix="decoding")
        return self._pool.submit(_decoded_at_once, rows)


class Decoding:
    """Rows that may be decoded by a thread."""

    def __init__(self, rows: Sequence[FileRows], begun: Future[list[pa.RecordBatch]] | None) -> None:
        self._rows = rows
        self._begun = begun
        self._process = OneProcess()

    def batches(self) -> list[pa.RecordBatch]:
        """Return what `decoded` returns. In a forked process, where the thread is gone, it is called."""
        if self._begun is not None and self._process.is_this:
            wait([self._begun])
            if self._begun.exception() is None:
                return self._begun.result()
        return decoded(self._rows)
