"""Lakes in memory for tests of the planner: a clock that stands still, and tables that need maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore

ENOUGH = lc.Budget(bytes=1 << 40)
# With so many reads a day, every operation that helps pays.
OFTEN = 100_000.0


class Lake(Catalog):
    """A catalog in memory; `clock` is its clock, `store` its store."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        super().__init__(self.store, clock=self.clock)
        self.create_database("db")

    def key_table(self, name: str = "t", *, runs: int = 0, **options: str) -> lc.Table:
        """Create a table with the partitions a and b, and write `runs` sorted runs to each."""
        table = self.create_table(
            f"db.{name}",
            {"dt": "STRING NOT NULL", "id": "INT NOT NULL", "v": "STRING"},
            partition_keys=["dt"],
            primary_keys=["dt", "id"],
            options={"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1", **options},
        )
        for _ in range(runs):
            table.write([{"dt": dt, "id": number, "v": "text"} for dt in "ab" for number in range(9)])
            self.clock.advance(1)
        return table

    def plan(self, **change: Any) -> lc.MaintenancePlan:
        names = self.matching()
        given = {"budget": ENOUGH, "reads": dict.fromkeys(names, OFTEN), **change}
        return self.plan_maintenance(**given)

    def state(self) -> Mapping[str, bytes]:
        """Return every object of the store."""
        return {info.key: self.store.read(info.key) for info in self.store.list("")}


def names(plan: lc.MaintenancePlan) -> list[str]:
    return [f"{choice.table} {choice.name}" for choice in plan.choices]


def reasons(plan: lc.MaintenancePlan, table: str) -> list[str]:
    return [str(refusal) for refusal in plan.refusals if refusal.table == table]
