"""From what the core did to the reports that users get."""

from dataclasses import asdict

from lakehouse_core.catalog.reports import CommitReport, CompactionReport, ExpiryReport, ManifestReport
from lakehouse_core.execution.commit import CommitResult
from lakehouse_core.execution.compaction import CompactionResult
from lakehouse_core.execution.expiry import ExpiryResult
from lakehouse_core.execution.manifest_compaction import ManifestCompaction
from lakehouse_core.planning.effects import effects_of
from lakehouse_core.table.changes import StagedCommit


def commit_report(staged: StagedCommit, result: CommitResult, seconds: float) -> CommitReport:
    """Return the report of write, overwrite and commit."""
    counts = asdict(effects_of(result.changes))
    del counts["files_upgraded"]
    last = result.snapshots[-1] if result.snapshots else None
    return CommitReport(
        table=staged.table,
        snapshot_id=result.snapshot_ids[-1] if result.snapshot_ids else None,
        snapshot_id_before=result.snapshot_id_before,
        commit_kind=None if last is None else last.commit_kind.value,
        noop_reason=_why_nothing_was_committed(staged, result),
        attempts=result.attempts,
        duration_seconds=seconds,
        commit_user=staged.commit_user,
        commit_identifier=staged.commit_identifier,
        schema_id=staged.schema_id if last is None else last.schema_id,
        replayed=result.replayed,
        snapshot_ids=result.snapshot_ids,
        **counts,
    )


def _why_nothing_was_committed(staged: StagedCommit, result: CommitResult) -> str | None:
    if result.replayed:
        return f"{staged.commit_user} committed {staged.commit_identifier} before; nothing was done again"
    if not result.changes:
        return "the input had no rows" if not staged.messages else result.noop_reason
    return None
