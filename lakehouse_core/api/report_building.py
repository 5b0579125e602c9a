"""Report building: turn the results of the core into the reports that users get."""

from collections import Counter
from dataclasses import asdict, fields, replace
from typing import Any, Final, TypeVar

from lakehouse_core.api.reports import (
    BranchReport,
    CommitReport,
    CompactionReport,
    ExpiryReport,
    FileIndexReport,
    ManifestReport,
    OrphanReport,
    Report,
    RescaleReport,
    RollbackReport,
    RowChangeReport,
    SchemaReport,
    TagReport,
)
from lakehouse_core.execution.alter.rescale import RescaleResult
from lakehouse_core.execution.branches.forward import ForwardResult
from lakehouse_core.execution.commit.compact_manifests import ManifestCompaction
from lakehouse_core.execution.commit.outcome import CommitResult
from lakehouse_core.execution.compaction.after_commit import WriteCompaction
from lakehouse_core.execution.compaction.compact import CompactionResult
from lakehouse_core.execution.compaction.plan import BucketCompaction
from lakehouse_core.execution.expiry.expire import ExpiryResult
from lakehouse_core.execution.expiry.orphans import OrphanRemoval
from lakehouse_core.execution.file_indexes import FileIndexResult
from lakehouse_core.execution.rollback import RollbackResult
from lakehouse_core.execution.row_changes.change import RowChangeResult
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.alter.text_casts import cast_note
from lakehouse_core.planning.commit.file_changes import effects_of
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.planning.row_changes.statements import SourceMerge
from lakehouse_core.table.bucketing import Dynamic
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Tag
from lakehouse_core.table.staged_commit import StagedCommit

R = TypeVar("R", bound=Report)


def commit_report(staged: StagedCommit, result: CommitResult, compaction: WriteCompaction) -> CommitReport:
    """Return the report of write, overwrite and commit, with the report of the compaction that followed."""
    counts = asdict(effects_of(result.changes))
    del counts["files_upgraded"]
    # The first snapshot has the rows; a compaction staged with them has its own snapshot.
    snapshot_id = result.snapshot_ids[0] if result.snapshot_ids else None
    made = next((snapshot for snapshot in result.snapshots if snapshot.id == snapshot_id), None)
    compacted = None
    if compaction.result is not None:
        compacted = replace(
            compaction_report(staged.table, compaction.result, None, dry_run=False),
            duration_seconds=compaction.duration_seconds,
        )
    after = (
        () if compaction.result is None or compaction.result.commit is None else compaction.result.commit.snapshot_ids
    )
    return CommitReport(
        table=staged.table,
        snapshot_id=snapshot_id,
        snapshot_id_before=result.snapshot_id_before,
        commit_kind=None if made is None else made.commit_kind.value,
        noop_reason=_why_nothing_was_committed(staged, result),
        attempts=result.attempts,
        commit_user=staged.commit_user,
        commit_identifier=staged.commit_identifier,
        schema_id=staged.schema_id if made is None else made.schema_id,
        replayed=result.replayed,
        snapshot_ids=(*result.snapshot_ids, *after),
        compaction=compacted,
        compaction_failure=_why_not_compacted(result) or compaction.failure,
        clock_note=result.clock_note,
        **counts,
    )


def row_change_report(result: RowChangeResult, *, dry_run: bool) -> RowChangeReport:
    """Return the report of a row change; for a dry run, what it would change."""
    base = result.base
    nothing = "the table is empty" if base.snapshot is None else "no row satisfies the condition"
    if isinstance(base.statement, SourceMerge) and base.statement.operation == "MERGE":
        nothing = "no row falls under a clause"
    return extended(
        commit_report(result.staged, result.commit, result.compaction),
        RowChangeReport,
        noop_reason=None if result.changes_rows else nothing,
        dry_run=dry_run,
        operation=base.statement.operation,
        method=base.method.value,
        rows_matched=result.rows_matched,
        rows_updated=result.rows_updated,
        rows_deleted=result.rows_deleted,
        rows_inserted=result.rows_inserted,
        rows_read=result.rows_read,
        files_touched=result.files_touched,
        runs=result.runs,
    )


