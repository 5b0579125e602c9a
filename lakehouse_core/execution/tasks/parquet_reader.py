"""Reads one Parquet data file as record batches in the reader's schema, and believes nothing that it can check.

Memory is a page of each column and the batch. Source: Paimon format, "Data files"; schema evolution: A.8.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_core.errors import CorruptTable, StorageUnavailable, UnsupportedFeature
from lakehouse_core.execution.tasks.file_bounds import footer_values
from lakehouse_core.execution.tasks.footer_seal import SEAL_BYTES, broken_seal
from lakehouse_core.format.cast import cast_array
from lakehouse_core.format.data_types import AtomicType, DataField, Root, arrow_type, with_nullable
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.predicate import ColumnRange, Predicate, columns_of, may_match
from lakehouse_core.table.projection import ColumnProjection, file_projection, source_columns
from lakehouse_core.table.schema import TableSchema

# Column chunks are read in windows of this size instead of whole: a merge holds one of each column and file.
_WINDOW_BYTES: Final = 256 << 10
_SYSTEM_TYPES: Final = {SEQUENCE_NUMBER: pa.int64(), VALUE_KIND: pa.int8()}


def data_file_key(folder: str, file: DataFile) -> str:
    """Return where a file lies. Raises UnsupportedFeature for files that are not Parquet, or lie elsewhere."""
    if file.external_path is not None:
        raise UnsupportedFeature(
            f"{file.file_name}: it lies outside the table, at {file.external_path}: use Java Paimon."
        )
    if not file.file_name.endswith(".parquet"):
        raise UnsupportedFeature(f"{folder}/{file.file_name}: only Parquet data files are read: use Java Paimon.")
    return f"{folder}/{file.file_name}"


class ParquetFileReader:
    """An open data file. `schema` is the one that the file was written with.

    Raises NotFound when the file is gone, CorruptTable when it is not what its manifest entry says.
    """

    def __init__(self, store: ObjectStore, key: str, entry: DataFile, schema: TableSchema, *, verify: bool) -> None:
        self._key = key
        self._entry = entry
        self._schema = schema
        self._verify = verify
        self._source = store.open_read(key)
        with _decoding(key, "its footer"):
            self._check_size()
            self._file = self._open()
        self._footer = self._file.metadata
        self._columns = set(self._file.schema_arrow.names)
        if self._footer.num_rows != entry.row_count:
            raise _corrupt(key, f"its footer counts {self._footer.num_rows} rows, its manifest entry {entry.row_count}")

    def close(self) -> None:
        self._file.close()
        self._source.close()

    def row_bytes(self, fields: Sequence[DataField]) -> float:
        """Return the decoded size of a row of these columns, as the footer has it, in the widest row group."""
        names = {*source_columns(file_projection(self._schema, fields)), *_SYSTEM_TYPES}
        widest = 0.0
        for group in map(self._footer.row_group, range(self._footer.num_row_groups)):
            chunks = map(group.column, range(group.num_columns))
            size = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in names)
            widest = max(widest, size / max(1, group.num_rows))
        return widest

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
        row_filter: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in file order, as `fields` and then the system columns asked for.

        Columns are found by field id, cast where their type has changed since, and null where the file lacks them.
        Row groups in which no row can satisfy the bound `row_filter` are left out; nothing else is filtered.
        """
        projections = file_projection(self._schema, fields)
        wanted = source_columns(projections)
        wanted += [name for name in system if name != VALUE_KIND or not self.holds_only_inserts]
        for name in wanted:
            if name not in self._columns:
                raise _corrupt(self._key, f"it has no column {name!r}, which schema {self._schema.id} says it has")
        names = [field.name for field in fields] + list(system)
        for batch in self._decoded(wanted, self._row_groups(row_filter, projections), batch_rows):
            with _decoding(self._key, "a batch"):
                columns = [_column(batch, projection) for projection in projections]
                columns += [self._system_column(batch, name) for name in system]
            yield pa.RecordBatch.from_arrays(columns, names) if columns else batch.select([])

    def _check_size(self) -> None:
        size = self._source.size()
        if size != self._entry.file_size:
            raise _corrupt(self._key, f"it has {size} bytes, its manifest entry says {self._entry.file_size}")
        if not self._verify or size < 8:
            return
        footer_bytes = int.from_bytes(self._source.read_at(8, size - 8)[:4], "little")
        tail_bytes = min(size, footer_bytes + 8 + SEAL_BYTES)
        if broken_seal(self._source.read_at(tail_bytes, size - tail_bytes), footer_bytes):
            raise _corrupt(self._key, "its footer does not fit its checksum")

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._source,
            pre_buffer=False,
            buffer_size=_WINDOW_BYTES,
            page_checksum_verification=self._verify,
            arrow_extensions_enabled=False,
        )

    def _row_groups(self, row_filter: Predicate | None, projections: Sequence[ColumnProjection]) -> list[int]:
        everything = range(self._footer.num_row_groups)
        if row_filter is None:
            return list(everything)
        asked = columns_of(row_filter)
        comparable = {
            projection.target.name: projection.source
            for projection in projections
            if projection.source is not None and projection.target.name in asked and _is_comparable(projection)
        }
        return [group for group in everything if may_match(row_filter, self._ranges(group, comparable))]

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
        for position in range(chunks.num_columns):
            chunk = chunks.column(position)
            if chunk.path_in_schema == name:
                return chunk.statistics if chunk.is_stats_set else None
        return None

    def _decoded(self, names: Sequence[str], groups: list[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the file's own columns; at least one, for a batch without columns would forget its rows."""
        read = list(names) or [self._file.schema_arrow.names[0]]
        expected = sum(self._footer.row_group(group).num_rows for group in groups)
        position = 0
        batches = self._file.iter_batches(batch_rows, row_groups=groups, columns=read, use_threads=False)
        while True:
            with _decoding(self._key, f"rows from {position}"):
                batch = next(batches, None)
            if batch is None:
                break
            position += batch.num_rows
            yield batch
        if position != expected:
            raise _corrupt(self._key, f"it ends after {position} rows, its footer counts {expected}")

    def _system_column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        if name not in batch.schema.names:
            return pa.array(np.zeros(batch.num_rows, dtype=np.int8))
        array = batch.column(name)
        return array if array.type == _SYSTEM_TYPES[name] else array.cast(_SYSTEM_TYPES[name])


def _column(batch: pa.RecordBatch, projection: ColumnProjection) -> pa.Array:
    target = arrow_type(projection.target_type)
    if projection.source is None:
        return pa.nulls(batch.num_rows, target)
    array = batch.column(projection.source.name)
    if array.type == target and _is_same_type(projection):
        return array
    return cast_array(array, projection.source.type, projection.target_type)


def _is_comparable(projection: ColumnProjection) -> bool:
    """Whether the file's bounds of a column speak of the reader's values. Those of floats leave out NaN."""
    kind = projection.target_type
    is_bounded = isinstance(kind, AtomicType) and kind.root not in (Root.FLOAT, Root.DOUBLE)
    return is_bounded and _is_same_type(projection)


def _is_same_type(projection: ColumnProjection) -> bool:
    source = projection.source
    return source is not None and with_nullable(source.type, True) == with_nullable(projection.target_type, True)


@contextmanager
def _decoding(key: str, place: str) -> Iterator[None]:
    """Translate what Arrow says of bytes that are not Parquet, or not what they were."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise StorageUnavailable(f"{key}: {place} could not be read ({error}). Try again later.") from error
        raise _corrupt(key, f"{place} cannot be decoded ({error})") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _corrupt(key, f"{place} cannot be decoded ({error})") from error


def _corrupt(key: str, found: str) -> CorruptTable:
    return CorruptTable(f"{key}: {found}. Keep the file as evidence; restore it from a copy of the table.")
