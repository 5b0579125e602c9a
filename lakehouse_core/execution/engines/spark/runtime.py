"""The runtime of Spark tasks: the system's clock, and stores opened where the task runs.

A worker gets the task value only: fault stores and virtual clocks of the driver have no effect there.
"""

from lakehouse_core.clock import SystemClock
from lakehouse_core.execution.engines.spark.local_disk import local_folder
from lakehouse_core.storage import open_store
from lakehouse_core.tasks.runtime import TaskRuntime


def driver_runtime() -> TaskRuntime:
    """Return the runtime of tasks that the engine runs in the driver's process."""
    return TaskRuntime(SystemClock(), open_store)


def worker_runtime() -> TaskRuntime:
    """Return, in a Spark task, the task's runtime."""
    return TaskRuntime(SystemClock(), open_store, local_folder())
