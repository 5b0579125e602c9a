"""Compaction task: carry out the plan of one bucket, and return the files before and after.

Source: docs/semantics/compaction.md#compaction-task, docs/semantics/compaction.md#append-tables.
"""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from lakehouse_core.clock import Clock
from lakehouse_core.data_files.deletion_vector_writer import IndexChange, IndexFolder, change_vectors
from lakehouse_core.data_files.small_files import SmallFiles
from lakehouse_core.data_files.writer import DataFileWriter, FileOutput, FileSettings
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import type_to_sql
from lakehouse_core.format.rows import Rows
from lakehouse_core.planning.compaction.append import AppendCompactionPlan
from lakehouse_core.planning.compaction.plan import ChangelogMode, CompactionPlan, Merge, Upgrade
from lakehouse_core.storage.object_store import FileOpener, ObjectStore, StoreSpec
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import closing_behind, reading_ahead
from lakehouse_core.table.commit_json import messages_from_json, messages_to_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile, FileSource
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.record_expiry import RecordExpiry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.sections import sections
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.tasks.changelogs.merge import ChangelogMerge
from lakehouse_core.tasks.merge_scan import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    BucketFiles,
    batch_rows,
    objects_of,
)
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.small_buckets import BucketRuns, BucketsMerge, MergedBuckets


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """The plan of one bucket and its location. `store` is rooted at the table, `folder` is the bucket's.

    `schema` is the one to write with; `file_schemas` holds, by id, every schema that files of the plan name. `expiry`:
    tells which rows have expired and are left out. `deletions`: by file name, the location of the file's deletion
    vector, whose rows are left out, too. `vectors`: the index files of the bucket's deletion vectors, which are written
    anew below `index_folder` when the task marks rows of files outside its plan; None: the task marks no rows.
    """

    store: StoreSpec
    schema: TableSchema
    file_schemas: Mapping[int, TableSchema]
    partition: bytes
    bucket: int
    total_buckets: int
    folder: str
    plan: CompactionPlan | AppendCompactionPlan
    expiry: RecordExpiry | None = None
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    vectors: tuple[IndexFile, ...] | None = None
    index_folder: str = INDEX_FOLDER


def run_rewrite(tasks: Sequence[RewriteTask], runtime: TaskRuntime) -> str:
    """Run the tasks of some buckets of a table in an engine; `rewrite_answer` parses the returned text."""
    messages = rewrite_buckets(tasks, runtime)
    # The caller has the entries of the files before: most of the text would be theirs.
    before = [[file.file_name for file in message.compact_before] for message in messages]
    return json.dumps([before, messages_to_json([replace(message, compact_before=()) for message in messages])])


def planned_files(tasks: Iterable[RewriteTask]) -> Mapping[str, DataFile]:
    """Return the files that the tasks replace, by name."""
    return {file.file_name: file for task in tasks for file in task.plan.files}


def rewrite_answer(text: str, planned: Mapping[str, DataFile]) -> list[CommitMessage]:
    """Return the commit messages of the tasks that answered with `text`; `planned`: the files of all tasks."""
    before, messages = json.loads(text)
    return [
        replace(message, compact_before=tuple(planned[name] for name in names))
        for names, message in zip(before, messages_from_json(messages), strict=True)
    ]


def rewrite_bucket(task: RewriteTask, runtime: TaskRuntime) -> CommitMessage:
    """Carry out the plan of one bucket, as `rewrite_buckets` does."""
    (message,) = rewrite_buckets([task], runtime)
    return message


def rewrite_buckets(tasks: Sequence[RewriteTask], runtime: TaskRuntime) -> list[CommitMessage]:
    """Carry out the plans and return their commit messages, in the order of the tasks. If one fails, no new file of any
    is left.

    REQUIRES: the tasks have the same store, schema and expiry. Raises InvalidRequest for nulls that the schema forbids
    now, CorruptTable (also for a missing input file), StorageFull, StorageUnavailable.
    """
    store, clock = runtime.open_store(tasks[0].store), runtime.clock
    made = [RewriteOutput() for _ in tasks]
    indexes: list[IndexChange] = []
    with (
        reading_ahead(store, (found for task in tasks for found in objects_of(task.folder, task.plan.files))) as opener,
        closing_behind(store) as sinks,
    ):
        output = runtime.output(sinks, tasks[0].schema)
        try:
            alike: dict[tuple[bool, int], list[tuple[RewriteTask, RewriteOutput]]] = {}
            for task, one in zip(tasks, made, strict=True):
                merge = _only_merge(task)
                if merge is None:
                    _carry_out(task, _bucket_files(task, opener), output, one)
                else:
                    alike.setdefault(merge, []).append((task, one))
            for (drops_deletes, level), pairs in alike.items():
                _merge_buckets(pairs, opener, output, drops_deletes=drops_deletes, level=level)
            sinks.settle()
            for task, one in zip(tasks, made, strict=True):
                indexes.append(_marked(task, store, one, clock))
        except BaseException:
            clear_away(sinks, [key for task, one in zip(tasks, made, strict=True) for key in _written_keys(task, one)])
            changes = zip(tasks, indexes, strict=False)
            names = ((task.index_folder, file.file_name) for task, change in changes for file in change.new)
            clear_away(sinks, [f"{folder}/{name}" for folder, name in names])
            raise
    return [_message(*found) for found in zip(tasks, made, indexes, strict=True)]


