"""Local engine: the engine of handles that were opened without Spark."""

import os
from collections.abc import Callable
from functools import cache
from typing import Final

from lakehouse_core.clock import Clock
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.storage import ObjectStore
from lakehouse_core.tasks.runtime import local_runtime

# Each task holds about a row group in memory.
_MOST_TASKS_AT_ONCE: Final = 8


def local_engine(store: ObjectStore, clock: Clock) -> Callable[[], Engine]:
    """Return a function that makes the engine at the first task. Its tasks use `store` and `clock`."""
    # A store that takes one call after the other, as those of tests do, gets them from one task after the other.
    at_once = 1 if store.sinks_at_once == 1 else min(_processors(), _MOST_TASKS_AT_ONCE)
    return cache(lambda: LocalEngine(local_runtime(store, clock), tasks_at_once=at_once))


def _processors() -> int:
    """Return how many processors this process may use, as far as the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
