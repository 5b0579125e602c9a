"""Parquet reader: read one Parquet data file as record batches in the reader's schema, and check all that has a
checksum.

Memory is a page of each column and the batch. Source: docs/format/data-files.md#parquet,
docs/semantics/tables.md#reading-old-files.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from lakehouse_core.data_files.bounds import footer_values
from lakehouse_core.data_files.deletion_vectors import remaining_rows
from lakehouse_core.data_files.file_name import FILE_NAME_KEY, check_file_name
from lakehouse_core.data_files.parquet.checksum import CHECKSUM_BYTES, fits_checksum
from lakehouse_core.data_files.parquet.joined import StoredColumns, stored_columns
from lakehouse_core.data_files.parquet.layout import Layout, WideGroup, layout_of, widest_group
from lakehouse_core.data_files.parquet.pages import check_pages
from lakehouse_core.data_files.reader import (
    READ_AT_ONCE_BYTES,
    SYSTEM_TYPES,
    WIDE_TEXT,
    as_read,
    check_columns,
    corrupt_file,
    decoding,
    open_source,
    read_columns,
)
from lakehouse_core.data_files.row_selection import chosen_rows
from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.data_types import FLOAT_ROOTS, AtomicType, DataField, arrow_type, has_same_kind
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.format.parquet_footer import int96_as_bytes
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import VALUE_KIND
from lakehouse_core.table.predicate import ColumnRange, Predicate, columns_of, may_match
from lakehouse_core.table.projection import ColumnProjection
from lakehouse_core.table.schema import TableSchema

# Column chunks of large row groups are read in windows of this size; it costs 7 % of a wide read.
_WINDOW_BYTES: Final = 256 << 10
_HELD_BYTES: Final = 64 << 20
_DECODED_ROWS: Final = 4096
_LEAST_WIDE_ROWS: Final = 4096
_SMALL_BYTES: Final = 1 << 20
# Their pages of version 2 say that they are not compressed and are; Arrow knows by this name, which a footer of joined
# files has not.
_OLD_WRITERS: Final = "parquet-cpp version"
_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8  # The footer's length and the magic number.
# The bytes that 32-bit offsets, which returned text has, can address.
_MOST_TEXT_BYTES: Final = 2**31 - 1


class ParquetFileReader:
    """An open data file. `schema` is the one that the file was written with.

    Raises CorruptTable when the file is gone, or is not what its manifest entry says.
    """

    def __init__(self, store: FileOpener, key: str, entry: DataFile, schema: TableSchema, *, verify: bool) -> None:
        self._key = key
        self._entry = entry
        self._schema = schema
        self._verify = verify
        self._source = open_source(store, key, entry)
        with decoding(key, "its footer"):
            has_checksum = verify and self._check_checksum()
            self._file, self._footer, self._layout = self._opened()
        if verify:
            self._check_name(has_checksum)
        if self._footer.num_rows != entry.row_count:
            raise corrupt_file(
                key, f"its footer counts {self._footer.num_rows} rows, its manifest entry {entry.row_count}"
            )

    def close(self) -> None:
        self._file.close()
        self._source.close()

    def row_bytes(self, fields: Sequence[DataField]) -> float:
        """Return the decoded size of a row of these columns in bytes, by the footer, for the row group with the widest
        rows; for a file of few bytes that of a row of all columns.
        """
        if self._is_small:
            return self._decoded_bytes / max(1, self._entry.row_count)
        widest = self._widest_group
        names = {*read_columns(self._schema, fields).sources, *SYSTEM_TYPES}
        decoded_bytes = sum(chunk.decoded_bytes for chunk in widest.chunks if chunk.belongs_to(names))
        return float(decoded_bytes / max(1, widest.row_count))

    def row_count_left(self, fields: Sequence[DataField], row_filter: Predicate) -> int:
        """Return the number of rows in the row groups that `batches` would read for these columns with `row_filter`."""
        groups = self._row_groups(row_filter, read_columns(self._schema, fields).projections)
        return sum(self._footer.row_group(group).num_rows for group in groups)

    @cached_property
    def holds_only_inserts(self) -> bool:
        """Whether the footer proves that every row is +I; the manifests of some writers count no deletes."""
        found = (self._statistics(group, VALUE_KIND) for group in range(self._footer.num_row_groups))
        return all(
            statistics is not None and statistics.has_min_max and statistics.min_raw == statistics.max_raw == 0
            for statistics in found
        )

    def batches(
        self,
        fields: Sequence[DataField],
        *,
        system: Sequence[str] = (),
        batch_rows: int,
        held_bytes: int = _HELD_BYTES,
        row_filter: Predicate | None = None,
        without: Positions | None = None,
        only: BitMap | None = None,
        in_threads: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in file order, as `fields` and then the system columns asked for.

        Row groups of up to `held_bytes` stored bytes are held whole in memory, which is faster; larger ones are read in
        windows. Columns are found by field id, cast where their type has changed since, and null where the file lacks
        them. `in_threads`: all processors may decode the columns of a row group. Left out are row groups in which no
        row can satisfy the bound `row_filter`, rows at other positions than `only` (None: all), and rows at the
        positions `without`. Positions are rising and count all rows of the file. No other row is left out.
        """
        columns = read_columns(self._schema, fields)
        wanted = columns.sources
        wanted += [name for name in system if name != VALUE_KIND or not self.holds_only_inserts]
        check_columns(wanted, self._layout.columns, self._key, self._schema)
        groups = self._row_groups(row_filter, columns.projections)
        if only is not None and without is not None:
            only, without = only - BitMap(without), None
        if only is not None:
            spans = self._spans()
            groups = [group for group in groups if only.range_cardinality(*spans[group])]
        # Threads would read the ranges of a large object out of order, and what is fetched ahead in vain.
        in_threads = in_threads and not (self._is_small or isinstance(self._source, pa.PythonFile))
        stored = self._decoded(wanted, groups, batch_rows, held_bytes, in_threads=in_threads)
        if only is not None:
            stored = chosen_rows(stored, [spans[group] for group in groups], only)
        elif without is not None:
            stored = remaining_rows(stored, self._among(groups, without))
        pieces = (piece for batch in stored for piece in _addressable(batch))
        yield from as_read(pieces, columns, system, self._key)

    def stored_columns(
        self, fields: Sequence[DataField], *, system: Sequence[str], row_filter: Predicate | None
    ) -> StoredColumns | None:
        """Return the columns that `batches` would decode, to decode them with those of other files; None if only
        `batches` can.
        """
        if self._footer.num_row_groups != 1 or not self._is_small or not self._layout.can_be_joined:
            return None
        if self._footer.created_by.startswith(_OLD_WRITERS):
            return None
        columns = read_columns(self._schema, fields)
        names = columns.sources
        names += [name for name in system if name != VALUE_KIND or not self.holds_only_inserts]
        check_columns(names, self._layout.columns, self._key, self._schema)
        if not names or (row_filter is not None and not self._row_groups(row_filter, columns.projections)):
            return None
        with decoding(self._key, "its columns"):
            return stored_columns(
                self._source,
                self._footer.row_group(0),
                self._layout,
                columns,
                key=self._key,
                names=names,
                system=system,
                verify=self._verify,
            )

    def stored_types(self) -> Mapping[str, pa.DataType]:
        """Return the Arrow types of the file's columns."""
        return {field.name: field.type for field in self._layout.schema}

    def paths_with_bounds_of_floats(self) -> set[str]:
        """Return the paths of the leaf columns for which the footer has bounds of floating-point values. They do not
        cover NaN.
        """
        return {
            chunk.path_in_schema
            for group in map(self._footer.row_group, range(self._footer.num_row_groups))
            for chunk in map(group.column, range(group.num_columns))
            if chunk.physical_type in ("FLOAT", "DOUBLE") and chunk.is_stats_set and chunk.statistics.has_min_max
        }

    def check_pages(
        self, fields: Sequence[DataField], row_filter: Predicate | None, *, tested: Set[str] = frozenset()
    ) -> Set[str]:
        """Test the checksums of the pages that `batches` would read for these columns with `row_filter`, but not those
        of the file's columns `tested`. Return the columns of which all pages are tested now. Raises CorruptTable.
        """
        columns = read_columns(self._schema, fields)
        groups = self._row_groups(row_filter, columns.projections)
        names = {*columns.sources, VALUE_KIND} - tested
        with decoding(self._key, "its pages"):
            check_pages(self._source, self._footer, groups, names, self._key)
        return names if len(groups) == self._footer.num_row_groups else frozenset()

    def decode_all(self) -> None:
        """Decode every page of every column, also unneeded ones, and discard the values."""
        groups = list(range(self._footer.num_row_groups))
        for _ in self._decoded(self._layout.names, groups, _DECODED_ROWS, held_bytes=0):
            pass

    def _check_checksum(self) -> bool:
        """Return whether the footer has a checksum. Raises CorruptTable if the footer does not fit its checksum."""
        size = self._entry.file_size
        if size < _TAIL_BYTES:
            return False
        footer_bytes = int.from_bytes(self._source.read_at(_TAIL_BYTES, size - _TAIL_BYTES)[:4], "little")
        tail_bytes = min(size, footer_bytes + _TAIL_BYTES + CHECKSUM_BYTES)
        fits = fits_checksum(self._source.read_at(tail_bytes, size - tail_bytes), footer_bytes)
        if fits is False:
            raise corrupt_file(self._key, "its footer does not fit its checksum")
        return fits is True

    def _check_name(self, has_checksum: bool) -> None:
        stored = (self._footer.metadata or {}).get(FILE_NAME_KEY.encode())
        if stored is not None and not has_checksum:
            raise corrupt_file(self._key, "its footer holds a file name, but no checksum precedes it")
        check_file_name(stored, self._key)

    def _opened(self) -> tuple[pq.ParquetFile, pq.FileMetaData, Layout]:
        """Return the file, its footer and its columns, INT96 columns as 12-byte values, because Arrow would misread
        INT96.
        """
        file = self._open(None)
        footer_bytes = file.metadata.serialized_size
        is_at_hand = self._entry.file_size <= READ_AT_ONCE_BYTES
        layout = layout_of(file, self._stored_footer(footer_bytes) if is_at_hand else b"")
        if not layout.has_int96:
            return file, file.metadata, layout
        plain = int96_as_bytes(self._stored_footer(footer_bytes))
        footer = pq.read_metadata(pa.BufferReader(_MAGIC + plain + len(plain).to_bytes(4, "little") + _MAGIC))
        file = self._open(footer)
        layout = layout_of(file, b"")
        if layout.has_int96:
            raise UnsupportedFeature(
                f"{self._key}: its footer describes INT96 columns in an unknown way. Use Java Paimon."
            )
        return file, footer, layout

    def _stored_footer(self, footer_bytes: int) -> bytes:
        return cast(bytes, self._source.read_at(footer_bytes, self._entry.file_size - footer_bytes - _TAIL_BYTES))

    @cached_property
    def _is_small(self) -> bool:
        """Whether the file has few bytes, also decoded: then its columns need not be looked at one by one."""
        return self._entry.file_size <= READ_AT_ONCE_BYTES and self._decoded_bytes <= _SMALL_BYTES

    @cached_property
    def _decoded_bytes(self) -> int:
        footer = self._footer
        return sum(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups))

    @cached_property
    def _widest_group(self) -> WideGroup:
        """The row group with the widest rows, one without rows when the file has none."""
        return widest_group(self._footer)

    def _open(self, footer: pq.FileMetaData | None, *, window_bytes: int = 0) -> pq.ParquetFile:
        """Return the file opened with this footer, None: with its own."""
        return pq.ParquetFile(
            self._source,
            metadata=footer,
            pre_buffer=False,
            buffer_size=window_bytes,
            page_checksum_verification=self._verify,
            binary_type=pa.large_binary() if self._takes_wide_text else None,
            arrow_extensions_enabled=False,
        )

    @cached_property
    def _takes_wide_text(self) -> bool:
        """Whether text is decoded with 64-bit offsets.

        It is not where a column is nested, because Arrow copies nested text to cast it, nor where rows are few, because
        the cast takes longer than it saves.
        """
        if self._entry.row_count < _LEAST_WIDE_ROWS:
            return False
        return all(isinstance(field.type, AtomicType) for field in self._schema.fields)

    def _row_groups(self, row_filter: Predicate | None, projections: Sequence[ColumnProjection]) -> list[int]:
        everything = range(self._footer.num_row_groups)
        if row_filter is None:
            return list(everything)
        asked = columns_of(row_filter)
        comparable = {
            projection.target.name: projection.source
            for projection in projections
            if projection.source is not None and projection.target.name in asked and self._is_comparable(projection)
        }
        return [group for group in everything if may_match(row_filter, self._ranges(group, comparable))]

    def _is_comparable(self, projection: ColumnProjection) -> bool:
        """Return whether the footer's bounds of a column hold for the reader's values. Bounds of floats do not cover
        NaN.
        """
        source, kind = projection.source, projection.target_type
        if source is None or not isinstance(kind, AtomicType) or kind.root in FLOAT_ROOTS:
            return False
        # Bounds are raw numbers: those of a time stored in another unit than that of its precision would be misread.
        stored, plain = self._layout.schema.field(source.name).type, arrow_type(source.type)
        return stored in (plain, WIDE_TEXT.get(plain)) and has_same_kind(source.type, kind)

    def _ranges(self, group: int, sources: Mapping[str, DataField]) -> dict[str, ColumnRange]:
        ranges = {}
        for name, source in sources.items():
            statistics = self._statistics(group, source.name)
            if statistics is not None:
                assert isinstance(source.type, AtomicType)
                low, high = footer_values(statistics, source.type)
                nulls = statistics.null_count if statistics.has_null_count else None
                rows = self._footer.row_group(group).num_rows
                ranges[name] = ColumnRange(minimum=low, maximum=high, null_count=nulls, row_count=rows)
        return ranges

    def _statistics(self, group: int, name: str) -> pq.Statistics | None:
        chunks = self._footer.row_group(group)
        # The columns of a flat file are those of its schema; a nested one has several chunks.
        place = self._layout.places.get(name)
        for position in range(chunks.num_columns) if place is None else [place]:
            chunk = chunks.column(position)
            if chunk.path_in_schema == name:
                return chunk.statistics if chunk.is_stats_set else None
        return None

    def _among(self, groups: Sequence[int], positions: Positions) -> Positions:
        """Return those of `positions` that are in `groups`, counted over the rows of these groups only."""
        if len(positions) and positions[-1] >= self._footer.num_rows:
            raise corrupt_file(
                self._key, f"row {positions[-1]} is marked as deleted, but the file has {self._footer.num_rows} rows"
            )
        ends = np.cumsum([0, *(self._footer.row_group(group).num_rows for group in range(self._footer.num_row_groups))])
        bounds = np.searchsorted(positions, ends)
        found, before = [np.empty(0, np.int64)], 0
        for group in groups:
            found.append(positions[bounds[group] : bounds[group + 1]] - (ends[group] - before))
            before += int(ends[group + 1] - ends[group])
        return np.concatenate(found)

    def _spans(self) -> list[tuple[int, int]]:
        """Return the positions of the rows of each row group, ends excluded."""
        spans, start = [], 0
        for group in range(self._footer.num_row_groups):
            after = start + self._footer.row_group(group).num_rows
            spans.append((start, after))
            start = after
        return spans

    def _decoded(
        self, names: Sequence[str], groups: list[int], batch_rows: int, held_bytes: int, *, in_threads: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield the file's own columns, at least one, because a batch without columns loses its row count."""
        read = list(names) or [self._layout.names[0]]
        expected = sum(self._footer.row_group(group).num_rows for group in groups)
        is_held = self._is_held(set(read), held_bytes)
        file = self._file if is_held else self._open(self._footer, window_bytes=_WINDOW_BYTES)
        position = 0
        batches = file.iter_batches(batch_rows, row_groups=groups, columns=read, use_threads=in_threads)
        while True:
            with decoding(self._key, f"rows from {position}"):
                batch = next(batches, None)
            if batch is None:
                break
            position += batch.num_rows
            yield batch
        if position != expected:
            raise corrupt_file(self._key, f"it ends after {position} rows, its footer counts {expected}")

    def _is_held(self, names: Set[str], held_bytes: int) -> bool:
        """Return whether the stored bytes of these columns are held at once."""
        if self._is_small:
            # The whole file is in memory.
            return True
        stored_bytes = sum(chunk.stored_bytes for chunk in self._widest_group.chunks if chunk.belongs_to(names))
        return stored_bytes <= held_bytes


def _addressable(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of the batch whose text fits in 32-bit offsets."""
    # The sizes of whole buffers are known; to find what the rows take of them costs 12 µs, which counts for few rows.
    most_bytes = batch.get_total_buffer_size()
    if batch.num_rows <= 1 or most_bytes <= _MOST_TEXT_BYTES or batch.nbytes <= _MOST_TEXT_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _addressable(batch.slice(0, half))
    yield from _addressable(batch.slice(half))
