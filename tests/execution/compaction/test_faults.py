"""A compaction that fails or dies at any of its writes, tasks included: a new process goes on, and nothing shows of it.

The rows are right, the changelog is whole and tells nothing twice, and what failed has taken its files along.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import Fault, FaultKind, FaultyStore, MemoryStore, ProcessDied
from tests.pairs import each_with_one

Rows = list[dict[str, Any]]

SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
TABLES = {
    "sum, lookup": {**SUM, "changelog-producer": "lookup"},
    "lookup that may lag": {"changelog-producer": "lookup", "lookup-wait": "false"},
    "deletion vectors": {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
    "full compaction": {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
    "joined changelogs": {"changelog-producer": "lookup", "precommit-compact": "true", "bucket": "2"},
    "indexes": {"file-index.bloom-filter.columns": "k", "file-index.in-manifest-threshold": "1 b"},
}
VERBS: dict[str, Callable[[lc.Table], object]] = {
    "write": lambda table: step(table, 3),
    "compact": lambda table: table.compact(full=True),
}


@dataclass
class Warehouse:
    """A table in memory, and the store through which the last process had it."""

    store: MemoryStore
    clock: VirtualClock
    faulty: FaultyStore | None = None

    @classmethod
    def made(cls, name: str) -> Warehouse:
        """Make a table and write two batches."""
        clock = VirtualClock()
        made = cls(MemoryStore(clock=clock), clock)
        catalog = Catalog(made.store, clock=clock)
        catalog.create_database("db")
        columns = {"k": "INT NOT NULL", "v": "INT"}
        options = {"bucket": "1", "manifest.merge-min-count": "3", **TABLES[name]}
        table = catalog.create_table("db.t", columns, primary_keys=["k"], options=options)
        for number in (1, 2):
            step(table, number)
        return made

    def again(self) -> Warehouse:
        """Return another one that is the same, and goes on by itself."""
        clock = deepcopy(self.clock)
        store = MemoryStore(clock=clock)
        store.write({info.key: self.store.read(info.key) for info in self.store.list("")})
        return Warehouse(store, clock)

    def table(self, *faults: Fault) -> lc.Table:
        """Return the table as a new process sees it, whose store fails like this, in its tasks too."""
        self.faulty = FaultyStore(self.store, faults)
        return Catalog(self.faulty, clock=self.clock).table("db.t")

    def files(self) -> set[str]:
        return {info.key for info in self.store.list("db.db/t") if "LATEST" not in info.key}


def step(table: lc.Table, number: int) -> lc.CommitReport:
    """Commit the batch of this number; again is as once."""
    rows = [{"k": (3 * number + place) % 7, "v": 10 * number + place} for place in range(5)]
    return table.commit(table.stage(rows, commit_user="u", commit_identifier=number))


def state(table: lc.Table) -> Rows:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: int(row["k"]))


def told(table: lc.Table) -> Rows:
    """Apply the changelog from the first snapshot on; what it takes away must be what is there."""
    rows: dict[int, dict[str, Any]] = {}
    for change in table.changes(after=0).to_arrow().to_pylist():
        kind = change.pop("rowkind")
        if kind in ("-U", "-D"):
            assert rows.pop(change["k"]) == change
        else:
            assert change["k"] not in rows
            rows[change["k"]] = change
    return [rows[key] for key in sorted(rows)]


def written_calls(warehouse: Warehouse, verb: Callable[[lc.Table], object]) -> list[int]:
    """Carry the verb out and return the numbers of its calls that write."""
    table = warehouse.table()
    verb(table)
    assert warehouse.faulty is not None
    return [call.number for call in warehouse.faulty.calls if call.writes or call.method == "open_write"]


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"), each_with_one(TABLES, list(product(VERBS, [FaultKind.DIE_AFTER, FaultKind.FAIL_AFTER])), step=2)
)
def test_a_new_process_goes_on_where_a_compaction_ended(name, fault):
    verb, kind = fault
    made = Warehouse.made(name)
    whole = made.again()
    calls = written_calls(whole, VERBS[verb])
    step(whole.table(), 3)
    whole.table().compact(full=True)
    final = state(whole.table())

    for number in calls:
        warehouse = made.again()
        with suppress(lc.LakehouseError, ProcessDied):
            VERBS[verb](warehouse.table(Fault(at=number, kind=kind)))

        table = warehouse.table()
        assert table.verify(data=True).findings == (), f"call {number}"
        step(table, 3)
        table.compact(full=True)
        assert state(table) == final, f"call {number}"
        assert table.verify(data=True).findings == (), f"call {number}"
        if "changelog-producer" in TABLES[name]:
            assert told(table) == final, f"call {number}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), each_with_one(TABLES, [FaultKind.FAIL_BEFORE, FaultKind.ENOSPC]))
def test_a_compaction_that_is_refused_takes_its_files_along(name, kind):
    made = Warehouse.made(name)
    for number in written_calls(made.again(), VERBS["compact"]):
        warehouse = made.again()
        before = warehouse.files()
        try:
            VERBS["compact"](warehouse.table(Fault(at=number, kind=kind)))
        except lc.StorageUnavailable:
            assert warehouse.files() == before, f"call {number}"
