"""The files that snapshots added are read once by one handle; what is asked never shows that they are remembered."""

from random import Random

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata import added_files
from lakehouse_core.metadata.added_files import AddedFiles
from lakehouse_core.storage import FaultyStore, MemoryStore
from lakehouse_core.table.commit_message import CommitKind
from tests.pairs import in_turn


class Place:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        catalog = Catalog(self.store, clock=self.clock)
        catalog.create_database("db")
        catalog.create_table("db.t", {"k": "INT NOT NULL", "dt": "INT"}, partition_keys=["dt"])

    @property
    def table(self) -> lc.Table:
        """The table as another process opens it."""
        return Catalog(self.store, clock=self.clock).table("db.t")

    def roll_back(self, to: int) -> None:
        """Remove the snapshots above `to`, as another engine does."""
        latest = self.table.snapshot()
        assert latest is not None
        self.store.delete([f"db.db/t/snapshot/snapshot-{id}" for id in range(to + 1, latest.id + 1)])
        self.store.write({"db.db/t/snapshot/LATEST": b"%d" % to})


def reading(place: Place) -> tuple[FaultyStore, TableContext]:
    store = FaultyStore(place.store)
    return store, Catalog(store, clock=place.clock).table("db.t")._context


def expected(table: lc.Table, after_id: int) -> set[str]:
    """Every entry of every delta, read anew."""
    context = table._context
    return {
        entry.file.file_name
        for snapshot in context.snapshots.history()
        if snapshot.id > after_id and snapshot.commit_kind is not CommitKind.COMPACT
        for manifest in context.manifests.delta(snapshot)
        for entry in context.manifests.entries(manifest)
    }


@pytest.mark.parametrize("seed", in_turn(3, range(4)))
def test_what_is_remembered_is_what_would_be_read(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random, place = Random(seed), Place()
    monkeypatch.setattr(added_files, "_REMEMBERED", random.choice([3, 5, 1024]))
    monkeypatch.setattr(added_files, "_MOST_NAMES", random.choice([1, 256]))
    _, context = reading(place)
    for number in range(60):
        place.clock.advance(1)
        table = place.table
        latest = table.snapshot()
        match random.randrange(8) if latest is not None else 0:
            case 6 if latest.id > 1:
                place.roll_back(random.randrange(max(1, latest.id - 6), latest.id))
            case 7:
                table.compact(full=True)
            case 5:
                table.overwrite([{"k": number, "dt": 1}])
            case _:
                table.write([{"k": number, "dt": day} for day in range(random.randrange(1, 4))])
        newest = context.snapshots.latest()
        assert newest is not None
        after_id = random.randrange(newest.id + 1)

        found = set(context.added.since(after_id, newest, keep=lambda *_: True))

        assert found == expected(place.table, after_id)


def test_a_commit_on_an_old_snapshot_reads_what_is_new_alone() -> None:
    place = Place()
    place.table.write([{"k": 0, "dt": 0}])
    staged = [place.table.stage([{"k": k, "dt": k % 3}], commit_user=f"{k}", commit_identifier=1) for k in range(80)]
    store = FaultyStore(place.store)
    table = Catalog(store, clock=place.clock).table("db.t")
    calls = []
    for each in staged:
        before = len(store.calls)
        table.commit(each)
        calls.append(sum(call.method in ("read", "read_found") for call in store.calls[before:]))

    assert max(calls[40:]) < 40
    assert len(table.scan().to_arrow()) == 81


def test_the_memory_is_of_the_newest_snapshots() -> None:
    place = Place()
    for number in range(6):
        place.table.write([{"k": number, "dt": 0}])
    context = place.table._context
    remembered: added_files._Newest[int] = added_files._Newest(3)

    for snapshot in reversed(context.snapshots.history()):
        remembered.put(snapshot, snapshot.id)

    assert [remembered.get(snapshot) for snapshot in context.snapshots.history()] == [None, None, None, 4, 5, 6]
    assert isinstance(context.added, AddedFiles)
