"""Compaction: load the live files, plan bucket by bucket, run the tasks largest first, commit once.

Buckets with a conflict are left out of the commit; the compaction is applied in the others.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.execution.commit.loop import commit_or_discard
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.commit.own_commit import own_commit
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.compaction.deletion_vectors import without_vectors
from lakehouse_core.execution.compaction.moves import (
    discard_moved,
    joined,
    move_rows,
    planned_moves,
    with_moved,
    without,
)
from lakehouse_core.execution.compaction.plan import (
    BucketCompaction,
    CompactionBase,
    compaction_base,
    planned_buckets,
    why_nothing,
)
from lakehouse_core.execution.compaction.precommit import with_joined_changelog
from lakehouse_core.execution.compaction.scope import Scope
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.commit.conflicts import Conflict, conflict_error
from lakehouse_core.planning.commit.index_files import vector_files
from lakehouse_core.planning.commit.partial import NumberedAbove
from lakehouse_core.planning.read.packing import pack
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.storage.outcomes import named_by_nobody
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, CommitMessage
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit
from lakehouse_core.tasks.compact import RewriteTask, planned_files, rewrite_answer, run_rewrite
from lakehouse_core.tasks.limits import MERGES_AT_ONCE

# One task compacts small buckets of so many bytes, or so many of them, one after the other. Where there are many, it
# takes more of them, because only within a task are files written while the next ones are read.
_GROUP_BYTES: Final = 8 << 20
_MOST_GROUPED: Final = 64
_MOST_GROUPED_OF_MANY: Final = 512
_FEW_GROUPS: Final = 8

WhyNot: TypeAlias = Callable[[Sequence[BucketCompaction], CompactionBase], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The planned bucket compactions, largest first, and their commit; `commit` None: a dry run, or there was nothing
    to do.

    `file_count`, `size_bytes`: those of the live files in all buckets in scope.
    """

    buckets: tuple[BucketCompaction, ...] = ()
    file_count: int = 0
    size_bytes: int = 0
    commit_user: str = ""
    commit: CommitResult | None = None
    noop_reason: str | None = None


def compact(
    table: TableContext,
    scope: Scope,
    *,
    full: bool,
    dry_run: bool = False,
    properties: Mapping[str, str] | None = None,
    identity: tuple[str, int] | None = None,
    emits_changelog: bool = True,
    why_not: WhyNot | None = None,
    watch: Watch = NO_WATCH,
) -> CompactionResult:
    """Compact the buckets in `scope`.

    `full`: rewrite each bucket as one sorted run; else carry out one plan of the compaction strategy per bucket.
    `identity`: the user and identifier of the commit; None: a fresh user. `emits_changelog`: write the changelog of the
    table's producer. `why_not` is given what is planned, and returns why nothing is done, or None.
    Raises CommitConflict when every bucket has a conflict with another commit, InvalidRequest, UnsupportedFeature,
    CorruptTable, TaskFailed.
    """
    watch.at("planning the compaction")
    base = compaction_base(table, scope)
    if base is None:
        return CompactionResult(noop_reason="the table is empty")
    files = base.all_files()
    buckets = planned_buckets(table, base, full=full, emits_changelog=emits_changelog)
    moves = planned_moves(base) if base.waiting else ()
    buckets = (*moves, *buckets)
    planned = CompactionResult(
        buckets=buckets,
        file_count=len(files),
        size_bytes=sum(file.file_size for file in files),
        noop_reason=None if buckets else why_nothing(scope, base, full=full),
    )
    if dry_run or not buckets:
        return planned
    if why_not is not None and (reason := why_not(buckets, base)):
        return replace(planned, buckets=(), noop_reason=reason)
    if moves:
        messages, conflicts, buckets = _moved(
            table, base, moves, full=full, emits_changelog=emits_changelog, watch=watch
        )
        planned = replace(planned, buckets=buckets)
    else:
        messages, conflicts = _rewrite(table, base, buckets, watch=watch)
    watch.at("committing the compaction")
    identity = identity or (f"compaction-{table.clock.uuid()}", BATCH_IDENTIFIER)
    staged = own_commit(table, base.schema.id, messages, base=base.snapshot, identity=identity, properties=properties)
    made = _commit(table, staged, numbered_above=base.highest_numbers if moves else None)
    return replace(
        planned, commit_user=staged.commit_user, commit=replace(made, conflicts=(*conflicts, *made.conflicts))
    )


