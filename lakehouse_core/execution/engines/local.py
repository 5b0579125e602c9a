"""The local engine: run tasks in this process, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.input import input_batches, row_count
from lakehouse_core.tasks.write.task import WriteTask, write_batches

T = TypeVar("T")


class LocalEngine:
    """Runs tasks in this process, one after the other, each with `runtime`."""

    is_remote: Final = False

    def __init__(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime

    def run(self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield one result per input, in order. Raises the first failure."""
        for each in inputs:
            yield task(each, self._runtime)

    def write(self, task: WriteTask, data: object, watch: Watch = NO_WATCH) -> list[CommitMessage]:
        """Write rows as files without a snapshot; return the commit message of each bucket. Raises InvalidRequest."""
        count = row_count(data)
        rows = input_batches(data, task.schema.fields, rowkind_column=task.rowkind_column, missing=task.missing)
        return write_batches(task, watch.rows(rows, "writing", count), self._runtime)
