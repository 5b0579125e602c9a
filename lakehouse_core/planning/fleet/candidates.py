"""Candidates: the operations that could be done to a table, each with its cost, what it saves and its sentence.

Rule: the unit is a partition, for manifests and snapshots the table; what helps nothing is not a candidate.
Source: docs/decisions/0019-value-of-maintenance.md.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Final

from lakehouse_core.display import count_text, size_text
from lakehouse_core.planning.fleet.cost import NOTHING, RATES, Budget, Cost, Rates, kept_seconds, operation_cost
from lakehouse_core.planning.fleet.operations import OPERATIONS, Operation
from lakehouse_core.planning.fleet.reading import Reading
from lakehouse_core.planning.fleet.survey import (
    CompactionOutlook,
    CompactionWork,
    ExpirySurvey,
    ManifestSurvey,
    PartitionSurvey,
    TableSurvey,
)

# The requests of an operation beyond those for its files, manifests and roots: schemas, snapshots, hints, lists, and
# the commit. tests/round_trips/test_fleet_requests.py counts them.
_COMPACTION_REQUESTS: Final = 30
_MANIFESTS_REQUESTS: Final = 20
_EXPIRY_REQUESTS: Final = 45
# A compaction reads the manifests for its plan and for its commit.
_MANIFEST_READS: Final = 2
# A data file is written, and its size is looked up before the commit.
_FILE_WRITES: Final = 2
# An expiry reads each root with its two manifest lists, and of an expired one the root once more and its delta.
_ROOT_READS: Final = 3
_EXPIRED_ROOT_READS: Final = 2
# What an expired root no longer keeps: itself and its two manifest lists.
_ROOT_OBJECTS: Final = 3
_DELETED_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEffect:
    """What an operation on a whole table does, in words, and what it saves: files of a read, bytes that are stored."""

    text: str
    files: int = 0
    freed_bytes: int = 0
    runs: int = 0

    def sentence(self, bucket: int | None) -> str:
        del bucket
        return self.text


@dataclass(frozen=True, slots=True)
class CompactionEffect:
    """What a compaction does in its figures, and why.

    A fleet has a million effects, and few are shown: the figures are one text, which takes little memory, and the words
    are made when a caller asks for them.
    """

    reason: str
    # The numbers of buckets, of all buckets and of files; the bytes that are rewritten; what a read opens before and
    # after.
    figures: str

    @staticmethod
    def of(
        work: CompactionWork, now: Reading, after: Reading, *, reason: str, buckets: int, of_buckets: int
    ) -> "CompactionEffect":
        """Return the effect of a compaction in some of all buckets of a partition."""
        return CompactionEffect(
            intern(reason),
            f"{buckets} {of_buckets} {work.files} {work.rewritten_bytes} "
            f"{now.files} {now.runs} {now.bytes} {now.merged_bytes} "
            f"{after.files} {after.runs} {after.bytes} {after.merged_bytes}",
        )

    @property
    def files(self) -> int:
        """How many files fewer a read opens."""
        now, after = self._readings()
        return now.files - after.files

    @property
    def runs(self) -> int:
        """How many sorted runs fewer a read merges."""
        now, after = self._readings()
        return now.runs - after.runs

    @property
    def freed_bytes(self) -> int:
        now, after = self._readings()
        return max(now.bytes - after.bytes, 0)

    def sentence(self, bucket: int | None) -> str:
        """Return the figures in words, of a whole partition or of one bucket."""
        buckets, of_buckets, files, rewritten, *_ = map(int, self.figures.split())
        now, after = self._readings()
        all_of_them = count_text(of_buckets, "bucket")
        place = f"{buckets} of {all_of_them}"
        read = "a read"
        if bucket is not None:
            place, read = f"one of {all_of_them}, because all together exceed the budget", "a read of the bucket"
        return (
            f"{self.reason} in {place}: rewrites {size_text(rewritten)} of {count_text(files, 'file')}; "
            f"{read} then {_reads(now, after)}"
        )

    def _readings(self) -> tuple[Reading, Reading]:
        """Return what a read opens now and after the compaction."""
        found = [int(figure) for figure in self.figures.split()]
        now, after = (
            Reading(files=files, runs=runs, bytes=size, merged_bytes=merged)
            for files, runs, size, merged in (found[4:8], found[8:])
        )
        return now, after


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An operation on a table of a warehouse, on the partition `partition` of it (None: the whole table), on one
    `bucket` of that (None: all).

    `saved_seconds`: those of reading that it saves each day, with what freed bytes are worth. `urgent` says why it
    should not wait.
    """

    warehouse: str
    table: str
    operation: Operation
    partition: Mapping[str, str | None] | None
    cost: Cost
    saved_seconds: float
    effect: TableEffect | CompactionEffect
    urgent: str | None = None
    bucket: int | None = None
    # How often a day its table is read; None where reads do not count.
    reads_per_day: float | None = None

    @property
    def name(self) -> str:
        """The operation and its partition, as in `compact --full dt=2013-01-05`."""
        return verb_text(self.operation, self.partition, self.bucket)

    @property
    def in_reads(self) -> str:
        """How often a day its table is read, after what is saved a day; empty where reads do not count."""
        often = self.reads_per_day
        return "" if often is None else f" in {'one read' if often == 1 else f'{often:,.6g} reads'}"

    @property
    def days_to_pay(self) -> float:
        """The days of reading after which the operation has saved the time that it takes."""
        saved = self.saved_seconds
        return self.cost.seconds / saved if saved > 0 else float("inf")

    @property
    def sentence(self) -> str:
        """What the operation does and saves, in figures."""
        return self.effect.sentence(self.bucket)


