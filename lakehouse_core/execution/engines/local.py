"""The local engine: run tasks in this process, one after the other, or a few at the same time in threads.

Rule: only tasks that write files anew run at the same time.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Final, TypeVar

from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.input import input_batches, row_count
from lakehouse_core.tasks.write.task import WriteTask, write_batches

T = TypeVar("T")


class _Stopped(Exception):
    """The end of a task whose result is not needed any more."""


class _End:
    """The end of a call that runs tasks in threads: its first failure, once there is one."""

    def __init__(self) -> None:
        self._failure: BaseException | None = None

    def begin(self, failure: BaseException) -> None:
        self._failure = self._failure or failure

    def check(self) -> None:
        """Raise if the call has failed. A task may call it in any thread."""
        if self._failure is not None:
            raise _Stopped

    def wait_for(self, running: Future[str]) -> None:
        """Wait until the task has ended, which an interruption makes soon."""
        while not running.done():
            try:
                wait([running])
            except BaseException as interruption:
                self.begin(interruption)

    def raise_failure(self) -> None:
        if self._failure is not None and not isinstance(self._failure, _Stopped):
            raise self._failure


class LocalEngine:
    """Runs tasks in this process, each with `runtime`: one after the other, or as many in threads as it says."""

    is_remote: Final = False

    def __init__(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime

    @property
    def tasks_at_once(self) -> int:
        return self._runtime.tasks_at_once

    def run(self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield one result per input, in order. Raises the first failure."""
        for each in inputs:
            yield task(each, self._runtime)

    def run_at_once(
        self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T], *, most: int | None = None
    ) -> Iterator[str]:
        """Yield one result per input, in order, of tasks that run in threads, `most` of them at the same time.

        After a failure, or an interruption, no further task begins, and those that run stop at their next rows. When
        they have ended, it yields the results of all that succeeded, and raises the failure.
        """
        at_once = min(self.tasks_at_once, most or self.tasks_at_once)
        if at_once == 1 or len(inputs) < 2:
            yield from self.run(task, inputs)
            return
        end = _End()
        runtime = replace(self._runtime, check_stopped=end.check)

        def carried_out(each: T) -> str:
            end.check()
            try:
                return task(each, runtime)
            except BaseException as error:
                end.begin(error)
                raise

        with ThreadPoolExecutor(at_once, thread_name_prefix="task") as pool:
            try:
                for running in [pool.submit(carried_out, each) for each in inputs]:
                    end.wait_for(running)
                    if running.exception() is None:
                        yield running.result()
            finally:
                end.begin(_Stopped())
        end.raise_failure()

    def write(self, task: WriteTask, data: object, watch: Watch = NO_WATCH) -> list[CommitMessage]:
        """Write rows as files without a snapshot; return the commit message of each bucket. Raises InvalidRequest."""
        count = row_count(data)
        rows = input_batches(data, task.schema.fields, rowkind_column=task.rowkind_column, missing=task.missing)
        return write_batches(task, watch.rows(rows, "writing", count), self._runtime)
