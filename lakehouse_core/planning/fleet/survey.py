"""Survey: what one pass over a table finds in its metadata, and what each possible operation would do to it.

Rule: figures only. What an operation costs and is worth is decided in `candidates`. Source: docs/fleet.md#the-plan.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lakehouse_core.format.data_types import DataType
from lakehouse_core.planning.commit.manifest_merge import plan_full
from lakehouse_core.planning.compaction.append import NOTHING_MARKED, AppendCompactionPlan, Marked
from lakehouse_core.planning.compaction.bucket import plan_bucket
from lakehouse_core.planning.compaction.health import small_files, waiting_text
from lakehouse_core.planning.compaction.plan import CompactionPlan
from lakehouse_core.planning.compaction.universal import PickTime
from lakehouse_core.planning.fleet.reading import NO_READING, Reading, reading_after, reading_now
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.schema import TableSchema

# An append partition has no trigger at which its writers wait. Beyond so many times the files that are worth a rewrite
# (compaction.min.file-num), its readers mostly open files.
FAR_BEYOND: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """The live files of the bucket `number`, the names of those with expired rows, and those with deletion vectors."""

    files: Sequence[DataFile]
    number: int = 0
    expired: Collection[str] = frozenset()
    marked: Marked = field(default_factory=lambda: NOTHING_MARKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionWork:
    """What compactions of buckets take: `files` are replaced by `written_files`, `looked_up_bytes` read and not
    rewritten.
    """

    files: int
    rewritten_bytes: int
    looked_up_bytes: int
    written_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOutlook:
    """What a compaction of one bucket of a partition would do, and what a read of it opens `now` and `after` it.

    `urgent` says why it should not wait, None: it may.
    """

    bucket: int
    work: CompactionWork
    now: Reading
    after: Reading
    reason: str
    urgent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOutlook:
    """What a compaction of a partition would do: `full`, or one pick of the strategy in each bucket.

    `after`: a read of the partition afterwards. `reason` is that of most buckets. `pieces`: the same by bucket, where
    there are several.
    """

    full: bool
    buckets: int
    work: CompactionWork
    after: Reading
    reason: str
    pieces: tuple[BucketOutlook, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSurvey:
    """A partition with files. `values` is empty for a table without partitions.

    `manifests`: how many of them may name its files. `urgent` says why its compaction should not wait, None: it may.
    `newest_millis`: the time of its newest file, in local wall clock counted as UTC.
    """

    values: Mapping[str, str | None]
    now: Reading
    manifests: int
    buckets: int
    row_count: int
    deleted_row_count: int
    small_file_count: int
    most_sorted_runs: int
    newest_millis: int | None
    compactions: tuple[CompactionOutlook, ...]
    urgent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSurvey:
    """The manifests of the latest snapshot, and those after a merge of `merged_count` of them (0: no merge helps)."""

    count: int = 0
    bytes: int = 0
    merged_count: int = 0
    merged_bytes: int = 0
    count_after: int = 0
    bytes_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirySurvey:
    """What an expiry by the table's options would remove; `reason` says what keeps the rest.

    `unneeded_files` and `unneeded_bytes` count the data and changelog files that the expired snapshots and changelogs
    alone need, less those that tags hold: a later run deletes them, `grace_millis` after the expiry. `due_files` and
    `due_bytes` count those that an earlier expiry made unneeded, and that this one deletes.
    """

    snapshots: int = 0
    changelogs: int = 0
    tags: int = 0
    unneeded_files: int = 0
    unneeded_bytes: int = 0
    due_files: int = 0
    due_bytes: int = 0
    grace_millis: int = 0
    reason: str = ""

    @property
    def roots(self) -> int:
        return self.snapshots + self.changelogs + self.tags

    @property
    def is_empty(self) -> bool:
        return not (self.roots or self.due_files)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSurvey:
    """What one pass found of a table; times are milliseconds, None without a snapshot.

    `incarnation`: the creation time of the table, by which a table dropped and created again is known. `refusals`: why
    an operation is not possible in this table, by operation.
    """

    warehouse: str
    table: str
    incarnation: int
    snapshot_id: int | None
    partitions: tuple[PartitionSurvey, ...] = ()
    manifests: ManifestSurvey = field(default_factory=ManifestSurvey)
    snapshot_count: int = 0
    changelog_count: int = 0
    tag_count: int = 0
    oldest_millis: int | None = None
    newest_millis: int | None = None
    expiry: ExpirySurvey = field(default_factory=ExpirySurvey)
    refusals: Mapping[str, str] = field(default_factory=dict)

    @property
    def root_count(self) -> int:
        return self.snapshot_count + self.changelog_count + self.tag_count

    @property
    def file_count(self) -> int:
        return sum(partition.now.files for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.now.bytes for partition in self.partitions)


def survey_partition(
    values: Mapping[str, str | None],
    buckets: Iterable[BucketState],
    schema: TableSchema,
    *,
    waiting: Sequence[DataFile] = (),
    manifests: int,
    local_now_millis: int,
) -> PartitionSurvey:
    """Return the figures of one partition and of its possible compactions.

    `waiting`: the files of rows that wait for their buckets. `manifests`: how many manifests may name the partition.
    Raises CorruptTable.
    """
    occasion = PickTime(local_now_millis=local_now_millis)
    now = NO_READING
    small = runs = rows = deleted = count = 0
    newest: list[int] = []
    planned: dict[bool, list[_Planned]] = {True: [], False: []}
    for bucket in buckets:
        count += 1
        own = 0
        reading = reading_now(bucket.files, schema)
        now += reading
        runs = max(runs, reading.runs)
        rows += sum(file.row_count for file in bucket.files)
        deleted += sum(file.delete_row_count or 0 for file in bucket.files)
        deleted += sum(
            bucket.marked[file.file_name].count or 0 for file in bucket.files if file.file_name in bucket.marked
        )
        newest += [file.creation_time_millis for file in bucket.files if file.creation_time_millis is not None]
        for full, found in planned.items():
            plan = plan_bucket(
                bucket.files, schema, full=full, occasion=occasion, expired=bucket.expired, marked=bucket.marked
            )
            after = reading if plan is None else reading_after(bucket.files, plan, schema, marked=bucket.marked)
            if full:
                own = len(small_files(plan, schema))
                small += own
            urgent = _why_urgent(schema, most_runs=reading.runs, small=own)
            found.append(_Planned(bucket=bucket.number, plan=plan, now=reading, after=after, urgent=urgent))
    outlooks = [outlook for full, found in planned.items() if (outlook := _outlook(found, full=full)) is not None]
    # Files that only rise to another level, or expired rows, of which manifests count none, change no read.
    outlooks = [outlook for outlook in outlooks if outlook.after != now]
    urgent = _why_urgent(schema, most_runs=runs, small=small) if outlooks else None
    if waiting:
        outlooks = _with_waiting(outlooks, waiting, now)
        rows += (waiting_rows := sum(file.row_count for file in waiting))
        newest += [file.creation_time_millis for file in waiting if file.creation_time_millis is not None]
        urgent = waiting_text(waiting_rows, schema)
    return PartitionSurvey(
        values=values,
        now=now,
        manifests=manifests,
        buckets=count + bool(waiting),
        row_count=rows,
        deleted_row_count=deleted,
        small_file_count=small,
        most_sorted_runs=runs,
        newest_millis=max(newest, default=None),
        compactions=tuple(outlooks),
        urgent=urgent,
    )


def _with_waiting(
    outlooks: Iterable[CompactionOutlook], waiting: Sequence[DataFile], now: Reading
) -> list[CompactionOutlook]:
    """Return the compactions, each of which also moves the waiting rows into their buckets."""
    size = sum(file.file_size for file in waiting)
    nothing = CompactionWork(files=0, rewritten_bytes=0, looked_up_bytes=0, written_files=0)
    found = {each.full: each for each in outlooks}
    found.setdefault(False, CompactionOutlook(full=False, buckets=0, work=nothing, after=now, reason=""))
    return [
        replace(
            each,
            buckets=each.buckets + 1,
            work=replace(
                each.work,
                files=each.work.files + len(waiting),
                rewritten_bytes=each.work.rewritten_bytes + size,
                written_files=each.work.written_files + 1,
            ),
            after=each.after + Reading(files=1, runs=1, bytes=size),
            reason="waiting rows",
            pieces=(),
        )
        for each in found.values()
    ]


def survey_manifests(
    manifests: Sequence[ManifestFile], partition_types: Sequence[DataType], *, target_bytes: int
) -> ManifestSurvey:
    """Return the figures of the manifests of a snapshot.

    A merge may rewrite more of them: which ones its deletions reach is not known before they are read.
    """
    count, size = len(manifests), sum(one.file_size for one in manifests)
    plan = plan_full(manifests, (), partition_types, target_bytes=target_bytes)
    if plan is None:
        return ManifestSurvey(count=count, bytes=size, count_after=count, bytes_after=size)
    added = sum(one.num_added_files for one in manifests)
    deleted = sum(one.num_deleted_files for one in manifests)
    merged = sum(one.file_size for one in plan.rewritten)
    left = merged * max(added - deleted, 0) // max(added + deleted, 1)
    return ManifestSurvey(
        count=count,
        bytes=size,
        merged_count=len(plan.rewritten),
        merged_bytes=merged,
        count_after=min(count, len(plan.kept) + max(1, -(-left // target_bytes))),
        bytes_after=size - merged + left,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """The plan of one bucket, None: no compaction, and what a read of the bucket opens now and after it."""

    bucket: int
    plan: CompactionPlan | AppendCompactionPlan | None
    now: Reading
    after: Reading
    urgent: str | None

    @property
    def kept_files(self) -> int:
        """The files that the plan leaves as they are."""
        return self.now.files - (0 if self.plan is None else len(self.plan.files))


def _outlook(planned: Sequence[_Planned], *, full: bool) -> CompactionOutlook | None:
    plans = [one.plan for one in planned if one.plan is not None]
    if not plans:
        return None
    after = sum((one.after for one in planned), NO_READING)
    return CompactionOutlook(
        full=full,
        buckets=len(plans),
        work=_work(plans, after.files - sum(one.kept_files for one in planned)),
        after=after,
        reason=Counter(str(plan.reason) for plan in plans).most_common(1)[0][0],
        pieces=tuple(_pieces(planned)) if len(planned) > 1 else (),
    )


def _pieces(planned: Iterable[_Planned]) -> Iterator[BucketOutlook]:
    for one in planned:
        if one.plan is not None and one.after != one.now:
            yield BucketOutlook(
                bucket=one.bucket,
                work=_work([one.plan], one.after.files - one.kept_files),
                now=one.now,
                after=one.after,
                reason=str(one.plan.reason),
                urgent=one.urgent,
            )


def work_of(plans: Sequence[CompactionPlan | AppendCompactionPlan], schema: TableSchema) -> CompactionWork:
    """Return what the compactions of these buckets take, if no row is dropped."""
    written = (reading_after(plan.files, plan, schema, marked=NOTHING_MARKED).files for plan in plans)
    return _work(plans, sum(written))


def _work(plans: Sequence[CompactionPlan | AppendCompactionPlan], written_files: int) -> CompactionWork:
    return CompactionWork(
        files=sum(len(plan.files) for plan in plans),
        rewritten_bytes=sum(plan.rewritten_bytes for plan in plans),
        looked_up_bytes=sum(_looked_up(plan) for plan in plans),
        written_files=written_files,
    )


def _looked_up(plan: CompactionPlan | AppendCompactionPlan) -> int:
    return sum(run.size_bytes for run in plan.older) if isinstance(plan, CompactionPlan) else 0


def _why_urgent(schema: TableSchema, *, most_runs: int, small: int) -> str | None:
    options = schema.table_options.compaction
    if most_runs > options.stop_run_count:
        return (
            f"a bucket has {most_runs} sorted runs, and beyond {options.stop_run_count} (num-sorted-run.stop-trigger) "
            "writers should wait"
        )
    most = FAR_BEYOND * options.min_file_count
    if schema.is_append and small > most:
        return f"{small:,} small files, more than {FAR_BEYOND} times {options.min_file_count} (compaction.min.file-num)"
    return None
