"""Key writer: buffer the rows of a key table in bounded memory, sort and spill the buffer to local disk when it is
full.

At the end, merge buffer and spills into sorted level-0 files.
Source: docs/semantics/writing.md#write-path, docs/semantics/writing.md#write-buffer.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.small_files import SmallFiles
from lakehouse_core.data_files.writer import DataFileWriter, FileOutput, FileSettings
from lakehouse_core.format.rows import Rows, take
from lakehouse_core.merge.chunk import MergeRule, merge_chunk, order_of, sorted_batch
from lakehouse_core.merge.deduplicate import check_adds, deduplicate, first_row
from lakehouse_core.merge.key_words import Words, key_words, sequence_words
from lakehouse_core.merge.order import KeyOrder, TieWords, order_rows
from lakehouse_core.merge.record_columns import RecordColumns
from lakehouse_core.merge.reduce import BY_ROW, reduce
from lakehouse_core.options import ChangelogProducer, MergeEngine
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.file_columns import VALUE_KIND, record_schema
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.merge_scan import CHUNK_BYTES, CHUNK_ROWS
from lakehouse_core.tasks.write.buffer import BufferedBucket, joined, parts, together
from lakehouse_core.tasks.write.router import BucketPath, KeyBuckets, Router
from lakehouse_core.tasks.write.rows import InputRows
from lakehouse_core.tasks.write.spill import Spills
from lakehouse_core.tasks.write.written_files import WrittenFiles

# Arrow addresses at most 2 GiB of text in one column.
_MOST_BUFFER_BYTES: Final = 1 << 30
# The rows of a bucket are gathered first and sorted after, where that keeps them in the processor's cache. A few rows
# are taken once, in their order: a second call for each column takes longer.
_CACHED_BYTES: Final = 32 << 20
_FEW_ROWS: Final = 1_000
# What is sorted at once of buckets of few rows.
_TOGETHER_ROWS: Final = 64 * 1024
_TOGETHER_BYTES: Final = 8 << 20


class KeyWriter:
    """Buffers rows of all buckets and spills them when the buffer is full; a flush writes all of them to files.

    `next_numbers`: the next sequence number of each (serialized partition, bucket) that has files.
    `emits_changelog`: write a changelog, as the producer `input` does. `index`: the buckets of keys where they are
    dynamic, else None. `kind`: how files other than those of a changelog are written; None: as the options say.
    """

    def __init__(
        self,
        schema: TableSchema,
        output: FileOutput,
        *,
        index: KeyBuckets | None = None,
        next_numbers: Mapping[tuple[bytes, int], int],
        emits_changelog: bool,
        spill_folder: str | None,
        kind: FileSettings | None = None,
    ) -> None:
        options = schema.table_options
        self._files_kind = kind or _file_kind(schema)
        self._changelog_kind = _file_kind(schema, is_changelog=True)
        self._schema = schema
        self._spec = merge_spec(schema)
        # Java writes one for a key of one version. No compaction can merge it.
        self._refuses_retracts = self._spec.engine is MergeEngine.FIRST_ROW and not self._spec.ignore_delete
        self._record_names = record_schema(schema).names
        self._output = output
        self._index = index
        self._router = Router(schema, index=index)
        self._results = WrittenFiles(schema)
        self._next_numbers = dict(next_numbers)
        self._buffer: list[InputRows] = []
        self._buffer_bytes = 0
        self._limit_bytes = min(options.write_buffer_bytes, _MOST_BUFFER_BYTES)
        self._has_changelog = emits_changelog and options.changelog_producer is ChangelogProducer.INPUT
        # If a key's versions cannot be reduced to one before the final merge, all of them are spilled.
        self._spills_all = self._has_changelog or self._spec.engine not in BY_ROW
        # Runs are in order of time, and so in order of sequence numbers.
        self._rule = MergeRule(spec=self._spec, kind_column=VALUE_KIND)
        self._spills = Spills(schema, self._rule, keeps_versions=self._spills_all, folder=spill_folder)
        # An upper bound for the bytes that the versions of one key have on disk.
        self._versions_bytes = 0.0

    def write(self, rows: InputRows) -> None:
        if self._refuses_retracts and rows.kinds is not None:
            check_adds(rows.kinds)
        size_bytes = rows.values.nbytes
        if self._buffer and self._buffer_bytes + size_bytes > _MOST_BUFFER_BYTES:
            self._relieve()
        self._buffer.append(rows)
        self._buffer_bytes += size_bytes
        if self._buffer_bytes >= self._limit_bytes:
            self._relieve()

    def finish(self) -> None:
        self._flush()
        if self._index is not None:
            for place in self._results.places:
                self._results.add_index(place, *self._index.write(place))

    def abort(self, error: BaseException) -> None:
        self._spills.clear()
        if self._index is not None:
            self._index.delete()
        self._results.delete(self._output.store)

    def messages(self) -> list[CommitMessage]:
        return self._results.messages()

    def _relieve(self) -> None:
        """Empty the buffer: spill it, or write files."""
        if not self._spills.has_room(self._buffer_bytes):
            self._flush()
            return
        self._spills.add((rows.place, self._sorted(rows, words)) for rows, words in self._taken_out())
        if self._versions_bytes > max(self._limit_bytes, CHUNK_BYTES):
            # The merge holds all versions of one key in memory at once, and must not need more memory than the buffer.
            self._flush()

    def _flush(self) -> None:
        """Write all spilled and buffered rows to files."""
        flushed = self._flush_buffer()
        for place in self._spills.places:
            if place not in flushed:
                self._flush_spilled(place, ())
        self._spills.clear()
        self._versions_bytes = 0.0

    def _flush_buffer(self) -> set[BucketPath]:
        """Write the files of each bucket that has rows in the buffer, and return these buckets."""
        flushed = set()
        spilled = set(self._spills.places)
        small = _SmallBuckets()
        with SmallFiles(self._output, self._files_kind) as files:
            for rows, words in self._taken_out():
                flushed.add(rows.place)
                if rows.place not in spilled and not self._has_changelog and small.add(rows, words):
                    if small.is_enough:
                        self._flush_small(small, files)
                    continue
                # Files are named, and columns get dictionaries, in the order of the buckets.
                self._flush_small(small, files)
                if rows.place in spilled:
                    self._flush_spilled(rows.place, self._sorted(rows, words))
                else:
                    self._flush_place(rows, words)
            self._flush_small(small, files)
            made = files.close()
        for place, file in zip(small.places, made, strict=True):
            self._results.add(place, [file])
        return flushed

    def _taken_out(self) -> Iterator[tuple[BufferedBucket, list[Words]]]:
        """Empty the buffer; yield the rows of each bucket, numbered in order of arrival, with their key words."""
        if not self._buffer:
            return
        buffered = joined(self._buffer, self._schema)
        self._buffer_bytes = 0
        words = key_words([buffered.columns[name] for name in self._schema.trimmed_primary_keys])
        for place, rows in self._router.split(buffered.columns.__getitem__, buffered.row_count, buffered.buckets):
            bucket = place.partition, place.bucket
            first_number = self._next_numbers.get(bucket, 0)
            is_cached = rows is not None and buffered.size_bytes * len(rows) <= _CACHED_BYTES * buffered.row_count
            if rows is not None and is_cached and len(rows) > _FEW_ROWS:
                place_rows = BufferedBucket(place, buffered.taken(rows), None, first_number)
            else:
                place_rows = BufferedBucket(place, buffered, rows, first_number)
            self._next_numbers[bucket] = first_number + place_rows.count
            yield place_rows, words if rows is None else [word[rows] for word in words]

    def _sorted(self, rows: BufferedBucket, words: list[Words]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one bucket in key order: all versions of a key, or the merged one if that is enough."""
        order = order_rows(words, rows.count, self._tie_words(rows))
        if not self._spills_all:
            return (batch for batch, _ in self._merged(rows, order))
        most_versions = int((order.ends - order.starts).max()) + 1
        self._versions_bytes += most_versions * rows.row_bytes
        return rows.batches(order.rows)

    def _flush_place(self, rows: BufferedBucket, words: list[Words]) -> None:
        """Sort, merge and write the rows of one bucket without spilled rows."""
        order = order_rows(words, rows.count, self._tie_words(rows))
        if self._has_changelog:
            with self._writer(rows.place, is_changelog=True) as changelog:
                for batch in rows.batches(order.rows):
                    changelog.write(batch)
                self._results.add(rows.place, (), changelog.close())
        with self._writer(rows.place) as files:
            for batch, _ in self._merged(rows, order):
                files.write(batch)
            made = files.close()
        self._results.add(rows.place, made)

    def _flush_small(self, small: "_SmallBuckets", files: SmallFiles) -> None:
        """Sort, merge and write the rows of small buckets, all at once: what one takes is the calls, not the rows."""
        if not small.buckets:
            return
        buckets = small.buckets
        rows, bucket_of = together(buckets)
        words = [bucket_of, *map(np.concatenate, zip(*small.words, strict=True))]
        small.clear()
        order = order_rows(words, rows.count, self._tie_words(rows))
        merged = ((batch, bucket_of[arrivals]) for batch, arrivals in self._merged(rows, order) if batch.num_rows)
        first = list(islice(merged, 2))
        if len(first) == 1:
            ((batch, numbers),) = first
            ends = np.append(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1, len(numbers))
            if files.takes(batch):
                places = [buckets[number].place for number in numbers[ends - 1].tolist()]
                files.write(batch, ends, [place.folder for place in places])
                small.places += places
                for place in places:
                    # Buckets are told in the order of their first files.
                    self._results.add(place, ())
                return
        pieces = (piece for batch, numbers in chain(first, merged) for piece in _by_bucket(batch, numbers))
        for number, batches in groupby(pieces, key=itemgetter(0)):
            place = buckets[number].place
            with self._writer(place) as writer:
                for _, batch in batches:
                    writer.write(batch)
                self._results.add(place, writer.close())

    def _flush_spilled(self, place: BucketPath, buffered: Iterable[pa.RecordBatch]) -> None:
        """Merge and write the runs of one bucket; `buffered` is the newest."""
        with self._writer(place, is_changelog=True) as changelog, self._writer(place) as files:
            for chunk in self._spills.chunks(place, buffered):
                if not self._spills_all:
                    for batch in merge_chunk(chunk, self._rule, self._record_names):
                        files.write(batch)
                    continue
                records = RecordColumns([batch for part in chunk for batch in part.batches], VALUE_KIND)
                order = order_of(records, self._rule)
                if self._has_changelog:
                    changelog.write(sorted_batch(records, order, self._record_names))
                reduced = reduce(records, order, self._spec, self._schema.column_names)
                files.write(reduced.batch(records, self._record_names))
            told, made = changelog.close(), files.close()
        self._results.add(place, made, told)

    def _tie_words(self, rows: BufferedBucket) -> TieWords | None:
        options = self._schema.table_options
        if not options.sequence_fields:
            return None

        def words(tied: Rows) -> list[Words]:
            found: list[Words] = []
            for name in options.sequence_fields:
                column = take(rows.buffered.columns[name], rows.at(tied))
                found += sequence_words(column, descending=options.sequence_descending)
            return found

        return words

    def _merged(self, rows: BufferedBucket, order: KeyOrder) -> Iterator[tuple[pa.RecordBatch, Rows]]:
        """Yield the merged record of each key, in key order, and for each the arrival of one of its versions."""
        spec = self._spec
        match spec.engine:
            case MergeEngine.DEDUPLICATE:
                kept = deduplicate(order, rows.kinds, ignore_delete=spec.ignore_delete)
                yield from ((rows.records(part), part) for part in parts(kept, rows.row_bytes))
            case MergeEngine.FIRST_ROW:
                kept = first_row(order, rows.kinds, ignore_delete=spec.ignore_delete)
                yield from ((rows.records(part), part) for part in parts(kept, rows.row_bytes))
            case MergeEngine.PARTIAL_UPDATE | MergeEngine.AGGREGATION:
                for part in order.slices(CHUNK_ROWS):
                    records = RecordColumns([rows.records(part.rows)], VALUE_KIND)
                    in_order = KeyOrder(np.arange(len(part.rows)), part.ends)
                    reduced = reduce(records, in_order, spec, self._schema.column_names)
                    yield reduced.batch(records, self._record_names), part.rows[reduced.rows]
            case _:
                assert_never(spec.engine)

    def _writer(self, place: BucketPath, *, is_changelog: bool = False) -> DataFileWriter:
        return DataFileWriter(self._output, place.folder, self._changelog_kind if is_changelog else self._files_kind)


