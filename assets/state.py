"""The state of a table as its assets, checks and sensor see it: metadata only, no rows, no Spark."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import lakehouse_core as lc

# Who committed what last: user -> its highest identifier and the snapshot of it. Every snapshot carries it on.
LEDGER = "lakehouse.ledger"
# The Dagster run that made a snapshot.
RUN_ID = "lakehouse.run-id"
# The batches that a snapshot brought.
BATCH = "lakehouse.batch"

# Letters of the kinds of commit that change rows, as the ledger has them: append and overwrite.
_CONTENT = ("A", "O")
# A data file is small below seven tenths of the usual target size.
_SMALL_BYTES = int(0.7 * 128 * 1024 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What one user committed last: its highest identifier, and the last snapshot of it that changed rows (0: none)."""

    identifier: int
    content_snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """One retained snapshot. `run_id` is empty where no run of ours made it."""

    id: int
    kind: str
    time: datetime
    rows_added: int
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What a table's metadata says now. A table without snapshots has zeros and `snapshot_id` None."""

    table: str
    # Differs after a table was dropped and made again, although snapshot ids start at 1 each time.
    incarnation: str
    branch: str
    snapshot_id: int | None
    content_snapshot_id: int | None
    earliest_snapshot_id: int | None
    schema_id: int
    snapshots_retained: int
    changelogs_retained: int
    tags: int
    files_total: int
    bytes_total: int
    # Rows in all files, before any merge.
    records_total: int
    # Files that share their bucket with another one and are far from the target size.
    small_files: int
    # Of a key table, in the bucket that has most of them; files of level 0 are a run each.
    sorted_runs: int
    manifests_total: int
    recent: tuple[SnapshotFacts, ...]

    @property
    def content_version(self) -> str:
        """The data version: the newest snapshot that changed rows. Compactions change none, so they do not count."""
        return f"{self.incarnation}/{self.branch}@{self.content_snapshot_id or 0}"


def read_state(table: lc.Table, *, recent: int = 10) -> TableState:
    """Read the table's metadata once. `recent` snapshots are listed, newest first."""
    snapshots = table.snapshots()
    files = table.files()
    latest = snapshots[-1] if snapshots else None
    per_bucket = Counter(map(_bucket, files))
    mergeable = [f for f in files if f.file_size < _SMALL_BYTES and per_bucket[_bucket(f)] > 1]
    return TableState(
        table=table.name,
        incarnation=str(table.schemas()[0].time_millis),
        branch="main",
        snapshot_id=latest.id if latest else None,
        content_snapshot_id=_content_snapshot_id(snapshots),
        earliest_snapshot_id=snapshots[0].id if snapshots else None,
        schema_id=latest.schema_id if latest else 0,
        snapshots_retained=len(snapshots),
        changelogs_retained=len(table.changelogs()),
        tags=len(table.tags()),
        files_total=len(files),
        bytes_total=sum(f.file_size for f in files),
        records_total=sum(f.row_count for f in files),
        small_files=len(mergeable),
        sorted_runs=_most_sorted_runs(files) if table.schema.primary_keys else 0,
        manifests_total=len(table.manifests()),
        recent=tuple(_facts(s) for s in reversed(snapshots[-recent:])),
    )


def applied(table: lc.Table) -> Mapping[str, Applied]:
    """Return what each user committed last, newest user last. Snapshots carry it on, so expiry takes nothing away."""
    latest = table.snapshot()
    return {} if latest is None else _applied(latest)


def last_identifier(table: lc.Table, asset: str) -> int | None:
    """Return the highest identifier under which batches of the asset (`lake/ops/flights`) were committed."""
    return max((a.identifier for user, a in applied(table).items() if user.endswith(f"/{asset}")), default=None)


def _applied(latest: lc.Snapshot) -> Mapping[str, Applied]:
    users = json.loads(latest.properties.get(LEDGER, "{}")).get("users", {})
    return {
        user: Applied(identifier=identifier, content_snapshot_id=max((made.get(k, 0) for k in _CONTENT), default=0))
        for user, (identifier, made, _) in users.items()
    }


def _content_snapshot_id(snapshots: Sequence[lc.Snapshot]) -> int | None:
    """Return the newest snapshot that changed rows; it may have expired already."""
    if not snapshots:
        return None
    retained = [s.id for s in snapshots if s.commit_kind in {"APPEND", "OVERWRITE"}]
    noted = [a.content_snapshot_id for a in _applied(snapshots[-1]).values()]
    return max([*retained, *noted], default=0) or None


def _most_sorted_runs(files: Sequence[lc.FileRecord]) -> int:
    """Return the sorted runs of the bucket that has most: each file of level 0, and each other level that has files."""
    runs: dict[tuple[str, int], set[tuple[int, str]]] = {}
    for file in files:
        run = (0, file.file_name) if file.level == 0 else (file.level, "")
        runs.setdefault(_bucket(file), set()).add(run)
    return max(map(len, runs.values()), default=0)


def _bucket(file: lc.FileRecord) -> tuple[str, int]:
    return str(file.partition), file.bucket


def _facts(snapshot: lc.Snapshot) -> SnapshotFacts:
    return SnapshotFacts(
        id=snapshot.id,
        kind=str(snapshot.commit_kind),
        time=datetime.fromtimestamp(snapshot.time_millis / 1000, UTC),
        rows_added=snapshot.delta_record_count or 0,
        run_id=snapshot.properties.get(RUN_ID, ""),
    )
