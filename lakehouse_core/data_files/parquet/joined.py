"""Joined columns: what many small Parquet files hold of the same columns, decoded by one call.

Rule: pages are taken as they are, one file's behind the other's, and described by one footer: what decoding takes for a
few rows is the calls made for it. What fails is read file by file, which names the damaged file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.data_files.parquet.layout import Layout
from lakehouse_core.data_files.reader import ReadColumns, as_read, corrupt_file, decoding
from lakehouse_core.format.joined_footer import CODECS, MAGIC, JoinedChunk, JoinedGroup, joined_footer
from lakehouse_core.format.parquet_footer import value_count

# A null takes no bytes in a file, and those of a value in memory.
_VALUE_BYTES: Final = 8
# Each row may have the longest text of a dictionary: so much the texts of a file may take at most.
_MOST_REPEATED_BYTES: Final = 64 << 10
_OF_ANY_LENGTH: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredColumns:
    """The columns of a read as a small file holds them. `names`: those in the file; for each, its pages, how they are
    compressed, and their bytes before that. `size_bytes`: what the rows take in memory at most, about.
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
    has_dictionary: bool
    size_bytes: int

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
    """Return the columns `names` of the only row group of a file; None if they are not to be decoded with those of
    others.
    """
    pages, codecs, decoded = [], [], []
    has_dictionary, size_bytes, row_count = False, 0, group.num_rows
    for name in names:
        place = layout.places[name]
        chunk = group.column(place)
        if chunk.num_values != row_count or chunk.compression not in CODECS:
            return None
        start, size, decoded_bytes = chunk.data_page_offset, chunk.total_compressed_size, chunk.total_uncompressed_size
        size_bytes += _VALUE_BYTES * row_count + decoded_bytes
        if chunk.has_dictionary_page:
            has_dictionary = True
            start = min(start, chunk.dictionary_page_offset)
            if layout.physical_types[place] in _OF_ANY_LENGTH:
                size_bytes += row_count * decoded_bytes
                if row_count * decoded_bytes > _MOST_REPEATED_BYTES:
                    return None
        if not 0 <= start <= start + size <= source.size():
            return None
        stored = source.read_at(size, start)
        # No checksum covers what a page says of its values: one too many would move the rows of all files behind it.
        if value_count(stored) != row_count:
            return None
        pages.append(stored)
        codecs.append(chunk.compression)
        decoded.append(decoded_bytes)
    return StoredColumns(
        key=key,
        layout=layout,
        columns=columns,
        system=tuple(system),
        names=tuple(names),
        verify=verify,
        row_count=row_count,
        pages=tuple(pages),
        codecs=tuple(codecs),
        decoded_bytes=tuple(decoded),
        has_dictionary=has_dictionary,
        size_bytes=size_bytes,
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
            pa.BufferReader(_joined(files)),
            pre_buffer=False,
            page_checksum_verification=first.verify,
            arrow_extensions_enabled=False,
        )
        stored = list(opened.iter_batches(max(1, row_count), columns=list(first.names), use_threads=False))
    found = sum(batch.num_rows for batch in stored)
    if found != row_count:
        raise corrupt_file(key, f"found {found} rows, expected {row_count}")
    return list(as_read(stored, first.columns, first.system, key))


def _joined(files: Sequence[StoredColumns]) -> bytes:
    """Return a file of these columns: with a row group of the files without dictionaries that follow one another, for a
    column has one dictionary a row group.
    """
    parts, groups, position = [MAGIC], [], len(MAGIC)
    for _, run in groupby(enumerate(files), key=lambda each: each[0] if each[1].has_dictionary else None):
        members = [file for _, file in run]
        chunks = []
        for path, physical_type, number in _leaves(files[0]):
            if number is None:
                chunks.append(JoinedChunk(path, physical_type, "UNCOMPRESSED", len(MAGIC), 0, 0))
                continue
            pages = [file.pages[number] for file in members]
            size, decoded = sum(map(len, pages)), sum(file.decoded_bytes[number] for file in members)
            chunks.append(JoinedChunk(path, physical_type, files[0].codecs[number], position, size, decoded))
            parts += pages
            position += size
        groups.append(JoinedGroup(sum(file.row_count for file in members), chunks))
    return b"".join([*parts, joined_footer(files[0].layout.head, groups)])


def _leaves(file: StoredColumns) -> list[tuple[str, str, int | None]]:
    """Return the path and the type of each leaf column, and its number among those that are read."""
    numbers = {name: number for number, name in enumerate(file.names)}
    layout = file.layout
    return [(path, kind, numbers.get(path)) for path, kind in zip(layout.names, layout.physical_types, strict=True)]