def extended(report: Report, kind: type[R], **more: Any) -> R:
    """Return a report of another kind with the fields of this one, and with more of its own."""
    return kind(**{**{each.name: getattr(report, each.name) for each in fields(report)}, **more})


def compaction_report(table: str, result: CompactionResult, before: int | None, *, dry_run: bool) -> CompactionReport:
    """Return the report of compact; for a dry run, the plan.

    `before` is the latest snapshot at the time of the call.
    """
    made = result.commit
    effects = effects_of(() if made is None else made.changes)
    lost = 0 if made is None else len({(conflict.partition, conflict.bucket) for conflict in made.conflicts})
    last = None if made is None or not made.snapshots else made.snapshots[-1]
    return CompactionReport(
        table=table,
        snapshot_id=None if last is None else last.id,
        snapshot_id_before=before if made is None else made.snapshot_id_before,
        commit_kind=None if last is None else last.commit_kind.value,
        noop_reason=result.noop_reason,
        attempts=0 if made is None else made.attempts,
        dry_run=dry_run,
        commit_user=result.commit_user,
        commit_identifier=None if last is None else last.commit_identifier,
        buckets_rewritten=len({(one.partition, one.bucket) for one in result.buckets}) - lost,
        buckets_conflicted=lost,
        files_before=result.file_count,
        files_after=0
        if dry_run and result.buckets
        else result.file_count + effects.files_added - effects.files_removed,
        bytes_rewritten=sum(one.rewritten_bytes for one in result.buckets),
        clock_note=None if made is None else made.clock_note,
        buckets=tuple(_bucket(one) for one in result.buckets[:_MOST_BUCKETS]),
        **asdict(effects),
    )


def rescale_report(table: str, result: RescaleResult, *, dry_run: bool) -> RescaleReport:
    """Return the report of rescale; for a dry run, the plan."""
    types = [field.type for field in result.schema.partition_fields]
    snapshots = [snapshot for commit in result.commits for snapshot in commit.snapshots]
    last = snapshots[-1] if snapshots else None
    effects = effects_of(change for commit in result.commits for change in commit.changes)
    nothing = "the table is empty" if result.snapshot is None else f"every partition has {result.count} buckets"
    if isinstance(result.schema.bucketing, Dynamic):
        nothing = "there are no rows to bring to new buckets"
    return RescaleReport(
        table=table,
        snapshot_id=None if last is None else last.id,
        snapshot_id_before=None if result.snapshot is None else result.snapshot.id,
        commit_kind=None if last is None else last.commit_kind.value,
        noop_reason=None if result.partitions else nothing,
        attempts=sum(commit.attempts for commit in result.commits),
        dry_run=dry_run,
        commit_user=result.commit_user,
        schema_id=result.schema.id,
        buckets=result.count,
        buckets_before=result.count_before,
        partitions_rescaled=tuple(
            named_values(deserialize_row(one.partition, types), result.schema) for one in result.partitions
        ),
        snapshot_ids=tuple(snapshot.id for snapshot in snapshots),
        bytes_rewritten=sum(one.size_bytes for one in result.partitions),
        runs=result.runs,
        files_added=effects.files_added,
        files_removed=effects.files_removed,
        rows_added=effects.rows_added,
        rows_removed=effects.rows_removed,
        bytes_added=effects.bytes_added,
        bytes_removed=effects.bytes_removed,
    )


