"""A table is dropped object by object, and a table is created under its name meanwhile: that one loses nothing."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.catalog.sql.address import sql_address
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.metastore import SqlMetastore
from lakehouse_core.catalog.sql.tables import ALL
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, Fault, FaultKind, FaultyStore, ObjectStore, ProcessDied
from tests.catalog.test_flat_store import FlatStore, made
from tests.paused import Paused


def drop(store: ObjectStore) -> None:
    Catalog(store, clock=VirtualClock(seed=3)).drop_table("db.t")


def created(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})
    table.write([{"k": 7}])
    table.create_tag("a")


def dropped_and_created(catalog: Catalog) -> None:
    catalog.drop_table("db.t", missing_ok=True)
    created(catalog)


@pytest.mark.parametrize("act", [created, dropped_and_created])
def test_a_table_that_is_created_while_another_one_is_dropped_loses_nothing(
    act: Callable[[Catalog], None], every: int
) -> None:
    refusals: set[str] = set()
    for at in count(1, every):
        store = FlatStore()
        made(store)
        dropping = Paused(store, drop, before=at)
        refusal = refusal_of(act, Catalog(store, clock=VirtualClock(seed=4)))
        dropping.end()

        catalog = Catalog(store, clock=VirtualClock(seed=5))
        if "t" in catalog.tables("db"):
            assert refusal == "", at
            assert catalog.table("db.t").scan().to_arrow()["k"].to_pylist() == [7], at
            assert catalog.table("db.t").verify(data=True).findings == (), at
        else:
            # The paused drop ended, or found the new table and dropped that as a whole.
            catalog.create_table("db.t", {"k": "INT"})
            assert {info.key for info in store.list("db.db/t")} == {"db.db/t/schema/schema-0"}, at
        refusals.add(refusal)
        if dropping.calls < at:
            break
    busy = "Table 'db.t': another call is dropping it, or was killed while it did so. Call again, if need be after "
    assert refusals >= {"", f"{busy}5 minutes."}


def named(names: Path, store: ObjectStore, seed: int) -> Catalog:
    """Open the catalog whose names the file of a SQL database keeps."""
    clock = VirtualClock(seed=seed)
    database = SqlDatabase(sql_address(f"sqlite:///{names}", {}), ALL)
    return Catalog(store, clock=clock, metastore=SqlMetastore(database, WarehouseFiles(store, clock), clock))


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.long)])
def test_a_drop_whose_files_another_call_removed_leaves_a_later_table_of_a_sql_catalog(
    step: int, tmp_path: Path
) -> None:
    for at in count(step, step):
        store, names = FlatStore(), tmp_path / str(at)

        def dropped(store: ObjectStore, names: Path = names) -> None:
            named(names, store, 2).drop_table("db.t")

        first = named(names, store, 1)
        first.create_database("db")
        created(first)
        dropping = Paused(store, dropped, before=at)
        refusal = refusal_of(dropped_and_created, named(names, store, 3))
        dropping.end()

        catalog = named(names, store, 4)
        assert catalog.check() == [], at
        if "t" in catalog.tables("db"):
            assert refusal == "", at
            assert catalog.table("db.t").verify(data=True).findings == (), at
        if dropping.calls < at:
            return


def test_a_drop_that_finds_a_later_table_leaves_the_row_by_which_another_call_drops_that(tmp_path: Path) -> None:
    store, names, later = FlatStore(), tmp_path / "names.db", list[Paused]()
    numbers: list[int] = []

    def interrupt(call: Call) -> None:
        if call.method == "create_new" and call.key == "db.db/t/lakehouse/dropped":
            # Its row says that the table is dropped, and it has not asked for it again.
            numbers.append(call.number)
            dropped_and_created(named(names, store, 3))
        elif call.method == "delete" and call.key == "db.db/t/lakehouse/dropped":
            later.append(Paused(store, lambda store: named(names, store, 4).drop_table("db.t"), before=numbers[0]))

    first = named(names, store, 1)
    first.create_database("db")
    created(first)
    named(names, FaultyStore(store, on_call=interrupt), 2).drop_table("db.t")
    later[0].end()

    assert later[0].error is None
    assert len(later) == 1
    assert {info.key for info in store.list("db.db/t")} == set()
    created(named(names, store, 5))


def refusal_of(act: Callable[[Catalog], None], catalog: Catalog) -> str:
    """Return the error of an act, empty if it succeeds."""
    try:
        act(catalog)
    except (lc.CommitConflict, lc.InvalidRequest) as error:
        return str(error)
    return ""


def test_a_drop_that_was_killed_is_finished_by_a_creation_when_its_time_is_over() -> None:
    clock = VirtualClock()
    store = FlatStore(clock=clock)
    made(store)
    dying = FaultyStore(store, [Fault(at=9, kind=FaultKind.DIE_BEFORE)])
    with pytest.raises(ProcessDied):
        drop(dying)
    catalog = Catalog(store, clock=VirtualClock(seed=4))
    assert catalog.tables("db") == []

    with pytest.raises(lc.CommitConflict, match=r"'db\.t': another call is dropping it, or was killed while it did so"):
        created(catalog)
    clock.advance(301)
    created(catalog)

    assert catalog.table("db.t").scan().to_arrow()["k"].to_pylist() == [7]


def test_a_drop_that_another_one_has_taken_over_deletes_nothing_more() -> None:
    clock = VirtualClock()
    store = FlatStore(clock=clock)
    made(store)
    dropping = Paused(store, drop, before=9)
    clock.advance(301)
    dropped_and_created(Catalog(store, clock=VirtualClock(seed=4)))

    dropping.end()

    assert isinstance(dropping.error, lc.LakehouseError)
    table = Catalog(store, clock=VirtualClock(seed=5)).table("db.t")
    assert table.scan().to_arrow()["k"].to_pylist() == [7]
    assert table.verify(data=True).findings == ()
