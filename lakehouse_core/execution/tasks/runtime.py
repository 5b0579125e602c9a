"""What a task may touch: the clock, stores by their specification, a folder for spilled rows.

Rule: the engine makes it where the task runs, and a task has no other way to time, chance or a store. A task value
holds a StoreSpec and values alone, so it can be sent.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse_core.clock import Clock
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec
from lakehouse_core.storage.opening import inside


@dataclass(frozen=True, slots=True)
class TaskRuntime:
    """`spill_folder`: where rows lie until they are merged, None for the system's folder of temporary files."""

    clock: Clock
    open_store: Callable[[StoreSpec], ObjectStore]
    spill_folder: str | None = None


def local_runtime(store: ObjectStore, clock: Clock, *, spill_folder: str | None = None) -> TaskRuntime:
    """Return the runtime of tasks in this process: they get `store` itself, or a place below its root."""
    return TaskRuntime(clock, inside(store), spill_folder)
