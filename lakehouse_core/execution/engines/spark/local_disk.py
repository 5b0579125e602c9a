"""The local disk of a Spark task: where `spark.local.dir` says, or the cluster that runs it."""

import os

from pyspark import TaskContext


def local_folder() -> str | None:
    """Return, in a task, a folder for files that go with the application; None where Spark names none."""
    # The JVM tells Python its folders, each below a local directory of its own, in the environment alone.
    named = os.environ.get("SPARK_LOCAL_DIRS", "")
    folders = [folder for folder in named.split(",") if os.path.isdir(folder) and os.access(folder, os.W_OK)]
    if not folders:
        return None
    context = TaskContext.get()
    # Several directories are several disks: tasks take turns.
    return folders[(0 if context is None else context.partitionId()) % len(folders)]
