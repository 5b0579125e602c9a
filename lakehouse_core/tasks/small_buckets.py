"""Small buckets: merge the files of many small buckets at once, as `merged_records` merges those of each.

Rule: what a small bucket takes is the calls made for it, not its rows. So the rows of many are laid end to end, ordered
by bucket and key, and reduced together. Source: docs/semantics/reading.md#merge-reads.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.memory import keep_freed_memory
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import STRING_ROOTS, AtomicType, DataField, TypeRoot, column_of
from lakehouse_core.format.rows import Rows, take
from lakehouse_core.merge.chunk import LEVEL, MergeRule, merge_apart
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.merge.reduce import BY_ROW
from lakehouse_core.table.file_columns import SEQUENCE_NUMBER, VALUE_KIND
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.record_expiry import RecordExpiry, expired_rows
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import Section, oldest_first
from lakehouse_core.tasks.merge_scan import BucketFiles, RowTest, merged_records, with_merge_columns
from lakehouse_core.tasks.small_files import Decoding, DecodingThread, FileRead, FileRows, decoded, memory_bytes

# The rows and stored bytes of a bucket that is merged with others. For more the calls no longer count.
_MOST_ROWS: Final = 8 * 1024
_MOST_STORED_BYTES: Final = 256 << 10
_MOST_DECODED_BYTES: Final = 2 << 20
# What is merged at once: more would leave the processor's cache.
_TOGETHER_ROWS: Final = 64 * 1024
_TOGETHER_BYTES: Final = 8 << 20
# Each bucket and each batch takes some KB beside its rows, which may be few, or none after a condition.
_TOGETHER_BATCHES: Final = 4 * 1024
# Types of which a partition tells the very value.
_EXACT: Final = STRING_ROOTS | {
    TypeRoot.BOOLEAN,
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.DATE,
}


@dataclass(frozen=True, slots=True)
class BucketRuns:
    """The sections of one bucket, in key order, and where their files are. `partition` is a serialized BinaryRow."""

    partition: bytes
    source: BucketFiles
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class MergedBuckets:
    """Merged records of consecutive buckets, the first of which has the number `first`.

    `ends`: for each bucket, where its rows end in `batch`.
    """

    first: int
    ends: Rows
    batch: pa.RecordBatch

    def parts(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the number of each bucket that has rows, and its rows."""
        for number, rows in self.slices():
            yield number, self.batch.slice(rows.start, rows.stop - rows.start)

    def slices(self) -> Iterator[tuple[int, slice]]:
        """Yield the number of each bucket that has rows, and where they are in `batch`."""
        start = 0
        for number, end in enumerate(self.ends.tolist(), self.first):
            if end > start:
                yield number, slice(start, end)
            start = end


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketsMerge:
    """How the records of buckets of one table are merged: the arguments of `merged_records`."""

    schema: TableSchema
    fields: Sequence[DataField]
    with_sequence_number: bool
    drops_deletes: bool
    key_filter: Predicate | None = None
    row_filter: Predicate | None = None
    expiry: RecordExpiry | None = None
    keeps: RowTest | None = None

    def merged(self, buckets: Iterable[BucketRuns]) -> Generator[MergedBuckets, None, None]:
        """Yield the merged records, bucket by bucket, those of small buckets together; no batch is empty. Close it, for
        threads may read for it. Raises as `merged_records` does.
        """
        keep_freed_memory()
        reading = _SmallReading(self)
        waiting = _Waiting()
        with closing(_DecodingAhead(reading)) as ahead:
            for number, bucket in enumerate(buckets):
                small = reading.rows(bucket)
                if waiting.buckets and (small is None or small.is_decided != waiting.buckets[0].is_decided):
                    yield from ahead.merged(number - len(waiting.buckets), waiting.buckets)
                    waiting = _Waiting()
                if small is not None:
                    waiting.add(small)
                    if waiting.is_enough:
                        yield from ahead.merged(number + 1 - len(waiting.buckets), waiting.buckets)
                        waiting = _Waiting()
                    continue
                yield from ahead.rest()
                with closing(self._alone(bucket)) as batches:
                    for batch in batches:
                        yield MergedBuckets(number, np.array([batch.num_rows]), batch)
            yield from ahead.rest()
            if waiting.buckets:
                rows = decoded(_rows_of(waiting.buckets))
                yield from reading.merged(number + 1 - len(waiting.buckets), waiting.buckets, rows)

    def _alone(self, bucket: BucketRuns) -> Generator[pa.RecordBatch, None, None]:
        return merged_records(
            bucket.source,
            bucket.sections,
            self.schema,
            self.fields,
            with_sequence_number=self.with_sequence_number,
            drops_deletes=self.drops_deletes,
            key_filter=self.key_filter,
            row_filter=self.row_filter,
            expiry=self.expiry,
            keeps=self.keeps,
        )


