"""Manifest compaction as a verb of its own: all manifests of the latest snapshot into few, in one COMPACT snapshot.

It changes no row that any reader sees (docs/reliability/invariants.md#i9-compaction-changes-no-result), so it never
conflicts and may be repeated.
Source: docs/semantics/commit.md#compacting-manifests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakehouse_core.clock import Clock
from lakehouse_core.execution.commit.manifest_merge import merge_full
from lakehouse_core.execution.commit.publish import Patience
from lakehouse_core.execution.commit.replay import ledger_at
from lakehouse_core.execution.commit.stamping import next_stamp
from lakehouse_core.execution.commit.trial import Trial
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.manifest_writer import ManifestWriter
from lakehouse_core.planning.commit.checks import check_properties
from lakehouse_core.planning.commit.file_changes import Changes
from lakehouse_core.planning.commit.ledger import LEDGER_PROPERTY
from lakehouse_core.planning.commit.manifest_merge import replace_inputs
from lakehouse_core.planning.commit.snapshot import WrittenLists, next_snapshot
from lakehouse_core.storage import MemoryStore, ObjectStore
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER, CommitKind
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCompaction:
    """What became of the manifests; of a dry run, what would. Entries are files that come or go, as manifests say.

    `manifests_merged`: those that were read and replaced. `snapshot` and its predecessor are None when nothing was
    published, and `noop_reason` then says why (but after a dry run). `clock_note`: what its time was not taken for.
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
    """Merge the manifests of the latest snapshot and publish the result; nothing to merge is an answer that says so.

    `properties` go into the snapshot. A dry run merges in memory and leaves the table as it is.
    Raises CommitTimeout, CommitOutcomeUnknown, CorruptTable, StorageUnavailable, UnsupportedFeature.
    """
    check_properties(properties or {})
    schema = table.schemas.latest()
    write_supported(schema)
    if dry_run:
        return _planned(table, schema)
    writer = _writer(table.store, table.clock, schema)
    run = _Run(
        table=table,
        commit_user=table.clock.uuid(),
        properties=properties or {},
        writer=writer,
        trial=Trial(table, writer, Patience(schema.table_options.commit, table.clock, max_retries=None)),
    )
    return run.trial.run(lambda: _attempt(run), f"compact_manifests by {run.commit_user}")


@dataclass(slots=True, kw_only=True)
class _Run:
    """One call on its way, with the merge that one attempt leaves to the next."""

    table: TableContext
    commit_user: str
    properties: Mapping[str, str]
    writer: ManifestWriter
    trial: Trial
    inputs: tuple[ManifestFile, ...] = ()
    outputs: tuple[ManifestFile, ...] = field(default=())


def _attempt(run: _Run) -> ManifestCompaction | None:
    """Return the result, None when another commit was faster."""
    latest = run.trial.latest()
    current = [] if latest is None else run.table.manifests.of(latest)
    merged = _merged(run, current)
    if latest is None or merged is None:
        run.writer.discard_all_but(())
        return _nothing(current, latest, run.trial.attempts)
    base, delta = run.writer.write_list(merged), run.writer.write_list(())
    lists = WrittenLists(
        base=base,
        delta=delta,
        checksums={one.name: run.writer.checksum_of(one.name) for one in (base, delta)},
    )
    schema = run.table.schemas.latest()
    skew = schema.table_options.expiry.max_skew_millis
    stamp = next_stamp(run.table.store, run.table.clock, latest, max_skew_millis=skew)
    made = next_snapshot(
        latest,
        Changes(kind=CommitKind.COMPACT),
        lists,
        schema_id=schema.id,
        commit_user=run.commit_user,
        commit_identifier=BATCH_IDENTIFIER,
        properties=run.properties,
        uuid=run.table.clock.uuid(),
        nonce=run.table.clock.uuid(),
        now_millis=stamp.time_millis,
    )
    # Noted like every commit: should the id expire before it is sure to count, the ledger tells whether others build on
    # these manifests.
    ledger, _ = ledger_at(run.table.snapshots, latest).with_commit(made)
    snapshot = made.model_copy(update={"properties": {**made.properties, LEDGER_PROPERTY: ledger.to_json()}})
    run.writer.flush()
    if not run.trial.publish(snapshot):
        return None
    run.writer.discard_all_but({base.name, delta.name, *(manifest.file_name for manifest in merged)})
    result = _result(current, merged, snapshot=snapshot, before=latest.id, attempts=run.trial.attempts)
    return replace(result, clock_note=stamp.note)


def _merged(run: _Run, current: Sequence[ManifestFile]) -> list[ManifestFile] | None:
    """Return the manifests after the merge, None when it would change nothing. Later appends leave a merge valid."""
    if run.inputs:
        again = replace_inputs(current, run.inputs, run.outputs)
        if again is not None:
            return again
    merged = merge_full(run.table, run.writer, current)
    if merged is not None:
        run.inputs, run.outputs = tuple(current), tuple(merged)
    return merged


def _planned(table: TableContext, schema: TableSchema) -> ManifestCompaction:
    def plan(latest: Snapshot | None) -> ManifestCompaction:
        current = [] if latest is None else table.manifests.of(latest)
        merged = merge_full(table, _writer(MemoryStore(clock=table.clock), table.clock, schema), current)
        if latest is None or merged is None:
            return _nothing(current, latest, 0)
        return _result(current, merged, snapshot=None, before=latest.id, attempts=0)

    return table.snapshots.of_latest(plan)


def _writer(store: ObjectStore, clock: Clock, schema: TableSchema) -> ManifestWriter:
    types = [field.type for field in schema.partition_fields]
    return ManifestWriter(store, clock, options=schema.table_options, partition_types=types)


def _nothing(current: Sequence[ManifestFile], latest: Snapshot | None, attempts: int) -> ManifestCompaction:
    if latest is None:
        return ManifestCompaction(noop_reason="the table has no snapshot", attempts=attempts)
    count = _entries(current)
    return ManifestCompaction(
        snapshot_id_before=latest.id,
        manifests_before=len(current),
        manifests_after=len(current),
        entries_before=count,
        entries_after=count,
        attempts=attempts,
        noop_reason=f"{len(current)} manifests with {count} entries need no merge",
    )


def _result(
    current: Sequence[ManifestFile],
    merged: Sequence[ManifestFile],
    *,
    snapshot: Snapshot | None,
    before: int,
    attempts: int,
) -> ManifestCompaction:
    kept = {manifest.file_name for manifest in merged}
    return ManifestCompaction(
        snapshot=snapshot,
        snapshot_id_before=before,
        manifests_before=len(current),
        manifests_after=len(merged),
        manifests_merged=sum(manifest.file_name not in kept for manifest in current),
        entries_before=_entries(current),
        entries_after=_entries(merged),
        attempts=attempts,
    )


def _entries(manifests: Sequence[ManifestFile]) -> int:
    return sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)
