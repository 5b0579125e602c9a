"""Rescale: bring the partitions of a table to another number of buckets, or to new dynamic ones.

Order: the option `bucket` first, so that from then on no writer adds files to a partition that is not rewritten yet;
then commit by commit the partitions, each as an OVERWRITE that is refused if others changed the rows meanwhile. A call
that ended midway is completed by the same call.
Source: docs/semantics/maintenance.md#rescaling.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final

from lakehouse_core.errors import CommitConflict, CorruptTable, InvalidRequest, NotFound
from lakehouse_core.execution.alter.alter import alter
from lakehouse_core.execution.commit.loop import commit_or_discard
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.commit.own_commit import own_commit
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.compaction.compact import compact
from lakehouse_core.execution.compaction.scope import RequestedBuckets
from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.alter.alter import apply_changes
from lakehouse_core.planning.alter.schema_change import SetOption
from lakehouse_core.planning.commit.hash_indexes import LiveIndexes, live_indexes
from lakehouse_core.planning.commit.read_scope import ReadScope
from lakehouse_core.planning.partitions import condition_of_values
from lakehouse_core.planning.readable import deletion_files
from lakehouse_core.planning.rescale import (
    PartitionRescale,
    commits_of,
    condition_of_all,
    lacks_changelog,
    plan_rescale,
    removals,
    rescalable,
)
from lakehouse_core.progress import Watch
from lakehouse_core.retry import REPLAN
from lakehouse_core.storage.outcomes import begun, named_by_nobody
from lakehouse_core.table.bucketing import Dynamic, total_buckets
from lakehouse_core.table.commit_json import messages_from_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.predicate import Predicate, holds
from lakehouse_core.table.schema import TableSchema, read_supported, write_supported
from lakehouse_core.table.snapshot import RESCALED_TO, Snapshot
from lakehouse_core.tasks.limits import MERGES_AT_ONCE
from lakehouse_core.tasks.rescale import RescaleTask, run_rescale

_LEFT: Final = "The rescale may be done in part: call it again to finish it."


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleResult:
    """The planned partitions and the commits, in order; in a dry run there are none.

    `schema` has the new count, of which `count_before` is the former value; both are -1 if buckets are dynamic.
    `runs`: how often commits were begun.
    """

    schema: TableSchema
    count: int
    count_before: int
    snapshot: Snapshot | None = None
    partitions: tuple[PartitionRescale, ...] = ()
    commits: tuple[CommitResult, ...] = ()
    commit_user: str = ""
    runs: int = 0


def rescale(
    table: TableContext,
    *,
    count: int | None,
    values: Mapping[str, object],
    dry_run: bool,
    properties: Mapping[str, str],
    watch: Watch,
) -> RescaleResult:
    """Rewrite the partitions whose files were written for another bucket count than `count`, None: the table's option;
    if buckets are dynamic, all.

    `values`: comparable values of partition columns, to which the call is limited; none with a new count.
    Raises InvalidRequest, UnsupportedFeature, CommitConflict if others changed the rows in each attempt,
    WriteOutcomeUnknown when the store failed midway, and the errors of alter, of tasks and of a commit. What was
    committed before an error stays.
    """
    watch.at("planning the rescale")
    schema = table.schemas.latest()
    write_supported(schema, table=table.name)
    read_supported(schema, table=table.name)
    before = total_buckets(rescalable(schema, count))
    wanted = before if count is None else count
    if wanted != before:
        if values:
            raise InvalidRequest(
                f"rescale: buckets is {wanted} and the table's option bucket is {before}. A partition takes the count "
                "of its table: rescale the whole table, or leave buckets out."
            )
        schema = _with_count(table, schema, wanted, dry_run=dry_run)
    with nullcontext() if dry_run or wanted == before else begun(_LEFT):
        snapshot, planned = _planned(table, schema, condition_of_values(values, schema))
    result = RescaleResult(
        schema=schema, count=wanted, count_before=before, snapshot=snapshot, partitions=tuple(planned)
    )
    if dry_run or not planned:
        return result
    result = replace(result, commit_user=f"rescale-{table.clock.uuid()}")
    done = watch.counting("rescaling", len(planned), "partitions")
    with begun(_LEFT):
        for number, group in enumerate(commits_of(planned), 1):
            made, runs = _until_committed(table, result, group, identifier=number, properties=properties)
            done(len(group))
            result = replace(result, commits=(*result.commits, *made), runs=result.runs + runs)
    return result


def _with_count(table: TableContext, schema: TableSchema, count: int, *, dry_run: bool) -> TableSchema:
    changes = [SetOption("bucket", str(count))]
    if dry_run:
        return apply_changes(schema, changes, has_snapshots=True, now_millis=table.clock.now_millis())
    return alter(table, changes)[1]


def _planned(
    table: TableContext, schema: TableSchema, condition: Predicate | None, only: frozenset[bytes] | None = None
) -> tuple[Snapshot | None, list[PartitionRescale]]:
    """Return the latest snapshot and its partitions to rewrite; `only`: of these."""
    types = [field.type for field in schema.partition_fields]

    def keep(partition: bytes, bucket: int, level: int) -> bool:
        if only is not None:
            return partition in only
        known = dict(zip(schema.partition_keys, deserialize_row(partition, types), strict=True))
        return holds(condition, known)

    def read(latest: Snapshot | None) -> tuple[Snapshot | None, list[PartitionRescale]]:
        if latest is None:
            return None, []
        return latest, plan_rescale(table.manifests.live_entries(latest, keep=keep), rescalable(schema))

    return table.snapshots.of_latest(read)


def _until_committed(
    table: TableContext,
    result: RescaleResult,
    group: Sequence[PartitionRescale],
    *,
    identifier: int,
    properties: Mapping[str, str],
) -> tuple[tuple[CommitResult, ...], int]:
    """Rewrite the partitions in one commit, anew if others change them; return the commit, and how often it began."""
    only = frozenset(one.partition for one in group)
    for attempt in REPLAN.attempts(table.clock):
        snapshot, planned = _planned(table, result.schema, None, only)
        if any(lacks_changelog(one, result.schema) for one in planned):
            # What the rescale would hide from the changelog is told first.
            scope = RequestedBuckets(condition=condition_of_all(planned, result.schema))
            compact(table, scope, full=True, properties=properties)
            snapshot, planned = _planned(table, result.schema, None, only)
        if snapshot is None or not planned:
            # Another rescale has done it.
            return (), attempt.number
        # After the plan: what another call rescales later is a conflict.
        if (now := total_buckets(table.schemas.latest().bucketing)) != result.count:
            raise CommitConflict(
                f"Another call set the option bucket to {now} while this one rescaled to {result.count}. Run it again "
                "with the number that the table shall have."
            )
        try:
            if any(lacks_changelog(one, result.schema) for one in planned):
                raise CommitConflict(
                    "Another commit added rows that no changelog has yet while the rescale began. Run it again."
                )
            made = _committed(table, result, snapshot, planned, identifier=identifier, properties=properties)
            return (made,), attempt.number
        except CommitConflict:
            if attempt.is_last:
                raise
        except (CorruptTable, NotFound) as error:
            if not table.snapshots.has_expired(snapshot):
                raise
            if attempt.is_last:
                raise CommitConflict(
                    f"The rescale read a snapshot that expired meanwhile, {attempt.number} times in a row. The "
                    "partitions that were not committed are as before: run it again, or expire less."
                ) from error
        attempt.wait()
    raise AssertionError("the last attempt returns or raises")


def _committed(
    table: TableContext,
    result: RescaleResult,
    snapshot: Snapshot,
    planned: Sequence[PartitionRescale],
    *,
    identifier: int,
    properties: Mapping[str, str],
) -> CommitResult:
    schema = result.schema
    staged = own_commit(
        table,
        schema.id,
        _rewritten(table, schema, snapshot, planned),
        base=snapshot,
        identity=(result.commit_user, identifier),
        properties={**properties, RESCALED_TO: str(result.count)},
    )
    reads = ReadScope(
        operation="rescale",
        schema=schema,
        condition=condition_of_all(planned, schema),
        sees_appends=True,
        sees_removals=True,
        whole_buckets=True,
        # Their hash indexes, which list keys of all buckets, are replaced with the rows.
        whole_partitions=isinstance(schema.bucketing, Dynamic),
        moves_no_keys=True,
    )
    return commit_or_discard(table, staged, named_by="the rescale", reads=reads)


def _rewritten(
    table: TableContext, schema: TableSchema, snapshot: Snapshot, planned: Sequence[PartitionRescale]
) -> list[CommitMessage]:
    """Return what the commit removes and adds. If a task fails, delete the new files of all."""
    indexes = table.manifests.index_entries(snapshot)
    layout = DataLayout(schema)
    messages: list[CommitMessage] = []

    def take(text: str) -> None:
        messages.extend(messages_from_json(text))

    try:
        with named_by_nobody():
            tasks = list(_tasks(table, schema, planned, deletion_files(indexes, layout), live_indexes(indexes)))
            table.engine().run_at_once(run_rescale, tasks, take, most=MERGES_AT_ONCE)
    except BaseException:
        discard(table.store, schema, messages, named_by="the rescale")
        raise
    return messages + removals(planned, indexes, schema)


def _tasks(
    table: TableContext,
    schema: TableSchema,
    planned: Sequence[PartitionRescale],
    deletions: Mapping[str, DeletionFile],
    hash_indexes: LiveIndexes,
) -> Iterator[RescaleTask]:
    layout = DataLayout(schema)
    ids = {file.schema_id for one in planned for source in one.sources for file in source.files}
    file_schemas = {number: table.schemas.schema(number) for number in sorted(ids)}
    for one in planned:
        for group in one.groups:
            ordered = [
                (layout.bucket(one.partition, source.bucket), file)
                for source in group
                for file in sorted(source.files, key=lambda file: file.min_sequence_number)
            ]
            yield RescaleTask(
                store=table.store.spec,
                schema=schema,
                partition=one.partition,
                files=tuple(file for _, file in ordered),
                folders={file.file_name: folder for folder, file in ordered},
                file_schemas=file_schemas,
                deletions={
                    file.file_name: deletions[file.file_name] for _, file in ordered if file.file_name in deletions
                },
                indexes={
                    layout.bucket(*place): (layout.index_folder(*place) or INDEX_FOLDER, hash_indexes[place])
                    for source in group
                    if (place := (one.partition, source.bucket)) in hash_indexes
                },
            )
