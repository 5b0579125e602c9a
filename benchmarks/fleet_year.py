"""A simulated year of a fleet: what its readers read if the planner, or triggers, spend the same nightly budget.

Tables are values: buckets of data files, which commits add and compactions replace by the planning functions of the
package. Only compactions count. A merge of updates leaves the distinct keys, which no planner knows before.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

from benchmarks import _measure as measure
from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.compaction.append import AppendCompactionPlan
from lakehouse_core.planning.compaction.bucket import plan_bucket
from lakehouse_core.planning.compaction.plan import CompactionPlan, Merge
from lakehouse_core.planning.compaction.universal import PickTime
from lakehouse_core.planning.fleet.candidates import Candidate, candidates_of
from lakehouse_core.planning.fleet.choice import choose
from lakehouse_core.planning.fleet.cost import Budget
from lakehouse_core.planning.fleet.reading import NO_READING, Reading
from lakehouse_core.planning.fleet.survey import BucketState, PartitionSurvey, TableSurvey, survey_partition
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.schema import TableSchema, new_schema

DAYS = 365
BUDGET_BYTES = 500_000_000
MB = 1_000_000
DAY_MILLIS = 86_400_000
# Those of a table specification that sets none.
MOST_SMALL_FILES, MOST_SORTED_RUNS = 16, 5
_KEY = [parse_type("BIGINT NOT NULL")]
_NUMBERS = count()


@dataclass
class Partition:
    """The buckets of a partition, and its survey until its files change."""

    name: str
    buckets: list[list[DataFile]]
    survey: PartitionSurvey | None = None


@dataclass
class Table:
    """A table and what happens to it each day: `commits` of `rows` rows of `row_bytes` into a partition of the day, or
    into the only one if `keys` are updated. It begins at the day `since`.
    """

    name: str
    schema: TableSchema
    reads: float
    commits: int
    rows: int
    buckets: int = 1
    row_bytes: int = 40
    keys: int | None = None
    since: int = 0
    partitions: dict[str, Partition] = field(default_factory=dict)

    def live(self, day: int) -> None:
        """Make the commits of a day."""
        if self.commits == 0 or day < self.since:
            return
        name = "" if self.keys is not None else f"{day:04}"
        partition = self.partitions.setdefault(name, Partition(name, [[] for _ in range(self.buckets)]))
        partition.survey = None
        for number in range(self.commits):
            for bucket in partition.buckets:
                # Events have rising keys; updates touch any.
                low = number * self.rows if self.keys is None else 0
                high = low + self.rows - 1 if self.keys is None else self.keys - 1
                bucket.append(data_file(self, low, high, self.rows, level=0, day=day))

    def surveyed(self, day: int) -> TableSurvey:
        """Return the survey of the table."""
        for partition in self.partitions.values():
            if partition.survey is None:
                states = [BucketState(files=files) for files in partition.buckets]
                values: dict[str, str | None] = {"dt": partition.name} if partition.name else {}
                partition.survey = survey_partition(
                    values, states, self.schema, manifests=1, local_now_millis=day * DAY_MILLIS
                )
        found = tuple(each.survey for each in self.partitions.values() if each.survey is not None)
        return TableSurvey(warehouse="lake", table=self.name, incarnation=0, snapshot_id=1, partitions=found)


def main() -> None:
    parsed = measure.arguments(__doc__, rounds=1)
    days = measure.scaled(DAYS, parsed)
    policies: dict[str, Callable[[Sequence[Table], int], int]] = {
        "full compaction beyond limits": full_beyond_limits,
        "strategy beyond its trigger": strategy_beyond_trigger,
        "planner": planned,
    }
    results = {name: simulate(policy, days) for name, policy in policies.items()}
    measure.print_header(
        "A year of a fleet",
        data=f"{days} days, {len(fleet(days))} tables: append-heavy, update-heavy, idle (each often and seldom read), "
        f"one exploding; at most {BUDGET_BYTES / 1e6:g} MB rewritten a night",
        notes=["limits of a table specification: 16 small files, 5 sorted runs; the worst table first"],
    )
    rows = [
        [
            name,
            f"{found.read.seconds() / 3600:,.1f}",
            f"{found.read.bytes / 1e12:,.2f}",
            f"{found.read.files / 1e6:,.2f}",
            f"{found.read.runs / 1e6:,.2f}",
            f"{found.read.merged_bytes / 1e12:,.2f}",
            f"{found.rewritten / 1e9:,.0f}",
            f"{found.files:,}",
            f"{found.seconds:.0f}",
        ]
        for name, found in results.items()
    ]
    header = ["", "read h", "read TB", "files M", "runs M", "merged TB", "rewritten GB", "files left", "took s"]
    measure.print_rows("What readers read", header, rows)
    triggers = [results["full compaction beyond limits"], results["strategy beyond its trigger"]]
    best = min(triggers, key=lambda found: found.read.seconds())
    mine = results["planner"]
    measure.print_bars(
        [
            measure.Bar("reading time / best triggers", mine.read.seconds() / best.read.seconds(), 1, 0.9),
            measure.Bar("merged bytes / best triggers", mine.read.merged_bytes / best.read.merged_bytes, 1, 0.9),
            measure.Bar("rewritten / budget", mine.rewritten / (BUDGET_BYTES * days), 1, 1),
        ]
    )


@dataclass
class Result:
    """What readers read in all days, and what maintenance rewrote."""

    read: Reading = NO_READING
    rewritten: int = 0
    files: int = 0
    seconds: float = 0.0


def simulate(policy: Callable[[Sequence[Table], int], int], days: int) -> Result:
    """Live through the days: commits, the nightly maintenance, then the reads of the next day."""
    tables, result, started = fleet(days), Result(), time.perf_counter()
    for day in range(days):
        for table in tables:
            table.live(day)
        result.rewritten += policy(tables, day)
        for table in tables:
            now = sum((each.now for each in table.surveyed(day).partitions), NO_READING)
            result.read += Reading(
                files=round(now.files * table.reads),
                runs=round(now.runs * table.reads),
                bytes=round(now.bytes * table.reads),
                merged_bytes=round(now.merged_bytes * table.reads),
            )
    result.files = sum(len(files) for table in tables for one in table.partitions.values() for files in one.buckets)
    result.seconds = time.perf_counter() - started
    return result


def planned(tables: Sequence[Table], day: int) -> int:
    """Spend the budget by the planner; return the bytes rewritten."""
    candidates = [each for table in tables for each in candidates_of(table.surveyed(day), reads_per_day=table.reads)]
    by_name = {table.name: table for table in tables}
    chosen = choose(candidates, Budget(bytes=BUDGET_BYTES)).chosen
    return sum(carry_out(by_name[each.table], each, day) for each in chosen)


def full_beyond_limits(tables: Sequence[Table], day: int) -> int:
    """Compact tables beyond the limits of small files and sorted runs in full, the worst first, while the budget lasts,
    partition by partition.
    """

    def excess(table: Table) -> float:
        found = table.surveyed(day).partitions
        small = sum(each.small_file_count for each in found) / MOST_SMALL_FILES
        return max(small, max((each.most_sorted_runs for each in found), default=0) / MOST_SORTED_RUNS)

    due = sorted((table for table in tables if excess(table) > 1), key=excess, reverse=True)
    return spend(((table, partition, True) for table in due for partition in table.partitions.values()), day)


def strategy_beyond_trigger(tables: Sequence[Table], day: int) -> int:
    """Let the strategy compact each partition in which it picks files, those with most sorted runs and small files
    first, while the budget lasts.
    """
    found = [
        (table, partition, survey)
        for table in tables
        for partition, survey in zip(table.partitions.values(), table.surveyed(day).partitions, strict=True)
        if any(not each.full for each in survey.compactions)
    ]
    found.sort(key=lambda one: (-one[2].most_sorted_runs, -one[2].small_file_count))
    return spend(((table, partition, False) for table, partition, _ in found), day)


def spend(due: Iterable[tuple[Table, Partition, bool]], day: int) -> int:
    """Compact the partitions, in full or as the strategy picks, as long as the budget lasts; return the bytes
    rewritten.
    """
    spent = 0
    for table, partition, full in due:
        assert partition.survey is not None
        needed = sum(each.work.rewritten_bytes for each in partition.survey.compactions if each.full is full)
        if needed and spent + needed <= BUDGET_BYTES:
            spent += compact(table, partition, full=full, day=day)
    return spent


def carry_out(table: Table, candidate: Candidate, day: int) -> int:
    """Carry a choice out; return the bytes rewritten."""
    name = str((candidate.partition or {"dt": ""})["dt"])
    return compact(table, table.partitions[name], full=candidate.operation == "compact_full", day=day)


def compact(table: Table, partition: Partition, *, full: bool, day: int) -> int:
    """Compact a partition by the plans of the package; return the bytes rewritten."""
    rewritten = 0
    for number, files in enumerate(partition.buckets):
        occasion = PickTime(local_now_millis=day * DAY_MILLIS)
        plan = plan_bucket(files, table.schema, full=full, occasion=occasion)
        if plan is None:
            continue
        rewritten += plan.rewritten_bytes
        gone = {file.file_name for file in plan.files}
        kept = [file for file in files if file.file_name not in gone]
        partition.buckets[number] = [*kept, *outputs(table, plan, day)]
    partition.survey = None
    return rewritten


def outputs(table: Table, plan: CompactionPlan | AppendCompactionPlan, day: int) -> Iterator[DataFile]:
    """Yield the files that a compaction writes."""
    make = partial(data_file, table, day=day)
    if isinstance(plan, AppendCompactionPlan):
        for group in plan.groups:
            yield make(0, 0, sum(file.row_count for file in group), level=0)
        return
    target = table.schema.table_options.target_file_size_bytes(has_key=True)
    for step in plan.steps:
        if not isinstance(step, Merge):
            yield replace(step.file, level=plan.output_level)
            continue
        keyed = [each for section in step.sections for run in section for each in run.files]
        low, high = min(each.min_key[0] for each in keyed), max(each.max_key[0] for each in keyed)
        width, left = high - low + 1, 1.0
        for each in keyed:
            left *= max(1 - each.file.row_count / width, 0.0)
        rows = min(sum(each.file.row_count for each in keyed), max(round(width * (1 - left)), 1))
        parts = -(-rows * table.row_bytes // target)
        for part in range(parts):
            begin, end = low + width * part // parts, low + width * (part + 1) // parts - 1
            yield make(begin, end, rows // parts, level=plan.output_level)


def data_file(table: Table, low: int, high: int, rows: int, *, level: int, day: int) -> DataFile:
    number = next(_NUMBERS)
    keys: dict[str, Any] = {}
    if not table.schema.is_append:
        keys = {"min_key": serialize_row((low,), _KEY), "max_key": serialize_row((high,), _KEY)}
    return DataFile(
        file_name=f"data-{number}.parquet",
        file_size=rows * table.row_bytes,
        row_count=rows,
        min_sequence_number=number,
        max_sequence_number=number,
        schema_id=0,
        level=level,
        creation_time_millis=day * DAY_MILLIS,
        **keys,
    )


def fleet(days: int) -> list[Table]:
    """Return the tables of the fleet on the first day; one explodes in the middle of the days."""
    key = new_schema({"k": "BIGINT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"}, now_millis=0)
    append = new_schema({"k": "BIGINT"}, options={"bucket": "-1"}, now_millis=0)
    tables = []
    for often, reads in (("often", 50.0), ("seldom", 0.5)):
        tables += [
            Table(f"db.events_{often}", key, reads, commits=8, rows=90_000, buckets=2),
            Table(f"db.accounts_{often}", key, reads, commits=8, rows=100_000, buckets=2, keys=4_000_000),
            Table(f"db.logs_{often}", append, reads, commits=12, rows=80_000),
        ]
        idle = Table(f"db.archive_{often}", key, reads / 25, commits=6, rows=500_000, buckets=1)
        for day in range(60):
            idle.live(day)
        tables.append(replace(idle, commits=0))
    tables.append(Table("db.exploding", key, 10.0, commits=96, rows=6_000, buckets=1, keys=1_000_000, since=days // 2))
    return tables


if __name__ == "__main__":
    main()
