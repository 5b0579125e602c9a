"""Row changes whose files are written anew by several tasks at the same time: the same rows in the same order as by one
task, and after a failure nothing or everything.
"""

from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.execution.row_changes import change
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore
from tests.execution.at_once import data_files, opened

FILES = 6
STATEMENTS: dict[str, Callable[[lc.Table], object]] = {
    "delete": lambda table: table.delete("v IN (1, 4, 7)"),
    "delete by a condition of bounds": lambda table: table.delete("k < 25"),
    "update": lambda table: table.update({"v": "v + 100"}, "v IN (0, 5)"),
    "update that moves rows": lambda table: table.update({"p": "'b'"}, "v IN (3, 8)"),
    "merge": lambda table: table.merge(
        [{"k": number, "v": -1} for number in range(0, 60, 5)], "t.k = s.k", lc.WhenMatched(update={"v": "s.v"})
    ),
}


@pytest.fixture(autouse=True)
def _shares_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "_LEAST_SHARED_BYTES", 0)


def filled() -> MemoryStore:
    store = MemoryStore(clock=VirtualClock())
    catalog = Catalog(store, clock=VirtualClock(seed=9))
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"p": "STRING", "k": "INT", "v": "INT"}, partition_keys=["p"])
    for number in range(FILES):
        table.write([{"p": "a", "k": 10 * number + each, "v": each} for each in range(10)])
    return store


def rows_of(store: ObjectStore) -> list[dict[str, object]]:
    return opened(store, at_once=1).scan().to_arrow().to_pylist()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_tasks_at_the_same_time_leave_what_one_task_leaves(statement: str) -> None:
    found = []
    for at_once in (1, 2, 3, FILES):
        store = filled()
        report = STATEMENTS[statement](opened(store, at_once=at_once))
        assert isinstance(report, lc.RowChangeReport)
        assert report.method == "files"
        found.append((rows_of(store), report.rows_deleted, report.rows_updated, report.rows_read))
    assert all(one == found[0] for one in found), found
    assert found[0][0] != rows_of(filled())


@pytest.mark.parametrize("kind", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.ENOSPC])
@pytest.mark.parametrize("statement", ["delete", "update that moves rows"])
def test_a_failure_among_tasks_at_the_same_time_leaves_no_file_behind(
    statement: str, kind: FaultKind, every: int
) -> None:
    before = rows_of(filled())
    done = filled()
    STATEMENTS[statement](opened(done, at_once=1))
    after = rows_of(done)
    has_failed = False
    for at in count(1, every):
        store = filled()
        faulty = FaultyStore(store, [Fault(at=at, kind=kind)])
        try:
            STATEMENTS[statement](opened(faulty, at_once=3))
        except lc.LakehouseError:
            has_failed = True
            assert len(data_files(store)) == FILES, at
        rows = rows_of(store)
        assert rows in (before, after), at
        assert opened(store, at_once=1).verify(data=True).findings == (), at
        if len(faulty.calls) < at:
            break
    assert has_failed


def test_a_listener_that_interrupts_a_statement_leaves_no_file_behind() -> None:
    store = filled()

    def interrupt(progress: lc.Progress) -> None:
        if progress.phase == "changing rows" and progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(store, at_once=3).delete("v IN (1, 4, 7)", progress=interrupt)
    assert len(data_files(store)) == FILES


def test_a_large_table_is_changed_by_threads_on_a_disk(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", {"k": "INT"})
    for number in range(4):
        table.write(pa.table({"k": pa.array(range(number, 4_000, 4), pa.int32())}))
    counts: list[int] = []
    run = LocalEngine.run_at_once
    monkeypatch.setattr(
        LocalEngine,
        "run_at_once",
        lambda engine, task, inputs, take: counts.append(len(inputs)) or run(engine, task, inputs, take),
    )
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})

    assert lc.connect(tmp_path).table("db.t").delete("k < 2000").rows_deleted == 2_000
    assert counts == [2]
