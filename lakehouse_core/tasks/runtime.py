"""Task runtime: a task's access to the clock, to stores by their specification, and to a folder for spilled rows.

Rule: the engine makes the runtime where the task runs; a task gets time, random numbers and stores from it only. A task
value holds a StoreSpec and plain values, so it can be sent to another process.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse_core.clock import Clock
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec
from lakehouse_core.storage.opening import inside


@dataclass(frozen=True, slots=True)
class TaskRuntime:
    """`spill_folder`: the folder for rows that wait to be merged, None for the system's folder of temporary files."""

    clock: Clock
    open_store: Callable[[StoreSpec], ObjectStore]
    spill_folder: str | None = None


def local_runtime(store: ObjectStore, clock: Clock, *, spill_folder: str | None = None) -> TaskRuntime:
    """Return the runtime of tasks in this process; `open_store` returns `store` itself, or a view of a folder below its
    root.
    """
    return TaskRuntime(clock, inside(store), spill_folder)
