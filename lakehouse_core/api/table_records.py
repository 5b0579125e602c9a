"""Record verbs of `Table`: snapshots, tags, schemas, files, buckets, manifests, committers.

Rule: no data file is opened.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from lakehouse_core.api.arguments import options_of
from lakehouse_core.api.record_building import (
    bucket_records,
    committer_records,
    file_records,
    manifest_records,
    origin_records,
    partition_records,
    pending_records,
    schema_records,
    snapshot_records,
    tag_records,
)
from lakehouse_core.api.records import (
    BucketRecord,
    CommitterRecord,
    FileOrigin,
    FileRecord,
    ManifestRecord,
    PartitionRecord,
    PendingRecord,
    Records,
    TagRecord,
)
from lakehouse_core.api.system.tables import SystemSource, SystemTable, system_table
from lakehouse_core.api.verb import names_table
from lakehouse_core.display import page
from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, shown
from lakehouse_core.execution.commit.check import refusals
from lakehouse_core.execution.commit.replay import ledger_at
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.lineage import load_lineage, made_by_run, snapshot_of, trail_of_file
from lakehouse_core.execution.read.state import ReadState, read_at
from lakehouse_core.format.data_types import type_to_sql
from lakehouse_core.format.stored import check_text
from lakehouse_core.metadata.staged_commits import all_kept
from lakehouse_core.planning.commit.ledger import CONTENT_KINDS
from lakehouse_core.planning.commit.ledger import content_snapshot_id as newest_content_id
from lakehouse_core.planning.read.read_point import AtSnapshot, ReadPoint, checked_point
from lakehouse_core.table.bucketing import is_placed, may_wait
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

# The number of rows that fit on a screen.
_MOST_COLUMNS: Final = 40
# Dagster shows this many characters of a run. Fewer could begin many.
SHORTEST_RUN: Final = 8


@names_table
def schema(table: TableContext) -> TableSchema:
    return table.schemas.latest()


@names_table
def snapshots(table: TableContext) -> Records[Snapshot]:
    return snapshot_records(table.snapshots.history())


@names_table
def snapshot(table: TableContext, snapshot_id: int | None) -> Snapshot | None:
    return table.snapshots.latest() if snapshot_id is None else table.snapshots.snapshot(AtSnapshot(snapshot_id).id)


@names_table
def changelogs(table: TableContext) -> Records[Snapshot]:
    return snapshot_records(table.changelogs.changelog(snapshot_id) for snapshot_id in table.changelogs.ids())


@names_table
def tags(table: TableContext) -> Records[TagRecord]:
    return tag_records(table.tags.all())


@names_table
def schemas(table: TableContext) -> Records[TableSchema]:
    return schema_records(table.schemas.all())


@names_table
def files(table: TableContext, *, at: ReadPoint, stats: bool, lineage: bool) -> Records[FileRecord]:
    def listed(state: ReadState) -> Records[FileRecord]:
        entries = [] if state.snapshot is None else table.manifests.live_entries(state.snapshot, with_stats=stats)
        if (earliest := state.created_from_millis) is not None:
            entries = [entry for entry in entries if (entry.file.creation_time_millis or 0) >= earliest]
        known = load_lineage(table) if lineage else None
        schema = table.schemas.latest()
        return file_records(entries, schema, file_schema=table.schemas.schema, stats=stats, known=known)

    return read_at(table, checked_point(at), listed)


@names_table
def trace_file(table: TableContext, file: str) -> Records[FileOrigin]:
    check_text("file", file)
    name = PurePosixPath(file).name
    known = load_lineage(table)
    return origin_records(trail_of_file(table, known, name), known)


@names_table
def trace_snapshot(table: TableContext, snapshot_id: int) -> Records[FileOrigin]:
    known = load_lineage(table)
    brought = known.lineage.brought_by(snapshot_of(table, known, AtSnapshot(snapshot_id).id).id)
    return origin_records(known.lineage.trail(brought), known)


def check_run(run_id: str) -> None:
    """Raise InvalidRequest for a text that is too short for the beginning of a run."""
    check_text("run_id", run_id)
    if len(run_id) < SHORTEST_RUN:
        raise InvalidRequest(
            f"{shown(run_id)}: expected the id of a run, or at least its first {SHORTEST_RUN} characters."
        )


@names_table
def trace_run(table: TableContext, run_id: str) -> Records[Snapshot]:
    check_run(run_id)
    return snapshot_records(made_by_run(table, run_id))


@names_table
def partitions(table: TableContext, *, at: ReadPoint) -> Records[PartitionRecord]:
    def listed(state: ReadState) -> Records[PartitionRecord]:
        entries = [] if state.snapshot is None else table.manifests.live_entries(state.snapshot)
        return partition_records(entries, table.schemas.latest())

    return read_at(table, checked_point(at), listed)


@names_table
def buckets(table: TableContext, *, at: ReadPoint) -> Records[BucketRecord]:
    def listed(state: ReadState) -> Records[BucketRecord]:
        entries = [] if state.snapshot is None else table.manifests.live_entries(state.snapshot)
        return bucket_records(entries, table.schemas.latest(), local_now_millis=table.clock.local_now_millis())

    return read_at(table, checked_point(at), listed)


@names_table
def committers(table: TableContext) -> Records[CommitterRecord]:
    return committer_records(ledger_at(table.snapshots, table.snapshots.latest()))


@names_table
def pending_commits(table: TableContext) -> Records[PendingRecord]:
    kept = all_kept(table.store, table.layout)
    reasons = iter(refusals(table, [each.staged for each in kept if each.staged is not None]))
    return pending_records((each, next(reasons) if each.error is None else str(each.error)) for each in kept)


@names_table
def content_snapshot_id(table: TableContext) -> int | None:
    latest = table.snapshots.latest()
    if latest is None:
        return None
    changed = (
        one.id
        for one in table.snapshots.newest_first(latest)
        if one.commit_kind in CONTENT_KINDS or _moves_rows(table, one)
    )
    return newest_content_id(next(changed, None), ledger_at(table.snapshots, latest))


def _moves_rows(table: TableContext, snapshot: Snapshot) -> bool:
    """Return whether a compaction brought rows that waited into their buckets, where reads have them."""
    if snapshot.commit_kind is not CommitKind.COMPACT or not may_wait(
        table.schemas.schema(snapshot.schema_id).bucketing
    ):
        return False
    try:
        delta = table.manifests.delta(snapshot)
    except (CorruptTable, NotFound):
        if not table.snapshots.has_expired(snapshot):
            raise
        return True
    # Old writers do not tell the lowest bucket.
    return any(manifest.min_bucket is None or not is_placed(manifest.min_bucket) for manifest in delta)


@names_table
def manifests(table: TableContext, *, at: ReadPoint) -> Records[ManifestRecord]:
    def listed(state: ReadState) -> Records[ManifestRecord]:
        snapshot = state.snapshot
        if snapshot is None:
            return manifest_records([], [], table.schemas.latest())
        base, delta = table.manifests.base(snapshot), table.manifests.delta(snapshot)
        return manifest_records(base, delta, table.schemas.latest())

    return read_at(table, checked_point(at), listed)


@names_table
def system(table: TableContext, name: str, *, options: Mapping[str, str] | None) -> SystemTable:
    source = SystemSource(table=table, options=options_of(options))
    return system_table(name, source)


def html(table: TableContext) -> str:
    """Return the HTML that notebooks show for a handle. Reads nothing."""
    known = table.schemas.known.newest
    facts: dict[str, object] = {"at": table.store.uri("")}
    if known is not None:
        facts |= {
            "primary key": ", ".join(known.primary_keys) or None,
            "partition keys": ", ".join(known.partition_keys) or None,
            "comment": known.comment,
            **{f"column {field.name}": type_to_sql(field.type) for field in known.fields[:_MOST_COLUMNS]},
        }
    return page("Table", table.name, facts)
