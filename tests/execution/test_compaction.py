"""Compaction from plan to commit: one COMPACT snapshot, largest bucket first, nothing lost to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CommitConflict, TaskFailed, UnsupportedFeature
from lakehouse_core.execution.commit import commit
from lakehouse_core.execution.compaction import CompactionResult, compact
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.execution.scan import ReadRequest, plan_read, scan_batches
from lakehouse_core.execution.schema_log import SchemaLog
from lakehouse_core.execution.snapshot_log import SnapshotLog
from lakehouse_core.execution.stage import stage
from lakehouse_core.execution.verify import verify
from lakehouse_core.planning.partitions import partition_condition
from lakehouse_core.storage import MemoryStore
from lakehouse_core.table.changes import Append, CommitKind
from lakehouse_core.table.schema import new_schema


class SpyEngine(LocalEngine):
    """Runs tasks here, notes them, and lets another actor move before one of them."""

    def __init__(self, before: Callable[[int], None] = lambda number: None) -> None:
        super().__init__(VirtualClock(seed=99))
        self.tasks: list[Any] = []
        self._before = before

    def run(self, task: Callable[[Any], str], inputs: Sequence[Any]) -> Iterator[str]:
        for each in inputs:
            self._before(len(self.tasks))
            self.tasks.append(each)
            yield task(each)


class Database:
    """One table in memory with everything that a compaction needs."""

    def __init__(self, fields: Mapping[str, str], keys: Sequence[str] = (), partitions: Sequence[str] = (), **options):
        self.store = MemoryStore()
        self.clock = VirtualClock()
        self.log = SnapshotLog(self.store, self.clock)
        self.schemas = SchemaLog(self.store)
        named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
        schema = new_schema(fields, primary_keys=keys, partition_keys=partitions, options=named, now_millis=0)
        assert self.schemas.create(schema)
        self._number = 0

    def write(self, rows: list[dict[str, Any]], *, rowkind_column: str | None = None) -> None:
        self._number += 1
        staged = stage(
            self.log,
            self.schemas,
            lambda: LocalEngine(self.clock),
            rows,
            table="t",
            commit_user="writer",
            commit_identifier=self._number,
            rowkind_column=rowkind_column,
            mode=Append(),
            properties={},
        )
        assert commit(self.log, self.schemas, staged, self.clock).snapshots

    def compact(self, engine: LocalEngine | None = None, **arguments: Any) -> CompactionResult:
        chosen = engine or SpyEngine()
        return compact(self.log, self.schemas, lambda: chosen, full=True, **arguments)

    def rows(self) -> list[tuple[Any, ...]]:
        plan = plan_read(self.log, self.schemas, ReadRequest(table="t"))
        batches = list(scan_batches(plan, self.log))
        return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())

    def levels(self) -> list[int]:
        latest = self.log.latest()
        assert latest is not None
        return sorted(entry.file.level for entry in self.log.live_entries(latest))

    def data_files(self) -> set[str]:
        return {info.key for info in self.store.list("") if "/data-" in info.key}

    def check(self) -> None:
        assert verify(self.log, self.schemas) == ()


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
    files, latest = table.data_files(), table.log.latest_id()

    result = table.compact(dry_run=True)

    assert result.commit is None
    assert result.noop_reason is None
    assert sum(len(one.plan.files) for one in result.buckets) == 2
    assert (table.data_files(), table.log.latest_id()) == (files, latest)


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
    latest = table.log.latest_id()

    result = table.compact()

    assert (result.noop_reason, result.commit, result.buckets) == (reason, None, ())
    assert table.log.latest_id() == latest


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
    assert len(result.commit.lost) >= 1
    assert table.levels() == [5, 5]
    assert table.rows() == [(1, "a"), (1, "b")]
    live = {entry.file.file_name for entry in table.log.live_entries(table.log.latest())}
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


def test_what_the_strategy_picks_is_not_there_yet():
    table = key_table()

    with pytest.raises(UnsupportedFeature, match="ask for full=True"):
        compact(table.log, table.schemas, SpyEngine, full=False)