def verb_text(operation: Operation, partition: Mapping[str, str | None] | None, bucket: int | None = None) -> str:
    """Return an operation as the shell names it, and its partition and bucket."""
    verb = {"compact_full": "compact --full", "compact_manifests": "compact-manifests"}.get(operation, operation)
    places = [partition_text(partition), "" if bucket is None else f"bucket {bucket}"]
    return f"{verb} {', '.join(filter(None, places))}".rstrip()


def partition_text(partition: Mapping[str, str | None] | None) -> str:
    """Return a partition as text, as in `dt=2013-01-05, h=7`; empty for a whole table."""
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in (partition or {}).items())


def candidates_of(
    survey: TableSurvey,
    operations: Collection[Operation] = OPERATIONS,
    *,
    reads_per_day: float,
    rates: Rates = RATES,
    budget: Budget | None = None,
) -> Iterator[Candidate]:
    """Yield the candidates of a table among `operations`, if it is read so often a day, each time as a whole.

    Where no compaction of a partition is within the `budget`, those of its buckets are candidates too.
    """
    possible = [each for each in operations if each not in survey.refusals]
    for partition in survey.partitions:
        # A full compaction that does what the strategy's pick does is one operation.
        outlooks = {
            (each.work.rewritten_bytes, each.after): each for each in partition.compactions if _verb(each) in possible
        }
        wholes = [_compaction(survey, partition, outlook, reads_per_day, rates) for outlook in outlooks.values()]
        yield from wholes
        if budget is not None and not any(budget.holds(each.cost) for each in wholes):
            yield from _pieces(survey, partition, outlooks.values(), reads_per_day, rates)
    if survey.manifests.merged_count and "compact_manifests" in possible:
        yield _manifests(survey, survey.manifests, reads_per_day, rates)
    if not survey.expiry.is_empty and "expire" in possible:
        yield _expiry(survey, survey.expiry, rates)


def why_none(survey: TableSurvey, operation: Operation) -> str:
    """Return why an operation that is not a candidate cannot help a table."""
    match operation:
        case "compact" | "compact_full":
            files = f"{count_text(len(survey.partitions), 'partition')} with {count_text(survey.file_count, 'file')}"
            return f"{files}: no compaction would help"
        case "compact_manifests":
            found = survey.manifests
            return f"{count_text(found.count, 'manifest')}: no merge would help"
        case "expire":
            return survey.expiry.reason


def _compaction(
    survey: TableSurvey, partition: PartitionSurvey, outlook: CompactionOutlook, reads: float, rates: Rates
) -> Candidate:
    now, after = partition.now, outlook.after
    return Candidate(
        warehouse=survey.warehouse,
        table=survey.table,
        operation=_verb(outlook),
        partition=partition.values or None,
        cost=compaction_cost(outlook.work, partition.manifests, rates),
        saved_seconds=_saved_seconds(now, after, reads, rates),
        effect=CompactionEffect.of(
            outlook.work, now, after, reason=outlook.reason, buckets=outlook.buckets, of_buckets=partition.buckets
        ),
        urgent=partition.urgent,
        reads_per_day=reads,
    )


def _pieces(
    survey: TableSurvey,
    partition: PartitionSurvey,
    outlooks: Iterable[CompactionOutlook],
    reads: float,
    rates: Rates,
) -> Iterator[Candidate]:
    """Yield the compactions of single buckets; of those that do the same, one."""
    alike = {
        (piece.bucket, piece.work.rewritten_bytes, piece.after): (_verb(outlook), piece)
        for outlook in outlooks
        for piece in outlook.pieces
    }
    for operation, piece in alike.values():
        yield Candidate(
            warehouse=survey.warehouse,
            table=survey.table,
            operation=operation,
            partition=partition.values or None,
            bucket=piece.bucket,
            cost=compaction_cost(piece.work, partition.manifests, rates),
            saved_seconds=_saved_seconds(piece.now, piece.after, reads, rates),
            effect=CompactionEffect.of(
                piece.work, piece.now, piece.after, reason=piece.reason, buckets=1, of_buckets=partition.buckets
            ),
            urgent=piece.urgent,
            reads_per_day=reads,
        )


