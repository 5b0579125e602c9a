"""Growing file index: build the indexes of one data file while its rows are written. Source:
docs/format/file-index.md#container.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakehouse_core.format.data_types import AtomicType
from lakehouse_core.format.file_index import (
    GrowingBloomFilter,
    GrowingDistinctValues,
    KeyForm,
    bitmap_index_bytes,
    default_chunk_bytes,
    hash_column,
    key_form,
    range_bitmap_bytes,
)
from lakehouse_core.options import IndexedColumn, IndexKind
from lakehouse_core.table.schema import TableSchema


class GrowingFileIndex:
    """Takes the rows of a file in order; `bodies` returns the `indexed` ones of the file's columns, which `schema` has.

    Memory: a bloom filter takes its size, eight times that while it is small; another index takes four bytes per row,
    and each distinct value.
    """

    def __init__(self, schema: TableSchema, indexed: Sequence[IndexedColumn]) -> None:
        self._blooms = [_Bloom(one, schema) for one in indexed if one.kind is IndexKind.BLOOM_FILTER]
        self._dictionaries = [
            _Dictionary(column, schema, [one for one in indexed if one.column == column and _has_dictionary(one)])
            for column in dict.fromkeys(one.column for one in indexed if _has_dictionary(one))
        ]
        self._order = indexed

    def add(self, records: pa.Table) -> None:
        """Add the next rows; `records` has the indexed columns by name."""
        for bloom in self._blooms:
            bloom.add(records)
        for dictionary in self._dictionaries:
            dictionary.add(records)

    def bodies(self) -> Mapping[str, Mapping[str, bytes | None]]:
        """Return the indexes of all added rows, by column and kind."""
        bodies = {(bloom.column, str(IndexKind.BLOOM_FILTER)): bloom.to_bytes() for bloom in self._blooms}
        for dictionary in self._dictionaries:
            bodies |= dictionary.to_bytes()
        columns: dict[str, dict[str, bytes | None]] = {}
        for one in self._order:
            columns.setdefault(one.column, {})[str(one.kind)] = bodies[one.column, str(one.kind)]
        return columns


def _has_dictionary(one: IndexedColumn) -> bool:
    return one.kind is not IndexKind.BLOOM_FILTER


class _Bloom:
    def __init__(self, one: IndexedColumn, schema: TableSchema) -> None:
        self.column = one.column
        self._type = _atomic(schema, one.column)
        self._filter = GrowingBloomFilter(one.items, one.false_positive_rate)

    def add(self, records: pa.Table) -> None:
        for chunk in records.column(self.column).chunks:
            self._filter.add(hash_column(chunk, self._type))

    def to_bytes(self) -> bytes:
        return self._filter.to_bytes()


class _Dictionary:
    """The indexes of one column that need its distinct values, which are gathered once."""

    def __init__(self, column: str, schema: TableSchema, wanted: Sequence[IndexedColumn]) -> None:
        self._column = column
        self._wanted = wanted
        form = key_form(_atomic(schema, column))
        assert form is not None, column
        self._form: KeyForm = form
        self._values = GrowingDistinctValues(form)

    def add(self, records: pa.Table) -> None:
        for chunk in records.column(self._column).chunks:
            self._values.add(chunk)

    def to_bytes(self) -> dict[tuple[str, str], bytes]:
        values = self._values.distinct()
        bodies = {}
        for one in self._wanted:
            if one.kind is IndexKind.BITMAP:
                body = bitmap_index_bytes(values, self._form, block_bytes=one.block_bytes)
            else:
                chunk_bytes = default_chunk_bytes(self._form) if one.chunk_bytes is None else one.chunk_bytes
                body = range_bitmap_bytes(values, self._form, chunk_bytes=chunk_bytes)
            bodies[self._column, str(one.kind)] = body
        return bodies


def _atomic(schema: TableSchema, column: str) -> AtomicType:
    kind = schema.field(column).type
    assert isinstance(kind, AtomicType), column
    return kind
