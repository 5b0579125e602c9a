"""The engine of this process, for handles that were given no other."""

from collections.abc import Callable
from functools import cache

from lakehouse_core.clock import Clock
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.execution.tasks.runtime import local_runtime
from lakehouse_core.storage import ObjectStore


def local_engine(store: ObjectStore, clock: Clock) -> Callable[[], Engine]:
    """Return a function that makes the engine at the first task; `store` and `clock` are those of its tasks."""
    return cache(lambda: LocalEngine(local_runtime(store, clock)))