def file_index_report(table: str, result: FileIndexResult, *, dry_run: bool) -> FileIndexReport:
    """Return the report of rewrite_file_index; for a dry run, what it would write."""
    snapshots = [snapshot for commit in result.commits for snapshot in commit.snapshots]
    last = snapshots[-1] if snapshots else None
    sizes = [index.size_bytes for _, index in result.changed]
    nothing = "every file has the indexes that the options ask for"
    if not result.file_count:
        nothing = "the table is empty" if result.snapshot is None else "there are no files in the partition"
    return FileIndexReport(
        table=table,
        snapshot_id=None if last is None else last.id,
        snapshot_id_before=None if result.snapshot is None else result.snapshot.id,
        commit_kind=None if last is None else last.commit_kind.value,
        noop_reason=None if result.changed or result.conflicted else nothing,
        attempts=sum(commit.attempts for commit in result.commits),
        dry_run=dry_run,
        commit_user=result.commit_user if result.commits else "",
        files_examined=result.file_count,
        files_indexed=sum(map(bool, sizes)),
        indexes_dropped=sizes.count(0),
        index_bytes=sum(sizes),
        partitions_changed=len({entry.partition for entry, _ in result.changed}),
        files_conflicted=result.conflicted,
        snapshot_ids=tuple(snapshot.id for snapshot in snapshots),
        runs=result.runs if result.commits else 0,
    )


def manifest_report(table: str, result: ManifestCompaction, *, dry_run: bool) -> ManifestReport:
    """Return the report of compact_manifests."""
    made = result.snapshot
    return ManifestReport(
        table=table,
        snapshot_id=None if made is None else made.id,
        snapshot_id_before=result.snapshot_id_before,
        commit_kind=None if made is None else made.commit_kind.value,
        noop_reason=result.noop_reason,
        attempts=result.attempts,
        dry_run=dry_run,
        commit_user="" if made is None else made.commit_user,
        commit_identifier=None if made is None else made.commit_identifier,
        manifests_before=result.manifests_before,
        manifests_after=result.manifests_after,
        manifests_merged=result.manifests_merged,
        entries_before=result.entries_before,
        entries_after=result.entries_after,
        clock_note=result.clock_note,
    )


def expiry_report(table: str, result: ExpiryResult, *, dry_run: bool) -> ExpiryReport:
    """Return the report of expire_snapshots."""
    retained = 0
    if result.earliest_id is not None and result.latest_id is not None:
        retained = result.latest_id - result.earliest_id + 1
    return ExpiryReport(
        table=table,
        snapshot_id_before=result.latest_id,
        noop_reason=result.noop_reason,
        files_removed=sum(result.files_deleted.values()),
        bytes_removed=result.bytes_deleted,
        dry_run=dry_run,
        snapshots_expired=len(result.snapshot_ids),
        snapshots_retained=retained,
        earliest_snapshot_id=result.earliest_id,
        changelogs_kept=len(result.made_changelog_ids),
        changelogs_expired=len(result.changelog_ids),
        tags_expired=result.tags,
        files_deleted=result.files_deleted,
        files_waiting=result.files_waiting,
        bytes_waiting=result.bytes_waiting,
        reason=result.reason,
        paths=result.deleted_keys,
        paths_waiting=result.waiting_keys,
    )


def orphan_report(table: str, result: OrphanRemoval, latest_id: int | None, *, dry_run: bool) -> OrphanReport:
    """Return the report of remove_orphans; for a dry run, what it would delete."""
    deleted, younger = result.deleted, result.younger
    return OrphanReport(
        table=table,
        snapshot_id_before=latest_id,
        noop_reason=None if deleted else _why_no_orphans(len(younger)),
        files_removed=len(deleted),
        bytes_removed=sum(one.size for one in deleted),
        dry_run=dry_run,
        files_deleted=dict(sorted(Counter(one.kind.value for one in deleted).items())),
        files_younger=len(younger),
        bytes_younger=sum(one.size for one in younger),
        paths=tuple(one.key for one in deleted),
    )


def _why_no_orphans(younger: int) -> str:
    if not younger:
        return "every file is needed"
    return f"files that nothing names but are younger than older_than: {younger}"


def rollback_report(table: str, result: RollbackResult, *, dry_run: bool) -> RollbackReport:
    """Return the report of rollback_to; for a dry run, what it would change."""
    return RollbackReport(
        table=table,
        **_restored(result),
        dry_run=dry_run,
        commit_user="" if result.snapshot is None else result.snapshot.commit_user,
        rolled_back_to=result.target.id,
        clock_note=result.clock_note,
    )


