"""What one write task does: rows in, files of each bucket out, visible to nobody until they are committed.

Key tables: a buffer bounded in bytes; each flush sorts it and makes sorted level-0 files. Append tables: rows go to
the files of their bucket in the order in which they come. Source: Paimon semantics, B and C.1.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from lakehouse_core.clock import Clock
from lakehouse_core.execution.tasks.data_file_writer import DataFileWriter, FileKind, FileNames, FileOutput
from lakehouse_core.execution.tasks.freed_memory import keep_freed_memory
from lakehouse_core.execution.tasks.parquet_writer import Encoding
from lakehouse_core.execution.tasks.routing import Place, Router
from lakehouse_core.execution.tasks.write_input import InputRows, Kinds, checked_rows
from lakehouse_core.merge.deduplicate import deduplicate, first_row
from lakehouse_core.merge.key_words import Words, key_words, sequence_words
from lakehouse_core.merge.order import KeyOrder, Rows, TieWords, order_rows
from lakehouse_core.merge.records import Records
from lakehouse_core.merge.reduce import reduce
from lakehouse_core.merge.taking import take, take_all
from lakehouse_core.options import ChangelogProducer, MergeEngine
from lakehouse_core.storage import open_store
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec
from lakehouse_core.table.changes import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_columns import VALUE_KIND, record_schema
from lakehouse_core.table.merge_spec import merge_spec
from lakehouse_core.table.schema import TableSchema

# Arrow addresses at most 2 GiB of text in one column.
_MOST_BUFFER_BYTES: Final = 1 << 30
_TAKE_ROWS: Final = 128 * 1024
# The rows of a bucket are gathered first and sorted after, where that keeps them in the processor's cache.
_CACHED_BYTES: Final = 32 << 20
_MOST_OPEN_FILES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """What every task of one write needs. `store` is rooted at the table.

    `restored`: the next sequence number of each (serialized partition, bucket) that has files; others begin at 0.
    `rowkind_column`: a column of the input that holds +I, -U, +U or -D, else the option `rowkind.field` names one.
    """

    store: StoreSpec
    schema: TableSchema
    restored: Mapping[tuple[bytes, int], int] = field(default_factory=dict)
    rowkind_column: str | None = None


def write_batches(task: WriteTask, batches: Iterable[pa.RecordBatch], clock: Clock) -> list[CommitMessage]:
    """Write the rows and return one message for each bucket that got files.

    `batches` hold the table's columns in the table's types, and the row kind column where there is one. A failed task
    leaves no file. Raises InvalidRequest naming row and column, StorageFull, StorageUnavailable.
    """
    keep_freed_memory()
    store = open_store(task.store)
    output = FileOutput(store=store, encoding=Encoding(task.schema), names=FileNames(clock.uuid()), clock=clock)
    writer = _AppendWriter(task, output) if task.schema.is_append else _KeyWriter(task, output)
    try:
        for rows in checked_rows(batches, task.schema, task.rowkind_column):
            if rows.values.num_rows:
                writer.write(rows)
        writer.finish()
    except BaseException as error:
        writer.abort(error)
        raise
    return writer.messages()


class _Results:
    """The files made so far, by place."""

    def __init__(self, task: WriteTask) -> None:
        self._total_buckets = task.schema.table_options.bucket
        self._files: dict[Place, list[DataFile]] = {}
        self._changelog: dict[Place, list[DataFile]] = {}

    def add(self, place: Place, files: Iterable[DataFile], changelog: Iterable[DataFile] = ()) -> None:
        self._files.setdefault(place, []).extend(files)
        self._changelog.setdefault(place, []).extend(changelog)

    def delete(self, store: ObjectStore) -> None:
        made = [*self._files.items(), *self._changelog.items()]
        store.delete(f"{place.folder}/{name}" for place, files in made for file in files for name in file.all_names)

    def messages(self) -> list[CommitMessage]:
        return [
            CommitMessage(
                partition=place.partition,
                bucket=place.bucket,
                total_buckets=self._total_buckets,
                new_files=tuple(files),
                changelog_files=tuple(self._changelog[place]),
            )
            for place, files in self._files.items()
            if files or self._changelog[place]
        ]


class _KeyWriter:
    """Buffers rows of all buckets; a flush makes files of each."""

    def __init__(self, task: WriteTask, output: FileOutput) -> None:
        self._task = task
        self._schema = task.schema
        self._spec = merge_spec(task.schema)
        self._record_names = record_schema(task.schema).names
        self._output = output
        self._router = Router(task.schema)
        self._results = _Results(task)
        self._next_numbers = dict(task.restored)
        self._buffer: list[InputRows] = []
        self._buffer_bytes = 0
        self._limit_bytes = min(task.schema.table_options.write_buffer_bytes, _MOST_BUFFER_BYTES)

    def write(self, rows: InputRows) -> None:
        size_bytes = rows.values.nbytes
        if self._buffer and self._buffer_bytes + size_bytes > _MOST_BUFFER_BYTES:
            self._flush()
        self._buffer.append(rows)
        self._buffer_bytes += size_bytes
        if self._buffer_bytes >= self._limit_bytes:
            self._flush()

    def finish(self) -> None:
        if self._buffer:
            self._flush()

    def abort(self, error: BaseException) -> None:
        self._results.delete(self._output.store)

    def messages(self) -> list[CommitMessage]:
        return self._results.messages()

    def _flush(self) -> None:
        buffered = _joined(self._buffer, self._schema)
        self._buffer_bytes = 0
        words = key_words([buffered.columns[name] for name in self._schema.trimmed_primary_keys])
        for place, rows in self._router.split(buffered.columns.__getitem__, buffered.row_count):
            bucket = place.partition, place.bucket
            first_number = self._next_numbers.get(bucket, 0)
            if rows is not None and buffered.size_bytes * len(rows) <= _CACHED_BYTES * buffered.row_count:
                place_rows = _PlaceRows(place, buffered.taken(rows), None, first_number)
            else:
                place_rows = _PlaceRows(place, buffered, rows, first_number)
            self._next_numbers[bucket] = first_number + place_rows.count
            self._flush_place(place_rows, words if rows is None else [word[rows] for word in words])

    def _flush_place(self, rows: "_PlaceRows", words: list[Words]) -> None:
        """Sort and merge the rows of one bucket; their arrival numbers them."""
        options = self._schema.table_options
        order = order_rows(words, rows.count, self._tie_words(rows))
        changelog: tuple[DataFile, ...] = ()
        if options.changelog_producer is ChangelogProducer.INPUT:
            changelog = self._files(rows.place, _taken(rows, order.rows), is_changelog=True)
            self._results.add(rows.place, (), changelog)
        self._results.add(rows.place, self._files(rows.place, self._merged(rows, order)))

    def _tie_words(self, rows: "_PlaceRows") -> TieWords | None:
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

    def _merged(self, rows: "_PlaceRows", order: KeyOrder) -> Iterator[pa.RecordBatch]:
        """Yield the records that stay of each key, in key order."""
        spec = self._spec
        match spec.engine:
            case MergeEngine.DEDUPLICATE:
                yield from _taken(rows, deduplicate(order, rows.kinds, ignore_delete=spec.ignore_delete))
            case MergeEngine.FIRST_ROW:
                yield from _taken(rows, first_row(order, rows.kinds, ignore_delete=spec.ignore_delete))
            case MergeEngine.PARTIAL_UPDATE | MergeEngine.AGGREGATION:
                for part in order.slices(_TAKE_ROWS):
                    records = Records([rows.records(part.rows)], VALUE_KIND)
                    in_order = KeyOrder(np.arange(len(part.rows)), part.ends)
                    yield reduce(records, in_order, spec, self._schema.column_names).batch(records, self._record_names)
            case _:
                assert_never(spec.engine)

    def _files(
        self, place: Place, batches: Iterable[pa.RecordBatch], *, is_changelog: bool = False
    ) -> tuple[DataFile, ...]:
        options = self._schema.table_options
        kind = FileKind(
            prefix=options.changelog_file_prefix if is_changelog else options.data_file_prefix,
            is_changelog=is_changelog,
            target_bytes=options.target_file_size_bytes(has_key=True),
            target_rows=options.target_file_row_num,
            is_indexed=not is_changelog,
        )
        with DataFileWriter(self._output, place.folder, kind) as writer:
            for batch in batches:
                writer.write(batch)
            return writer.close()


def _taken(rows: "_PlaceRows", chosen: Rows) -> Iterator[pa.RecordBatch]:
    """Yield the `chosen` rows, which are numbers in order of arrival."""
    for start in range(0, len(chosen), _TAKE_ROWS):
        yield rows.records(chosen[start : start + _TAKE_ROWS])


@dataclass(frozen=True, slots=True)
class _Buffered:
    """Rows in order of arrival as whole columns, by name; `kinds` None: all are +I."""

    columns: dict[str, pa.Array]
    kinds: Kinds | None
    row_count: int
    schema: pa.Schema

    @property
    def size_bytes(self) -> int:
        return sum(column.nbytes for column in self.columns.values())

    def taken(self, rows: Rows) -> "_Buffered":
        """Return some rows only, in the order given."""
        columns = dict(zip(self.columns, take_all(list(self.columns.values()), rows), strict=True))
        return _Buffered(columns, None if self.kinds is None else self.kinds[rows], len(rows), self.schema)

    def records(self, rows: Rows, numbers: Rows) -> pa.RecordBatch:
        """Return these rows with their sequence numbers and kinds."""
        columns = take_all(list(self.columns.values()), rows)
        kinds = np.zeros(len(rows), dtype=np.int8) if self.kinds is None else self.kinds[rows]
        return pa.RecordBatch.from_arrays([*columns, pa.array(numbers), pa.array(kinds)], schema=self.schema)


@dataclass(frozen=True, slots=True)
class _PlaceRows:
    """The rows of one bucket in the buffer (`rows` None: all), numbered from 0 in order of arrival."""

    place: Place
    buffered: _Buffered
    rows: Rows | None
    first_number: int

    @property
    def count(self) -> int:
        return self.buffered.row_count if self.rows is None else len(self.rows)

    @property
    def kinds(self) -> Kinds | None:
        kinds = self.buffered.kinds
        return kinds if kinds is None or self.rows is None else kinds[self.rows]

    def at(self, arrivals: Rows) -> Rows:
        """Return where these rows are in the buffer."""
        return arrivals if self.rows is None else self.rows[arrivals]

    def records(self, arrivals: Rows) -> pa.RecordBatch:
        return self.buffered.records(self.at(arrivals), arrivals + self.first_number)


def _joined(buffer: list[InputRows], schema: TableSchema) -> _Buffered:
    """Join the buffer's batches, and take them out of it, to hold each column twice only while it is joined."""
    row_count = sum(rows.values.num_rows for rows in buffer)
    kinds: Kinds | None = None
    if any(rows.kinds is not None for rows in buffer):
        kinds = np.concatenate([_kinds_of(rows) for rows in buffer])
    pieces = {name: [rows.values.column(name) for rows in buffer] for name in schema.column_names}
    buffer.clear()
    columns = {name: pa.concat_arrays(pieces.pop(name)) for name in schema.column_names}
    return _Buffered(columns, kinds, row_count, record_schema(schema))


