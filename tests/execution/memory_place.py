"""A warehouse in memory with the table `db.t`, under a virtual clock, that can be copied with all that it holds."""

from collections.abc import Mapping
from typing import Self, TypeAlias

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore, ObjectStore

# Primary key, partition columns, options.
Kind: TypeAlias = tuple[list[str], list[str], dict[str, str]]


class MemoryPlace:
    """The warehouse. Nobody waits for readers, and one snapshot is retained at least."""

    def __init__(self, columns: Mapping[str, str], kind: Kind, options: Mapping[str, str]) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        keys, partitions, of_kind = kind
        catalog = Catalog(self.store, clock=self.clock)
        catalog.create_database("db")
        given = {"lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1", **of_kind, **options}
        catalog.create_table("db.t", dict(columns), primary_keys=keys, partition_keys=partitions, options=given)

    def copy(self) -> Self:
        """The same warehouse, at the same time, in a store of its own."""
        twin = object.__new__(type(self))
        twin.clock = VirtualClock(seed=7, now_millis=self.clock.now_millis())
        twin.store = MemoryStore(clock=twin.clock)
        twin.store.write({info.key: self.store.read(info.key) for info in self.store.list("")})
        return twin

    def table(self, store: ObjectStore | None = None) -> lc.Table:
        """The table as another process opens it, a second later."""
        self.clock.advance(1)
        return Catalog(store or self.store, clock=self.clock).table("db.t")