def _bucket_files(task: RewriteTask, opener: FileOpener) -> BucketFiles:
    return BucketFiles(
        store=opener,
        folder=task.folder,
        schemas={task.schema.id: task.schema, **task.file_schemas},
        verify=task.schema.table_options.read_verify,
        deletions=task.deletions,
    )


def _written_keys(task: RewriteTask, made: "RewriteOutput") -> Iterator[str]:
    for file in made.written:
        for name in file.all_names:
            yield f"{task.folder}/{name}"


def _message(task: RewriteTask, made: "RewriteOutput", indexes: IndexChange) -> CommitMessage:
    return CommitMessage(
        partition=task.partition,
        bucket=task.bucket,
        total_buckets=task.total_buckets,
        compact_before=task.plan.files,
        compact_after=tuple(made.after),
        compact_changelog_files=tuple(made.changelog),
        compact_new_index_files=indexes.new,
        compact_deleted_index_files=indexes.deleted,
    )


@dataclass(slots=True)
class RewriteOutput:
    """The files of a task so far: `after` and `changelog` are part of its result; `written` are all files that it
    created.
    """

    after: list[DataFile] = field(default_factory=list)
    changelog: list[DataFile] = field(default_factory=list)
    written: list[DataFile] = field(default_factory=list)
    # The superseded rows, by file name.
    marks: dict[str, list[Rows]] = field(default_factory=dict)

    def add(self, records: Sequence[DataFile], changelog: Sequence[DataFile] = ()) -> None:
        """Add files that were written."""
        self.after += records
        self.changelog += changelog
        self.written += [*records, *changelog]

    def mark(self, rows: Mapping[str, Rows]) -> None:
        """Add superseded rows."""
        for name, positions in rows.items():
            self.marks.setdefault(name, []).append(positions)


def _marked(task: RewriteTask, store: ObjectStore, made: RewriteOutput, clock: Clock) -> IndexChange:
    """Write the bucket's deletion vectors anew: add the superseded rows, leave out the rewritten files. Return the
    change of index files.
    """
    if task.vectors is None:
        return IndexChange()
    folder = IndexFolder(
        store=store, options=task.schema.table_options.deletion_vectors, has_buckets=True, key=task.index_folder
    )
    stay = {file.file_name for file in made.after}
    removed = {file.file_name for file in task.plan.files} - stay
    marks = {name: np.unique(np.concatenate(rows)) for name, rows in made.marks.items()}
    return change_vectors(folder, task.vectors, clock, marks=marks, removed=removed)


def _carry_out(task: RewriteTask, files: BucketFiles, output: FileOutput, made: RewriteOutput) -> None:
    if isinstance(task.plan, AppendCompactionPlan):
        for group in task.plan.groups:
            made.add(_packed(task, group, files, output))
        return
    merge = ChangelogMerge(files=files, schema=task.schema, plan=task.plan, expiry=task.expiry)
    for step in task.plan.steps:
        match step:
            case Upgrade(file, changelog_mode):
                if changelog_mode is not ChangelogMode.NOTHING:
                    made.add((), _told(task, merge, step, output, made))
                made.after.append(replace(file, level=task.plan.output_level))
            case Merge(_, ChangelogMode.NOTHING):
                made.add(_merged(task, task.plan, step, files, output))
            case Merge():
                made.add(*_merged_and_told(task, merge, step, output, made))


def _only_merge(task: RewriteTask) -> tuple[bool, int] | None:
    """Return whether deletes are dropped and the level of the output, for a plan that is one merge without a changelog;
    None for other plans.
    """
    if isinstance(task.plan, AppendCompactionPlan):
        return None
    match task.plan.steps:
        case (Merge(_, ChangelogMode.NOTHING),):
            return task.plan.drops_deletes, task.plan.output_level
        case _:
            return None


def _merge_buckets(
    pairs: Sequence[tuple[RewriteTask, RewriteOutput]],
    opener: FileOpener,
    output: FileOutput,
    *,
    drops_deletes: bool,
    level: int,
) -> None:
    """Carry out plans of which each is one merge into this level."""
    first, _ = pairs[0]
    buckets = (
        BucketRuns(task.partition, _bucket_files(task, opener), step.sections)
        for task, _ in pairs
        if isinstance(task.plan, CompactionPlan)
        for step in task.plan.steps
        if isinstance(step, Merge)
    )
    kind = compacted_kind(first.schema, level=level)
    small: list[RewriteOutput] = []

    def large_parts(merged: Iterable[MergedBuckets], files: SmallFiles) -> Iterator[tuple[int, pa.RecordBatch]]:
        for each in merged:
            batch = storable(each.batch, first.schema)
            # A bucket that was merged with others is complete.
            if len(each.ends) == 1 or not files.takes(batch):
                yield from each.parts()
                continue
            numbers, rows = zip(*each.slices(), strict=True)
            files.write(batch, np.array([part.stop for part in rows]), [pairs[number][0].folder for number in numbers])
            small.extend(pairs[number][1] for number in numbers)

    with (
        SmallFiles(output, kind) as files,
        closing(_merge(first, drops_deletes=drops_deletes).merged(buckets)) as merged,
    ):
        for number, parts in groupby(large_parts(merged, files), key=itemgetter(0)):
            task, made = pairs[number]
            with DataFileWriter(output, task.folder, kind) as writer:
                for _, batch in parts:
                    writer.write(batch)
                made.add(writer.close())
        for made, file in zip(small, files.close(), strict=True):
            made.add([file])


