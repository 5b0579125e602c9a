"""Row changes: read at one snapshot, write files, commit if nothing that was read has changed; else begin again.

Rule: the commit is refused if another one changed what the statement has read or replaces. Then the statement runs
again at the newer snapshot, a few times; after that it is CommitConflict, and nothing is applied.
Source: docs/semantics/row-changes.md#conflicts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from lakehouse_core.data_files.deletion_vector_writer import IndexFolder, change_vectors
from lakehouse_core.errors import CommitConflict, CorruptTable, NotFound
from lakehouse_core.execution.commit.loop import commit_or_discard
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.commit.own_commit import own_commit
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.compaction.after_commit import WriteCompaction, compact_written
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.row_changes.change_base import FixedAt, change_base
from lakehouse_core.format.deletion_vector import Positions
from lakehouse_core.planning.commit.index_files import vector_files
from lakehouse_core.planning.commit.read_scope import ReadScope
from lakehouse_core.planning.read.packing import waiting_parts
from lakehouse_core.planning.row_changes.change_base import (
    ChangeBase,
    first_number,
    hides_rows,
    removals,
    removed_row_count,
    replaces_buckets,
)
from lakehouse_core.planning.row_changes.methods import Method
from lakehouse_core.planning.row_changes.statements import Isolation, Statement, Update
from lakehouse_core.progress import Watch
from lakehouse_core.retry import REPLAN
from lakehouse_core.storage.outcomes import named_by_nobody
from lakehouse_core.table.bucketing import has_buckets
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.change_rows.task import run_change
from lakehouse_core.tasks.change_rows.values import Changed, ChangeTask, changed_from_text

# One thread rewrites a smaller split before a second one has begun.
_LEAST_SHARED_BYTES: Final = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChangeResult:
    """The result of a statement. `staged` has no messages if it changed nothing, or in a dry run.

    `rows_matched` None: the rows were not read. `runs`: how often it began, because others changed what it had read.
    """

    base: ChangeBase
    staged: StagedCommit
    commit: CommitResult
    compaction: WriteCompaction
    rows_matched: int | None
    rows_updated: int | None = 0
    rows_deleted: int | None = 0
    rows_inserted: int = 0
    rows_read: int = 0
    files_touched: int = 0
    runs: int = 1

    @property
    def changes_rows(self) -> bool:
        """Whether there is a row to change. Rows that are removed unread are not counted; rows that wait for their
        buckets are in no touched file.
        """
        return any((self.files_touched, self.rows_inserted, self.rows_updated, self.rows_deleted))


def change_rows(
    table: TableContext,
    make: Callable[[TableSchema], Statement],
    *,
    isolation: Isolation,
    dry_run: bool,
    properties: Mapping[str, str],
    watch: Watch,
    at: Callable[[], FixedAt] | None = None,
) -> RowChangeResult:
    """Carry out the statement that `make` binds to the table's schema; with `dry_run`, count its rows only. `at`,
    called in each run, gives the snapshot to begin with; None: the latest.

    Raises CommitConflict if others changed what it had read in each of its runs, InvalidRequest, UnsupportedFeature,
    CommitTimeout, CommitOutcomeUnknown, CorruptTable, TaskFailed.
    """

    def run(base: ChangeBase) -> RowChangeResult:
        return _run(table, base, isolation=isolation, dry_run=dry_run, properties=properties, watch=watch)

    return until_committed(table, lambda: change_base(table, make, fixed=None if at is None else at()), run)


def until_committed(
    table: TableContext, begin: Callable[[], ChangeBase], run: Callable[[ChangeBase], RowChangeResult]
) -> RowChangeResult:
    """Run a statement until no other commit changes what it has read, a few times. Raises as `change_rows` does."""
    for attempt in REPLAN.attempts(table.clock):
        base: ChangeBase | None = None
        try:
            base = begin()
            return replace(run(base), runs=attempt.number)
        except CommitConflict:
            if attempt.is_last:
                raise
        except (CorruptTable, NotFound) as error:
            if base is None or not table.snapshots.has_expired(base.snapshot):
                raise
            if attempt.is_last:
                raise CommitConflict(
                    f"The {base.statement.operation} read a snapshot that expired meanwhile, "
                    f"{attempt.number} times in a row. Nothing was applied: run it again, or expire less."
                ) from error
        attempt.wait()
    raise AssertionError("the last attempt returns or raises")


def _run(
    table: TableContext,
    base: ChangeBase,
    *,
    isolation: Isolation,
    dry_run: bool,
    properties: Mapping[str, str],
    watch: Watch,
) -> RowChangeResult:
    messages: list[CommitMessage] = []
    with discarded_on_failure(table, base, messages):
        found = change_matching(table, base, messages, only_counts=dry_run, watch=watch)
    reads = ReadScope(
        operation=base.statement.operation,
        schema=base.schema,
        condition=base.statement.condition,
        sees_appends=isolation == "serializable" or hides_rows(base.schema),
        whole_buckets=replaces_buckets(base),
    )
    updates = isinstance(base.statement, Update)
    done = committed(table, base, () if dry_run else messages, reads, properties=properties, watch=watch)
    return replace(
        done,
        rows_matched=found.rows_matched,
        rows_updated=found.rows_matched if updates else 0,
        rows_deleted=0 if updates else found.rows_matched,
        rows_read=found.rows_read,
        files_touched=found.files_touched,
    )


def committed(
    table: TableContext,
    base: ChangeBase,
    messages: Sequence[CommitMessage],
    reads: ReadScope,
    *,
    properties: Mapping[str, str],
    watch: Watch,
) -> RowChangeResult:
    """Commit the messages, if there are any. Raises CommitConflict if others changed what was read."""
    staged = own_commit(table, base.schema.id, messages, base=base.snapshot, properties=properties)
    before = None if base.snapshot is None else base.snapshot.id
    result, compaction = CommitResult(snapshot_id_before=before), WriteCompaction()
    if staged.messages:
        watch.at("committing")
        result = commit_or_discard(table, staged, named_by="the statement", reads=reads)
        compaction = compact_written(table, staged, replayed=result.replayed, watch=watch)
    return RowChangeResult(base=base, staged=staged, commit=result, compaction=compaction, rows_matched=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The rows that satisfy a condition, in numbers; `rows_matched` None: their files were removed unread."""

    rows_matched: int | None
    rows_read: int = 0
    files_touched: int = 0


