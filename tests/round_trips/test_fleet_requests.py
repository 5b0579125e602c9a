"""The requests that a maintenance plan promises, beside those that its run makes to an object store."""

from dataclasses import dataclass, field

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.planning.fleet.operations import Operation
from lakehouse_core.storage import MemoryStore
from tests.pairs import in_turn
from tests.round_trips.meter import MeteredStore, metered

ENOUGH = lc.Budget(bytes=1 << 40)


@dataclass(frozen=True)
class Lake:
    """A table with so many commits, each to every partition."""

    commits: int
    partitions: int = 2
    options: dict[str, str] = field(default_factory=dict)

    def made(self, clock: VirtualClock) -> MemoryStore:
        store = MemoryStore(clock=clock)
        catalog = Catalog(store, clock=clock)
        catalog.create_database("db")
        table = catalog.create_table(
            "db.t",
            {"dt": "STRING NOT NULL", "id": "INT NOT NULL"},
            partition_keys=["dt"],
            primary_keys=["dt", "id"],
            options={
                "bucket": "1",
                "write-only": "true",
                "manifest.merge-min-count": "1000",
                "snapshot.num-retained.min": "1",
                **self.options,
            },
        )
        for commit in range(self.commits):
            table.write([{"dt": f"{number:03}", "id": commit} for number in range(self.partitions)])
            clock.advance(1)
        clock.advance(7_200)
        return store


CASES: dict[str, tuple[Operation, Lake]] = {
    "compact two partitions": ("compact", Lake(6)),
    "compact two partitions of 40 files": ("compact", Lake(40)),
    "compact 30 partitions": ("compact", Lake(6, partitions=30)),
    "compact 30 partitions with a changelog": (
        "compact",
        Lake(6, partitions=30, options={"changelog-producer": "full-compaction"}),
    ),
    "compact manifests": ("compact_manifests", Lake(40)),
    "expire 5 snapshots": ("expire", Lake(6)),
    "expire 39 snapshots": ("expire", Lake(40)),
    "expire 20 of 60 snapshots": ("expire", Lake(60, options={"snapshot.expire.limit": "20"})),
    "expire and delete at once": ("expire", Lake(40, options={"lakehouse.read.grace": "0 s"})),
}


@pytest.mark.parametrize("name", in_turn(2, CASES))
def test_the_requests_of_a_plan_are_those_of_its_run(name: str) -> None:
    operation, lake = CASES[name]
    clock = VirtualClock()
    store = lake.made(clock)
    with metered() as meter:
        catalog = Catalog(MeteredStore(store, meter), clock=clock)
        plan = catalog.plan_maintenance(budget=ENOUGH, operations=[operation], reads={"db.t": 1e6})
        meter.requests.clear()
        report = catalog.maintain(plan)

    assert all(outcome.is_done for outcome in report.outcomes)
    assert 0.8 <= plan.cost.requests / len(meter.requests) <= 1.4, (plan.cost.requests, len(meter.requests))


def test_the_snapshots_since_a_plan_are_read_once_for_all_its_choices() -> None:
    clock = VirtualClock()
    store = Lake(6, partitions=40).made(clock)
    with metered() as meter:
        catalog = Catalog(MeteredStore(store, meter), clock=clock)
        plan = catalog.plan_maintenance(budget=ENOUGH, operations=["compact"], reads={"db.t": 1e6})
        assert len(plan.choices) == 40
        meter.requests.clear()
        catalog.maintain(plan)

    # Each compaction reads the latest snapshot a few times, and none reads those of all before it.
    assert sum("snapshot/snapshot-" in request for request in meter.requests) < 40 * 12
