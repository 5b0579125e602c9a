"""One call at a time removes the objects of a table; no table is created while one may."""

from contextlib import suppress
from itertools import count

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Call, FaultyStore, ObjectStore
from tests.catalog.test_flat_store import FlatStore, made
from tests.paused import Paused


def opened(store: ObjectStore, seed: int) -> Catalog:
    return Catalog(store, clock=VirtualClock(seed=seed, now_millis=1_700_000_000_000 + 1_000 * seed))


def create(catalog: Catalog) -> lc.Table:
    return catalog.create_table("db.t", {"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"})


def rows_written(store: ObjectStore) -> bool:
    """Write a row to the table, if there is one; return whether that was acknowledged."""
    try:
        opened(store, 7).table("db.t").write([{"k": 7}])
    except lc.LakehouseError:
        return False
    return True


def has_row(store: ObjectStore) -> bool:
    catalog = opened(store, 8)
    return "t" in catalog.tables("db") and catalog.table("db.t").scan(where="k = 7").count() == 1


@pytest.mark.parametrize("creating", [4, *(pytest.param(at, marks=pytest.mark.long) for at in (2, 3, 5, 6, 7, 8))])
def test_no_row_is_lost_in_a_table_that_is_created_while_another_call_drops_it(creating: int) -> None:
    for dropping in count(1):
        store = FlatStore()
        made(store).drop_table("db.t")
        new = Paused(store, lambda store: create(opened(store, 4)), before=creating)
        if not opened(store, 5).tables("db"):
            create(opened(store, 5))
        drop = Paused(store, lambda store: opened(store, 6).drop_table("db.t"), before=dropping)
        # Else the drop may be one of the new table.
        has_begun = "t" not in opened(store, 7).tables("db")
        new.end()
        assert new.error is None or isinstance(new.error, (lc.CommitConflict, lc.InvalidRequest)), repr(new.error)
        is_written = new.error is None and rows_written(store)
        drop.end()
        assert has_row(store) or not (is_written and has_begun), (creating, dropping)
        if dropping > drop.calls:
            return


def test_a_call_that_clears_up_does_not_touch_a_table_created_meanwhile() -> None:
    for at in count(1):
        store = FlatStore()
        made(store).drop_table("db.t")
        store.write({"db.db/t/lakehouse/pending/commit-u-1.json": b"{}"})
        first = Paused(store, lambda store: create(opened(store, 4)), before=at)
        with suppress(lc.CommitConflict, lc.InvalidRequest):
            create(opened(store, 5))
        is_written = rows_written(store)
        first.end()
        assert has_row(store) == is_written, at
        # Each commit would look at a mark that stays.
        assert store.infos(["db.db/t/lakehouse/dropped"]) == {} or not is_written, at
        if at > first.calls:
            return


def test_a_drop_that_is_interrupted_by_its_user_can_be_repeated_at_once() -> None:
    store = FlatStore()
    made(store)

    def interrupt(call: Call) -> None:
        if call.method == "delete":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(FaultyStore(store, on_call=interrupt), 2).drop_table("db.t")

    opened(store, 3).drop_table("db.t")
    assert opened(store, 3).tables("db") == []
    assert create(opened(store, 3)).snapshots() == []
