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

    Between two tasks Spark tells Python's importers to read the directories of their archives again, that of
    pyspark.zip once for each package imported from it, and calls `gc.collect`: 0.2 s of CPU time. So the importers of
    Spark's own archives, which never change, are dropped; the next import makes one. The objects that are there at the
    first task, most of them modules, are frozen: `gc.collect` leaves them out.
    """
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimporter) and Path(finder.archive).name.startswith(_OF_SPARK):
            del sys.path_importer_cache[path]
    if not gc.get_freeze_count():
        gc.freeze()
