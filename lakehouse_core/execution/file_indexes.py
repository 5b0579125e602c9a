"""File indexes of files that are there: write those that the options ask for, drop those that they do not.

Order: the tasks read the data files and write new index files; then one COMPACT commit replaces the entries of these
data files. Data files stay as they are. A file that another commit replaced or indexed meanwhile is left out of the
commit, and looked at again if it is still live.
Source: docs/semantics/maintenance.md#file-indexes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakehouse_core.errors import CommitConflict, CorruptTable, LakehouseError, NotFound
from lakehouse_core.execution.commit.loop import commit_or_discard
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.commit.own_commit import own_commit
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.options import WriteKind
from lakehouse_core.planning.commit.partial import without_conflicts
from lakehouse_core.planning.file_indexes import NewIndex, indexed_entries, with_index
from lakehouse_core.planning.read.packing import pack
from lakehouse_core.progress import Watch
from lakehouse_core.retry import REPLAN
from lakehouse_core.storage.outcomes import named_by_nobody
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import ManifestEntry
from lakehouse_core.table.predicate import Predicate, holds
from lakehouse_core.table.schema import TableSchema, read_supported, write_supported
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.tasks.file_indexes import FileIndexTask, indexes_from, run_file_indexes

# A task takes files of about so many bytes, or so many files.
_TASK_BYTES: Final = 256 << 20
_MOST_FILES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIndexResult:
    """The new indexes, each with the former entry of its data file, and the commits; in a dry run there are none.

    `file_count`: the live files that were looked at. `conflicted`: how many files others changed in each attempt, so
    that they are as before. `snapshot`: the one that the call began with.
    """

    schema: TableSchema
    snapshot: Snapshot | None = None
    file_count: int = 0
    changed: tuple[tuple[ManifestEntry, NewIndex], ...] = ()
    commits: tuple[CommitResult, ...] = ()
    commit_user: str = ""
    runs: int = 0
    conflicted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The live files at `snapshot`, and the entries of those whose index may not be the wanted one."""

    snapshot: Snapshot | None = None
    file_count: int = 0
    entries: Sequence[ManifestEntry] = ()


def rewrite_file_indexes(
    table: TableContext,
    *,
    condition: Predicate | None,
    dry_run: bool,
    properties: Mapping[str, str],
    watch: Watch,
) -> FileIndexResult:
    """Give every live file the indexes that the table's options ask for now.

    `condition`: a bound condition on partition columns, to which the call is limited. Raises UnsupportedFeature,
    CorruptTable, CommitConflict if others changed the files in each attempt, and the errors of tasks and of a commit.
    What was committed before an error stays.
    """
    watch.at("planning the file indexes")
    schema = table.schemas.latest()
    write_supported(schema, table=table.name, kind=WriteKind.MAINTENANCE)
    read_supported(schema, table=table.name)
    plan = _planned(table, schema, condition, None)
    result = FileIndexResult(schema=schema, snapshot=plan.snapshot, file_count=plan.file_count)
    if not plan.entries:
        return result
    if dry_run:
        return replace(result, changed=tuple(_run(table, schema, plan, dry_run=True, watch=watch)))
    result = replace(result, commit_user=f"file-index-{table.clock.uuid()}")
    conflict: CommitConflict | None
    for attempt in REPLAN.attempts(table.clock):
        result = replace(result, runs=attempt.number)
        try:
            changed = _run(table, schema, plan, dry_run=False, watch=watch)
        except (CorruptTable, NotFound) as error:
            if not table.snapshots.has_expired(plan.snapshot):
                raise
            conflict = _expired(error)
            left = frozenset(entry.file.file_name for entry in plan.entries)
        else:
            watch.at("committing the file indexes")
            result, left, conflict = _committed(
                table, result, plan, changed, identifier=attempt.number, properties=properties
            )
        if not left:
            return result
        if attempt.is_last:
            break
        attempt.wait()
        plan = _planned(table, schema, condition, left)
        if not plan.entries:
            # Others replaced the rest, and wrote the indexes of their files.
            return result
    if conflict is not None and not result.commits:
        raise conflict
    return replace(result, conflicted=len(left))


def _expired(error: LakehouseError) -> CommitConflict:
    conflict = CommitConflict(
        "rewrite_file_index read files of a snapshot that expired meanwhile. Nothing was applied: run it again, or "
        "expire less."
    )
    conflict.__cause__ = error
    return conflict


