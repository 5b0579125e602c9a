"""Manifest compaction: rewrite the manifests of the latest snapshot as fewer ones, in one COMPACT snapshot.

Rule: no read gives another result afterwards, so the step has no conflicts and may be repeated.
Source: docs/semantics/commit.md#compacting-manifests, docs/reliability/invariants.md#i9-compaction-changes-no-result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from lakehouse_core.execution.commit.loop import make_snapshot
from lakehouse_core.execution.commit.manifest_merge import merge_full
from lakehouse_core.execution.commit.outcome import AlreadyCommitted, Committed, NothingToCommit
from lakehouse_core.execution.commit.own_commit import own_commit
from lakehouse_core.execution.commit.snapshot_files import manifest_writer
from lakehouse_core.execution.context import TableContext
from lakehouse_core.options import WriteKind
from lakehouse_core.planning.commit.checks import check_properties
from lakehouse_core.planning.commit.steps import RewriteManifestsStep
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCompaction:
    """The manifests before and after the compaction; in a dry run, as they would be. Entries add and remove files.

    `manifests_merged`: the number of manifests that were read and replaced. `snapshot` is None when nothing was
    published; `noop_reason` then says why, unless it was a dry run. `clock_note`: how the time of the snapshot was
    chosen.
    """

    snapshot: Snapshot | None = None
    snapshot_id_before: int | None = None
    manifests_before: int = 0
    manifests_after: int = 0
    manifests_merged: int = 0
    entries_before: int = 0
    entries_after: int = 0
    attempts: int = 0
    clock_note: str | None = None
    noop_reason: str | None = None


def compact_manifests(
    table: TableContext,
    *,
    properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> ManifestCompaction:
    """Merge the manifests of the latest snapshot and publish the result, unless there is nothing to merge.

    `properties` go into the snapshot. A dry run merges in memory and leaves the table as it is.
    Raises CommitTimeout, CommitOutcomeUnknown, CorruptTable, StorageUnavailable, UnsupportedFeature.
    """
    check_properties(properties or {})
    look = table.look()
    schema = table.schemas.latest(look)
    write_supported(schema, kind=WriteKind.MAINTENANCE)
    if dry_run:
        return _dry_run(table, schema)
    staged = own_commit(table, schema.id, properties=properties)
    outcome = make_snapshot(table, RewriteManifestsStep(staged=staged), schema, look)
    match outcome:
        case Committed(previous=previous, manifests_before=before, manifests=merged, attempts=attempts):
            result = _result(before, merged, previous, attempts=attempts)
            return replace(result, snapshot=outcome.snapshot, clock_note=outcome.clock_note)
        case NothingToCommit(previous=previous, manifests=manifests, attempts=attempts):
            return _nothing(manifests, previous, attempts=attempts)
        case AlreadyCommitted():
            raise AssertionError("a fresh user has committed nothing before")
        case _:
            assert_never(outcome)


def _dry_run(table: TableContext, schema: TableSchema) -> ManifestCompaction:
    def merge(latest: Snapshot | None) -> ManifestCompaction:
        before = [] if latest is None else table.manifests.of(latest)
        writer = manifest_writer(MemoryStore(clock=table.clock), table.clock, schema)
        merged = merge_full(table, writer, before)
        return _nothing(before, latest) if merged is None else _result(before, merged, latest)

    return table.snapshots.of_latest(merge)


def _nothing(manifests: Sequence[ManifestFile], latest: Snapshot | None, *, attempts: int = 0) -> ManifestCompaction:
    if latest is None:
        return ManifestCompaction(noop_reason="the table has no snapshot", attempts=attempts)
    count = _entries(manifests)
    return ManifestCompaction(
        snapshot_id_before=latest.id,
        manifests_before=len(manifests),
        manifests_after=len(manifests),
        entries_before=count,
        entries_after=count,
        attempts=attempts,
        noop_reason=f"{len(manifests)} manifests with {count} entries need no merge",
    )


def _result(
    before: Sequence[ManifestFile], merged: Sequence[ManifestFile], latest: Snapshot | None, *, attempts: int = 0
) -> ManifestCompaction:
    kept = {manifest.file_name for manifest in merged}
    return ManifestCompaction(
        snapshot_id_before=None if latest is None else latest.id,
        manifests_before=len(before),
        manifests_after=len(merged),
        manifests_merged=sum(manifest.file_name not in kept for manifest in before),
        entries_before=_entries(before),
        entries_after=_entries(merged),
        attempts=attempts,
    )


def _entries(manifests: Sequence[ManifestFile]) -> int:
    return sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)
