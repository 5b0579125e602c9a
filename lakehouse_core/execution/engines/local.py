"""The local engine: run tasks in this process, one after the other, or a few at the same time in threads.

Rule: only tasks whose work is to encode files run at the same time; each holds little more than a row group.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.input import input_batches, row_count
from lakehouse_core.tasks.write.task import WriteTask, write_batches

T = TypeVar("T")


class LocalEngine:
    """Runs tasks in this process, each with `runtime`: one after the other, or `tasks_at_once` in threads."""

    is_remote: Final = False

    def __init__(self, runtime: TaskRuntime, *, tasks_at_once: int = 1) -> None:
        self._runtime = runtime
        self.tasks_at_once: Final = tasks_at_once

    def run(self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield one result per input, in order. Raises the first failure."""
        for each in inputs:
            yield task(each, self._runtime)

    def run_at_once(self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield one result per input, in order, of tasks that run in threads.

        After a failure, or an interruption, no further task begins. When those that run have ended, it yields the
        results of all that succeeded, and raises the failure.
        """
        if self.tasks_at_once == 1 or len(inputs) < 2:
            yield from self.run(task, inputs)
            return
        failure: BaseException | None = None
        pool = ThreadPoolExecutor(self.tasks_at_once, thread_name_prefix="task")
        try:
            for running in [pool.submit(task, each, self._runtime) for each in inputs]:
                if running.cancelled():
                    continue
                try:
                    wait([running])
                except BaseException as interruption:
                    failure = failure or interruption
                    pool.shutdown(cancel_futures=True)
                    if running.cancelled():
                        continue
                if (error := running.exception()) is None:
                    yield running.result()
                    continue
                failure = failure or error
                pool.shutdown(cancel_futures=True)
        finally:
            pool.shutdown(cancel_futures=True)
        if failure is not None:
            raise failure

    def write(self, task: WriteTask, data: object, watch: Watch = NO_WATCH) -> list[CommitMessage]:
        """Write rows as files without a snapshot; return the commit message of each bucket. Raises InvalidRequest."""
        count = row_count(data)
        rows = input_batches(data, task.schema.fields, rowkind_column=task.rowkind_column, missing=task.missing)
        return write_batches(task, watch.rows(rows, "writing", count), self._runtime)
