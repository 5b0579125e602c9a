"""Health facts: the figures of one table that its health page shows, from metadata alone.

Rule: the live files are read once, and no data file is opened.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakehouse_core.api.record_building import bucket_records
from lakehouse_core.api.verb import names_table
from lakehouse_core.errors import LakehouseError
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import expiry_outlook
from lakehouse_core.execution.read.state import ReadState, read_at
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.compaction.health import BucketHealth, due_compactions
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.planning.read.read_point import LATEST
from lakehouse_core.table.manifest import ManifestEntry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

# Snapshots beyond this many would be less than a pixel apart.
MOST_SNAPSHOTS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFacts:
    """A bucket: the number of its sorted runs, the rows that wait in it for their buckets, and files and bytes by
    level, rising.
    """

    name: str
    sorted_runs: int
    small_files: int
    levels: tuple[tuple[int, int, int], ...]
    waiting_rows: int = 0

    @property
    def bytes(self) -> int:
        return sum(size for _, _, size in self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """A snapshot. `row_count` counts the rows in files, None if its writer recorded none."""

    id: int
    kind: str
    time_millis: int
    row_count: int | None
    committer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFacts:
    """The figures of a table at `now_millis`.

    `file_sizes` counts files by the power of two that their bytes reach. `due` says what maintenance is due, and why.
    `snapshots` are the newest ones, oldest first, of `snapshot_count`; `oldest` is the oldest of all.
    """

    table: str
    now_millis: int
    row_count: int
    buckets: tuple[BucketFacts, ...]
    file_sizes: Mapping[int, int]
    snapshots: tuple[CommitFacts, ...]
    oldest: CommitFacts | None
    snapshot_count: int
    tag_count: int
    manifest_count: int
    due: tuple[str, ...]

    @property
    def file_count(self) -> int:
        return sum(self.file_sizes.values())

    @property
    def bytes(self) -> int:
        return sum(bucket.bytes for bucket in self.buckets)


@names_table
def health_facts(table: TableContext) -> HealthFacts:
    """Return the figures of a table now. Raises CorruptTable."""

    def read(state: ReadState) -> HealthFacts:
        schema = table.schemas.latest()
        entries = [] if state.snapshot is None else table.manifests.live_entries(state.snapshot)
        history = table.snapshots.history()
        buckets = bucket_facts(entries, schema, local_now_millis=table.clock.local_now_millis())
        return HealthFacts(
            table=table.name,
            now_millis=table.clock.now_millis(),
            row_count=sum(entry.file.row_count for entry in entries),
            buckets=buckets,
            file_sizes=Counter(max(entry.file.file_size, 1).bit_length() - 1 for entry in entries),
            snapshots=tuple(map(_commit, history[-MOST_SNAPSHOTS:])),
            oldest=_commit(history[0]) if history else None,
            snapshot_count=len(history),
            tag_count=len(table.tags.names()),
            manifest_count=0 if state.snapshot is None else len(table.manifests.of(state.snapshot)),
            due=(
                *due_compactions(
                    [
                        BucketHealth(
                            small_file_count=b.small_files,
                            sorted_run_count=b.sorted_runs,
                            waiting_row_count=b.waiting_rows,
                        )
                        for b in buckets
                    ],
                    schema,
                ),
                *_due_expiry(table),
            ),
        )

    return read_at(table, LATEST, read)


def _due_expiry(table: TableContext) -> tuple[str, ...]:
    """Return a sentence if an expiry by the table's options would unlink something, or cannot be planned."""
    try:
        outlook = expiry_outlook(table)
    except LakehouseError as error:  # The page shows what is wrong with a table, and so must not need a sound one.
        return (f"expire: it cannot be planned: {error}",)
    plan = outlook.plan
    if outlook.history.unreadable_consumer is not None:
        return (f"expire: {plan.reason}",)
    counts = (
        (len(plan.snapshot_ids), "snapshot"),
        (len(plan.changelog_ids), "changelog"),
        (len(outlook.tags), "tag"),
    )
    found = [f"{count:,} {what}{'' if count == 1 else 's'}" for count, what in counts if count]
    return (f"expire: {', '.join(found)} may go",) if found else ()


def bucket_facts(
    entries: Sequence[ManifestEntry], schema: TableSchema, *, local_now_millis: int
) -> tuple[BucketFacts, ...]:
    """Return the buckets with files, those with most sorted runs first."""
    types = [field.type for field in schema.partition_fields]
    levels: dict[tuple[bytes, int], dict[int, tuple[int, int]]] = {}
    for entry in entries:
        of_bucket = levels.setdefault((entry.partition, entry.bucket), {})
        files, size = of_bucket.get(entry.file.level, (0, 0))
        of_bucket[entry.file.level] = files + 1, size + entry.file.file_size
    # In the order of their first entries, as the buckets above.
    figures = bucket_records(entries, schema, local_now_millis=local_now_millis)
    found = [
        BucketFacts(
            name=_bucket_name(named_values(deserialize_row(partition, types), schema), bucket),
            sorted_runs=record.sorted_run_count,
            small_files=record.small_file_count,
            waiting_rows=record.waiting_row_count,
            levels=tuple((level, *of_bucket[level]) for level in sorted(of_bucket)),
        )
        for ((partition, bucket), of_bucket), record in zip(levels.items(), figures, strict=True)
    ]
    return tuple(sorted(found, key=lambda each: (-each.sorted_runs, -each.small_files, each.name)))


def _commit(snapshot: Snapshot) -> CommitFacts:
    return CommitFacts(
        id=snapshot.id,
        kind=snapshot.commit_kind.value,
        time_millis=snapshot.time_millis,
        row_count=snapshot.total_record_count,
        committer=snapshot.commit_user if snapshot.run_id is None else f"run {snapshot.run_id}",
    )


def _bucket_name(partition: Mapping[str, str | None], bucket: int) -> str:
    return " ".join([*(f"{name}={value}" for name, value in partition.items()), f"bucket {bucket}"])
