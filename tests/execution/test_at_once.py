"""Verbs that write files or indexes anew in several tasks at the same time: what they leave is what one task after the
other leaves, and after a failure the files are those of before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution import file_indexes
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore
from tests.execution.at_once import data_files, opened
from tests.model.store_faults import copied

COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
BLOOM = lc.SetOption("file-index.bloom-filter.columns", "v")


@dataclass(frozen=True)
class Case:
    options: dict[str, str]
    call: Callable[[lc.Table], object]


CASES = {
    "rescale": Case({"bucket": "2"}, lambda table: table.rescale(3)),
    "rescale of dynamic buckets": Case(DYNAMIC, lambda table: table.rescale()),
    "indexes": Case({"bucket": "2"}, lambda table: table.rewrite_file_index()),
    "indexes beside their files": Case(
        {"bucket": "2", "file-index.in-manifest-threshold": "1 b"}, lambda table: table.rewrite_file_index()
    ),
}


@pytest.fixture(autouse=True)
def _each_file_has_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_indexes, "_TASK_BYTES", 1)


def filled(case: Case) -> MemoryStore:
    store = MemoryStore(clock=VirtualClock())
    catalog = Catalog(store, clock=VirtualClock(seed=9))
    catalog.create_database("db")
    options = {"write-only": "true", **case.options}
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    for number in range(2):
        table.write([{"p": p, "k": k, "v": f"{number}"} for p in "ab" for k in range(number, 8)])
    table.alter(BLOOM)
    return store


def rows(store: ObjectStore) -> list[dict[str, object]]:
    return sorted(opened(store, at_once=1).scan().to_arrow().to_pylist(), key=str)


@pytest.mark.parametrize("name", CASES)
def test_tasks_at_the_same_time_leave_what_one_after_the_other_leaves(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, tasks = CASES[name], list[int]()
    run_at_once = LocalEngine.run_at_once

    def counted(engine: LocalEngine, task: Any, inputs: Sequence[Any], *more: Any, **options: Any) -> None:
        tasks.append(len(inputs))
        run_at_once(engine, task, inputs, *more, **options)

    monkeypatch.setattr(LocalEngine, "run_at_once", counted)
    found = []
    for at_once in (1, 2, 4):
        store = filled(case)
        before = rows(store)
        case.call(opened(store, at_once=at_once))
        table = opened(store, at_once=1)
        assert rows(store) == before
        assert table.verify(data=True).findings == ()
        found.append(sorted((file.level, file.row_count, file.bucket, file.total_buckets) for file in table.files()))
    assert found[1:] == 2 * found[:1]
    assert min(tasks) > 1


@pytest.mark.parametrize("fault", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.ENOSPC])
@pytest.mark.parametrize("name", ["rescale", "indexes beside their files"])
def test_a_failure_among_tasks_at_the_same_time_leaves_no_file_behind(name: str, fault: FaultKind, every: int) -> None:
    case, has_failed = CASES[name], False
    made = filled(case)
    before, files = rows(made), data_files(made)
    for at in count(1, every):
        store = copied(made)
        faulty = FaultyStore(store, [Fault(at=at, kind=fault)])
        try:
            case.call(opened(faulty, at_once=3))
        except lc.LakehouseError as error:
            if not isinstance(error, lc.CommitOutcomeUnknown):
                has_failed = True
                assert data_files(store) == files, at
        assert rows(store) == before, at
        if len(faulty.calls) < at:
            break
    assert has_failed
