"""The depth of each verb: how many round trips to an object store wait for one another.

The table has 4 buckets and 15 small commits, unless the case says otherwise. A fresh handle has done nothing yet, a
warm one has just done the same. `most` is what is reached, `aim` what docs/decisions/0021-round-trips.md asks for.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.decided_store import DecidedStore
from lakehouse_core.catalog.sql.metastore import SqlMetastore
from lakehouse_core.catalog.sql.tables import COMMITS
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore, ObjectStore
from tests.round_trips.meter import Meter, MeteredDatabase, MeteredStore, metered

SEEDS = count()
COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
WRITE_ONLY = {"write-only": "true", "lakehouse.read.grace": "0 s"}
# Nothing is compacted, and only the first commit is tagged.
TAGGED = {"write-only": "false", "num-sorted-run.compaction-trigger": "100", "tag.automatic-creation": "process-time"}
UNTAGGED = {**TAGGED, "tag.automatic-creation": "none"}


def rows(count: int = 40, *, value: str = "a") -> list[dict[str, Any]]:
    return [{"k": key, "v": value} for key in range(count)]


@dataclass(frozen=True)
class Lake:
    """A table `db.t` with this history, and 40 neighbours if asked for."""

    commits: int = 15
    buckets: int = 4
    producer: str = "none"
    neighbours: int = 0
    options: Mapping[str, str] = field(default_factory=dict)

    def made(self) -> MemoryStore:
        store = MemoryStore(clock=VirtualClock())
        self.fill(Catalog(store, clock=VirtualClock()))
        return store

    def fill(self, catalog: Catalog) -> None:
        catalog.create_database("db")
        options = {**WRITE_ONLY, "bucket": str(self.buckets), "changelog-producer": self.producer}
        options |= self.options
        table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)
        for commit in range(self.commits):
            table.write(rows(value=f"{commit}"))
        for number in range(self.neighbours):
            catalog.create_table(f"db.n{number}", COLUMNS)


@dataclass(frozen=True)
class Case:
    """What is done to a catalog, after `before`, and the most round trips that may wait for one another."""

    run: Callable[[Catalog, lc.Table], object]
    most: int
    aim: int
    lake: Lake = Lake()
    before: Callable[[Catalog, lc.Table], object] = lambda catalog, table: None


def write(_: Catalog, table: lc.Table) -> object:
    return table.write(rows(value="new"))


def scan(_: Catalog, table: lc.Table) -> object:
    return table.scan().to_arrow()


def lookup(_: Catalog, table: lc.Table) -> object:
    return table.lookup([{"k": 3}])


def compact(_: Catalog, table: lc.Table) -> object:
    return table.compact(full=True)


def expire(_: Catalog, table: lc.Table) -> object:
    return table.expire_snapshots(retain_max=1)


def state(_: Catalog, table: lc.Table) -> object:
    def told(seen: lc.Table) -> object:
        listed = seen.snapshots(), seen.tags(), seen.changelogs(), seen.schemas(), seen.system("consumers").to_arrow()
        return listed, seen.buckets(), seen.manifests(), seen.content_snapshot_id(), seen.committers(), seen.schema

    return table.at_one_moment(told)


def stage(_: Catalog, table: lc.Table) -> object:
    return table.stage(rows(4_000), commit_user="u", commit_identifier=1)


def keep(_: Catalog, table: lc.Table) -> object:
    staged = table.stage(rows(4_000), commit_user="u", commit_identifier=1)
    table.keep_pending(staged)
    return staged


def keep_and_overtake(catalog: Catalog, table: lc.Table) -> object:
    """Others commit the same keys 14 times after the rows were staged."""
    staged = table.stage(rows(), commit_user="u", commit_identifier=1)
    table.keep_pending(staged)
    other = catalog.table("db.t")
    for number in range(14):
        other.write(rows(value=f"other {number}"))
    return table.snapshot()


def commit(_: Catalog, table: lc.Table) -> object:
    (staged,) = table.all_pending("u")
    return table.commit(staged)


def read_and_set_consumer(_: Catalog, table: lc.Table) -> object:
    plan = table.scan().plan()
    table.set_consumer("reader", 2)
    return plan


CASES = {
    "open a table": Case(lambda catalog, _: catalog.table("db.t"), most=1, aim=1),
    "write to 4 buckets, warm": Case(write, before=write, most=7, aim=7),
    "write to 4 buckets, fresh": Case(write, most=10, aim=10),
    "write where no compaction and no tag is due, warm": Case(
        write, lake=Lake(options=UNTAGGED), before=write, most=8, aim=8
    ),
    "write that looks whether a tag is due, warm": Case(write, lake=Lake(options=TAGGED), before=write, most=9, aim=9),
    "stage 100 buckets": Case(stage, lake=Lake(commits=1, buckets=100), most=8, aim=8),
    "commit after 14 commits of the same keys": Case(commit, before=keep_and_overtake, most=19, aim=13),
    "write that merges 30 manifests": Case(
        write, lake=Lake(commits=30), before=lambda _, table: table.scan().plan(), most=8, aim=8
    ),
    "commit 100 files that are kept": Case(commit, before=keep, lake=Lake(commits=1, buckets=100), most=10, aim=10),
    "scan 60 files, fresh": Case(scan, most=6, aim=6),
    "scan 60 files, warm": Case(scan, before=scan, most=3, aim=5),
    "scan 200 files, fresh": Case(scan, lake=Lake(commits=50), most=12, aim=12),
    "look a key up, fresh": Case(lookup, most=5, aim=5),
    "look a key up, warm": Case(lookup, before=lookup, most=1, aim=2),
    "read the changes of 14 snapshots": Case(
        lambda _, table: table.changes(after=1).to_arrow(), lake=Lake(producer="input"), most=10, aim=10
    ),
    "compact 60 files": Case(compact, most=15, aim=21),
    "expire 14 snapshots": Case(expire, most=23, aim=24),
    "expire 49 snapshots": Case(expire, lake=Lake(commits=50), most=30, aim=30),
    "verify the data of 60 files": Case(lambda _, table: table.verify(data=True), most=8, aim=8),
    "verify": Case(lambda _, table: table.verify(), most=6, aim=6),
    "tell the state of a table, fresh": Case(state, most=4, aim=4),
    "tell the state of a table, warm": Case(state, before=state, most=2, aim=2),
    "set a consumer, warm": Case(
        lambda _, table: table.set_consumer("reader", 3), before=read_and_set_consumer, most=3, aim=3
    ),
    "delete a consumer, warm": Case(
        lambda _, table: table.delete_consumer("reader"), before=read_and_set_consumer, most=3, aim=3
    ),
    "create a table": Case(lambda catalog, _: catalog.create_table("db.new", COLUMNS), most=4, aim=4),
    "create a table beside 40": Case(
        lambda catalog, _: catalog.create_table("db.new", COLUMNS), lake=Lake(neighbours=40), most=4, aim=4
    ),
    "list 41 tables": Case(lambda catalog, _: catalog.tables("db"), lake=Lake(neighbours=40), most=3, aim=3),
}


def depth(case: Case, opened: Callable[[Meter], Catalog] | None = None) -> tuple[int, list[str]]:
    """Return the round trips of a case that wait for one another, and its requests."""
    with metered() as meter:
        if opened is None:
            catalog = Catalog(MeteredStore(case.lake.made(), meter), clock=VirtualClock(seed=1))
        else:
            catalog = opened(meter)
        table = catalog.table("db.t")
        case.before(catalog, table)
        meter.requests.clear()
        began = meter.now
        case.run(catalog, table)
        return meter.now - began, list(meter.requests)


@pytest.mark.parametrize("name", CASES)
def test_no_verb_waits_for_more_round_trips_than_its_budget(name: str) -> None:
    trips, requests = depth(CASES[name])

    assert trips <= CASES[name].most, "\n".join(requests)


@pytest.mark.parametrize(
    "name", ["write to 4 buckets, warm", "write to 4 buckets, fresh", "commit 100 files that are kept"]
)
def test_a_commit_lists_nothing(name: str) -> None:
    _, requests = depth(CASES[name])

    # The case asks for what is kept.
    assert [each for each in requests if each.startswith("LIST") and "/pending/" not in each] == []


@pytest.mark.parametrize(
    ("faster", "most"),
    [
        pytest.param([{"k": 1_000, "v": "faster"}], 17, id="other keys"),
        # The files get higher sequence numbers.
        pytest.param(rows(value="faster"), 26, id="the same keys"),
    ],
)
def test_a_write_that_loses_the_race_for_its_snapshot_waits_for_few_round_trips_more(
    faster: list[dict[str, Any]], most: int
) -> None:
    store = Lake().made()
    create_new, others = MemoryStore.create_new, list[str]()

    def raced(self: MemoryStore, key: str, data: bytes) -> bool:
        if key.endswith("snapshot-17") and not others:
            others.append(key)
            Catalog(store, clock=VirtualClock(seed=2)).table("db.t").write(faster)
        return create_new(self, key, data)

    with metered() as meter:
        catalog = Catalog(MeteredStore(store, meter), clock=VirtualClock(seed=1))
        table = catalog.table("db.t")
        write(catalog, table)
        meter.requests.clear()
        began = meter.now
        with mock.patch.object(MemoryStore, "create_new", raced):
            report = table.write(rows(value="slower"))
        trips = meter.now - began

    assert (report.snapshot_id, report.attempts, len(others)) == (18, 2, 1)
    assert trips <= most, "\n".join(meter.requests)


# Where a database decides: connections, statements and commits of transactions are round trips, too.
DECIDED = {
    "open a table": 3,
    "write to 4 buckets, warm": 24,
    "write to 4 buckets, fresh": 35,
    "scan 60 files, warm": 5,
    "scan 60 files, fresh": 10,
    "look a key up, warm": 3,
    "compact 60 files": 52,
    "expire 14 snapshots": 103,
    "create a table": 42,
}


@pytest.mark.parametrize("name", DECIDED)
def test_no_verb_waits_for_more_than_its_budget_where_a_database_decides(name: str, tmp_path: Path) -> None:
    case, inner = CASES[name], MemoryStore(clock=VirtualClock())
    names = f"sqlite:///{tmp_path}/names.db"
    case.lake.fill(decided(inner, names, Meter()))

    trips, requests = depth(case, lambda meter: decided(MeteredStore(inner, meter), names, meter))

    assert trips <= DECIDED[name], "\n".join(requests)


def decided(store: ObjectStore, names: str, meter: Meter) -> Catalog:
    """Open a catalog whose database decides, and keeps the names."""
    address, clock = sql_address(names, {}), VirtualClock(seed=next(SEEDS))
    over = DecidedStore(store, MeteredDatabase(address, meter, (COMMITS,)), clock)
    metastore = SqlMetastore(MeteredDatabase(address, meter), WarehouseFiles(over, clock), clock)
    return Catalog(over, clock=clock, metastore=metastore)


def test_a_write_after_many_commits_of_others_finds_the_latest_snapshot_in_few_round_trips() -> None:
    store = Lake(commits=1).made()
    with metered() as meter:
        table = Catalog(MeteredStore(store, meter), clock=VirtualClock()).table("db.t")
        table.snapshot()
        other = Catalog(store, clock=VirtualClock(seed=1)).table("db.t")
        for number in range(20):
            other.write(rows(value=f"{number}"))
        began = meter.now
        found = table.snapshot()

    assert found is not None
    assert (found.id, meter.now - began) == (21, 2)


def test_the_meter_counts_what_waits_and_not_what_runs_beside() -> None:
    with metered() as meter:
        store = MeteredStore(MemoryStore(), meter)
        store.write({f"{number}": b"x" for number in range(40)})
        assert (meter.now, len(meter.requests)) == (2, 40)
        store.read("1")
        store.read("2")
        assert (meter.now, len(meter.requests)) == (4, 42)


def in_pool(store: MeteredStore, tasks: list[list[str]], workers: int) -> None:
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(lambda keys: [store.read(key) for key in keys], keys) for keys in tasks]:
            done.result()


@pytest.mark.parametrize(
    ("workers", "expected"),
    [(1, 6), (2, 3), (3, 3), (6, 3)],
)
def test_the_meter_gives_tasks_to_the_threads_of_a_pool_in_order(workers: int, expected: int) -> None:
    with metered() as meter:
        store = MeteredStore(MemoryStore(), meter)
        store.write({"a": b"", "b": b""})
        began = meter.now
        in_pool(store, [["a", "b", "a"], ["a"], ["b"], ["b"]], workers)

    assert meter.now - began == expected
