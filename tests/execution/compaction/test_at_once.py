"""Buckets that several tasks compact at the same time: the same rows and changes as by one task after the other, and
after a failure or an interruption nothing is left behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.data_files.writer import DataFileWriter
from lakehouse_core.execution.compaction import compact
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ObjectStore
from tests.execution.at_once import data_files, opened

COLUMNS = {"p": "STRING NOT NULL", "k": "INT NOT NULL", "v": "INT"}
WRITES = 3


@dataclass(frozen=True)
class Kind:
    options: Mapping[str, str] = field(default_factory=dict)
    keys: Sequence[str] = ("p", "k")
    has_changes: bool = False


KINDS = {
    "keys": Kind(),
    "aggregated": Kind({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
    "told": Kind({"changelog-producer": "full-compaction"}, has_changes=True),
    "looked up and marked": Kind(
        {"changelog-producer": "lookup", "deletion-vectors.enabled": "true"}, has_changes=True
    ),
    "postponed": Kind({"bucket": "-2", "postpone.default-bucket-num": "3"}),
    "appended": Kind({"bucket-key": "k"}, keys=()),
    "appended, without buckets": Kind({"bucket": "-1"}, keys=()),
}


@pytest.fixture(autouse=True)
def _each_bucket_has_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "_GROUP_BYTES", 1)


def filled(kind: Kind) -> MemoryStore:
    store = MemoryStore(clock=VirtualClock())
    catalog = Catalog(store, clock=VirtualClock(seed=99))
    catalog.create_database("db")
    options = {"bucket": "3", "write-only": "true", **kind.options}
    table = catalog.create_table("db.t", COLUMNS, primary_keys=kind.keys, partition_keys=["p"], options=options)
    for write in range(WRITES):
        table.write([{"p": p, "k": k, "v": write * k} for p in "ab" for k in range(write, 12 - write)])
    return store


def found(store: ObjectStore, kind: Kind) -> object:
    table = opened(store, at_once=1)
    rows = table.scan().to_arrow().to_pylist()
    changes = table.changes(after=0).to_arrow().to_pylist() if kind.has_changes else []
    files = [(file["partition"], file["bucket"], file["level"], file["record_count"]) for file in files_of(table)]
    return rows, changes, sorted(map(str, files))


def files_of(table: lc.Table) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = table.system("files").to_arrow().to_pylist()
    return listed


@pytest.mark.parametrize("name", KINDS)
def test_tasks_at_the_same_time_leave_what_one_after_the_other_leaves(name: str) -> None:
    kind, results = KINDS[name], []
    for at_once in (1, 2, 4):
        store = filled(kind)
        before = found(store, kind)
        report = opened(store, at_once=at_once).compact(full=True)
        results.append((found(store, kind), report.files_before, report.files_after))
        assert results[-1][0] != before
        assert opened(store, at_once=1).verify(data=True).findings == ()
    assert all(one == results[0] for one in results), results


@pytest.mark.parametrize("fault", [FaultKind.FAIL_BEFORE, FaultKind.FAIL_AFTER, FaultKind.ENOSPC])
@pytest.mark.parametrize("name", ["keys", "looked up and marked", "postponed"])
def test_a_failure_among_tasks_at_the_same_time_leaves_no_file_behind(name: str, fault: FaultKind, every: int) -> None:
    kind, has_failed = KINDS[name], False
    done = filled(kind)
    opened(done, at_once=1).compact(full=True)
    # Readers see some of these rows only after the compaction.
    states = [found(filled(kind), kind), found(done, kind)]
    for at in count(1, every):
        store = filled(kind)
        files = data_files(store)
        faulty = FaultyStore(store, [Fault(at=at, kind=fault)])
        try:
            opened(faulty, at_once=3).compact(full=True)
        except lc.LakehouseError as error:
            if not isinstance(error, lc.CommitOutcomeUnknown):
                has_failed = True
                assert data_files(store) == files, at
        assert found(store, kind) in states, at
        assert opened(store, at_once=1).verify(data=True).findings == (), at
        if len(faulty.calls) < at:
            break
    assert has_failed


def test_an_interruption_stops_the_tasks_that_run_and_leaves_no_file_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(KINDS["keys"])
    files, write = data_files(store), DataFileWriter.write
    begun = 0

    def interrupted(writer: DataFileWriter, records: Any) -> None:
        nonlocal begun
        begun += 1
        if begun == 2:
            raise KeyboardInterrupt
        write(writer, records)

    monkeypatch.setattr(DataFileWriter, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened(store, at_once=2).compact(full=True)
    assert begun >= 2
    assert data_files(store) == files


@pytest.mark.parametrize("name", ["keys", "postponed"])
def test_a_listener_that_interrupts_a_compaction_leaves_no_file_behind(name: str) -> None:
    store = filled(KINDS[name])
    files = data_files(store)

    def interrupt(progress: lc.Progress) -> None:
        if progress.phase == "compacting" and progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(store, at_once=3).compact(full=True, progress=interrupt)
    assert data_files(store) == files