def _moved(
    table: TableContext,
    base: CompactionBase,
    moves: Sequence[BucketCompaction],
    *,
    full: bool,
    emits_changelog: bool,
    watch: Watch,
) -> tuple[tuple[CommitMessage, ...], Sequence[Conflict], tuple[BucketCompaction, ...]]:
    """Move the waiting rows into their buckets and compact these as `full` says; return the commit messages, the
    conflicts, and what was done. Raises as `_rewrite` does.
    """
    schema = base.schema
    moved, conflicts = move_rows(table, base, moves, emits_changelog=emits_changelog, watch=watch)
    try:
        after = with_moved(base, moved)
        buckets = planned_buckets(table, after, full=full, emits_changelog=emits_changelog)
        rewritten: Sequence[CommitMessage] = ()
        if buckets:
            rewritten, more = _rewrite(table, after, buckets, new=moved.file_names, watch=watch)
            conflicts += more
        # The waiting rows of a partition are moved together, or stay together.
        lost = {conflict.partition for conflict in conflicts} & moved.partitions
        gone = [message for message in rewritten if message.partition in lost]
        discard(table.store, schema, gone, named_by="the compaction")
        moved, given_up = without(moved, lost)
        discard_moved(table, schema, given_up)
        left = [message for message in rewritten if message.partition not in lost]
        messages = joined(table, schema, moved, left)
        if not messages:
            raise conflict_error(conflicts, schema)
    except BaseException:
        discard_moved(table, schema, moved)
        raise
    done = (*moved.moves, *(one for one in buckets if one.partition not in lost))
    return messages, conflicts, done


def _rewrite(
    table: TableContext,
    base: CompactionBase,
    buckets: Sequence[BucketCompaction],
    *,
    new: Collection[str] = (),
    watch: Watch,
) -> tuple[tuple[CommitMessage, ...], Sequence[Conflict]]:
    """Return the commit messages of the compacted buckets, and the conflicts of those that others replaced meanwhile.

    `new`: the names of files that no snapshot has yet. Raises CommitConflict when others replaced all.
    """
    conflicts: list[Conflict] = []
    while True:
        try:
            return _run(table, base, buckets, watch=watch), conflicts
        except (CorruptTable, NotFound):
            overtaken = _overtaken(table, base, buckets, new)
            if not overtaken:
                raise
            conflicts += overtaken
            buckets = _without(buckets, overtaken)
            if not buckets:
                raise conflict_error(conflicts, base.schema) from None


def _run(
    table: TableContext, base: CompactionBase, buckets: Sequence[BucketCompaction], *, watch: Watch
) -> tuple[CommitMessage, ...]:
    """Return the commit messages of the tasks, one for each bucket. If a task fails, delete the outputs of all."""
    tasks = _tasks(table, base, buckets)
    engine, planned = table.engine(), planned_files(tasks)
    made: list[CommitMessage] = []
    messages: Sequence[CommitMessage] = made
    done = watch.counting("compacting", len(tasks), "tasks")

    def take(text: str) -> None:
        answer = rewrite_answer(text, planned)
        made.extend(answer)
        done(len(answer))

    try:
        with named_by_nobody():
            groups = _alone(tasks) if engine.is_remote else _grouped(tasks)
            engine.run_at_once(run_rewrite, groups, take, most=MERGES_AT_ONCE)
            messages = _joined(messages)
            if base.indexes:
                messages = without_vectors(table, base.schema, messages, base.indexes)
            if base.schema.table_options.precommit.is_enabled:
                messages = with_joined_changelog(table, base.schema, messages)
            return tuple(messages)
    except BaseException:
        discard(table.store, base.schema, messages, named_by="the compaction")
        raise


def _tasks(table: TableContext, base: CompactionBase, buckets: Sequence[BucketCompaction]) -> list[RewriteTask]:
    schema = base.schema
    ids = {file.schema_id for one in buckets for file in one.read_files}
    file_schemas = {number: table.schemas.schema(number) for number in sorted(ids)}
    marks = not schema.is_append and schema.table_options.deletion_vectors.enabled
    folders = DataLayout(schema)
    return [
        RewriteTask(
            store=table.store.spec,
            schema=schema,
            file_schemas=file_schemas,
            partition=one.partition,
            bucket=one.bucket,
            total_buckets=one.total_buckets,
            folder=one.folder,
            plan=one.plan,
            expiry=base.expiry,
            deletions=one.deletions,
            vectors=vector_files(base.indexes, one.partition, one.bucket) if marks else None,
            index_folder=folders.index_folder(one.partition, one.bucket) or INDEX_FOLDER,
        )
        for one in buckets
    ]


