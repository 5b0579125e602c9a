"""Handles go to other processes by their address, and mean the same there; what cannot go says so in one line."""

import functools
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import CPickleSerializer

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.planning.read import splits
from lakehouse_core.storage import MemoryStore


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    found = lc.connect(tmp_path)
    found.create_database("db")
    return found


@pytest.fixture
def orders(catalog: lc.Catalog) -> lc.Table:
    table = catalog.create_table(
        "db.orders", {"id": "BIGINT NOT NULL", "v": "STRING"}, primary_keys=["id"], options={"bucket": "2"}
    )
    table.write([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    table.write([{"id": 2, "v": "c"}, {"id": 3, "v": None}])
    table.create_tag("eod", at=1)
    return table


def planned(scan: Any) -> Any:
    scan.plan()
    return scan


ROWS: dict[str, Callable[[lc.Table], Any]] = {
    "scan": lambda table: table.scan(),
    "scan of some": lambda table: table.scan(["v"], "id > 1 AND v IS NOT NULL", limit=2),
    "scan by col": lambda table: table.scan(where=lc.col("id") >= 2),
    "scan of a tag": lambda table: table.scan(at=lc.AtTag("eod")),
    "scan by options": lambda table: table.scan(options={"scan.snapshot-id": "1"}),
    "planned scan": lambda table: planned(table.scan(where="id > 1")),
    "changes": lambda table: table.changes(after=0),
    "planned changes": lambda table: planned(table.changes(after=0)),
    "difference": lambda table: table.diff(1, 2),
    "system table": lambda table: table.system("snapshots"),
    "audit log": lambda table: table.system("audit_log"),
    "snapshots": lambda table: table.snapshots(),
    "schemas": lambda table: table.schemas(),
    "files": lambda table: table.files(),
}


@pytest.mark.parametrize("what", ROWS)
@pytest.mark.parametrize("library", ["pickle", "cloudpickle"])
def test_what_has_rows_has_the_same_after_the_way(orders: lc.Table, what: str, library: str) -> None:
    found = ROWS[what](orders)
    pickler: Any = pickle if library == "pickle" else CPickleSerializer()

    back = pickler.loads(pickler.dumps(found))

    assert back.to_arrow() == found.to_arrow()
    assert repr(back) == repr(found)


def test_a_scan_that_was_looked_at_stays_at_its_snapshot_and_another_is_planned_where_it_arrives(
    orders: lc.Table,
) -> None:
    looked_at, fresh = pickle.dumps(planned(orders.scan())), pickle.dumps(orders.scan())
    orders.write([{"id": 4}])

    assert pickle.loads(looked_at).count() == 3
    assert pickle.loads(fresh).count() == 4


def rows_of(table: lc.Table, scan: lc.Scan, catalog: lc.Catalog) -> tuple[int, int, list[str]]:
    """Run in another process: read, write and look up through handles that came from elsewhere."""
    table.write(pa.table({"id": [10], "v": ["from afar"]}))
    return table.lookup([10]).num_rows, scan.count(), catalog.tables("db")


@pytest.mark.program
def test_handles_work_in_a_process_that_knows_nothing_else(catalog: lc.Catalog, orders: lc.Table) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(rows_of, (orders, planned(orders.scan()), catalog))

    assert found == (1, 3, ["orders"])
    assert orders.scan().count() == 4


def no_session() -> Any:
    raise AssertionError("a session was made")


def test_a_session_stays_where_it_is_and_tasks_run_where_the_handle_arrives(tmp_path: Path, orders: lc.Table) -> None:
    on_spark = lc.connect(tmp_path, spark=functools.partial(no_session))

    for data in (pickle.dumps(on_spark), pickle.dumps(on_spark.table("db.orders"))):
        assert b"no_session" not in data
    pickle.loads(pickle.dumps(on_spark)).table("db.orders").compact(full=True)
    assert pickle.loads(pickle.dumps(on_spark.table("db.orders"))).verify().findings == ()


def test_reports_and_staged_commits_go_along(orders: lc.Table) -> None:
    staged = orders.stage([{"id": 5}], commit_user="u", commit_identifier=1)
    reports = [orders.compact(full=True), orders.verify(), orders.expire_snapshots(), orders.commit(staged)]

    assert pickle.loads(pickle.dumps(reports)) == reports
    assert pickle.loads(pickle.dumps(staged)) == staged


def test_what_cannot_go_says_so_in_one_line(orders: lc.Table) -> None:
    memory = Catalog(MemoryStore(), clock=VirtualClock())
    with orders.lookups() as lookups:
        for handle, message in (
            (lookups, "db.orders: a lookup handle cannot be pickled"),
            (memory, "a memory store belongs to one process and cannot be pickled. Use a folder."),
        ):
            with pytest.raises(lc.InvalidRequest) as refused:
                pickle.dumps(handle)

            assert message in str(refused.value)
            assert "\n" not in str(refused.value)


def test_a_plan_that_is_made_anew_each_time_is_not_pickled(orders: lc.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "MOST_KEPT_FILES", 0)

    with pytest.raises(lc.PlanTooLarge, match="pickle the scan before it is first used"):
        pickle.dumps(orders.scan().plan())