def _file_kind(schema: TableSchema, *, is_changelog: bool = False) -> FileSettings:
    options = schema.table_options
    return FileSettings(
        prefix=options.changelog_file_prefix if is_changelog else options.data_file_prefix,
        is_changelog=is_changelog,
        target_bytes=options.target_file_size_bytes(has_key=True),
        target_rows=options.target_file_row_num,
        is_indexed=not is_changelog,
    )


class _SmallBuckets:
    """Small buckets of the buffer that wait to be sorted at once, with the key words of their rows."""

    def __init__(self) -> None:
        # Of the files that were made together, in their order.
        self.places: list[BucketPath] = []
        self.clear()

    def clear(self) -> None:
        self.buckets: list[BufferedBucket] = []
        self.words: list[list[Words]] = []
        self._rows = 0
        self._bytes = 0.0

    @property
    def is_enough(self) -> bool:
        return self._rows >= _TOGETHER_ROWS or self._bytes >= _TOGETHER_BYTES

    def add(self, rows: BufferedBucket, words: list[Words]) -> bool:
        """Add a bucket; return False for one that is not small, or has rows of its own beside the buffer."""
        if rows.rows is None or rows.count > _FEW_ROWS:
            return False
        self.buckets.append(rows)
        self.words.append(words)
        self._rows += rows.count
        self._bytes += rows.size_bytes
        return True


def _by_bucket(batch: pa.RecordBatch, bucket_of: Words) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each bucket and its number; `bucket_of`: the bucket of each row, rising."""
    ends = (np.flatnonzero(bucket_of[1:] != bucket_of[:-1]) + 1).tolist()
    for start, end in pairwise([0, *ends, len(bucket_of)]):
        yield int(bucket_of[start]), batch.slice(start, end - start)
