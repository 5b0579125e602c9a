"""Parquet writer: write one Parquet file, row group by row group, and collect the facts of its manifest entry.

Rule: the file appears when it is closed, or never. Source: docs/format/data-files.md#parquet.
"""

from collections.abc import Set
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_core.data_files.bounds import BoundsCollector
from lakehouse_core.data_files.checksummed_file import ChecksummedFile
from lakehouse_core.data_files.file_name import FILE_NAME_KEY, file_name_of
from lakehouse_core.data_files.parquet.checksum import FooterChecksum
from lakehouse_core.data_files.written_file import RowFacts, WrittenFile
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.file_columns import file_columns, uses_int96
from lakehouse_core.table.schema import TableSchema

# The page size is below Arrow's 1 MiB: pages stay in the processor's cache, and a merge of many files holds a page of
# each.
_PAGE_BYTES: Final = 256 << 10
_PAGE_ROWS: Final = 32 << 10  # Arrow's 20,000 would cut the pages of numbers short.
# A dictionary of values that rarely repeat takes a third more time and makes the file larger.
_SAMPLE_ROWS: Final = 8 * 1024
_REPETITIVE_DISTINCT_SHARE: Final = 0.5


class Encoding:
    """How a task encodes the columns of a table. The first rows decide which columns get a dictionary."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.columns = file_columns(schema)
        self._dictionary_columns: list[str] | None = None
        # Arrow's bounds do not cover NaN, which Java and Spark order as greatest: they would skip matching rows.
        self._described = [field.name for field in self.columns.schema if not _may_hold_nan(field.type)]

    def writer(
        self,
        sink: pa.NativeFile,
        compression: str,
        footers: list[pq.FileMetaData] | None = None,
    ) -> pq.ParquetWriter:
        """Open a writer whose footer is appended to `footers` when it is closed.

        REQUIRES: `decide` was called.
        """
        assert self._dictionary_columns is not None
        options = self.schema.table_options
        compression = "none" if compression == "uncompressed" else compression
        return pq.ParquetWriter(
            sink,
            self.columns.schema,
            compression=compression,
            compression_level=options.zstd_level if compression == "zstd" else None,
            use_dictionary=self._dictionary_columns,
            use_deprecated_int96_timestamps=uses_int96(self.schema),
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            write_page_checksum=True,
            write_statistics=self._described,
            write_page_index=True,
            data_page_size=options.parquet.page_bytes or _PAGE_BYTES,
            max_rows_per_page=options.parquet.page_rows or _PAGE_ROWS,
            dictionary_pagesize_limit=options.parquet.dictionary_page_bytes,
            store_schema=False,
            metadata_collector=footers,
        )

    def decide(self, records: pa.Table | pa.RecordBatch) -> None:
        """Let these rows, if they are the first, decide which columns get a dictionary."""
        if self._dictionary_columns is not None:
            return
        repetitive: Set[str] = frozenset()
        if self.schema.table_options.parquet.dictionary:
            sample = records.slice(0, _SAMPLE_ROWS)
            repetitive = {name for name in sample.schema.names if _is_repetitive(sample.column(name))}
        pairs = zip(self.columns.schema.names, self.columns.sources, strict=True)
        self._dictionary_columns = [name for name, source in pairs if source in repetitive]

    def stored(self, records: pa.Table) -> pa.Table:
        """Return records in the columns of a file."""
        arrays = [records.column(source) for source in self.columns.sources]
        return pa.Table.from_arrays(arrays, schema=self.columns.schema)


class ParquetFileWriter:
    """One file that is being written. End it with `close` or `abort`."""

    def __init__(self, store: Sinks, key: str, encoding: Encoding, compression: str, sample: pa.Table) -> None:
        self._encoding = encoding
        self._facts = RowFacts(encoding.schema)
        self._collector = BoundsCollector(encoding.schema.fields)
        self._footers: list[pq.FileMetaData] = []
        encoding.decide(sample)
        self._file = ChecksummedFile(
            store, key, FooterChecksum(), lambda sink: encoding.writer(sink, compression, self._footers)
        )
        with self._file.filling() as writer:
            writer.add_key_value_metadata({FILE_NAME_KEY: file_name_of(key)})

    @property
    def row_count(self) -> int:
        return self._facts.row_count

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._file.size_bytes

    def write(self, records: pa.Table) -> pa.Table:
        """Write one row group, not empty, that follows the earlier ones in key order; return it as readers find it."""
        self._facts.observe(records)
        self._collector.observe(records)
        row_group = self._encoding.stored(records)
        with self._file.filling() as writer:
            writer.write_table(row_group, row_group_size=records.num_rows)
        return records

    def close(self) -> WrittenFile:
        """Write the footer and publish the file."""
        size_bytes = self._file.finish()
        return self._facts.written(size_bytes, self._collector.bounds(self._footers[0]))

    def abort(self, error: BaseException) -> None:
        """Discard the file, which then never appears."""
        self._file.abandon(error)


def encoded_file(encoding: Encoding, key: str, rows: pa.Table, compression: str) -> bytes:
    """Return the content of the file at `key` with one row group: `rows`, at least one, in the columns of a file.

    Several threads may call this.
    """
    sink = pa.BufferOutputStream()
    with encoding.writer(sink, compression) as writer:
        writer.add_key_value_metadata({FILE_NAME_KEY: file_name_of(key)})
        writer.write_table(rows, row_group_size=rows.num_rows)
    return FooterChecksum().with_checksum(sink.getvalue().to_pybytes())


def _may_hold_nan(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _is_repetitive(column: pa.ChunkedArray) -> bool:
    kind: Any = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        return False
    distinct: int = pc.count_distinct(column, mode="all").as_py()
    return distinct < _REPETITIVE_DISTINCT_SHARE * len(column)
