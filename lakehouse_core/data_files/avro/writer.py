"""Avro writer: write one Avro data file, block by block.

Rule: each block and the header has a checksum: that of zstandard or snappy, or for deflate one of our own. Source:
docs/format/data-files.md#avro.
"""

import hashlib
import json
from contextlib import ExitStack
from typing import Final

import pyarrow as pa

from lakehouse_core.data_files.bounds import ObservedBounds
from lakehouse_core.data_files.file_name import FILE_NAME_KEY, file_name_of
from lakehouse_core.data_files.written_file import RowFacts, WrittenFile
from lakehouse_core.format.avro_container import streamed_block, streamed_header
from lakehouse_core.format.avro_rows import RowEncoder, avro_row_schema
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.file_columns import file_columns
from lakehouse_core.table.schema import TableSchema

# The number of rows that are converted to Python objects at once.
_PIECE_ROWS: Final = 4096
_SYNC_BYTES: Final = 16
_CODECS: Final = {"zstd": "zstandard", "zstandard": "zstandard", "snappy": "snappy", "deflate": "deflate"}


class AvroFileWriter:
    """One file that is being written. End it with `close` or `abort`."""

    def __init__(self, store: Sinks, key: str, schema: TableSchema, compression: str) -> None:
        self._columns = file_columns(schema)
        self._encoder = RowEncoder(self._columns.fields)
        self._facts = RowFacts(schema)
        self._bounds = ObservedBounds(schema.fields)
        self._codec = _CODECS.get(compression, compression)
        self._zstd_level = schema.table_options.zstd_level
        # File names are used once, so a marker made of the name occurs in no block, like a random one.
        self._sync = hashlib.blake2b(key.encode(), digest_size=_SYNC_BYTES).digest()
        schema_text = json.dumps(avro_row_schema(self._columns.fields), separators=(",", ":"), ensure_ascii=False)
        name = file_name_of(key).encode()
        header = streamed_header(schema_text, self._codec, self._sync, {FILE_NAME_KEY: name})
        self._stack = ExitStack()
        self._sink = self._stack.enter_context(store.open_write(key))
        self._size_bytes = 0
        try:
            self._append(header)
        except BaseException as error:
            self.abort(error)
            raise

    @property
    def row_count(self) -> int:
        return self._facts.row_count

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._size_bytes

    def write(self, records: pa.Table) -> pa.Table:
        """Write rows, at least one, that follow the earlier ones in key order; return them as readers find them."""
        self._facts.observe(records)
        self._bounds.observe(records)
        for start in range(0, records.num_rows, _PIECE_ROWS):
            piece = records.slice(start, _PIECE_ROWS)
            arrays = [piece.column(source).combine_chunks() for source in self._columns.sources]
            for count, data in self._encoder.blocks(arrays):
                self._append(streamed_block(count, data, self._codec, self._sync, zstd_level=self._zstd_level))
        return records

    def close(self) -> WrittenFile:
        """Publish the file."""
        self._stack.close()
        return self._facts.written(self._size_bytes, self._bounds.bounds())

    def abort(self, error: BaseException) -> None:
        """Discard the file, which then never appears."""
        self._stack.__exit__(type(error), error, error.__traceback__)

    def _append(self, data: bytes) -> None:
        self._sink.write(data)
        self._size_bytes += len(data)