def _restored(result: RollbackResult | ForwardResult) -> dict[str, Any]:
    """Return the fields that the reports of both verbs have, which bring the files of another state."""
    effects = effects_of(result.changes)
    made = result.snapshot
    return {
        "snapshot_id": None if made is None else made.id,
        "snapshot_id_before": result.snapshot_id_before,
        "commit_kind": None if made is None else made.commit_kind.value,
        "noop_reason": result.noop_reason,
        "files_added": effects.files_added,
        "files_removed": effects.files_removed,
        "rows_added": effects.rows_added,
        "rows_removed": effects.rows_removed,
        "bytes_added": effects.bytes_added,
        "bytes_removed": effects.bytes_removed,
        "attempts": result.attempts,
    }


def schema_report(table: str, old: TableSchema, new: TableSchema, latest_id: int | None) -> SchemaReport:
    """Return the report of alter."""
    return SchemaReport(
        table=table,
        snapshot_id_before=latest_id,
        noop_reason="the schema already has these values" if old.id == new.id else None,
        schema_id=new.id,
        schema_id_before=old.id,
        cast_note=None if latest_id is None else cast_note(old, new),
    )


def tag_report(
    table: str, name: str, tag: Tag, latest_id: int | None, *, deleted: ExpiryResult | None = None, dry_run: bool
) -> TagReport:
    """Return the report of create_tag, or of delete_tag when `deleted` is given."""
    return TagReport(
        table=table,
        snapshot_id_before=latest_id,
        tag=name,
        tagged_snapshot_id=tag.snapshot.id,
        files_deleted=0 if deleted is None else sum(deleted.files_deleted.values()),
        files_waiting=0 if deleted is None else deleted.files_waiting,
        bytes_removed=0 if deleted is None else deleted.bytes_deleted,
        dry_run=dry_run,
    )


def branch_report(
    table: str,
    name: str,
    latest_id: int | None,
    *,
    snapshot_id: int | None = None,
    deleted: ExpiryResult | None = None,
    dry_run: bool,
) -> BranchReport:
    """Return the report of a verb about a branch; `deleted` is what delete_branch removed."""
    return BranchReport(
        table=table,
        snapshot_id_before=latest_id,
        branch=name,
        branch_snapshot_id=snapshot_id,
        files_deleted=0 if deleted is None else sum(deleted.files_deleted.values()),
        files_waiting=0 if deleted is None else deleted.files_waiting,
        bytes_removed=0 if deleted is None else deleted.bytes_deleted,
        dry_run=dry_run,
    )


def forward_report(table: str, name: str, result: ForwardResult, *, dry_run: bool) -> BranchReport:
    """Return the report of fast_forward; for a dry run, what it would change."""
    return BranchReport(
        table=table,
        **_restored(result),
        dry_run=dry_run,
        branch=name,
        branch_snapshot_id=result.source.id,
    )


# Lists are limited, because one event of an orchestrator holds a whole report.
_MOST_BUCKETS: Final = 100


def _bucket(one: BucketCompaction) -> dict[str, Any]:
    return {
        "partition": one.values,
        "bucket": one.bucket,
        "files": len(one.plan.files),
        "bytes_rewritten": one.rewritten_bytes,
        "reason": one.plan.reason,
    }


def _why_not_compacted(result: CommitResult) -> str | None:
    """Return why a compaction that was staged with the rows is not applied, or only in some buckets; None if it is."""
    if result.compaction_failure is not None or not result.conflicts:
        return result.compaction_failure
    buckets = len({(conflict.partition, conflict.bucket) for conflict in result.conflicts})
    return (
        f"the rows are committed; another commit changed {buckets} of the buckets that the staged compaction "
        f"rewrites, which stay as they are: {result.conflicts[0].reason}"
    )


def _why_nothing_was_committed(staged: StagedCommit, result: CommitResult) -> str | None:
    if result.replayed:
        return f"{staged.commit_user} has already committed {staged.commit_identifier}"
    if not result.changes:
        return "the input had no rows to write" if not staged.messages else result.noop_reason
    return None
