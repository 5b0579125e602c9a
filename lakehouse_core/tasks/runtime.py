"""Task runtime: a task's access to the clock, to stores by their specification, to a folder for spilled rows, and to
the engine's word that it shall stop.

Rule: the engine makes the runtime where the task runs; a task gets time, random numbers and stores from it only. A task
value holds a StoreSpec and plain values, so it can be sent to another process.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse_core.clock import Clock
from lakehouse_core.data_files.parquet.writer import Encoding
from lakehouse_core.data_files.writer import FileNames, FileOutput, go_on
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec
from lakehouse_core.storage.opening import inside
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.limits import tasks_at_once


@dataclass(frozen=True, slots=True)
class TaskRuntime:
    """`spill_folder`: the folder for rows that wait to be merged, None for the system's folder of temporary files.

    `check_stopped`: raises once the engine wants the task to end, because another one failed. The writers of `output`
    call it. `tasks_at_once`: how many tasks a call may carry out at the same time, in threads of this process.
    """

    clock: Clock
    open_store: Callable[[StoreSpec], ObjectStore]
    spill_folder: str | None = None
    check_stopped: Callable[[], None] = go_on
    tasks_at_once: int = 1

    def output(self, sinks: Sinks, schema: TableSchema, names: FileNames | None = None) -> FileOutput:
        """Return what the writers of a task share. `names`: those of its files, None for fresh ones."""
        return FileOutput(
            store=sinks,
            encoding=Encoding(schema),
            names=FileNames(self.clock.uuid()) if names is None else names,
            clock=self.clock,
            check_stopped=self.check_stopped,
        )


def local_runtime(store: ObjectStore, clock: Clock, *, spill_folder: str | None = None) -> TaskRuntime:
    """Return the runtime of tasks in this process; `open_store` returns `store` itself, or a view of a folder below its
    root.
    """
    # A store that takes one call after the other, as those of tests do, gets them from one task after the other.
    at_once = 1 if store.sinks_at_once == 1 else tasks_at_once()
    return TaskRuntime(clock, inside(store), spill_folder, tasks_at_once=at_once)
