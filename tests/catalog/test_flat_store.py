"""A store without folders, as object stores are: what moves a folder is refused by name, all else works."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.metastore import SqlMetastore
from lakehouse_core.catalog.sql.tables import ALL
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable, TableDropped, UnsupportedFeature
from lakehouse_core.storage import Call, FaultyStore, MemoryStore, ObjectStore, is_hidden
from lakehouse_core.storage.keys import joined
from tests.paused import Paused


class FlatStore(MemoryStore):
    """Keys alone."""

    def __init__(self, name: str | None = None, **more: Any) -> None:
        super().__init__(name, **more)
        self.folders = None

    def at(self, prefix: str, *, is_table: bool = False) -> MemoryStore:
        """Return the store rooted deeper; what is below it needs no folders."""
        return FlatStore(self._name, prefix=joined(self._prefix, prefix))


@pytest.fixture(params=["flat", "flat below a wrapper"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    flat = FlatStore()
    return flat if request.param == "flat" else FaultyStore(flat)


@pytest.fixture
def catalog(store: ObjectStore) -> Catalog:
    return made(store)


def made(store: ObjectStore) -> Catalog:
    catalog = Catalog(store, clock=VirtualClock())
    catalog.create_database("db")
    catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    catalog.table("db.t").write([{"k": 1}])
    return catalog


def test_a_database_is_dropped_with_what_an_interrupted_drop_of_its_table_left(
    catalog: Catalog, store: ObjectStore
) -> None:
    keys = [info.key for info in store.list("db.db/t")]
    store.write({"db.db/t/lakehouse/dropped": b""})
    store.delete([key for key in keys if "/schema/" in key])
    assert catalog.tables("db") == []

    catalog.drop_database("db")

    assert catalog.databases() == []
    assert [info.key for info in store.list("") if not is_hidden(info.key.rpartition("/")[2])] == []


@pytest.mark.parametrize(
    "drop",
    [
        lambda catalog: catalog.drop_table("db.t"),
        lambda catalog: catalog.drop_database("db", cascade=True),
    ],
    ids=["a table", "a database"],
)
def test_what_is_dropped_leaves_no_object(catalog: Catalog, store: ObjectStore, drop) -> None:
    drop(catalog)

    assert [info.key for info in store.list("") if not is_hidden(info.key.rpartition("/")[2])] == []


@pytest.mark.parametrize("left_by", ["lakehouse/dropped", "lakehouse/dropped and data"])
def test_the_rest_of_an_interrupted_drop_does_not_belong_to_a_new_table(catalog, store, left_by) -> None:
    catalog.drop_table("db.t")
    store.write({"db.db/t/lakehouse/dropped": b""})
    if "data" in left_by:
        store.write({"db.db/t/snapshot/snapshot-1": b"{}"})

    made = catalog.create_table("db.t", {"k": "INT"})

    assert made.snapshots() == []
    assert [info.key for info in store.list("db.db/t")] == ["db.db/t/schema/schema-0"]


def test_a_table_whose_drop_was_refused_keeps_its_rows_when_a_sql_catalog_lists_it(tmp_path: Path) -> None:
    store = FlatStore()
    catalog = made(store)

    class Kept(FlatStore):
        """May be written to, and deletes nothing."""

        def at(self, prefix: str, *, is_table: bool = False) -> MemoryStore:
            return Kept(self._name, prefix=joined(self._prefix, prefix))

        def delete(self, keys: Iterable[str]) -> Sequence[str]:
            return list(keys)

    with pytest.raises(
        StorageUnavailable, match=r"did not delete them\. Nothing else of table 'db\.t' was removed: drop it"
    ):
        Catalog(Kept(store._name), clock=VirtualClock()).drop_table("db.t")
    catalog.table("db.t").write([{"k": 2}])

    names = SqlDatabase(sql_address(f"sqlite:///{tmp_path}/names.db", {}), ALL)
    clock = VirtualClock(seed=1)
    listing = Catalog(store, clock=clock, metastore=SqlMetastore(names, WarehouseFiles(store, clock), clock))
    listing.create_database("db")
    listed = listing.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], exist_ok=True)

    assert listed.scan().to_arrow()["k"].to_pylist() == [1, 2]
    listing.drop_table("db.t")
    assert list(store.list("db.db/t")) == []


def test_a_drop_that_fails_at_any_object_leaves_the_table_whole_or_gone() -> None:
    whole, gone = 0, 0
    for number in count(1):
        store = FlatStore()
        table = made(store).table("db.t")
        table.alter(lc.AddColumn("v", "INT"))
        table.write([{"k": 2, "v": 2}])
        deleted: list[str] = []

        class Failing(FlatStore):
            """Deletes objects one by one, and one of them not."""

            def at(self, prefix: str, *, is_table: bool = False) -> MemoryStore:
                return Failing(self._name, prefix=joined(self._prefix, prefix))

            def delete(self, keys: Iterable[str], deleted: list[str] = deleted, at: int = number) -> Sequence[str]:
                left = []
                for key in keys:
                    deleted.append(key)
                    left += [key] if len(deleted) == at else super().delete([key])
                return left

        failing = Catalog(Failing(store._name), clock=VirtualClock(seed=3))
        try:
            failing.drop_table("db.t")
        except StorageUnavailable:
            pass
        else:
            break
        catalog = Catalog(store, clock=VirtualClock(seed=4))
        if catalog.tables("db"):
            whole += 1
            table.write([{"k": 3, "v": 3}])
            assert catalog.table("db.t").scan().count() == 3
            catalog.drop_table("db.t")
        else:
            gone += 1
            # A handle of before writes no rows that are lost.
            with pytest.raises((NotFound, CorruptTable)):
                table.write([{"k": 3, "v": 3}])
            with pytest.raises(NotFound):
                catalog.table("db.t")
            catalog.create_table("db.t", {"k": "INT"})
            assert [info.key for info in store.list("db.db/t")] == ["db.db/t/schema/schema-0"]
    assert whole == 1
    assert gone == number - 2 > 5


def test_a_rename_is_refused_and_changes_nothing(catalog: Catalog, store: ObjectStore) -> None:
    before = {info.key: store.read(info.key) for info in store.list("")}

    with pytest.raises(UnsupportedFeature, match=r"'db\.t' cannot be renamed: the store of memory:.* Copy the table"):
        catalog.rename_table("db.t", "db.u")
    assert {info.key: store.read(info.key) for info in store.list("")} == before


def test_expiry_and_an_empty_database_need_no_folders(catalog: Catalog) -> None:
    table = catalog.table("db.t")
    table.write([{"k": 2}])
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    catalog.create_database("empty")
    catalog.drop_database("empty")

    assert table.scan().to_arrow().num_rows == 2
    assert catalog.databases() == ["db"]


def write(store: ObjectStore) -> None:
    Catalog(store, clock=VirtualClock(seed=2)).table("db.t").write([{"k": 2}])


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_commit_that_is_dropped_between_any_of_its_calls_leaves_no_object(step: int) -> None:
    """The commit stands still before one of its calls while the drop begins, and goes on before one of the drop's."""
    store = FlatStore()
    made(store)
    number_of_calls = Paused(store, write, before=0).calls
    outcomes = {outcome for at in range(step, number_of_calls + 2, step) for outcome in outcomes_of_drops(at)}

    assert outcomes >= {None, TableDropped}


