"""Row changes of append tables: files written anew without the changed rows, or the positions of rows to mark.

Rows that stay keep their order. Changed rows stay at their places in a file that is written anew; they go to new files
of their own if the file is only marked, or if they move to another partition or bucket.
Source: docs/semantics/row-changes.md#methods.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from lakehouse_core.data_files.reader import DataFileReader
from lakehouse_core.data_files.writer import DataFileWriter, FileOutput, FileSettings
from lakehouse_core.format.avro_columns import Flags
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.format.rows import take_all
from lakehouse_core.planning.row_changes.methods import Method
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import closing_behind, reading_ahead
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.predicate import columns_of
from lakehouse_core.tasks.change_rows.new_values import with_new_values
from lakehouse_core.tasks.change_rows.values import Changed, ChangeTask, writing_schema
from lakehouse_core.tasks.matching import matching_rows
from lakehouse_core.tasks.merge_scan import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    BucketFiles,
    batch_rows,
    objects_of,
    split_files,
)
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.rows import checked_rows
from lakehouse_core.tasks.write.task import WriteTask, write_batches

_NO_ROWS: Final = np.empty(0, np.int64)


def changed_files(task: ChangeTask, runtime: TaskRuntime) -> Changed:
    """Find the matching rows of each file of the split; mark them, or write the touched files anew."""
    store, split = runtime.open_store(task.store), task.split
    with reading_ahead(store, objects_of(split.folder, split.files)) as opener, closing_behind(store) as sinks:
        files = split_files(split, task.schema, task.file_schemas, opener)
        run = _Run(task, files, runtime.output(sinks, task.schema))
        try:
            new = run.new_rows_written(runtime)
        except BaseException:
            made = [name for written in run.rewritten for name in written.all_names]
            clear_away(sinks, [f"{split.folder}/{name}" for name in made])
            raise
    return run.result(new)


@dataclass(slots=True)
class _Run:
    """The work of one task. `rewritten`: the files written in place of `replaced`."""

    task: ChangeTask
    files: BucketFiles
    output: FileOutput
    rewritten: list[DataFile] = field(default_factory=list)
    replaced: list[DataFile] = field(default_factory=list)
    marks: dict[str, Positions] = field(default_factory=dict)
    rows_matched: int = 0
    touched: int = 0

    def new_rows_written(self, runtime: TaskRuntime) -> tuple[CommitMessage, ...]:
        """Change each file; return the messages of the changed rows that have files of their own."""
        task, split = self.task, self.task.split
        if task.only_counts or task.assignments is None:
            for _ in self._separate_rows():
                pass
            return ()
        write = WriteTask(
            store=task.store,
            schema=writing_schema(task),
            next_sequence_numbers={(split.partition, split.bucket): task.next_sequence_number},
        )
        return tuple(write_batches(write, self._separate_rows(), runtime))

    def result(self, new: tuple[CommitMessage, ...]) -> Changed:
        split = self.task.split
        own = CommitMessage(
            partition=split.partition,
            bucket=split.bucket,
            total_buckets=split.total_buckets,
            new_files=tuple(self.rewritten),
            deleted_files=tuple(self.replaced),
        )
        return Changed(
            messages=(own, *new) if self.replaced else new,
            rows_read=split.row_count,
            rows_matched=self.rows_matched,
            files_touched=self.touched,
            marks=self.marks,
        )

    def _separate_rows(self) -> Iterator[pa.RecordBatch]:
        """Change file by file; yield the changed rows that go to files of their own."""
        for file in self.task.split.files:
            matched = self._matched(file)
            if not len(matched):
                continue
            self.rows_matched += len(matched)
            self.touched += 1
            if self.task.only_counts:
                continue
            if self.task.method is Method.MARKS:
                self.marks[file.file_name] = matched
                if self.task.assignments is not None:
                    yield from self._changed(file, matched)
            else:
                yield from self._rewrite(file, matched)
        self.output.store.settle()

    def _matched(self, file: DataFile) -> Positions:
        """Return the positions of the file's rows that match and are not marked as deleted, rising."""
        if self.task.hits is not None:
            return self.task.hits.get(file.file_name, _NO_ROWS)
        predicate, schema = self.task.predicate, self.task.schema
        names = () if predicate is None else sorted(columns_of(predicate))
        found: list[Positions] = []
        if predicate is None:
            found.append(np.arange(file.row_count, dtype=np.int64))
        else:
            for start, batch in self._batches(file, names):
                found.append(matching_rows(batch, predicate, schema.fields) + start)
        positions = np.concatenate([_NO_ROWS, *found])
        marked = self.files.deleted_rows(file)
        return positions if marked is None else positions[_all_but(file, marked)[positions]]

    def _changed(self, file: DataFile, matched: Positions) -> Iterator[pa.RecordBatch]:
        for start, batch in self._batches(file, self.task.schema.column_names):
            first, last = np.searchsorted(matched, (start, start + batch.num_rows))
            if first < last:
                yield self._new_values(_taken(batch, matched[first:last] - start))

    def _rewrite(self, file: DataFile, matched: Positions) -> Iterator[pa.RecordBatch]:
        """Write the file anew; yield its changed rows if they go to other places."""
        options = self.task.schema.table_options
        settings = FileSettings(
            prefix=options.data_file_prefix,
            target_bytes=options.target_file_size_bytes(has_key=False),
            target_rows=options.target_file_row_num,
        )
        first = file.min_sequence_number
        self.replaced.append(file)
        marked = self.files.deleted_rows(file)
        stays_there = _all_but(file, matched) if marked is None else _all_but(file, matched, marked)
        stays = self.task.assignments is not None and not self._moves_rows
        with DataFileWriter(self.output, self.task.split.folder, settings, first_sequence_number=first) as writer:
            for start, batch in self._batches(file, self.task.schema.column_names):
                end = start + batch.num_rows
                kept = np.flatnonzero(stays_there[start:end]) + start
                hit = matched[slice(*np.searchsorted(matched, (start, end)))]
                rows = _taken(batch, kept - start)
                if self.task.assignments is not None and len(hit):
                    changed = self._new_values(_taken(batch, hit - start))
                    if stays:
                        rows = _in_order(rows, kept, changed, hit)
                    else:
                        yield changed
                writer.write(rows)
            self.rewritten += writer.close()

    @property
    def _moves_rows(self) -> bool:
        schema = self.task.schema
        return any(name in (*schema.partition_keys, *schema.bucket_keys) for name in self.task.assignments or ())

    def _new_values(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their new values, checked as those of a write."""
        assert self.task.assignments is not None
        changed = with_new_values(rows, self.task.assignments, self.task.schema.fields)
        (checked,) = checked_rows([changed], writing_schema(self.task), None)
        return checked.values

    def _batches(self, file: DataFile, names: tuple[str, ...] | list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield all rows of the file, with the position of the first row of each batch."""
        fields = [self.task.schema.field(name) for name in names]
        reader: DataFileReader = self.files.open(file)
        try:
            start = 0
            rows = batch_rows(reader.row_bytes(fields), CHUNK_ROWS, CHUNK_BYTES)
            for batch in reader.batches(fields, batch_rows=rows):
                yield start, batch
                start += batch.num_rows
        finally:
            reader.close()


def _all_but(file: DataFile, *positions: Positions) -> Flags:
    """Return for each row of the file whether it is at none of the positions."""
    others = np.ones(file.row_count, np.bool_)
    for each in positions:
        others[each] = False
    return others


def _taken(batch: pa.RecordBatch, rows: Positions) -> pa.RecordBatch:
    if len(rows) == batch.num_rows:
        return batch
    return pa.RecordBatch.from_arrays(take_all(batch.columns, rows), batch.schema.names)


def _in_order(
    kept: pa.RecordBatch, kept_rows: Positions, changed: pa.RecordBatch, changed_rows: Positions
) -> pa.RecordBatch:
    """Return the rows of both batches, ordered by their positions in the file."""
    order = np.argsort(np.concatenate([kept_rows, changed_rows]), kind="stable")
    columns = [
        pa.concat_arrays([one, other.cast(one.type)]) for one, other in zip(kept.columns, changed.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(take_all(columns, order), kept.schema.names)
