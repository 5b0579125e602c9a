"""A table whose tasks run at the same time, as many as a test says, whatever the machine has."""

from dataclasses import replace

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.clock import VirtualClock
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.storage import ObjectStore
from lakehouse_core.tasks.runtime import local_runtime


def opened(store: ObjectStore, *, at_once: int) -> lc.Table:
    """Open `db.t`, of whose tasks `at_once` run at the same time."""
    clock = VirtualClock(seed=at_once)
    engine = LocalEngine(replace(local_runtime(store, clock), tasks_at_once=at_once))
    return Catalog(store, clock=clock, engine=lambda: engine).table("db.t")


def data_files(store: ObjectStore) -> set[str]:
    """Return the keys of all files of `db.t` that hold rows, changelogs, vectors or indexes."""
    return {info.key for info in store.list("db.db/t") if "/bucket-" in info.key or "/index/" in info.key}
