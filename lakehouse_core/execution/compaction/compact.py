"""Compaction: load the live files, plan bucket by bucket, run the tasks largest first, commit once.

Buckets with a conflict are left out of the commit; the compaction is applied in the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.execution.commit.loop import commit_or_discard
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.compaction.deletion_vectors import without_vectors
from lakehouse_core.execution.compaction.precommit import with_joined_changelog
from lakehouse_core.execution.compaction.scope import FilesByBucket, Scope, files_in, why_none
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.tasks.compact import RewriteTask, run_rewrite
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.planning.commit.conflicts import Conflict, conflict_error
from lakehouse_core.planning.commit.index_files import vector_files
from lakehouse_core.planning.compaction.append import AppendCompactionPlan, MarkedRows
from lakehouse_core.planning.compaction.bucket import expired_files, plan_bucket
from lakehouse_core.planning.compaction.plan import CompactionPlan
from lakehouse_core.planning.compaction.universal import PickTime
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.progress import NOBODY, Watch
from lakehouse_core.storage.outcomes import named_by_nobody
from lakehouse_core.table.bucketing import has_buckets
from lakehouse_core.table.commit_json import messages_from_json
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, Append, CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout, partition_folder
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.manifest import IndexManifestEntry
from lakehouse_core.table.record_expiry import RecordExpiry, record_expiry
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCompaction:
    """The compaction of one bucket. `plan.reason` says why; `folder` is relative to the table.

    `values`: the partition's values as text, by column. `deletions`: by file name, the location of the file's deletion
    vector.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    folder: str
    values: Mapping[str, str | None]
    plan: CompactionPlan | AppendCompactionPlan
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)

    @property
    def rewritten_bytes(self) -> int:
        return self.plan.rewritten_bytes


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
    watch: Watch = NOBODY,
) -> CompactionResult:
    """Compact the buckets in `scope`.

    `full`: rewrite each bucket as one sorted run; else carry out one plan of the compaction strategy per bucket.
    `identity`: the user and identifier of the commit; None: a fresh user. `emits_changelog`: write the changelog of the
    table's producer.
    Raises CommitConflict when every bucket has a conflict with another commit, InvalidRequest, UnsupportedFeature,
    CorruptTable, TaskFailed.
    """
    name = table.name or table.store.uri("")
    watch.at("planning the compaction")
    schema = table.schemas.latest()
    write_supported(schema, table=name)
    expiry = record_expiry(schema, now_millis=table.clock.now_millis())

    def look(latest: Snapshot | None) -> tuple[Snapshot, FilesByBucket, Sequence[IndexManifestEntry]] | None:
        return (
            None
            if latest is None
            else (latest, files_in(scope, table, latest, schema), table.manifests.index_entries(latest))
        )

    found = table.snapshots.of_latest(look)
    if found is None:
        return CompactionResult(noop_reason="the table is empty")
    snapshot, by_bucket, indexes = found
    occasion = PickTime(local_now_millis=table.clock.local_now_millis())
    deletions = deletion_files(indexes, DataLayout(schema))
    buckets = _plan_buckets(
        by_bucket,
        table.schemas,
        schema,
        deletions,
        full=full,
        occasion=occasion,
        expiry=expiry,
        emits_changelog=emits_changelog,
    )
    files = [file for found in by_bucket.values() for file in found]
    planned = CompactionResult(
        buckets=buckets,
        file_count=len(files),
        size_bytes=sum(file.file_size for file in files),
        noop_reason=None if buckets else _why_nothing(scope, schema, files, full=full),
    )
    if dry_run or not buckets:
        return planned
    conflicts: list[Conflict] = []
    messages = None
    while messages is None:
        tasks = _tasks(table, schema, buckets, indexes=indexes, expiry=expiry)
        try:
            messages = _run(table, schema, tasks, indexes, watch=watch)
        except (CorruptTable, NotFound):
            overtaken = _overtaken(table, schema, snapshot, buckets)
            buckets = _without(buckets, overtaken)
            conflicts += overtaken
            if not overtaken:
                raise
            if not buckets:
                raise conflict_error(conflicts, schema) from None
    watch.at("committing the compaction")
    commit_user, commit_identifier = identity or (f"compaction-{table.clock.uuid()}", BATCH_IDENTIFIER)
    staged = StagedCommit(
        table=name,
        commit_user=commit_user,
        commit_identifier=commit_identifier,
        mode=Append(),
        messages=messages,
        schema_id=schema.id,
        base_snapshot_id=snapshot.id,
        properties=dict(properties or {}),
    )
    made = _commit(table, staged)
    return replace(
        planned, commit_user=staged.commit_user, commit=replace(made, conflicts=(*conflicts, *made.conflicts))
    )


