"""Clocks of writers that are wrong: what is stamped, what is said of it, and what `verify` makes of old stamps."""

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.commit.compact_manifests import compact_manifests
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.table.snapshot import serialize_snapshot
from tests.execution.small_table import HOUR, SmallTable

YEAR = 365 * 24 * HOUR


def table_written_ahead(seconds):
    """Return a table whose writer's clock is ahead of the storage's, and the storage's clock."""
    storage = VirtualClock()
    writer = VirtualClock(now_millis=storage.now_millis() + int(seconds * 1000))
    return SmallTable(store=MemoryStore(clock=storage), clock=writer), storage


def test_a_writer_years_ahead_stamps_the_storages_time():
    table, storage = table_written_ahead(5 * YEAR)
    for _ in range(2):
        table.write({1: "v"})
        storage.advance(HOUR)
    table.compact()
    compact_manifests(
        table.context,
    )

    times = [snapshot.time_millis for snapshot in table.context.snapshots.history()]
    start = storage.now_millis() - 2 * HOUR * 1000

    assert times == [start, start + HOUR * 1000, start + 2 * HOUR * 1000, start + 2 * HOUR * 1000]
    assert table.findings() == []


@pytest.mark.parametrize("seconds", [-5 * YEAR, -60, 0, 599])
def test_a_writer_that_is_behind_or_a_little_ahead_stamps_its_own_time(seconds):
    table, _ = table_written_ahead(seconds)
    now_millis = table.clock.now_millis()

    table.write({1: "v"})

    assert table.context.snapshots.latest().time_millis == now_millis + 1000
    assert table.findings() == []


def test_the_report_of_a_commit_says_how_far_the_clock_is_ahead():
    storage = VirtualClock()
    store = MemoryStore(clock=storage)
    table = new_table(store, VirtualClock(now_millis=storage.now_millis() + 5 * YEAR * 1000))

    ahead = table.write([{"k": 1}])
    right = Catalog(store, clock=storage).table("db.t").write([{"k": 1}])

    assert ahead.clock_note == (
        "this machine's clock is 157680000 s ahead of the storage's: the snapshot has the storage's time; "
        "set the clock right"
    )
    assert right.clock_note is None


def test_the_reports_of_both_compactions_say_it_too():
    storage = VirtualClock()
    store = MemoryStore(clock=storage)
    table = new_table(store, storage)
    for number in range(2):
        table.write([{"k": number}])
    ahead = Catalog(store, clock=VirtualClock(now_millis=storage.now_millis() + 5 * YEAR * 1000)).table("db.t")

    rewritten, merged = ahead.compact(full=True), ahead.compact_manifests()

    assert (rewritten.snapshot_id, merged.snapshot_id) == (3, 4)
    for report in (rewritten, merged):
        assert report.clock_note is not None
        assert report.clock_note.startswith("this machine's clock is 157680000 s ahead of the storage's")
    table.write([{"k": 3}])
    assert (table.compact(full=True).clock_note, table.compact_manifests().clock_note) == (None, None)


def new_table(store, clock) -> lc.Table:
    catalog = Catalog(store, clock=clock)
    catalog.create_database("db")
    return catalog.create_table("db.t", {"k": "INT"})


def test_the_storage_is_asked_only_when_the_time_is_far_from_the_last_one():
    table = SmallTable()
    for seconds, asked in ((0, 1), (1, 0), (590, 0), (HOUR, 1), (1, 0)):
        table.clock.advance(seconds)
        calls = FaultyStore(table.origin)
        table.over(calls).write({1: "v"})

        assert [call.method for call in calls.calls].count("now_millis") == asked, seconds


def test_the_time_of_a_snapshot_never_goes_down():
    table = SmallTable()
    table.write({1: "a"})
    latest = table.context.snapshots.latest()
    poisoned = latest.model_copy(update={"time_millis": latest.time_millis + 5 * YEAR * 1000})
    table.store.write({"snapshot/snapshot-1": serialize_snapshot(poisoned)})

    table.write({1: "b"})

    assert table.context.snapshots.latest().time_millis == poisoned.time_millis


def test_verify_names_the_commit_that_brought_the_future_in_and_not_those_after_it():
    table = SmallTable()
    for _ in range(4):
        table.write({1: "v"})
    stamp = table.clock.now_millis() + 5 * YEAR * 1000
    for id in (2, 3, 4):
        changed = table.context.snapshots.snapshot(id).model_copy(update={"time_millis": stamp})
        table.store.write({f"snapshot/snapshot-{id}": serialize_snapshot(changed)})

    (finding,) = table.findings()

    assert finding.startswith("I8 snapshot/snapshot-2: its time is 157680000 s ahead of now; ")
    assert "Correct the clock of the machine that commits as tests." in finding


def test_verify_with_a_clock_that_is_behind_blames_nobody():
    table = SmallTable()
    for _ in range(3):
        table.write({1: "v"})
    table.clock.advance(-5 * YEAR)

    assert table.findings() == []


def test_verify_names_a_time_ahead_of_now_where_the_storage_had_the_same_wrong_clock():
    table = SmallTable()
    table.write({1: "v"})
    table.clock.advance(5 * YEAR)
    table.write({1: "w"})
    table.clock.advance(-5 * YEAR)
    table.write({1: "x"})

    (finding,) = table.findings()

    assert finding.startswith("I8 snapshot/snapshot-2: its time is 157")
