"""The local engine: run tasks in this process, in sequence or in a few threads; decoding and sorting release the
GIL.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final, TypeVar

from lakehouse_core.progress import NOBODY, Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.input import input_batches, row_count
from lakehouse_core.tasks.write.task import WriteTask, write_batches

T = TypeVar("T")


class LocalEngine:
    """Runs tasks in this process, each with `runtime`. `workers`: the number of tasks that run at once."""

    is_remote: Final = False

    def __init__(self, runtime: TaskRuntime, *, workers: int = 1) -> None:
        self._runtime = runtime
        self._workers = workers

    def run(self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield one result per input: in order with one worker, else in order of completion. Raises the first
        failure.
        """
        if self._workers == 1 or len(inputs) < 2:
            for each in inputs:
                yield task(each, self._runtime)
            return
        with ThreadPoolExecutor(self._workers, thread_name_prefix="tasks") as pool:
            running = [pool.submit(task, each, self._runtime) for each in inputs]
            try:
                for done in as_completed(running):
                    yield done.result()
            finally:
                for future in running:
                    future.cancel()

    def write(self, task: WriteTask, data: object, watch: Watch = NOBODY) -> list[CommitMessage]:
        """Write rows as files without a snapshot; return the commit message of each bucket. Raises InvalidRequest."""
        count = row_count(data)
        rows = input_batches(data, task.schema.fields, rowkind_column=task.rowkind_column, missing=task.missing)
        return write_batches(task, watch.rows(rows, "writing", count), self._runtime)
