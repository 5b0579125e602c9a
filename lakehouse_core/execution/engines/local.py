"""The local engine: run tasks in this process, one after the other, or a few at the same time in threads.

Rule: only tasks that write files anew run at the same time.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Final, TypeVar

from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.input import input_batches, row_count
from lakehouse_core.tasks.write.task import WriteTask, write_batches
from lakehouse_core.threads import Threads

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

    def attempt(self, step: Callable[[], None]) -> None:
        """Carry out a step of the calling thread. If it fails, or is interrupted, so has the call."""
        try:
            step()
        except BaseException as failure:
            self.begin(failure)

    def raise_failure(self) -> None:
        if self._failure is not None:
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
        self,
        task: Callable[[T, TaskRuntime], str],
        inputs: Sequence[T],
        take: Callable[[str], None],
        *,
        most: int | None = None,
    ) -> None:
        """Give `take` one result per input, in order, of tasks that run in threads, `most` of them at the same time.

        After a failure, also one of `take`, or an interruption, no further task begins, and those that run stop at
        their next rows. When they have ended, `take` gets the results of all that succeeded, and the failure is raised.
        """
        at_once = min(self.tasks_at_once, most or self.tasks_at_once)
        if at_once == 1 or len(inputs) < 2:
            for result in self.run(task, inputs):
                take(result)
            return
        end = _End()
        runtime = replace(self._runtime, check_stopped=end.check)
        begun: deque[Future[str]] = deque()

        def carried_out(each: T) -> str:
            end.check()
            try:
                return task(each, runtime)
            except BaseException as error:
                end.begin(error)
                raise

        def take_first() -> None:
            while not begun[0].done():
                wait([begun[0]])
            ended = begun.popleft()
            if ended.exception() is None:
                take(ended.result())

        with Threads(at_once, thread_name_prefix="task") as pool:
            try:
                end.attempt(lambda: begun.extend(pool.submit(carried_out, each) for each in inputs))
                while begun:
                    end.attempt(take_first)
            except BaseException as interruption:
                end.begin(interruption)
                raise
        end.raise_failure()

    def write(self, task: WriteTask, data: object, watch: Watch = NO_WATCH) -> list[CommitMessage]:
        """Write rows as files without a snapshot; return the commit message of each bucket. Raises InvalidRequest."""
        count = row_count(data)
        rows = input_batches(data, task.schema.fields, rowkind_column=task.rowkind_column, missing=task.missing)
        return write_batches(task, watch.rows(rows, "writing", count), self._runtime)
