"""Table state for assets, checks and the sensor: metadata only, no rows, no Spark."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

import lakehouse_core as lc

# The Dagster run that made a snapshot.
RUN_ID = lc.RUN_ID
# The batch that a snapshot brought, or the batches that it brought together, as a JSON list.
BATCH, BATCHES = "lakehouse.batch", "lakehouse.batches"
# Of a staged commit: the identifier of the batch that it follows. No snapshot has it.
AFTER = "lakehouse.after"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """One retained snapshot. `run_id` is empty for a snapshot that no run of Dagster made.

    `rows` counts the rows in its files, before any merge; `change` is the difference to the snapshot before. A
    compaction lowers it. `batch` is empty for a snapshot that no batch of a feed made, and names the first and the last
    one of several batches.
    """

    id: int
    kind: str
    time: datetime
    rows: int
    change: int
    run_id: str
    commit_user: str
    commit_identifier: int
    batch: str
    # The id of the snapshot whose rows it brought back.
    rolled_back_to: str = ""
    # The name of the branch whose rows a fast-forward brought.
    forwarded_from: str = ""

    @property
    def made_by(self) -> str:
        """The run that made it, by the eight characters under which Dagster lists it, or the commit user."""
        return f"run {self.run_id[:8]}" if self.run_id else self.commit_user

    def __str__(self) -> str:
        batch = f", batch {self.batch}" if self.batch else ""
        back = f", rolled back to snapshot {self.rolled_back_to}" if self.rolled_back_to else ""
        back += f", brought to branch {self.forwarded_from}" if self.forwarded_from else ""
        rows = f"{self.change:+,} rows in files"
        return f"{self.kind} by {self.made_by}{batch}{back}, {rows}, {self.time:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What a table's metadata says now. A table without snapshots has zeros and `snapshot_id` None."""

    table: str
    # Differs after a table was dropped and made again, although snapshot ids start at 1 each time.
    incarnation: str
    branch: str
    snapshot_id: int | None
    content_snapshot_id: int | None
    # None where that snapshot expired, or where there is none.
    content_time: datetime | None
    earliest_snapshot_id: int | None
    schema_id: int
    snapshots_retained: int
    changelogs_retained: int
    tags: int
    files_total: int
    bytes_total: int
    # Rows in all files, before any merge.
    records_total: int
    # Those that a full compaction would merge.
    small_files: int
    # Of a key table, in the bucket that has most of them.
    sorted_runs: int
    # Those that wait for their buckets; whether reads have them, or only after a compaction.
    waiting_rows: int = 0
    reads_waiting: bool = False
    manifests_total: int
    recent: tuple[SnapshotFacts, ...]
    # The readers that hold snapshots, and what each of them reads next.
    consumers: tuple[str, ...] = ()

    @property
    def content_version(self) -> str:
        """The data version: the newest snapshot that changed rows. Of compactions those count that move waiting rows
        to where reads have them.
        """
        return self.version_at(self.content_snapshot_id or 0)

    def version_at(self, snapshot_id: int) -> str:
        """Return the data version of the rows that a snapshot brought."""
        return f"{self.incarnation}/{self.branch}@{snapshot_id}"


def read_state(table: lc.Table, *, recent: int = 5) -> TableState:
    """Read the table's metadata once. At most `recent` snapshots are listed, newest first."""
    return table.at_one_moment(lambda seen: _state(seen, recent))


def _state(table: lc.Table, recent: int) -> TableState:
    snapshots = table.snapshots()
    buckets = table.buckets()
    latest = snapshots[-1] if snapshots else None
    content = table.content_snapshot_id()
    content_millis = next((s.time_millis for s in reversed(snapshots) if s.id == content), None)
    return TableState(
        table=table.name,
        incarnation=incarnation(table),
        branch="main",
        snapshot_id=latest.id if latest else None,
        content_snapshot_id=content,
        content_time=None if content_millis is None else _time(content_millis),
        earliest_snapshot_id=snapshots[0].id if snapshots else None,
        schema_id=latest.schema_id if latest else 0,
        snapshots_retained=len(snapshots),
        changelogs_retained=len(table.changelogs()),
        tags=len(table.tags()),
        files_total=sum(b.file_count for b in buckets),
        bytes_total=sum(b.file_size for b in buckets),
        records_total=sum(b.row_count for b in buckets),
        small_files=sum(b.small_file_count for b in buckets),
        sorted_runs=max((b.sorted_run_count for b in buckets), default=0),
        waiting_rows=sum(b.waiting_row_count for b in buckets),
        reads_waiting=table.schema.table_options.postponed_buckets.merge_on_read,
        manifests_total=len(table.manifests()),
        recent=tuple(_facts(s) for s in islice(reversed(snapshots), recent)),
        consumers=tuple(_consumers(table)),
    )


