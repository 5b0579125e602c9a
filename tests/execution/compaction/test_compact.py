"""Compaction from plan to commit: one COMPACT snapshot, largest bucket first, nothing lost to others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CommitConflict, TaskFailed
from lakehouse_core.execution.commit.loop import commit
from lakehouse_core.execution.compaction.compact import CompactionResult, compact
from lakehouse_core.execution.compaction.scope import RequestedBuckets, WrittenBuckets
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.execution.read.rows import scan_batches
from lakehouse_core.execution.read.scan import ReadRequest, plan_read
from lakehouse_core.execution.verify.verify import verify
from lakehouse_core.execution.write.stage import stage
from lakehouse_core.planning.partitions import partition_condition
from lakehouse_core.storage import MemoryStore, open_store
from lakehouse_core.table.commit_message import Append, CommitKind
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.schema import new_schema
from lakehouse_core.tasks.runtime import TaskRuntime, local_runtime
from tests.contexts import context_of

# All runs are rewritten only where the others outweigh the oldest hundredfold.
COSTLY = {"compaction__max_size_amplification_percent": "10000"}


# No two engines give files the same names.
_SEEDS = itertools.count(99)


class SpyEngine(LocalEngine):
    """Runs tasks here, each bucket by itself, notes them, and lets another actor move before one of them."""

    def __init__(self, before: Callable[[int], None] = lambda number: None) -> None:
        # The store of each task, by its specification.
        self.runtime = TaskRuntime(VirtualClock(seed=next(_SEEDS)), open_store)
        super().__init__(self.runtime)
        self.tasks: list[Any] = []
        self._before = before

    def run(self, task: Callable[[Any, TaskRuntime], str], inputs: Sequence[Any]) -> Iterator[str]:
        for each in (each for group in inputs for each in group):
            self._before(len(self.tasks))
            self.tasks.append(each)
            yield task([each], self.runtime)


class Database:
    """One table in memory with everything that a compaction needs."""

    def __init__(self, fields: Mapping[str, str], keys: Sequence[str] = (), partitions: Sequence[str] = (), **options):
        self.store = MemoryStore()
        self.clock = VirtualClock()
        self.context = context_of(self.store, self.clock)
        self.schemas = self.context.schemas
        named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
        schema = new_schema(fields, primary_keys=keys, partition_keys=partitions, options=named, now_millis=0)
        assert self.schemas.create(schema)
        self._number = 0

    def write(self, rows: list[dict[str, Any]], *, rowkind_column: str | None = None) -> None:
        self._number += 1
        staged = stage(
            self.context,
            rows,
            commit_user="writer",
            commit_identifier=self._number,
            rowkind_column=rowkind_column,
            mode=Append(),
            properties={},
        )
        assert commit(self.context, staged).snapshots

    def engine(self) -> LocalEngine:
        return LocalEngine(local_runtime(self.store, self.clock))

    def compact(self, engine: LocalEngine | None = None, **arguments: Any) -> CompactionResult:
        chosen = engine or SpyEngine()
        asked = {name: arguments.pop(name) for name in ("condition", "idle_millis") if name in arguments}
        scope = arguments.pop("scope", RequestedBuckets(**asked))
        return compact(replace(self.context, engine=lambda: chosen), scope, **{"full": True, **arguments})

    def set_options(self, **options: str) -> None:
        """Let the next version of the schema have the options of the first, and these."""
        first, latest = self.schemas.schema(0), self.schemas.latest()
        assert self.schemas.create(replace(first, id=latest.id + 1, options={**first.options, **options}))

    def live_files(self) -> list[DataFile]:
        """The live files, smallest row count first."""
        latest = self.context.snapshots.latest()
        assert latest is not None
        return sorted(
            (entry.file for entry in self.context.manifests.live_entries(latest)), key=lambda file: file.row_count
        )

    def rows_in_order(self) -> list[tuple[Any, ...]]:
        plan = plan_read(self.context, ReadRequest(table="t"))
        batches = list(scan_batches(plan, self.context))
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.rows_in_order())

    def levels(self) -> list[int]:
        latest = self.context.snapshots.latest()
        assert latest is not None
        return sorted(entry.file.level for entry in self.context.manifests.live_entries(latest))

    def data_files(self) -> set[str]:
        return {info.key for info in self.store.list("") if "/data-" in info.key}

    def check(self) -> None:
        assert verify(self.context) == ()


def key_table(**options: str) -> Database:
    return Database({"k": "INT", "v": "STRING"}, ["k"], **{"bucket": "2", **options})


def rows(*pairs: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"k": key, "v": value} for key, value in pairs]


def test_a_full_compaction_makes_one_compact_snapshot_and_changes_no_row():
    table = key_table()
    for number in range(3):
        table.write(rows(*((key, f"{number}") for key in range(number, 20))))
    before = table.rows()

    result = table.compact(properties={"lakehouse.run-id": "run-1"})

    assert result.commit is not None
    (snapshot,) = result.commit.snapshots
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert snapshot.properties["lakehouse.run-id"] == "run-1"
    assert table.rows() == before
    assert table.levels() == [5, 5]
    assert result.file_count == 6
    assert {one.plan.reason for one in result.buckets} == {"full compaction"}
    table.check()


def test_the_bucket_with_most_to_rewrite_comes_first():
    table = Database({"k": "INT", "p": "INT", "v": "STRING"}, ["k", "p"], ["p"], bucket="1")
    for _ in range(2):
        table.write(
            [{"k": key, "p": p, "v": f"{key * 7919}"} for p in (1, 2, 3) for key in range({1: 2, 2: 300, 3: 40}[p])]
        )
    engine = SpyEngine()

    table.compact(engine)

    assert [task.folder for task in engine.tasks] == ["p=2/bucket-0", "p=3/bucket-0", "p=1/bucket-0"]
    table.check()


def test_only_the_partitions_asked_for_are_compacted():
    table = Database({"k": "INT", "p": "STRING"}, ["k", "p"], ["p"], bucket="1")
    for _ in range(2):
        table.write([{"k": 1, "p": p} for p in "abc"])

    condition = partition_condition({"p": "b"}, table.schemas.latest())
    result = table.compact(condition=condition)

    assert [one.folder for one in result.buckets] == ["p=b/bucket-0"]
    assert result.file_count == 2
    assert table.levels() == [0, 0, 0, 0, 5]


def test_a_dry_run_says_what_would_be_done_and_does_nothing():
    table = key_table(bucket="1")
    table.write(rows((1, "a"), (2, "b")))
    table.write(rows((1, "c"), (2, "d")))
    files, latest = table.data_files(), table.context.snapshots.ids.latest()

    result = table.compact(dry_run=True)

    assert result.commit is None
    assert result.noop_reason is None
    assert sum(len(one.plan.files) for one in result.buckets) == 2
    assert (table.data_files(), table.context.snapshots.ids.latest()) == (files, latest)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda table: None, "the table is empty"),
        (
            lambda table: (table.write(rows((1, "a"))), table.compact()),
            "every bucket is one sorted run in its top level",
        ),
    ],
    ids=["empty", "done before"],
)
def test_nothing_to_do_is_an_answer_that_says_why(prepare, reason):
    table = key_table()
    prepare(table)
    latest = table.context.snapshots.ids.latest()

    result = table.compact()

    assert (result.noop_reason, result.commit, result.buckets) == (reason, None, ())
    assert table.context.snapshots.ids.latest() == latest


def test_append_tables_without_buckets_are_packed_by_partition():
    table = Database({"v": "INT", "p": "STRING"}, [], ["p"])
    for number in range(4):
        table.write([{"v": number, "p": "a"}, {"v": number, "p": "b"}])
    before = table.rows()

    result = table.compact()

    assert len(result.buckets) == 2
    assert table.rows() == before
    assert len(table.levels()) == 2
    table.check()
    assert table.compact().noop_reason == "no bucket has two small files that may be packed together"


def test_a_write_in_between_stays_on_top():
    table = key_table(bucket="1")
    table.write(rows((1, "a"), (2, "b")))
    table.write(rows((1, "c")))
    engine = SpyEngine(before=lambda number: table.write(rows((2, "newer"))))

    result = table.compact(engine)

    assert result.commit is not None
    assert table.rows() == [(1, "c"), (2, "newer")]
    assert table.levels() == [0, 5]
    table.check()


def test_a_bucket_that_another_compaction_took_is_given_up_and_the_others_are_kept():
    table = Database({"k": "INT", "p": "STRING"}, ["k", "p"], ["p"], bucket="1")
    for _ in range(2):
        table.write([{"k": 1, "p": p} for p in "ab"])
    condition = partition_condition({"p": "a"}, table.schemas.latest())
    engine = SpyEngine(before=lambda number: table.compact(condition=condition) if number == 1 else None)

    result = table.compact(engine)

    assert result.commit is not None
    assert len(result.commit.conflicts) >= 1
    assert table.levels() == [5, 5]
    assert table.rows() == [(1, "a"), (1, "b")]
    live = {entry.file.file_name for entry in table.context.manifests.live_entries(table.context.snapshots.latest())}
    # What is left on disk is live, or an input that earlier snapshots name; the loser's output is gone.
    assert len(table.data_files()) == len(live) + 4
    table.check()


def test_a_compaction_that_lost_everywhere_is_a_conflict_and_leaves_no_file():
    table = key_table(bucket="1")
    table.write(rows((1, "a")))
    table.write(rows((1, "b")))
    engine = SpyEngine(before=lambda number: table.compact())

    with pytest.raises(CommitConflict):
        table.compact(engine)

    assert len(table.data_files()) == 3
    table.check()


def test_a_failing_task_leaves_nothing_of_the_others():
    table = Database({"k": "INT", "p": "STRING"}, ["k", "p"], ["p"], bucket="1")
    for _ in range(2):
        table.write([{"k": 1, "p": p} for p in "ab"])
    files = table.data_files()

    def fail(number: int) -> None:
        if number == 1:
            raise TaskFailed("the second task failed in each of its attempts")

    with pytest.raises(TaskFailed):
        table.compact(SpyEngine(before=fail))

    assert table.data_files() == files


def test_a_minor_compaction_waits_until_the_runs_are_many():
    table = key_table(bucket="1")
    for number in range(4):
        table.write(rows((number, "a")))

    result = table.compact(full=False)

    assert result.commit is None
    assert result.noop_reason == (
        "the strategy finds every bucket in good shape: at most 5 sorted runs "
        "(num-sorted-run.compaction-trigger), each far smaller than the next"
    )
    assert table.levels() == [0, 0, 0, 0]

    table.write(rows((4, "a")))
    (compacted,) = table.compact(full=False).buckets

    assert (compacted.plan.reason, table.levels()) == ("size amplification", [5])


def test_a_minor_compaction_spares_what_is_old_and_large():
    table = key_table(bucket="1", **COSTLY)
    table.write(rows(*((key, f"{key * 2654435761 % 2**32:x}") for key in range(3000))))
    table.compact()
    for number in range(4):
        table.write(rows((number, "new")))
    before = table.rows()

    (compacted,) = table.compact(full=False).buckets

    assert (compacted.plan.reason, len(compacted.plan.files)) == ("size ratio", 4)
    assert table.levels() == [4, 5]
    assert table.rows() == before
    assert compacted.plan.older[0].row_count == 3000


def test_deletes_are_kept_while_older_rows_lie_above_and_forgotten_with_them():
    table = key_table(bucket="1", **COSTLY)
    table.write(rows(*((key, f"{key * 2654435761 % 2**32:x}") for key in range(3000))))
    table.compact()
    for key in range(4):
        table.write([{"k": key, "v": "", "op": "-D"}], rowkind_column="op")

    table.compact(full=False)

    assert [row[0] for row in table.rows()] == list(range(4, 3000))
    assert sorted(file.row_count for file in table.live_files()) == [4, 3000]
    table.compact()
    assert [file.row_count for file in table.live_files()] == [2996]
    assert [row[0] for row in table.rows()] == list(range(4, 3000))


def test_one_minor_compaction_is_one_pick_and_the_next_may_pick_again():
    """Sizes of 1, 1, 3, 4, 100: the two newest are of like size, then what they became is one run too many."""
    table = key_table(bucket="1", **COSTLY, num_sorted_run__compaction_trigger="3", num_levels="6")
    force = {"compaction.force-up-level-0": "true"}
    values = [f"{key * 2654435761 % 2**32:x}" for key in range(40_000)]
    for count, first in ((40_000, 0), (1_600, 10_000), (1_200, 20_000)):
        table.write(rows(*((first + key, values[key]) for key in range(count))))
        table.set_options(**force)
        table.compact(full=False)
        table.set_options()
    for _ in range(2):
        table.write(rows(*((30_000 + key, values[key]) for key in range(400))))
    before = table.rows()

    first = table.compact(full=False).buckets[0].plan
    levels_between = table.levels()
    second = table.compact(full=False).buckets[0].plan

    assert (first.reason, first.output_level, levels_between) == ("size ratio", 2, [2, 3, 4, 5])
    assert (second.reason, table.levels()) == ("number of sorted runs", [4, 5])
    assert table.rows() == before
    table.check()


def test_a_table_that_is_compacted_after_every_write_reads_the_same():
    table = key_table(bucket="2", num_sorted_run__compaction_trigger="3")
    plain = key_table(bucket="2")
    reasons, kept = set(), 0
    for number in range(25):
        written = [
            {"k": number * 7919 % 60 + step, "v": f"{number}", "op": "-D" if (number + step) % 6 == 0 else "+I"}
            for step in range(number % 9 + 1)
        ]
        for each in (table, plain):
            each.write(written, rowkind_column="op")
        result = table.compact(full=False)
        reasons |= {one.plan.reason for one in result.buckets}
        kept += result.commit is None

        assert table.rows() == plain.rows(), number
        table.check()

    assert reasons >= {"size amplification", "size ratio"}
    assert kept > 0
    assert len(table.levels()) < len(plain.levels())


def test_a_minor_compaction_packs_append_files_when_enough_wait():
    table = Database({"v": "INT", "p": "STRING"}, [], ["p"], compaction__min__file_num="3")
    for number in range(3):
        table.write([{"v": number, "p": "a"}, *([{"v": number, "p": "b"}] if number else [])])
    before = table.rows()

    result = table.compact(full=False)

    assert [one.folder for one in result.buckets] == ["p=a/bucket-0"]
    assert (table.rows(), len(table.levels())) == (before, 3)
    assert table.compact(full=False).noop_reason == (
        "nowhere are 3 small files (compaction.min.file-num) to be packed together"
    )
    table.check()


def test_a_minor_compaction_keeps_the_order_of_a_bucket_of_an_append_table():
    table = Database({"v": "INT"}, bucket="1", bucket_key="v", compaction__min__file_num="3")
    for number in (5, 3, 9, 1):
        table.write([{"v": number}])

    table.compact(full=False)

    assert [file.row_count for file in table.live_files()] == [1, 3]
    assert [row[0] for row in table.rows_in_order()] == [5, 3, 9, 1]


def test_partitions_that_had_a_new_file_lately_are_left_alone():
    table = Database({"k": "INT", "p": "STRING"}, ["k", "p"], ["p"], bucket="1")
    for p in "aabb":
        table.write([{"k": 1, "p": p}])
        table.clock.advance(1800)
    hour = 3_600_000

    # The last file of `a` is an hour and a half old, that of `b` half an hour.
    assert table.compact(idle_millis=3 * hour // 2 + 1).noop_reason == (
        "every partition had a new file within the idle time"
    )
    result = table.compact(idle_millis=3 * hour // 2)

    assert [one.folder for one in result.buckets] == ["p=a/bucket-0"]
    assert table.levels() == [0, 0, 5]


def test_partitions_whose_time_is_over_are_left_alone_by_a_compaction_of_its_own():
    options = {"partition__expiration_time": "1 d", "compaction__skip_expired_partitions": "true"}
    table = Database({"k": "INT", "p": "STRING"}, ["k", "p"], ["p"], bucket="1", **options)
    old, new = "2020-01-01", "2020-01-07"
    table.clock.advance(datetime(2020, 1, 7, 12, tzinfo=UTC).timestamp() - table.clock.local_now_millis() / 1000)
    for p in (old, new, "no day", old, new):
        table.write([{"k": 1, "p": p}])

    result = table.compact()

    assert sorted(one.folder for one in result.buckets) == ["p=2020-01-07/bucket-0", "p=no day/bucket-0"]
    assert table.levels() == [0, 0, 5, 5]
    condition = partition_condition({"p": old}, table.schemas.latest())
    assert table.compact(condition=condition).noop_reason == ("every partition is past partition.expiration-time")
    assert [one.folder for one in table.compact(scope=WrittenBuckets()).buckets] == ["p=2020-01-01/bucket-0"]
    table.check()


def test_where_the_table_asks_for_it_a_full_compaction_rewrites_what_lies_in_its_place():
    table = key_table(bucket="1", compaction__force_rewrite_all_files="true")
    table.write(rows((1, "a")))
    table.compact()
    (first,) = table.live_files()

    (compacted,) = table.compact().buckets

    assert compacted.plan.reason == "rewrite requested"
    assert {file.file_name for file in table.live_files()} != {first.file_name}
    assert (table.rows(), table.levels()) == ([(1, "a")], [5])
    table.check()


def test_rows_whose_time_is_over_go_with_the_next_compaction_of_their_file():
    table = Database(
        {"k": "INT", "t": "BIGINT", "v": "STRING"},
        ["k"],
        bucket="1",
        record_level__expire_time="1 h",
        record_level__time_field="t",
    )
    now = table.clock.now_millis()
    seconds = now // 1000
    table.write([{"k": 1, "t": seconds, "v": "young"}, {"k": 2, "t": now - 3_600_999, "v": "in ms, just over"}])
    table.write([{"k": 3, "t": None, "v": "no time"}, {"k": 4, "t": seconds - 3600, "v": "not over yet"}])

    assert len(table.rows()) == 4
    table.compact()
    assert [row[2] for row in table.rows()] == ["young", "no time", "not over yet"]

    assert table.compact().noop_reason == "every bucket is one sorted run in its top level"
    table.clock.advance(10)
    (compacted,) = table.compact().buckets

    assert compacted.plan.reason == "expired rows"
    assert [row[2] for row in table.rows()] == ["young", "no time"]
    assert table.levels() == [5]
    table.check()


def test_an_expired_row_is_no_version_so_that_an_older_one_with_a_later_time_stays():
    table = Database(
        {"k": "INT", "t": "INT"}, ["k"], bucket="1", record_level__expire_time="1 h", record_level__time_field="t"
    )
    seconds = table.clock.now_millis() // 1000
    table.write([{"k": 1, "t": seconds}])
    table.write([{"k": 1, "t": seconds - 7200}])

    table.compact()

    assert table.rows() == [(1, seconds)]


# Statistics that say nothing let files with rows that are over move up as they are.
OVER_BEYOND = {
    "bucket": "1",
    "record_level__expire_time": "1 h",
    "record_level__time_field": "t",
    "metadata__stats_mode": "none",
    "num_sorted_run__compaction_trigger": "4",
}


def over_at_the_top(**options: str) -> tuple[Database, int]:
    """A table whose top level holds the keys 1 to 200; the time of 1 and 2 is over. And the seconds of now."""
    table = Database({"k": "INT", "v": "INT", "t": "INT"}, ["k"], **OVER_BEYOND, **options)
    now = table.clock.now_millis() // 1000
    table.write([{"k": k, "v": k, "t": 5 if k < 3 else now} for k in range(1, 201)])
    table.compact(full=False)
    assert len(table.rows()) == 200
    return table, now


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_with_deletion_vectors_what_is_written_anew_takes_the_place_of_a_row_that_is_over(producer: str):
    table, now = over_at_the_top(deletion_vectors__enabled="true", changelog_producer=producer)

    news = [{"k": 1, "v": 100, "t": now, "kind": "+I"}, {"k": 2, "v": 0, "t": now, "kind": "-D"}]
    table.write(news, rowkind_column="kind")
    table.compact(full=False)

    assert [row for row in table.rows() if row[0] < 4] == [(1, 100, now), (3, 3, now)]
    assert len(table.rows()) == 199
    table.check()


def test_a_first_row_that_is_over_was_the_first_as_long_as_it_is_there():
    table, now = over_at_the_top(merge_engine="first-row")

    table.write([{"k": 1, "v": 100, "t": now}])
    table.compact(full=False)

    assert [row for row in table.rows() if row[0] == 1] == [(1, 1, 5)]
    table.check()
