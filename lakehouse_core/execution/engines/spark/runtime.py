"""What tasks of the Spark engine may touch: the system's clock, stores opened where the task runs.

A worker has nothing but the task: faults and virtual time of the driver do not reach it.
"""

from lakehouse_core.clock import SystemClock
from lakehouse_core.execution.engines.spark.local_disk import local_folder
from lakehouse_core.execution.tasks.runtime import TaskRuntime
from lakehouse_core.storage import open_store


def driver_runtime() -> TaskRuntime:
    """Return the runtime of what the engine does in its own process."""
    return TaskRuntime(SystemClock(), open_store)


def worker_runtime() -> TaskRuntime:
    """Return, in a Spark task, its runtime."""
    return TaskRuntime(SystemClock(), open_store, local_folder())
