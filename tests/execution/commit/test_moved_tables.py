"""A table is renamed, dropped, or dropped and created again, between any two calls of a commit to the store: the rows
are in the table, or the commit says that it was not applied, and the name can be used again.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.errors import InvalidRequest, NotFound, StorageUnavailable, TableDropped
from lakehouse_core.storage import Call, FaultyStore, LocalStore, MemoryStore, ObjectStore

COLUMNS = {"k": "INT NOT NULL", "v": "STRING"}
Act = Callable[[Catalog], object]


def catalog_over(store: ObjectStore, process: int) -> Catalog:
    return Catalog(store, clock=VirtualClock(seed=process, now_millis=1_700_000_000_000 + process))


def made(store: ObjectStore) -> None:
    catalog = catalog_over(store, 0)
    catalog.create_database("db")
    catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"}).write([{"k": 1, "v": "a"}])


def overtaken(store: ObjectStore, at: int, act: Act) -> tuple[bool, lc.LakehouseError | None]:
    """Write a row, while another process acts before the call `at`; return whether it did, and the error."""
    acted: list[Call] = []

    def interrupt(call: Call) -> None:
        if call.number == at:
            acted.append(call)
            act(catalog_over(store, 1))

    try:
        catalog_over(FaultyStore(store, on_call=interrupt), 2).table("db.t").write([{"k": 2, "v": "b"}])
    except (NotFound, InvalidRequest, StorageUnavailable) as error:
        # StorageUnavailable: on a disk a data file cannot be renamed in a folder that is gone.
        return bool(acted), error
    return bool(acted), None


def drop(catalog: Catalog) -> None:
    catalog.drop_table("db.t")


def create_again(catalog: Catalog) -> None:
    catalog.drop_table("db.t")
    catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})


def table_after(store: ObjectStore, act: Act) -> lc.Table:
    """Return the table of the name that was dropped, a new one if there is none."""
    catalog = catalog_over(store, 3)
    return catalog.table("db.t") if act is create_again else catalog.create_table("db.t", COLUMNS)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_commit_to_a_table_that_is_renamed_is_in_it_or_is_refused(on_disk: bool, every: int, tmp_path: Path) -> None:
    outcomes: set[type] = set()
    for at in range(2, 100, every):
        store: ObjectStore = LocalStore(str(tmp_path / str(at))) if on_disk else MemoryStore(clock=VirtualClock())
        made(store)

        has_acted, error = overtaken(store, at, lambda catalog: catalog.rename_table("db.t", "db.new"))

        if not has_acted:
            assert outcomes >= {type(None), TableDropped}
            return
        catalog = catalog_over(store, 3)
        table = catalog.table("db.new")
        assert table.scan().count() == (2 if error is None else 1), at
        assert table.verify(data=True).findings == (), at
        assert {info.key for info in store.list("db.db/t")} <= {"db.db/t/snapshot/LATEST"}, at
        assert catalog.create_table("db.t", COLUMNS).snapshots() == [], at
        outcomes.add(type(error))
    raise AssertionError("the commit took more calls than were tried")


@pytest.mark.parametrize(("act", "on_disk"), [(drop, False), (drop, True), (create_again, False)])
def test_a_commit_to_a_table_that_is_dropped_leaves_nothing(
    act: Act, on_disk: bool, every: int, tmp_path: Path
) -> None:
    outcomes: set[type] = set()
    for at in range(2, 100, every):
        store: ObjectStore = LocalStore(str(tmp_path / str(at))) if on_disk else MemoryStore(clock=VirtualClock())
        made(store)

        has_acted, error = overtaken(store, at, act)

        if not has_acted:
            assert outcomes >= {type(None), InvalidRequest if act is create_again else TableDropped}
            return
        left = {info.key for info in store.list("db.db/t")} - {"db.db/t/snapshot/LATEST", "db.db/t/schema/schema-0"}
        table = table_after(store, act)
        # A handle that is opened after the drop writes into the new table.
        assert table.scan().count() <= (0 if error else 1), at
        # Its hint, which no reader relies on, may name a snapshot of the old one.
        assert {finding.object for finding in table.verify(data=True).findings} <= {"snapshot/LATEST"}, at
        assert left == set() or table.snapshots() != [], (at, left)
        outcomes.add(type(error))
    raise AssertionError("the commit took more calls than were tried")