def outcomes_of_drops(of_commit: int) -> Iterator[type | None]:
    """Yield what the commit raised, for each call of the drop before which it goes on."""
    for of_drop in count(1):
        store = FlatStore()
        made(store)
        commit = Paused(store, write, before=of_commit)
        calls: list[Call] = []

        def go_on(call: Call, calls: list[Call] = calls, commit: Paused = commit, at: int = of_drop) -> None:
            calls.append(call)
            if call.number == at:
                commit.end()

        dropping = Catalog(FaultyStore(store, on_call=go_on), clock=VirtualClock(seed=3))
        dropping.drop_table("db.t")
        commit.end()

        where = f"commit at {of_commit}, drop at {of_drop}"
        assert commit.error is None or isinstance(commit.error, NotFound | CorruptTable), where
        left = {info.key for info in store.list("db.db/t")}
        assert left <= {"db.db/t/snapshot/LATEST"}, where
        assert dropping.create_table("db.t", {"k": "INT"}).snapshots() == [], where
        assert [info.key for info in store.list("db.db/t")] == ["db.db/t/schema/schema-0"], where
        yield commit.error and type(commit.error)
        if len(calls) < of_drop:
            return


def test_the_hint_of_a_commit_that_a_drop_overtook_keeps_no_database(catalog: Catalog, store: ObjectStore) -> None:
    catalog.drop_table("db.t")
    store.write({"db.db/t/snapshot/LATEST": b"1"})

    catalog.drop_database("db")

    assert catalog.databases() == []
    assert [info.key for info in store.list("") if not is_hidden(info.key.rpartition("/")[2])] == []
