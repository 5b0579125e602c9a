"""The runtime of Spark tasks: the system's clock, and stores opened where the task runs.

A worker gets the task value only: fault stores and virtual clocks of the driver have no effect there.
"""

import gc
import sys
from pathlib import Path
from typing import Final
from zipimport import zipimporter

import pyarrow as pa

from lakehouse_core.clock import SystemClock
from lakehouse_core.execution.engines.spark.local_disk import local_folder
from lakehouse_core.storage import open_store
from lakehouse_core.tasks.runtime import TaskRuntime

# The archives that Spark puts on the path of its Python: pyspark.zip, py4j-…-src.zip, spark-core_….jar.
_OF_SPARK: Final = ("pyspark", "py4j", "spark-core")


def driver_runtime() -> TaskRuntime:
    """Return the runtime of tasks that the engine runs in the driver's process."""
    return TaskRuntime(SystemClock(), open_store)


def worker_runtime() -> TaskRuntime:
    """Return, in a Spark task, the task's runtime."""
    return TaskRuntime(SystemClock(), open_store, local_folder())


def begin_task() -> None:
    """Set up the Python process in which a Spark task begins; processes run many tasks, one after the other.

    Spark runs one task per core, so Arrow gets one thread per task; else N tasks would start N threads each.

    Between two tasks Spark lets Python read the directories of its archives again, pyspark.zip once for each package
    that was imported from it, and look through all objects for garbage: 0.2 s of CPU time. So the finders of these
    archives are forgotten, until an import makes a new one; others may change, and are read again. And what is there
    at the first task, all modules, is never looked through.
    """
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimporter) and Path(finder.archive).name.startswith(_OF_SPARK):
            del sys.path_importer_cache[path]
    if not gc.get_freeze_count():
        gc.freeze()