def _merge(task: RewriteTask, *, drops_deletes: bool) -> BucketsMerge:
    return BucketsMerge(
        schema=task.schema,
        fields=task.schema.fields,
        with_sequence_number=True,
        drops_deletes=drops_deletes,
        expiry=task.expiry,
    )


def _merged(
    task: RewriteTask, plan: CompactionPlan, step: Merge, files: BucketFiles, output: FileOutput
) -> tuple[DataFile, ...]:
    merge = _merge(task, drops_deletes=plan.drops_deletes)
    with (
        closing(merge.merged([BucketRuns(task.partition, files, step.sections)])) as merged,
        DataFileWriter(output, task.folder, compacted_kind(task.schema, level=plan.output_level)) as writer,
    ):
        for each in merged:
            writer.write(storable(each.batch, task.schema))
        return writer.close()


def _merged_and_told(
    task: RewriteTask, merge: ChangelogMerge, step: Merge, output: FileOutput, made: RewriteOutput
) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """Write the merged records and their changelog; return the files of both."""
    with (
        DataFileWriter(output, task.folder, compacted_kind(task.schema, level=merge.plan.output_level)) as records,
        DataFileWriter(output, task.folder, _changelog_kind(task.schema, level=merge.plan.output_level)) as changelog,
    ):
        for chunk in merge.chunks(step.sections, step.changelog_mode):
            records.write(storable(chunk.records, task.schema))
            if chunk.superseded is not None:
                made.mark(merge.marks(chunk.superseded))
            if chunk.changelog is not None:
                changelog.write(storable(chunk.changelog, task.schema))
        return records.close(), changelog.close()


def _told(
    task: RewriteTask, merge: ChangelogMerge, step: Upgrade, output: FileOutput, made: RewriteOutput
) -> tuple[DataFile, ...]:
    """Write the changelog of files that are not rewritten; return its files."""
    alone = sections(keyed_files([step.file], [each.type for each in task.schema.key_fields]))
    with DataFileWriter(output, task.folder, _changelog_kind(task.schema, level=merge.plan.output_level)) as changelog:
        for chunk in merge.chunks(alone, step.changelog_mode):
            if chunk.superseded is not None:
                made.mark(merge.marks(chunk.superseded))
            if chunk.changelog is not None:
                changelog.write(storable(chunk.changelog, task.schema))
        return changelog.close()


def _packed(
    task: RewriteTask, group: tuple[DataFile, ...], files: BucketFiles, output: FileOutput
) -> tuple[DataFile, ...]:
    """Concatenate files: rows keep their order, and sequence numbers begin with that of the first file."""
    kind = compacted_kind(task.schema, level=0)
    first = group[0].min_sequence_number
    with DataFileWriter(output, task.folder, kind, first_sequence_number=first) as writer:
        for batch in copied_rows(task.schema, group, files):
            writer.write(storable(batch, task.schema))
        return writer.close()


def copied_rows(
    schema: TableSchema, group: tuple[DataFile, ...], files: BucketFiles
) -> Generator[pa.RecordBatch, None, None]:
    for file in group:
        reader = files.open(file)
        try:
            rows = batch_rows(reader.row_bytes(schema.fields), CHUNK_ROWS, CHUNK_BYTES)
            yield from reader.batches(schema.fields, batch_rows=rows, without=files.deleted_rows(file))
        finally:
            reader.close()


def storable(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Return the batch unchanged. Raises InvalidRequest for a null in a column that became NOT NULL later."""
    for each in schema.fields:
        if not each.type.nullable and batch.column(each.name).null_count:
            raise InvalidRequest(
                f"Column {each.name!r} is {type_to_sql(each.type)}, but older rows hold null in it: make it "
                "nullable again, or overwrite these rows; then compact."
            )
    return batch


def compacted_kind(schema: TableSchema, *, level: int) -> FileSettings:
    options = schema.table_options
    return FileSettings(
        prefix=options.data_file_prefix,
        target_bytes=options.target_file_size_bytes(has_key=not schema.is_append),
        level=level,
        source=FileSource.COMPACT,
    )


def _changelog_kind(schema: TableSchema, *, level: int) -> FileSettings:
    options = schema.table_options
    target_bytes = options.target_file_size_bytes(has_key=True)
    return FileSettings(
        prefix=options.changelog_file_prefix,
        is_changelog=True,
        target_bytes=target_bytes,
        level=level,
        is_indexed=False,
    )
