"""The local disk of a Spark task: in the directory that `spark.local.dir` or the cluster names."""

import os

from pyspark import TaskContext


def local_folder() -> str | None:
    """Return, in a task, a folder whose files Spark deletes with the application; None if Spark names none."""
    # The JVM passes its folders, one per local directory, to Python in the environment only.
    named = os.environ.get("SPARK_LOCAL_DIRS", "")
    folders = [folder for folder in named.split(",") if os.path.isdir(folder) and os.access(folder, os.W_OK)]
    if not folders:
        return None
    context = TaskContext.get()
    # Several directories are several disks: tasks are spread over them.
    return folders[(0 if context is None else context.partitionId()) % len(folders)]