def _saved_seconds(now: Reading, after: Reading, reads: float, rates: Rates) -> float:
    freed = max(now.bytes - after.bytes, 0)
    return max(now.seconds(rates) - after.seconds(rates), 0.0) * reads + kept_seconds(freed, rates=rates)


def compaction_cost(work: CompactionWork, manifests: int, rates: Rates = RATES) -> Cost:
    """Return the cost of a compaction of one partition, whose files so many manifests may name."""
    # Files that only rise to another level are not opened.
    opened = work.files + _FILE_WRITES * work.written_files if work.rewritten_bytes else 0
    return operation_cost(
        rewritten_bytes=work.rewritten_bytes,
        read_bytes=work.looked_up_bytes,
        requests=opened + _MANIFEST_READS * manifests + _COMPACTION_REQUESTS,
        rates=rates,
    )


def _verb(outlook: CompactionOutlook) -> Operation:
    return "compact_full" if outlook.full else "compact"


def _reads(now: Reading, after: Reading) -> str:
    told = [f"opens {after.files:,} instead of {count_text(now.files, 'file')}"]
    if now.runs:
        told.append(f"has {after.runs:,} instead of {count_text(now.runs, 'sorted run')}")
    if now.merged_bytes:
        told.append(f"merges {size_text(after.merged_bytes)} instead of {size_text(now.merged_bytes)}")
    if now.bytes > after.bytes:
        told.append(f"reads {size_text(now.bytes - after.bytes)} less")
    return ", ".join(told)


def _manifests(survey: TableSurvey, found: ManifestSurvey, reads: float, rates: Rates) -> Candidate:
    written = max(found.count_after - (found.count - found.merged_count), 1)
    cost = operation_cost(
        rewritten_bytes=found.merged_bytes,
        requests=found.merged_count + written + _MANIFESTS_REQUESTS,
        rates=rates,
    )
    now, after = (
        Reading(files=count, bytes=size)
        for count, size in ((found.count, found.bytes), (found.count_after, found.bytes_after))
    )
    return Candidate(
        warehouse=survey.warehouse,
        table=survey.table,
        operation="compact_manifests",
        partition=None,
        cost=cost,
        saved_seconds=max(now.seconds(rates) - after.seconds(rates), 0.0) * reads,
        effect=TableEffect(
            text=(
                f"merges {count_text(found.merged_count, 'manifest')} of {size_text(found.merged_bytes)}; the plan of "
                f"a read then opens {found.count_after:,} instead of {found.count:,}"
            ),
            files=found.count - found.count_after,
        ),
        reads_per_day=reads,
    )


def _expiry(survey: TableSurvey, found: ExpirySurvey, rates: Rates) -> Candidate:
    deleted = _deleted_at_once(found)
    cost = operation_cost(
        requests=_ROOT_READS * survey.root_count
        + _EXPIRED_ROOT_READS * found.roots
        + -(-deleted // _DELETED_AT_ONCE)
        + _EXPIRY_REQUESTS,
        rates=rates,
    )
    size, files = found.unneeded_bytes + found.due_bytes, found.unneeded_files + found.due_files
    freed = found.due_bytes if found.grace_millis else size
    return Candidate(
        warehouse=survey.warehouse,
        table=survey.table,
        operation="expire",
        partition=None,
        cost=cost,
        saved_seconds=kept_seconds(size, files + found.roots * _ROOT_OBJECTS, rates=rates),
        effect=TableEffect(text="; ".join(_expiry_sentences(survey, found)), files=deleted, freed_bytes=freed),
    )


def _deleted_at_once(found: ExpirySurvey) -> int:
    """Return the number of files that the expiry deletes itself, without those that wait for the end of the grace."""
    return found.due_files if found.grace_millis else found.unneeded_files + found.due_files


def _expiry_sentences(survey: TableSurvey, found: ExpirySurvey) -> Iterator[str]:
    kinds = (("snapshot", found.snapshots), ("changelog", found.changelogs), ("tag", found.tags))
    if found.roots:
        told = " and ".join(count_text(count, noun) for noun, count in kinds if count)
        then = f"a run {found.grace_millis / 1000:g} s later deletes them" if found.grace_millis else "deletes them"
        needed = f"{size_text(found.unneeded_bytes)} in {count_text(found.unneeded_files, 'file')}, and {then}"
        yield (
            f"expires {told}, of {count_text(survey.snapshot_count, 'snapshot')} in all, which alone need "
            f"{needed if found.unneeded_files else 'no data file'}"
        )
    if found.due_files:
        yield (
            f"deletes {size_text(found.due_bytes)} in {count_text(found.due_files, 'file')} that earlier expiries left "
            "for their readers"
        )


def total(candidates: Iterable[Candidate]) -> Cost:
    """Return the cost of all candidates together."""
    return sum((each.cost for each in candidates), NOTHING)