def _planned(
    table: TableContext, schema: TableSchema, condition: Predicate | None, only: frozenset[str] | None
) -> _Plan:
    """Return the files at the latest snapshot whose index may not be the wanted one; `only`: of these names."""
    types = [field.type for field in schema.partition_fields]

    def keep(partition: bytes, bucket: int, level: int) -> bool:
        known = dict(zip(schema.partition_keys, deserialize_row(partition, types), strict=True))
        return holds(condition, known)

    def read(latest: Snapshot | None) -> _Plan:
        if latest is None:
            return _Plan()
        live = table.manifests.live_entries(latest, keep=keep, with_stats=True)
        file_schemas = {number: table.schemas.schema(number) for number in {entry.file.schema_id for entry in live}}
        entries = indexed_entries(live, only, file_schemas, schema=schema)
        return _Plan(snapshot=latest, file_count=len(live), entries=entries)

    return table.snapshots.of_latest(read)


def _run(
    table: TableContext, schema: TableSchema, plan: _Plan, *, dry_run: bool, watch: Watch
) -> list[tuple[ManifestEntry, NewIndex]]:
    """Return the entries whose index changes, in manifest order. If a task fails, delete the new files of all."""
    found: dict[str, NewIndex] = {}
    done = watch.counting("indexing", len(plan.entries), "files")

    def take(text: str) -> None:
        made = indexes_from(text)
        found.update((name, index) for name, index in made.items() if index is not None)
        done(len(made))

    try:
        with named_by_nobody():
            tasks = list(_tasks(table, schema, plan, dry_run=dry_run))
            table.engine().run_at_once(run_file_indexes, tasks, take)
    except BaseException:
        _discard(table, schema, _messages(_changed(plan, found)))
        raise
    return _changed(plan, found)


def _changed(plan: _Plan, found: Mapping[str, NewIndex]) -> list[tuple[ManifestEntry, NewIndex]]:
    return [(entry, found[entry.file.file_name]) for entry in plan.entries if entry.file.file_name in found]


def _tasks(table: TableContext, schema: TableSchema, plan: _Plan, *, dry_run: bool) -> Iterator[FileIndexTask]:
    layout = DataLayout(schema)
    ids = {entry.file.schema_id for entry in plan.entries}
    file_schemas = {number: table.schemas.schema(number) for number in sorted(ids)}
    # The longest task decides when all are done, so it starts first.
    largest_first = sorted(plan.entries, key=lambda entry: (-entry.file.file_size, entry.file.file_name))
    sizes = [entry.file.file_size for entry in largest_first]
    for group in pack(largest_first, sizes, target_bytes=_TASK_BYTES, open_cost_bytes=_TASK_BYTES // _MOST_FILES):
        yield FileIndexTask(
            store=table.store.spec,
            schema=schema,
            file_schemas=file_schemas,
            files=tuple((layout.bucket(entry.partition, entry.bucket), entry.file) for entry in group),
            dry_run=dry_run,
        )


def _committed(
    table: TableContext,
    result: FileIndexResult,
    plan: _Plan,
    changed: Sequence[tuple[ManifestEntry, NewIndex]],
    *,
    identifier: int,
    properties: Mapping[str, str],
) -> tuple[FileIndexResult, frozenset[str], CommitConflict | None]:
    """Commit the changes that still fit; return the result with them, the names of the other files, and their
    conflict if none fits.
    """
    if not changed or plan.snapshot is None:
        return result, frozenset(), None
    messages = _messages(changed)
    staged = own_commit(
        table,
        result.schema.id,
        messages,
        base=plan.snapshot,
        identity=(result.commit_user, identifier),
        properties=properties,
    )
    try:
        made = commit_or_discard(table, staged, named_by="rewrite_file_index")
    except CommitConflict as error:
        return result, frozenset(entry.file.file_name for entry, _ in changed), error
    fit = {message.compact_before[0].file_name for message in without_conflicts(messages, made.conflicts)}
    lost = frozenset(entry.file.file_name for entry, _ in changed) - fit
    _discard(table, result.schema, [one for one in messages if one.compact_before[0].file_name in lost])
    applied = tuple(one for one in changed if one[0].file.file_name in fit)
    return replace(result, changed=(*result.changed, *applied), commits=(*result.commits, made)), lost, None


def _messages(changed: Sequence[tuple[ManifestEntry, NewIndex]]) -> list[CommitMessage]:
    """Return a message for each data file, as in Java, so that one in a conflict does not hold back the others."""
    return [
        CommitMessage(
            partition=entry.partition,
            bucket=entry.bucket,
            total_buckets=entry.total_buckets,
            compact_before=(entry.file,),
            compact_after=(with_index(entry.file, index),),
        )
        for entry, index in changed
    ]


def _discard(table: TableContext, schema: TableSchema, messages: Sequence[CommitMessage]) -> None:
    discard(table.store, schema, messages, named_by="rewrite_file_index")
