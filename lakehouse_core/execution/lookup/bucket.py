"""Lookups in one bucket: find the rows of some keys by search, with the same result as a read of the bucket's splits.

The versions of a key are merged by the table's merge engine; files that cannot change a key's row any more are not
searched for the key. Rows are found in local lookup files or, if few row groups can hold the keys, in the data file.
Source: docs/semantics/changelog.md#local-lookup-files, docs/semantics/reading.md#batch-scan.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.file_index import indexed_rows
from lakehouse_core.data_files.reader import DataFileReader
from lakehouse_core.execution.lookup.local_files import KeyedBatch, LocalRows, LookupCache, keyed_batch
from lakehouse_core.format.data_types import DataField, arrow_type
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.format.rows import Rows, take_all
from lakehouse_core.merge.chunk import LEVEL, MergeRule, merged, order_of
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.key_filter import KeyFilter, key_filter, key_hashes
from lakehouse_core.merge.key_words import Words, fixed_values
from lakehouse_core.merge.lookup_progress import LookupProgress
from lakehouse_core.merge.positions import Flags
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.merge.reduce import BY_ROW
from lakehouse_core.merge.search import SortedKeys, search, sorted_keys
from lakehouse_core.options import LookupOptions
from lakehouse_core.planning.read.key_condition import key_condition
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.merge_spec import MergeSpec, merge_spec
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import oldest_first, sections
from lakehouse_core.table.sorted_run import KeyedFile, key_values, keyed_files
from lakehouse_core.table.split import Split
from lakehouse_core.tasks.merge_scan import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    BucketFiles,
    batch_rows,
    split_files,
    with_merge_columns,
)
from lakehouse_core.tasks.python_values import arrow_value

# The column with the number of the key for which a row was found.
KEY_NUMBER: Final = "_KEY_NUMBER"


@dataclass(slots=True)
class LocalFile:
    """An open local file, the number of vain searches for keys in it, and the filter that avoids further ones."""

    rows: LocalRows
    row_count: int
    absent_count: int = 0
    filter: KeyFilter | None = None

    def without_absent(self, sought: "_LookupKeys") -> "_LookupKeys":
        """Return the keys that the file may hold."""
        return sought if self.filter is None else sought.only(self.filter.may_hold(sought.hashes))

    def count_absent(self, count: int, options: LookupOptions) -> None:
        """Count keys that the file does not hold; build a filter once it saves more time than it takes."""
        before, self.absent_count = self.absent_count, self.absent_count + count
        # Building a filter takes as long as searching for half as many absent keys as the file has rows.
        worth = self.row_count / 2
        if options.filters_keys and before <= worth < self.absent_count:
            parts = (batch.keys for batch in self.rows.batches)
            self.filter = key_filter(parts, self.row_count, false_positive_rate=options.false_positive_rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRead:
    """The state that the lookups of one handle share. `local`: the open local files, by name."""

    store: StoreReader
    schema: TableSchema
    columns: tuple[str, ...]
    file_schemas: Mapping[int, TableSchema]
    cache: LookupCache
    local: dict[str, LocalFile] = field(default_factory=dict)

    @property
    def spec(self) -> MergeSpec:
        return merge_spec(self.schema)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """Return the requested columns, then further ones that the merge needs."""
        asked = [self.schema.field(name) for name in self.columns]
        return tuple(with_merge_columns(asked, self.schema, self.spec))


class _Hashes:
    """The hashes of all looked-up keys, computed at the first use."""

    def __init__(self, keys: SortedKeys) -> None:
        self._keys = keys

    @cached_property
    def all(self) -> Words:
        return key_hashes(self._keys)


@dataclass(frozen=True, slots=True)
class _LookupKeys:
    """Keys in key order, as columns and as search keys, with their numbers among all looked-up keys."""

    columns: tuple[pa.Array, ...]
    keys: SortedKeys
    numbers: Rows
    of_all: _Hashes

    @property
    def hashes(self) -> Words:
        return self.of_all.all[self.numbers]

    def slice(self, start: int, stop: int) -> "_LookupKeys":
        columns = tuple(column.slice(start, stop - start) for column in self.columns)
        return _LookupKeys(columns, self.keys.slice(start, stop), self.numbers[start:stop], self.of_all)

    def only(self, flags: Flags) -> "_LookupKeys":
        if flags.all():
            return self
        rows = np.flatnonzero(flags)
        columns = tuple(take_all(list(self.columns), rows))
        return _LookupKeys(columns, self.keys.taken(rows), self.numbers[rows], self.of_all)


class BucketLookup:
    """The files of one bucket of a snapshot. Deletion vectors and local files stay loaded between lookups."""

    def __init__(self, read: LookupRead, splits: Sequence[Split]) -> None:
        self._read = read
        self._schema = read.schema
        self._spec = read.spec
        self._fields = read.fields
        keyed = [_in_merge_order(split, read.schema) for split in splits]
        self._splits = [
            replace(split, files=tuple(each.file for each in files)) for split, files in zip(splits, keyed, strict=True)
        ]
        self._ranges = [_key_ranges(files, read.schema) for files in keyed]
        self._keys = read.schema.trimmed_primary_keys
        # Merge engines that pick one whole version pick the right one without levels.
        self._uses_levels = read.schema.table_options.needs_lookup and self._spec.engine not in BY_ROW
        self._rule = MergeRule(
            spec=self._spec,
            kind_column=VALUE_KIND,
            sequence_number=SEQUENCE_NUMBER,
            level=LEVEL if self._uses_levels else None,
            drops_deletes=True,
        )
        self._deleted: dict[str, Positions | None] = {}
        self._names = {file.file_name: self._local_name(split, file) for split in splits for file in split.files}

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the names of the trimmed primary key's columns."""
        return self._keys

    def rows(self, columns: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """Yield the bucket's rows of the keys: the requested columns, and the number of the key, from 0.

        `columns`: the columns of the trimmed primary key, in key order, each key once. A key has at most one row.
        """
        keys = sorted_keys(columns)
        sought = _LookupKeys(tuple(columns), keys, np.arange(keys.row_count), _Hashes(keys))
        output = [*self._read.columns, KEY_NUMBER]
        for split, (lows, highs) in zip(self._splits, self._ranges, strict=True):
            first, _ = search(keys, lows)
            last, is_there = search(keys, highs)
            hits = self._hits(split, sought, first.tolist(), (last + is_there).tolist())
            if not hits:
                continue
            found: Iterable[pa.RecordBatch] = map(_adds, hits) if split.raw else self._merged(hits)
            yield from (batch.select(output) for batch in found if batch.num_rows)

    def _hits(
        self, split: Split, sought: _LookupKeys, starts: Sequence[int], stops: Sequence[int]
    ) -> list[pa.RecordBatch]:
        """Return the records of the keys, file by file. A file may hold the keys from its position in `starts` to that
        in `stops`.
        """
        hits: list[list[pa.RecordBatch]] = [[] for _ in split.files]
        settling = LookupProgress(self._spec, sought.keys.row_count, holds_once=split.raw)
        for index in settling.search_order(split.files):
            file, start, stop = split.files[index], starts[index], stops[index]
            is_open = settling.is_open(file, start, stop)
            if not is_open.any():
                continue
            for batch in self._records(split, file, sought.slice(start, stop).only(is_open)):
                settling.add(batch, fixed_values(batch.column(KEY_NUMBER), np.int64))
                hits[index].append(batch)
        return [batch for found in hits for batch in found]

    def _merged(self, hits: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        records = RecordColumns(hits, VALUE_KIND)
        output = [*self._read.columns, KEY_NUMBER]
        reduced = merged(records, order_of(records, self._rule), self._rule, output)
        yield reduced.without_deletes(records).batch(records, output)

    def _records(self, split: Split, file: DataFile, sought: _LookupKeys) -> Iterator[pa.RecordBatch]:
        """Yield the records of the keys that the file holds."""
        source = split_files(split, self._schema, self._read.file_schemas, self._read.store)
        local = self._local(file)
        if local is None:
            condition = key_condition(sought.columns, self._schema.key_fields)
            if self._index_excludes(source, file, condition):
                return
            reader = source.open(file)
            try:
                local = self._built(reader, file, condition)
                if local is None:
                    yield from self._read_row_groups(reader, source, file, condition=condition, sought=sought)
                    return
            finally:
                reader.close()
        sought = local.without_absent(sought)
        deleted = self._deleted_rows(source, file)
        starts, _ = search(sought.keys, local.rows.first_keys)
        ends = [*starts[1:].tolist(), sought.keys.row_count]
        found_count = 0
        for batch, start, end in zip(local.rows.batches, starts.tolist(), ends, strict=True):
            if start < end:
                for found in self._found(batch, sought.slice(start, end), file, deleted):
                    found_count += found.num_rows
                    yield found
        local.count_absent(sought.keys.row_count - found_count, self._schema.table_options.lookup)

    def _index_excludes(self, source: BucketFiles, file: DataFile, condition: Predicate | None) -> bool:
        """Return whether the file's index, such as a bloom filter of its keys, proves that the file holds none of the
        keys.
        """
        file_schema = source.schemas.get(file.schema_id)
        if condition is None or file_schema is None or not self._schema.table_options.file_index_read:
            return False
        rows = indexed_rows(
            source.store, source.folder, file, file_schema, predicate=condition, fields=self._schema.fields
        )
        return rows is not None and not rows

    def _read_row_groups(
        self,
        reader: DataFileReader,
        source: BucketFiles,
        file: DataFile,
        *,
        condition: Predicate | None,
        sought: _LookupKeys,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records that a search of the data file finds in the row groups that may hold the keys."""
        for batch in reader.batches(
            self._fields,
            system=(SEQUENCE_NUMBER, VALUE_KIND),
            batch_rows=self._batch_rows(reader),
            row_filter=condition,
            without=self._deleted_rows(source, file),
        ):
            self._read.cache.count_read(self._names[file.file_name], batch.num_rows)
            yield from self._found(keyed_batch(batch, self._keys, file.file_name), sought, file, None)

    def _found(
        self, batch: KeyedBatch, sought: _LookupKeys, file: DataFile, deleted: Positions | None
    ) -> Iterator[pa.RecordBatch]:
        rows, is_there = search(batch.keys, sought.keys)
        if deleted is not None:
            is_there &= ~_among(rows + batch.first_row, deleted)
        chosen = np.flatnonzero(is_there)
        if not len(chosen):
            return
        arrays = [*take_all(batch.rows.columns, rows[chosen]), pa.array(sought.numbers[chosen])]
        names = [*batch.rows.schema.names, KEY_NUMBER]
        if self._uses_levels:
            arrays.append(pa.repeat(pa.scalar(file.level, pa.int8()), len(chosen)))
            names.append(LEVEL)
        yield pa.RecordBatch.from_arrays(arrays, names)

    def _local(self, file: DataFile) -> LocalFile | None:
        """Return the local file, None when there is none."""
        name, read = self._names[file.file_name], self._read
        if not read.cache.touch(name):
            read.local.pop(name, None)
        if name not in read.local and (found := read.cache.open(name, self._keys)) is not None:
            read.local[name] = LocalFile(found, file.row_count)
        return read.local.get(name)

    def _built(self, reader: DataFileReader, file: DataFile, condition: Predicate | None) -> LocalFile | None:
        """Return a new local file, None if reading the data file takes less time or the disk has no room."""
        name, read, options = self._names[file.file_name], self._read, self._schema.table_options.lookup
        left = file.row_count if condition is None else reader.row_count_left(self._fields, condition)
        size_bytes = reader.row_bytes(self._fields) * file.row_count
        if not read.cache.is_worthwhile(name, left, file.row_count, size_bytes=size_bytes, options=options):
            return None
        batches = reader.batches(
            self._fields, system=(SEQUENCE_NUMBER, VALUE_KIND), batch_rows=self._batch_rows(reader)
        )
        found = read.cache.build(name, batches, self._keys, options, data_file=file.file_name)
        if found is None:
            return None
        read.local[name] = LocalFile(found, file.row_count)
        return read.local[name]

    def _batch_rows(self, reader: DataFileReader) -> int:
        return batch_rows(reader.row_bytes(self._fields), CHUNK_ROWS, CHUNK_BYTES)

    def _deleted_rows(self, source: BucketFiles, file: DataFile) -> Positions | None:
        if file.file_name not in self._deleted:
            self._deleted[file.file_name] = source.deleted_rows(file)
        return self._deleted[file.file_name]

    def _local_name(self, split: Split, file: DataFile) -> str:
        shape = [(each.id, each.name, str(each.type)) for each in self._fields]
        return f"{data_file_digest(self._read.store, split, file)}-{_digest(file.schema_id, self._keys, shape)}"


def _in_merge_order(split: Split, schema: TableSchema) -> Sequence[KeyedFile]:
    """Return the files in merge order."""
    keyed = keyed_files(split.files, [field.type for field in schema.key_fields])
    if split.raw:
        return keyed
    return [file for section in sections(keyed) for run in oldest_first(section)[0] for file in run.files]


def _adds(batch: pa.RecordBatch) -> pa.RecordBatch:
    kept = is_add(fixed_values(batch.column(VALUE_KIND), np.int8))
    return batch if kept.all() else batch.filter(pa.array(kept))


def data_file_digest(store: StoreReader, split: Split, file: DataFile) -> str:
    """Return the prefix of the names of all local files of a data file."""
    return _digest(store.uri(split.folder), file.file_name, file.file_size, file.row_count)


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def _key_ranges(files: Sequence[KeyedFile], schema: TableSchema) -> tuple[SortedKeys, SortedKeys]:
    """Return the smallest and the greatest keys of the files, in the order of the files."""
    types = [each.type for each in schema.key_fields]
    ends = []
    for keys in ([file.min_key for file in files], [file.max_key for file in files]):
        values = [key_values(key) for key in keys]
        columns = [
            pa.array([arrow_value(row[number], kind) for row in values], arrow_type(kind))
            for number, kind in enumerate(types)
        ]
        ends.append(sorted_keys(columns))
    return ends[0], ends[1]


def _among(rows: Rows, positions: Positions) -> Flags:
    at = np.searchsorted(positions, rows)
    inside = at < len(positions)
    found = np.zeros(len(rows), dtype=np.bool_)
    found[inside] = positions[at[inside]] == rows[inside]
    return found
