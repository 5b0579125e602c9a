"""Joined columns: what many small Parquet files hold of the same columns, decoded by one call.

Rule: pages are taken as they are, one file's behind the other's, and described by one footer: what decoding takes for a
few rows is the calls made for it. What fails is read file by file, which names the damaged file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.data_files.parquet.layout import Layout
from lakehouse_core.data_files.reader import ReadColumns, as_read, corrupt_file, decoding
from lakehouse_core.format.joined_footer import CODECS, MAGIC, JoinedChunk, joined_footer

# A null takes no bytes in a file, and those of a value in memory.
_VALUE_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredColumns:
    """The columns of a read as a small file holds them. `names`: those in the file; for each, its pages, how it is
    compressed, and its bytes before that.
    """

    key: str
    layout: Layout
    columns: ReadColumns
    system: tuple[str, ...]
    names: tuple[str, ...]
    verify: bool
    row_count: int
    pages: tuple[bytes, ...]
    codecs: tuple[str, ...]
    decoded_bytes: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """About the bytes that the rows take in memory, or more."""
        return sum(self.decoded_bytes) + _VALUE_BYTES * self.row_count * len(self.names)

    def joins(self, other: "StoredColumns") -> bool:
        """Return whether both can be decoded together."""
        return (
            self.layout is other.layout
            and self.columns is other.columns
            and self.names == other.names
            and self.codecs == other.codecs
            and self.system == other.system
            and self.verify == other.verify
        )


def stored_columns(
    source: pa.NativeFile,
    group: pq.RowGroupMetaData,
    layout: Layout,
    columns: ReadColumns,
    *,
    key: str,
    names: Sequence[str],
    system: Sequence[str],
    verify: bool,
) -> StoredColumns | None:
    """Return the columns `names` of the only row group of a file; None if they cannot be decoded with those of others:
    a column chunk has one dictionary at most.
    """
    pages, codecs, decoded = [], [], []
    for name in names:
        chunk = group.column(layout.places[name])
        if chunk.has_dictionary_page or chunk.num_values != group.num_rows or chunk.compression not in CODECS:
            return None
        size = chunk.total_compressed_size
        stored = source.read_at(size, chunk.data_page_offset)
        if len(stored) != size:
            return None
        pages.append(stored)
        codecs.append(chunk.compression)
        decoded.append(chunk.total_uncompressed_size)
    return StoredColumns(
        key=key,
        layout=layout,
        columns=columns,
        system=tuple(system),
        names=tuple(names),
        verify=verify,
        row_count=group.num_rows,
        pages=tuple(pages),
        codecs=tuple(codecs),
        decoded_bytes=tuple(decoded),
    )


def decode_joined(files: Sequence[StoredColumns]) -> list[pa.RecordBatch]:
    """Return the rows of files that join one another, in their order.

    Raises CorruptTable or another error if a file is damaged; it names any of the files. No one of them is known to be
    the damaged one.
    """
    first = files[0]
    key = f"{first.key} and {len(files) - 1} further files"
    row_count = sum(file.row_count for file in files)
    with decoding(key, "its columns"):
        opened = pq.ParquetFile(
            pa.BufferReader(_joined(files, row_count)),
            pre_buffer=False,
            page_checksum_verification=first.verify,
            arrow_extensions_enabled=False,
        )
        stored = list(opened.iter_batches(max(1, row_count), columns=list(first.names), use_threads=False))
    found = sum(batch.num_rows for batch in stored)
    if found != row_count:
        raise corrupt_file(key, f"found {found} rows, expected {row_count}")
    return list(as_read(stored, first.columns, first.system, key))


def _joined(files: Sequence[StoredColumns], row_count: int) -> bytes:
    """Return a file of these columns."""
    first = files[0]
    parts, position = [MAGIC], len(MAGIC)
    chunks = []
    numbers = {name: number for number, name in enumerate(first.names)}
    for path, physical_type in zip(first.layout.names, first.layout.physical_types, strict=True):
        number = numbers.get(path)
        if number is None:
            chunks.append(JoinedChunk(path, physical_type, "UNCOMPRESSED", len(MAGIC), 0, 0))
            continue
        pages = [file.pages[number] for file in files]
        size, decoded = sum(map(len, pages)), sum(file.decoded_bytes[number] for file in files)
        chunks.append(JoinedChunk(path, physical_type, first.codecs[number], position, size, decoded))
        parts += pages
        position += size
    return b"".join([*parts, joined_footer(first.layout.head, chunks, row_count)])
