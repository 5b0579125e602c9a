"""Row change task: change the rows of one split that satisfy a condition, and write the files that replace or mark
them.

Rule: a task writes new files only. Nothing is visible before the commit, which compares the files that the task read
with those that are live then.
Source: docs/semantics/row-changes.md#methods.
"""

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.row_changes.methods import Method
from lakehouse_core.tasks.change_rows.append_files import changed_files
from lakehouse_core.tasks.change_rows.keyed import changed_bucket, changed_records
from lakehouse_core.tasks.change_rows.values import Changed, ChangeTask, changed_to_text
from lakehouse_core.tasks.runtime import TaskRuntime


def run_change(task: ChangeTask, runtime: TaskRuntime) -> str:
    """Carry out the task where an engine runs it; return its result as text."""
    return changed_to_text(change_split(task, runtime))


def change_split(task: ChangeTask, runtime: TaskRuntime) -> Changed:
    """Carry out the task. A failed task leaves no new file.

    Raises InvalidRequest for new values that do not fit, CorruptTable (also for a missing file), StorageFull,
    StorageUnavailable.
    """
    match task.method:
        case Method.RECORDS:
            return changed_records(task, runtime)
        case Method.BUCKETS:
            return changed_bucket(task, runtime)
        case Method.MARKS | Method.FILES:
            return changed_files(task, runtime)
        case Method.PARTITIONS:
            raise InvalidRequest("Partitions are removed without a task.")