def _plan_buckets(
    by_bucket: FilesByBucket,
    schemas: SchemaLog,
    schema: TableSchema,
    deletions: Mapping[str, DeletionFile],
    *,
    full: bool,
    occasion: PickTime,
    expiry: RecordExpiry | None,
    emits_changelog: bool,
) -> tuple[BucketCompaction, ...]:
    """Return the compaction of each bucket that needs one, largest first."""
    types = [field.type for field in schema.partition_fields]
    ids = set() if expiry is None else {file.schema_id for files in by_bucket.values() for file in files}
    file_schemas = {number: schemas.schema(number) for number in sorted(ids)}
    found = []
    for (partition, bucket, total_buckets), files in by_bucket.items():
        values = deserialize_row(partition, types)
        folder = partition_folder(schema, values, bucket)
        expired = expired_files(files, expiry, file_schemas)
        vectors = {file.file_name: deletions[file.file_name] for file in files if file.file_name in deletions}
        marked = {name: MarkedRows(count=one.cardinality, index_file=one.key) for name, one in vectors.items()}
        picked = plan_bucket(
            files, schema, full=full, occasion=occasion, expired=expired, marked=marked, emits_changelog=emits_changelog
        )
        for plan in _task_plans(picked, schema):
            names = {file.file_name for file in (*plan.files, *_older(plan))}
            found.append(
                BucketCompaction(
                    partition=partition,
                    bucket=bucket,
                    total_buckets=total_buckets,
                    folder=folder,
                    values=named_values(values, schema),
                    plan=plan,
                    deletions={name: vector for name, vector in vectors.items() if name in names},
                )
            )
    # The longest task decides when all are done, so it starts first.
    return tuple(sorted(found, key=lambda one: (-one.rewritten_bytes, one.folder)))


def _task_plans(
    plan: CompactionPlan | AppendCompactionPlan | None, schema: TableSchema
) -> Iterator[CompactionPlan | AppendCompactionPlan]:
    """Yield the plans of the tasks. Groups of files of an unbucketed partition are independent and large: one task
    each.
    """
    if isinstance(plan, AppendCompactionPlan) and not has_buckets(schema.bucketing):
        for group in plan.groups:
            yield replace(plan, groups=(group,))
    elif plan is not None:
        yield plan


def _older(plan: CompactionPlan | AppendCompactionPlan) -> Iterator[DataFile]:
    """Yield the files of looked-up runs, which the task only reads."""
    if isinstance(plan, CompactionPlan):
        for run in plan.older:
            yield from run.data_files


def _why_nothing(scope: Scope, schema: TableSchema, files: Sequence[DataFile], *, full: bool) -> str:
    if not files:
        return why_none(scope, schema)
    if not full:
        return _why_nothing_is_picked(schema)
    if schema.is_append:
        return "no bucket has two small files that may be packed together"
    return "every bucket is one sorted run in its top level"


def _why_nothing_is_picked(schema: TableSchema) -> str:
    options = schema.table_options.compaction
    if schema.is_append:
        return f"nowhere are {options.min_file_count} small files (compaction.min.file-num) to be packed together"
    return (
        f"the strategy finds every bucket in good shape: at most {options.trigger_run_count} sorted runs "
        "(num-sorted-run.compaction-trigger), each far smaller than the next"
    )


def _tasks(
    table: TableContext,
    schema: TableSchema,
    buckets: Sequence[BucketCompaction],
    *,
    indexes: Sequence[IndexManifestEntry],
    expiry: RecordExpiry | None,
) -> list[RewriteTask]:
    ids = {file.schema_id for one in buckets for file in (*one.plan.files, *_older(one.plan))}
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
            expiry=expiry,
            deletions=one.deletions,
            vectors=vector_files(indexes, one.partition, one.bucket) if marks else None,
            index_folder=folders.index_folder(one.partition, one.bucket) or INDEX_FOLDER,
        )
        for one in buckets
    ]


def _run(
    table: TableContext,
    schema: TableSchema,
    tasks: Sequence[RewriteTask],
    indexes: Sequence[IndexManifestEntry],
    *,
    watch: Watch,
) -> tuple[CommitMessage, ...]:
    """Return the commit messages of the tasks, one for each bucket. If a task fails, delete the outputs of all."""
    messages: Sequence[CommitMessage] = ()
    try:
        done = watch.counting("compacting", len(tasks), "tasks")
        with named_by_nobody():
            for text in table.engine().run(run_rewrite, tasks):
                done(1)
                messages = (*messages, *messages_from_json(text))
            messages = without_vectors(table, schema, _joined(messages), indexes)
            return with_joined_changelog(table, schema, messages)
    except BaseException:
        discard(table.store, schema, messages, named_by="the compaction")
        raise


def _overtaken(
    table: TableContext, schema: TableSchema, snapshot: Snapshot, buckets: Sequence[BucketCompaction]
) -> list[Conflict]:
    """Return the buckets whose files another commit replaced since `snapshot`, if `snapshot` has expired.

    A missing file that the latest snapshot still names is damage, not a conflict: nothing is returned for it.
    """
    if not table.snapshots.has_expired(snapshot):
        return []
    places = {(one.partition, one.bucket) for one in buckets}

    def look(latest: Snapshot | None) -> tuple[set[tuple[bytes, int, str, int]], Mapping[str, DeletionFile]]:
        if latest is None:
            return set(), {}
        entries = table.manifests.live_entries(
            latest, keep=lambda partition, bucket, level: (partition, bucket) in places
        )
        live = {(entry.partition, entry.bucket, entry.file.file_name, entry.file.level) for entry in entries}
        return live, deletion_files(table.manifests.index_entries(latest), DataLayout(schema))

    live, deletions = table.snapshots.of_latest(look)
    conflicts: dict[tuple[bytes, int], Conflict] = {}
    for one in buckets:
        for file in (*one.plan.files, *_older(one.plan)):
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


def _commit(table: TableContext, staged: StagedCommit) -> CommitResult:
    result = commit_or_discard(table, staged, named_by="the compaction")
    conflicting = {(conflict.partition, conflict.bucket) for conflict in result.conflicts}
    overtaken = [
        message
        for message in staged.messages
        if (message.partition, message.bucket) in conflicting or (message.partition, None) in conflicting
    ]
    discard(table.store, table.schemas.schema(staged.schema_id), overtaken, named_by="the compaction")
    return result
