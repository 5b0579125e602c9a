"""Whoever follows the changes of a table reads each one, whatever an expiry has done so far, or was killed at."""

from datetime import timedelta
from functools import cache

import pytest

from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ProcessDied

COMMITS = 7
# Of the seven snapshots the last one stays, and of the others the changes of the last four.
OPTIONS = {
    "bucket": "1",
    "write-only": "true",
    "snapshot.num-retained.min": "1",
    "changelog.num-retained.min": "5",
    "changelog.num-retained.max": "5",
    "changelog.time-retained": "0 s",
}
FIRST_RETAINED = COMMITS - 4
KINDS = {
    "append": {"options": {"bucket": "-1"}},
    "key, input": {"primary_keys": ["k"], "options": {"changelog-producer": "input"}},
    "key, waits": {"primary_keys": ["k"], "options": {"lakehouse.read.grace": "1 h"}},
}


class Followed:
    """A table as it lies in `objects`, in a store and a time of its own."""

    def __init__(self, objects, now_millis):
        self.clock = VirtualClock(now_millis=now_millis)
        self.store = MemoryStore(clock=self.clock)
        self.store.write(objects)
        self.changes = self.read()

    def table(self, store=None):
        return Catalog(store or self.store, clock=self.clock).table("db.t")

    def expire(self, store):
        return self.table(store).expire_snapshots(retain_max=1, older_than=timedelta(0))

    def read(self, after=FIRST_RETAINED - 1, until=None, store=None):
        """Return the rows of the changes in their order, unless told otherwise of those that are retained for good."""
        return self.table(store).changes(after=after, until=until).to_arrow().to_pylist()


@cache
def _made(name):
    """Return changelogs of two snapshots that expired, and five snapshots, all but one about to expire."""
    clock = VirtualClock()
    store = MemoryStore(clock=clock)
    catalog = Catalog(store, clock=clock)
    catalog.create_database("db")
    kind = KINDS[name]
    options = {**OPTIONS, "lakehouse.read.grace": "0 s", **kind.get("options", {})}
    columns = {"k": "INT NOT NULL", "n": "INT"}
    table = catalog.create_table("db.t", columns, primary_keys=kind.get("primary_keys", ()), options=options)
    for number in range(COMMITS):
        table.write([{"k": number % 2, "n": number}])
        clock.advance(1)
        if number == 2:
            table.expire_snapshots(retain_max=1, older_than=timedelta(0))
    return {info.key: store.read(info.key) for info in store.list("")}, clock.now_millis()


@pytest.fixture(params=KINDS)
def followed(request):
    return lambda: Followed(*_made(request.param))


@pytest.mark.one_in(2)
def test_a_follower_reads_on_between_any_two_calls_of_an_expiry(followed):
    table = followed()
    follower = table.table()
    wrong = {}

    def follow(call):
        seen = follower.changes(after=FIRST_RETAINED - 1).to_arrow().to_pylist()
        if seen != table.changes:
            wrong[call] = seen

    assert [row["n"] for row in table.changes] == [2, 3, 4, 5, 6]
    report = table.expire(FaultyStore(table.store, on_call=follow))

    assert wrong == {}
    assert report.changelogs_kept == 4
    assert report.changelogs_expired == 2
    steps = [table.read(after=id - 1, until=id) for id in range(FIRST_RETAINED, COMMITS + 1)]
    assert [row for step in steps for row in step] == table.changes
    assert table.table().verify().findings == ()


@pytest.mark.one_in(2)
@pytest.mark.slow
def test_after_a_kill_at_any_call_of_an_expiry_and_after_the_next_run_changes_read_on(followed, every):
    counting = FaultyStore(followed().store)
    followed().expire(counting)
    for call in [call for call in counting.calls if call.writes][::every]:
        table = followed()
        with pytest.raises(ProcessDied):
            table.expire(FaultyStore(table.store, [Fault(at=call.number, kind=FaultKind.DIE_BEFORE)]))

        assert table.read() == table.changes, call
        assert table.table().verify().findings == (), call

        table.expire(table.store)

        assert table.read() == table.changes, f"{call}, expired again"
        assert table.table().verify().findings == (), f"{call}, expired again"
        assert changelog_ids(table) == [3, 4, 5, 6]


def changelog_ids(table):
    names = table.store.children("db.db/t/changelog").files
    return sorted(int(name.removeprefix("changelog-")) for name in names if name.startswith("changelog-"))


@pytest.mark.one_in(2)
@pytest.mark.slow
def test_an_expiry_between_any_two_calls_of_a_follower_takes_nothing_from_it(followed, every):
    counting = FaultyStore(followed().store)
    Followed.read(followed(), store=counting)
    for number in range(1, len(counting.calls) + 1, every):
        table = followed()

        def interrupt(call, number=number, table=table):
            if call.number == number:
                table.expire(table.store)

        assert table.read(store=FaultyStore(table.store, on_call=interrupt)) == table.changes, number


def test_a_changelog_of_a_snapshot_that_lives_is_told_once(followed):
    table = followed()
    table.store.write({"db.db/t/changelog/changelog-5": table.store.read("db.db/t/snapshot/snapshot-5")})

    assert table.read() == table.changes
    assert table.table().verify().findings == ()

    table.expire(table.store)

    assert table.read() == table.changes
    assert changelog_ids(table) == [3, 4, 5, 6]
