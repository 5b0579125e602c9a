"""The depth of each verb: how many round trips to an object store wait for one another.

A table of 4 buckets after 15 small commits, unless its name says otherwise. "warm" is a handle that has just done the
same verb, "fresh" a new one. The aims are those of docs/decisions/0021.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore
from tests.round_trips.meter import Meter, MeteredStore, metered

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING"}
KEYED = {"bucket": "4", "write-only": "true", "lakehouse.read.grace": "0 s"}


def rows(count: int = 40, *, value: str = "a") -> list[dict[str, Any]]:
    return [{"k": key, "v": value} for key in range(count)]


@dataclass
class Lake:
    """A warehouse on a metered store."""

    store: MemoryStore = field(default_factory=lambda: MemoryStore(clock=VirtualClock()))
    clock: VirtualClock = field(default_factory=VirtualClock)

    def catalog(self, meter: Meter) -> Catalog:
        return Catalog(MeteredStore(self.store, meter), clock=self.clock)

    def quiet(self) -> Catalog:
        return Catalog(self.store, clock=self.clock)

    def made(self, *, commits: int = 15, buckets: int = 4, **options: str) -> "Lake":
        catalog = self.quiet()
        catalog.create_database("db")
        named = {**KEYED, "bucket": str(buckets), **{name.replace("_", "-"): value for name, value in options.items()}}
        table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=named)
        for commit in range(commits):
            table.write(rows(value=f"{commit}"))
        return self


@dataclass(frozen=True)
class Verb:
    """What is measured. `before`: what the same handle did before."""

    run: Callable[[lc.Table], object]
    before: Callable[[lc.Table], object] = lambda table: None
    lake: Callable[[], Lake] = lambda: Lake().made()


def depth(verb: Verb) -> tuple[int, list[str]]:
    """Return the round trips of a verb that wait for one another, and its requests."""
    with metered() as meter:
        table = verb.lake().catalog(meter).table("db.t")
        verb.before(table)
        meter.requests.clear()
        began = meter.now
        verb.run(table)
        return meter.now - began, meter.requests


def write(table: lc.Table) -> object:
    return table.write(rows(value="b"))


def scan(table: lc.Table) -> object:
    return table.scan().to_arrow()


def staged(table: lc.Table) -> lc.StagedCommit:
    return table.stage(rows(4_000), commit_user="u", commit_identifier=1)