def _kinds_of(rows: InputRows) -> Kinds:
    return np.zeros(rows.values.num_rows, dtype=np.int8) if rows.kinds is None else rows.kinds


class _AppendWriter:
    """Keeps one writer for each bucket; memory is what waits for row groups to fill."""

    def __init__(self, task: WriteTask, output: FileOutput) -> None:
        self._task = task
        self._output = output
        self._router = Router(task.schema)
        self._results = _Results(task)
        self._writers: dict[Place, DataFileWriter] = {}
        options = task.schema.table_options
        self._limit_bytes = options.write_buffer_bytes
        self._kind = FileKind(
            prefix=options.data_file_prefix,
            target_bytes=options.target_file_size_bytes(has_key=False),
            target_rows=options.target_file_row_num,
        )

    def write(self, rows: InputRows) -> None:
        values = rows.values
        for place, taken in self._router.split(values.column, values.num_rows):
            part = values if taken is None else values.take(pa.array(taken))
            self._writer(place).write(part)
        self._relieve()

    def finish(self) -> None:
        for place, writer in self._writers.items():
            self._results.add(place, writer.close())

    def abort(self, error: BaseException) -> None:
        for writer in self._writers.values():
            writer.__exit__(type(error), error, error.__traceback__)

    def messages(self) -> list[CommitMessage]:
        return self._results.messages()

    def _writer(self, place: Place) -> DataFileWriter:
        if place not in self._writers:
            # Without buckets every writer counts from 0; with them numbers go on, for they keep the order of rows.
            first = self._task.restored.get((place.partition, place.bucket), 0)
            self._writers[place] = DataFileWriter(self._output, place.folder, self._kind, first_sequence_number=first)
        return self._writers[place]

    def _relieve(self) -> None:
        """Write out the largest until memory and open files are within their bounds again."""
        by_size = sorted(self._writers.values(), key=lambda writer: writer.pending_bytes)
        while sum(writer.pending_bytes for writer in by_size) > self._limit_bytes:
            by_size.pop().flush()
        is_open = [writer for writer in self._writers.values() if writer.is_open]
        for writer in is_open[_MOST_OPEN_FILES:]:
            writer.finish_file()