def _alone(tasks: Sequence[RewriteTask]) -> list[list[RewriteTask]]:
    """Return each task by itself: a cluster takes them at once."""
    return [[task] for task in tasks]


def _grouped(tasks: Sequence[RewriteTask]) -> list[list[RewriteTask]]:
    """Return the tasks in groups: what waits for the disk at the end of one is waited for together."""
    sizes = [task.plan.rewritten_bytes for task in tasks]
    most = max(_MOST_GROUPED, min(len(tasks) // _FEW_GROUPS, _MOST_GROUPED_OF_MANY))
    return pack(tasks, sizes, target_bytes=_GROUP_BYTES, open_cost_bytes=_GROUP_BYTES // most)


def _overtaken(
    table: TableContext, base: CompactionBase, buckets: Sequence[BucketCompaction], new: Collection[str]
) -> list[Conflict]:
    """Return the buckets whose files another commit replaced since `base`, if its snapshot has expired.

    A missing file that the latest snapshot still names is damage, not a conflict: nothing is returned for it.
    """
    if not table.snapshots.has_expired(base.snapshot):
        return []
    places = {(one.partition, one.bucket) for one in buckets}

    def look(latest: Snapshot | None) -> tuple[set[tuple[bytes, int, str, int]], Mapping[str, DeletionFile]]:
        if latest is None:
            return set(), {}
        entries = table.manifests.live_entries(
            latest, keep=lambda partition, bucket, level: (partition, bucket) in places
        )
        live = {(entry.partition, entry.bucket, entry.file.file_name, entry.file.level) for entry in entries}
        return live, deletion_files(table.manifests.index_entries(latest), DataLayout(base.schema))

    live, deletions = table.snapshots.of_latest(look)
    conflicts: dict[tuple[bytes, int], Conflict] = {}
    for one in buckets:
        for file in one.read_files:
            if file.file_name in new:
                continue
            if (one.partition, one.bucket, file.file_name, file.level) not in live:
                reason = f"{file.file_name} is missing: another commit replaced it"
            elif one.deletions.get(file.file_name) != deletions.get(file.file_name):
                reason = f"rows of {file.file_name} were marked as deleted meanwhile"
            else:
                continue
            conflict = Conflict(partition=one.partition, bucket=one.bucket, reason=reason, file_name=file.file_name)
            conflicts.setdefault((one.partition, one.bucket), conflict)
    return list(conflicts.values())


def _without(buckets: Sequence[BucketCompaction], lost: Sequence[Conflict]) -> tuple[BucketCompaction, ...]:
    places = {(conflict.partition, conflict.bucket) for conflict in lost}
    return tuple(one for one in buckets if (one.partition, one.bucket) not in places)


def _joined(messages: Sequence[CommitMessage]) -> tuple[CommitMessage, ...]:
    """Return one message for each bucket, joined from those of all its tasks."""
    joined: dict[tuple[bytes, int], CommitMessage] = {}
    for message in messages:
        place = (message.partition, message.bucket)
        earlier = joined.get(place)
        joined[place] = (
            message
            if earlier is None
            else replace(
                message,
                compact_before=earlier.compact_before + message.compact_before,
                compact_after=earlier.compact_after + message.compact_after,
            )
        )
    return tuple(joined.values())


def _commit(table: TableContext, staged: StagedCommit, *, numbered_above: NumberedAbove | None) -> CommitResult:
    result = commit_or_discard(table, staged, named_by="the compaction", numbered_above=numbered_above)
    conflicting = {(conflict.partition, conflict.bucket) for conflict in result.conflicts}
    overtaken = [
        message
        for message in staged.messages
        if (message.partition, message.bucket) in conflicting or (message.partition, None) in conflicting
    ]
    if overtaken:
        discard(table.store, table.schemas.schema(staged.schema_id), overtaken, named_by="the compaction")
    return result