@dataclass(frozen=True, slots=True)
class _SmallBucket:
    """The rows of a small bucket, run by run, the oldest of a section first: batches, or what a file holds of them.

    `is_decided`: the order of the runs tells which version of a key is the newest. `sections`, `levels`: for each item
    of `rows`, the number of its section and the level of its file.
    """

    partition: bytes
    is_decided: bool
    section_count: int
    rows: list[FileRows]
    sections: list[int]
    levels: list[int]
    row_count: int
    size_bytes: int


class _Waiting:
    """Small buckets that were read and are not merged yet."""

    def __init__(self) -> None:
        self.buckets: list[_SmallBucket] = []
        self._rows = self._bytes = self._batches = 0

    @property
    def is_enough(self) -> bool:
        return self._rows >= _TOGETHER_ROWS or self._bytes >= _TOGETHER_BYTES or self._batches >= _TOGETHER_BATCHES

    def add(self, bucket: _SmallBucket) -> None:
        self.buckets.append(bucket)
        self._rows += bucket.row_count
        self._bytes += bucket.size_bytes
        self._batches += 1 + len(bucket.rows)


class _DecodingAhead:
    """Merges groups of small buckets. While one is merged, a thread decodes the next one."""

    def __init__(self, reading: "_SmallReading") -> None:
        self._reading = reading
        self._thread = DecodingThread()
        self._next: tuple[int, Sequence[_SmallBucket], Decoding] | None = None

    def merged(self, first: int, buckets: Sequence[_SmallBucket]) -> Iterator[MergedBuckets]:
        """Begin with these buckets, of which the first has the number `first`, and yield the merged records of those
        before them.
        """
        earlier, self._next = self._next, (first, buckets, self._thread.decoding(_rows_of(buckets)))
        yield from self._ended(earlier)

    def rest(self) -> Iterator[MergedBuckets]:
        """Yield the merged records of the last buckets."""
        last, self._next = self._next, None
        yield from self._ended(last)

    def close(self) -> None:
        self._thread.close()

    def _ended(self, group: tuple[int, Sequence[_SmallBucket], Decoding] | None) -> Iterator[MergedBuckets]:
        if group is not None:
            first, buckets, decoding = group
            yield from self._reading.merged(first, buckets, decoding.batches())


def _rows_of(buckets: Iterable[_SmallBucket]) -> list[FileRows]:
    return [each for bucket in buckets for each in bucket.rows]