def change_matching(
    table: TableContext, base: ChangeBase, messages: list[CommitMessage], *, only_counts: bool, watch: Watch
) -> Found:
    """Change or delete the rows that satisfy the condition of the statement; add the messages, with those of index
    files, to `messages` as they are made.
    """
    if base.method is Method.PARTITIONS:
        messages += removals(base)
        return Found(rows_matched=removed_row_count(base), files_touched=len(base.files))
    results = run_changes(table, _tasks(table, base, only_counts=only_counts), messages, watch)
    for message in index_messages(table, base, results):
        messages.append(message)
    return Found(
        rows_matched=sum(each.rows_matched for each in results),
        rows_read=sum(each.rows_read for each in results),
        files_touched=sum(each.files_touched for each in results),
    )


@contextmanager
def discarded_on_failure(table: TableContext, base: ChangeBase, messages: Sequence[CommitMessage]) -> Iterator[None]:
    """If the statement fails meanwhile, delete the files of the messages that it has by then."""
    try:
        with named_by_nobody():
            yield
    except BaseException:
        discard(table.store, base.schema, messages, named_by="the statement")
        raise


def run_changes(
    table: TableContext, tasks: Sequence[ChangeTask], messages: list[CommitMessage], watch: Watch
) -> list[Changed]:
    """Run the tasks and return their results; add the messages of each to `messages` as it ends."""
    results: list[Changed] = []
    engine = table.engine() if tasks else None
    tasks = tasks if engine is None else [part for task in tasks for part in _shared_out(task, engine.tasks_at_once)]
    done = watch.counting("changing rows", len(tasks), "tasks")

    def take(text: str) -> None:
        results.append(changed_from_text(text))
        messages.extend(results[-1].messages)
        done(1)

    if engine is not None:
        _carry_out(engine, tasks, take)
    return results


def _carry_out(engine: Engine, tasks: Sequence[ChangeTask], take: Callable[[str], None]) -> None:
    if tasks[0].method is Method.FILES:
        engine.run_at_once(run_change, tasks, take)
        return
    for text in engine.run(run_change, tasks):
        take(text)


def _shared_out(task: ChangeTask, count: int) -> list[ChangeTask]:
    """Return the task in at most so many parts, if it writes files anew: each has files that follow one another."""
    split = task.split
    if count == 1 or task.method is not Method.FILES or split.size_bytes < _LEAST_SHARED_BYTES:
        return [task]
    parts: dict[int, list[DataFile]] = {}
    begin = 0
    for file in split.files:
        middle = begin + file.file_size // 2
        parts.setdefault(count * middle // split.size_bytes, []).append(file)
        begin += file.file_size
    return [replace(task, split=replace(split, files=tuple(files))) for files in parts.values()]


def _tasks(table: TableContext, base: ChangeBase, *, only_counts: bool) -> list[ChangeTask]:
    assignments = base.statement.assignments if isinstance(base.statement, Update) else None
    # The longest task decides when all are done, so it starts first.
    numbers = waiting_parts(base.splits, base.schema.table_options)
    parts = [[base.splits[number] for number in part] for part in numbers]
    parts.sort(key=lambda part: -sum(split.size_bytes for split in part))
    return [
        ChangeTask(
            store=table.store.spec,
            schema=base.schema,
            split=split,
            beside=tuple(beside),
            file_schemas=base.file_schemas,
            method=base.method,
            predicate=base.rest,
            assignments=assignments,
            next_sequence_number=first_number(base, split),
            commit_user=base.writer,
            only_counts=only_counts,
        )
        for split, *beside in parts
    ]


def index_messages(table: TableContext, base: ChangeBase, results: Sequence[Changed]) -> Iterator[CommitMessage]:
    """Yield the changes of index files: marked rows, and vectors of files that are removed."""
    folders = DataLayout(base.schema)
    marks: dict[tuple[bytes, int, int], dict[str, Positions]] = defaultdict(dict)
    removed: dict[tuple[bytes, int, int], set[str]] = defaultdict(set)
    places = {
        file.file_name: (split.partition, split.bucket, split.total_buckets)
        for split in base.splits
        for file in split.files
    }
    for changed in results:
        for name, rows in changed.marks.items():
            marks[places[name]][name] = np.asarray(rows, np.int64)
        for message in changed.messages:
            for file in message.deleted_files:
                removed[message.partition, message.bucket, message.total_buckets].add(file.file_name)
    for place in sorted({*marks, *removed}):
        partition, bucket, total_buckets = place
        folder = IndexFolder(
            store=table.store,
            options=base.schema.table_options.deletion_vectors,
            has_buckets=has_buckets(base.schema.bucketing),
            key=folders.index_folder(partition, bucket) or INDEX_FOLDER,
        )
        present = vector_files(base.indexes, partition, bucket)
        change = change_vectors(folder, present, table.clock, marks=marks.get(place), removed=removed.get(place, set()))
        if change.new or change.deleted:
            yield CommitMessage(
                partition=partition,
                bucket=bucket,
                total_buckets=total_buckets,
                new_index_files=change.new,
                deleted_index_files=change.deleted,
            )