def _consumers(table: lc.Table) -> list[str]:
    try:
        rows = table.system("consumers").to_arrow().to_pylist()
    except lc.CorruptTable as error:
        return [str(error)]
    return [f"{row['consumer_id']} reads snapshot {row['next_snapshot_id']} next" for row in rows]


def position(state: TableState) -> Mapping[str, Any]:
    """Return the place of a state in the history of its table: two states of one place are one state.

    Expiry changes the earliest snapshot or the changelogs alone, a tag makes no snapshot, and a table that was made
    again has another incarnation.
    """
    return {
        "incarnation": state.incarnation,
        "snapshot_id": state.snapshot_id or 0,
        "files_total": state.files_total,
        "earliest_snapshot_id": state.earliest_snapshot_id or 0,
        "changelogs_retained": state.changelogs_retained,
        "tags": state.tags,
    }


def incarnation(table: lc.Table) -> str:
    """Return what tells a table from one of its name that was dropped: snapshot ids begin at 1 again in a new one."""
    return str(table.schemas()[0].time_millis)


def committed_snapshots(table: lc.Table, commit_user: str) -> dict[int, SnapshotFacts]:
    """Return the retained snapshots with the rows that `commit_user` has committed, by the identifiers of the commits.

    A commit without rows has no snapshot.
    """
    own = (each for each in table.snapshots() if each.commit_user == commit_user)
    return {each.commit_identifier: _facts(each) for each in own if str(each.commit_kind) != "COMPACT"}


def committed_identifier(table: lc.Table, commit_user: str) -> int | None:
    """Return the highest identifier that `commit_user` has committed, None when it has committed nothing."""
    return committed_identifiers(table).get(commit_user)


def committed_identifiers(table: lc.Table) -> Mapping[str, int]:
    """Return the highest identifier that each user has committed, in the order of the table's committers."""
    return {each.commit_user: each.commit_identifier for each in table.committers()}


def pending_batches(
    table: lc.Table, commit_user: str, batches: Collection[object]
) -> Callable[[int], lc.StagedCommit | None]:
    """Return a function from the identifier of a batch, one of these, to its staged commit, None if there is none.

    Those that are kept now are read together. If one of them cannot be read, or only one batch is asked for, each is
    read when it is asked for, and raises then: other runs may have staged a thousand batches.
    """
    if len(batches) < 2:
        return partial(table.pending, commit_user)
    try:
        kept = {each.commit_identifier: each for each in table.all_pending(commit_user)}
    except (lc.CorruptTable, lc.UnsupportedFeature):
        return partial(table.pending, commit_user)
    return kept.get


def last_identifier(table: lc.Table, asset: str) -> int | None:
    """Return the highest identifier under which batches of the asset (`lake/ops/flights`) were committed."""
    found = (c.commit_identifier for c in table.committers() if c.commit_user.endswith(f"/{asset}"))
    return max(found, default=None)


def _facts(snapshot: lc.Snapshot) -> SnapshotFacts:
    return SnapshotFacts(
        id=snapshot.id,
        kind=str(snapshot.commit_kind),
        time=_time(snapshot.time_millis),
        rows=snapshot.total_record_count or 0,
        change=snapshot.delta_record_count or 0,
        run_id=snapshot.run_id or "",
        commit_user=snapshot.commit_user,
        commit_identifier=snapshot.commit_identifier,
        batch=named_batches(batch_keys(snapshot.properties)),
        rolled_back_to=snapshot.rolled_back_to or "",
        forwarded_from=snapshot.forwarded_from or "",
    )


def batch_properties(keys: Sequence[str]) -> dict[str, str]:
    """Return the properties that tell in a snapshot which batches it has: one by its key, several as a JSON list."""
    return {BATCH: keys[0]} if len(keys) == 1 else {BATCHES: json.dumps(list(keys), ensure_ascii=False)}


def batch_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the keys of the batches that the properties of a snapshot name, none for a snapshot without batches."""
    text = properties.get(BATCHES)
    if text is None:
        return [properties[BATCH]] if BATCH in properties else []
    # Earlier releases joined the keys by commas.
    return json.loads(text) if text.startswith("[") else text.split(", ")


def named_batches(batches: Sequence[str]) -> str:
    """Return the name of several batches for a line of text, empty for none."""
    if len(batches) < 2:
        return "".join(batches)
    return f"{batches[0]} to {batches[-1]}, {len(batches)} batches"


def _time(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)