class _SmallReading:
    """Reads small buckets, and merges the rows of some at once."""

    def __init__(self, merge: BucketsMerge) -> None:
        self._merge = merge
        self._spec = merge_spec(merge.schema)
        # What the partition says need not be decoded once more for each file.
        told = [field for field in merge.schema.partition_fields if self._is_told(field)]
        stored = [field for field in merge.fields if field not in told]
        self._read = with_merge_columns(stored, merge.schema, self._spec)
        names = {field.name for field in self._read}
        self._told = [field.name for field in merge.fields if field.name not in names]
        self._uses_levels = merge.schema.table_options.needs_lookup and self._spec.engine not in BY_ROW
        self._output = [field.name for field in merge.fields if field.name in names]
        self._output += [SEQUENCE_NUMBER, VALUE_KIND] if merge.with_sequence_number else [VALUE_KIND]

    def _is_told(self, field: DataField) -> bool:
        """Return whether a partition tells the merged value of a column, bit by bit: 0.0 and -0.0 are one partition.

        It does not for a column outside the key, in tables whose keys move between partitions: a merge may change it.
        """
        is_exact = isinstance(field.type, AtomicType) and field.type.root in _EXACT
        decides_expiry = self._merge.expiry is not None and field.name == self._merge.expiry.field.name
        return is_exact and field.name in self._merge.schema.primary_keys and not decides_expiry

    def rows(self, bucket: BucketRuns) -> _SmallBucket | None:
        """Read the rows of a small bucket; None: it is not small. Raises CorruptTable."""
        if not _is_small(bucket):
            return None
        merge = self._merge
        ordered = [oldest_first(section) for section in bucket.sections]
        is_decided = all(decided for _, decided in ordered)
        system = (SEQUENCE_NUMBER, VALUE_KIND) if merge.with_sequence_number or not is_decided else (VALUE_KIND,)
        found = _SmallBucket(bucket.partition, is_decided, len(ordered), [], [], [], 0, 0)
        row_count = size_bytes = 0
        decoded_bytes = 0.0
        for number, (runs, _) in enumerate(ordered):
            row_filter = merge.row_filter if len(runs) == 1 else merge.key_filter
            for file in (keyed.file for run in runs for keyed in run.files):
                deleted = bucket.source.deleted_rows(file)
                read = FileRead(bucket.source, file, self._read, system, row_filter, deleted)
                reader = bucket.source.open(file)
                try:
                    decoded_bytes += reader.row_bytes(self._read) * file.row_count
                    if decoded_bytes > _MOST_DECODED_BYTES:
                        return None
                    for rows in read.rows(reader):
                        found.rows.append(rows)
                        found.sections.append(number)
                        found.levels.append(file.level)
                        row_count += rows.num_rows
                        size_bytes += memory_bytes(rows)
                finally:
                    reader.close()
        return replace(found, row_count=row_count, size_bytes=size_bytes)

    def merged(
        self, first: int, buckets: Sequence[_SmallBucket], batches: Sequence[pa.RecordBatch]
    ) -> Iterator[MergedBuckets]:
        """Yield the merged records of these buckets, whose rows are `batches`; the first has the number `first`."""
        merge = self._merge
        if not batches:
            return
        section_ends = np.cumsum([bucket.section_count for bucket in buckets])
        starts = [0, *section_ends[:-1].tolist()]
        sections = [start + each for start, bucket in zip(starts, buckets, strict=True) for each in bucket.sections]
        counts = [rows.num_rows for bucket in buckets for rows in bucket.rows]
        (records,) = pa.Table.from_batches(batches).combine_chunks().to_batches() or [batches[0].slice(0, 0)]
        apart = np.repeat(np.array(sections, dtype=np.uint64), counts)
        levels = np.repeat(np.array([each for bucket in buckets for each in bucket.levels], dtype=np.int8), counts)
        kept = np.ones(records.num_rows, np.bool_) if merge.keeps is None else merge.keeps(records)
        if merge.expiry is not None:
            kept &= ~expired_rows(records, merge.expiry)
        if not kept.all():
            records, apart, levels = records.filter(pa.array(kept)), apart[kept], levels[kept]
        if not records.num_rows:
            return
        if self._uses_levels:
            records = records.append_column(LEVEL, pa.array(levels))
        rule = MergeRule(
            spec=self._spec,
            kind_column=VALUE_KIND,
            sequence_number=None if buckets[0].is_decided else SEQUENCE_NUMBER,
            level=LEVEL if self._uses_levels else None,
            drops_deletes=merge.drops_deletes,
        )
        batch, section_of = merge_apart(RecordColumns([records], VALUE_KIND), apart, rule, self._output)
        if batch.num_rows:
            ends = np.searchsorted(section_of, section_ends.astype(np.uint64))
            yield MergedBuckets(first, ends, self._with_partitions(batch, ends, buckets))

    def _with_partitions(self, batch: pa.RecordBatch, ends: Rows, buckets: Sequence[_SmallBucket]) -> pa.RecordBatch:
        """Return the batch with the columns that the buckets' partitions tell; the rows of each end at `ends`."""
        if not self._told:
            return batch
        fields = self._merge.schema.partition_fields
        types = [field.type for field in fields]
        rows = [deserialize_row(bucket.partition, types) for bucket in buckets]
        bucket_of = np.repeat(np.arange(len(buckets)), np.diff(ends, prepend=0))
        for field, values in zip(fields, zip(*rows, strict=True), strict=True):
            if field.name in self._told:
                batch = batch.append_column(field.name, take(column_of(values, field.type), bucket_of))
        return batch


def _is_small(bucket: BucketRuns) -> bool:
    files = [keyed.file for section in bucket.sections for run in section for keyed in run.files]
    return (
        sum(file.row_count for file in files) <= _MOST_ROWS
        and sum(file.file_size for file in files) <= _MOST_STORED_BYTES
    )
