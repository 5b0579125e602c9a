"""The lock row of a table: held while one file is published, waited for, lost, left by a dead writer."""

import logging
import pickle
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.metastore import SqlMetastore
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore

LOCK = "jdbc.db.t"
SEEDS = count()


class Names:
    """The SQLite file of a catalog, seen from outside."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement).fetchall()

    @property
    def locks(self) -> list[tuple[Any, ...]]:
        return self.sql("SELECT lock_id, expire_time_seconds FROM paimon_distributed_locks")

    def take(self, seconds_ago: int, expires_after: int) -> None:
        self.sql(
            f"INSERT INTO paimon_distributed_locks VALUES ('{LOCK}', datetime('now', '-{seconds_ago} seconds'), "
            f"{expires_after})"
        )

    def catalog(self, store: ObjectStore, **options: str) -> Catalog:
        # Writers are told apart by what chance gives them.
        self.clock = VirtualClock(seed=next(SEEDS))
        database = SqlDatabase(sql_address(f"sqlite:///{self.path}", {"lock.enabled": "true", **options}))
        names = SqlMetastore(database, WarehouseFiles(store, self.clock), self.clock)
        return Catalog(store, clock=self.clock, metastore=names)


@pytest.fixture
def names(tmp_path: Path) -> Names:
    return Names(tmp_path / "names.db")


@pytest.fixture
def store(names: Names) -> Iterator[MemoryStore]:
    store = MemoryStore()
    catalog = names.catalog(store)
    catalog.create_database("db")
    catalog.create_table("db.t", {"k": "INT"}).write([{"k": 1}])
    yield store
    assert names.locks == []


def rows(names: Names, store: ObjectStore) -> list[int]:
    found: list[int] = sorted(names.catalog(store).table("db.t").scan().to_arrow()["k"].to_pylist())
    return found


def published(calls: list[tuple[str, list[tuple[Any, ...]]]]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    return [(key, locks) for key, locks in calls if locks]


def test_the_row_is_there_while_a_snapshot_or_a_schema_is_published_and_only_then(names: Names, store: MemoryStore):
    seen: list[tuple[str, list[tuple[Any, ...]]]] = []
    faulty = FaultyStore(store, on_call=lambda call: seen.append((call.key, names.locks)))

    table = names.catalog(faulty).table("db.t")
    table.write([{"k": 2}])
    table.alter(lc.AddColumn("v", "STRING"))

    assert published(seen) == [("db.db/t/snapshot/snapshot-2", [(LOCK, 60)]), ("db.db/t/schema/schema-1", [(LOCK, 60)])]
    assert len(seen) > 10


def test_without_the_option_no_row_is_taken(names: Names, store: MemoryStore):
    seen: list[tuple[str, list[tuple[Any, ...]]]] = []
    faulty = FaultyStore(store, on_call=lambda call: seen.append((call.key, names.locks)))

    names.catalog(faulty, **{"lock.enabled": "false"}).table("db.t").write([{"k": 2}])

    assert published(seen) == []
    assert rows(names, store) == [1, 2]


def test_the_row_of_a_writer_that_died_is_removed_once_it_has_expired(names: Names, store: MemoryStore):
    names.take(seconds_ago=482, expires_after=480)

    names.catalog(store).table("db.t").write([{"k": 2}])

    assert rows(names, store) == [1, 2]


def test_a_lock_that_is_not_free_in_time_is_told_and_nothing_is_published(
    names: Names, store: MemoryStore, caplog: pytest.LogCaptureFixture
):
    names.take(seconds_ago=3, expires_after=480)

    table = names.catalog(store, **{"lock-acquire-timeout": "10 s"}).table("db.t")
    before = names.clock.monotonic_seconds()
    with caplog.at_level(logging.WARNING), pytest.raises(lc.StorageUnavailable) as told:
        table.write([{"k": 2}])

    assert 10 <= names.clock.monotonic_seconds() - before < 12
    said = str(told.value)
    assert "the lock jdbc.db.t was taken by another writer at 2" in said
    assert "expires 480 s later. The lock was not free within 10 s, and nothing was published. Call again later" in said
    assert [record.message.partition(" was taken")[0] for record in caplog.records] == ["waiting: the lock jdbc.db.t"]
    names.sql("DELETE FROM paimon_distributed_locks")
    assert rows(names, store) == [1]
    table.write([{"k": 2}])
    assert rows(names, store) == [1, 2]


@pytest.mark.parametrize("fate", ["it stays", "it is replaced", "it vanishes"])
def test_a_writer_that_lost_the_lock_looks_whose_snapshot_is_there(names: Names, store: MemoryStore, fate: str):
    """A stalled writer: its row expires while it publishes; the next one, as Java does, renames over the file."""
    key = "db.db/t/snapshot/snapshot-2"
    other = MemoryStore()
    for found in store.list(""):
        other.write({found.key: store.read(found.key)})
    names.catalog(other).table("db.t").write([{"k": 9}])
    stolen: list[str] = []

    def steal(call: Call) -> None:
        if call.key == key and call.method == "create_new" and not stolen:
            stolen.append(key)
            names.sql("UPDATE paimon_distributed_locks SET acquired_at = '2001-01-01 00:00:00'")

    class Overwritten(FaultyStore):
        """After our creation the other writer acts."""

        def create_new(self, name: str, data: bytes) -> bool:
            created = super().create_new(name, data)
            if name == "snapshot/snapshot-2" and len(stolen) == 1:
                stolen.append(name)
                if fate == "it is replaced":
                    for each in other.list("db.db/t"):
                        store.write({each.key: other.read(each.key)})
                if fate == "it vanishes":
                    store.delete([key])
            return created

    table = names.catalog(Overwritten(store, on_call=steal)).table("db.t")
    table.write([{"k": 2}])

    assert stolen == [key, "snapshot/snapshot-2"]
    assert rows(names, store) == ([1, 2, 9] if fate == "it is replaced" else [1, 2])
    assert names.catalog(store).table("db.t").verify().findings == ()


@pytest.mark.parametrize("kind", [FaultKind.FAIL_BEFORE, FaultKind.LOST_BEFORE, FaultKind.FAIL_AFTER])
def test_a_store_that_does_not_answer_leaves_no_row_and_loses_nothing(names: Names, store: MemoryStore, kind):
    at = None
    counting = FaultyStore(store, on_call=lambda call: None)
    before = {found.key: store.read(found.key) for found in store.list("")}
    names.catalog(counting).table("db.t").write([{"k": 2}])
    at = next(call.number for call in counting.calls if call.key.endswith("snapshot-2") and call.method == "create_new")
    for found in list(store.list("")):
        if found.key not in before:
            store.delete([found.key])
    for key, data in before.items():
        store.write({key: data})

    table = names.catalog(FaultyStore(store, [Fault(at=at, kind=kind)])).table("db.t")
    try:
        table.write([{"k": 2}])
        applied = True
    except lc.StorageUnavailable:
        applied = False

    assert rows(names, store) == ([1, 2] if applied else [1])
    assert applied == (kind is not FaultKind.FAIL_BEFORE)


def test_writers_of_many_threads_lose_no_row(names: Names, store: MemoryStore, tmp_path: Path):
    catalog = lc.connect(
        tmp_path / "lake", metastore=f"sqlite:///{tmp_path}/own.db", metastore_options={"lock.enabled": "true"}
    )
    catalog.create_database("db")
    catalog.create_table("db.t", {"k": "INT"})

    def write(number: int) -> None:
        pickle.loads(pickle.dumps(catalog)).table("db.t").write([{"k": number}])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(20)))

    assert sorted(catalog.table("db.t").scan().to_arrow()["k"].to_pylist()) == list(range(20))
    assert len(catalog.table("db.t").snapshots()) == 20


def test_a_rename_waits_for_the_locks_of_both_names(names: Names, store: MemoryStore):
    names.take(seconds_ago=3, expires_after=480)
    catalog = names.catalog(store, **{"lock-acquire-timeout": "1 s"})

    for source, target in (("db.t", "db.u"), ("db.t", "db.a")):
        with pytest.raises(lc.StorageUnavailable, match=r"the lock jdbc\.db\.t was taken by another writer"):
            catalog.rename_table(source, target)
    names.sql("DELETE FROM paimon_distributed_locks")
    assert catalog.rename_table("db.t", "db.u").scan().count() == 1
    catalog.rename_table("db.u", "db.t")


def test_a_name_too_long_for_the_lock_is_refused_before_anything_is_written(names: Names, store: MemoryStore):
    catalog = names.catalog(store)
    catalog.create_database("d" * 150)

    with pytest.raises(lc.InvalidRequest, match="it has 256 letters, at most 255 can be stored"):
        catalog.create_table(f"{'d' * 150}.{'t' * 100}", {"k": "INT"})
