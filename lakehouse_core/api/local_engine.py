"""Local engine: the engine of handles that were opened without Spark."""

from collections.abc import Callable
from functools import cache

from lakehouse_core.clock import Clock
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.storage import ObjectStore
from lakehouse_core.tasks.runtime import local_runtime


def local_engine(store: ObjectStore, clock: Clock) -> Callable[[], Engine]:
    """Return a function that makes the engine at the first task. Its tasks use `store` and `clock`."""
    return cache(lambda: LocalEngine(local_runtime(store, clock)))
