"""The engine seam: where tasks run. There are two engines: this process and a Spark cluster.

A task is a plain function of a small frozen value; its result is text in both engines, so that no result is pickled.
The engine gives each task the runtime of the place where it runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.tasks.runtime import TaskRuntime
from lakehouse_core.tasks.write.task import WriteTask

T = TypeVar("T")


class Engine(Protocol):
    """Where tasks run. `is_remote`: in other processes, which open stores by their addresses."""

    @property
    def is_remote(self) -> bool: ...

    @property
    def tasks_at_once(self) -> int:
        """How many tasks a call of `run_at_once` carries out at the same time in this process; 1 of a remote engine,
        whose cluster decides that.
        """
        ...

    def run(self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield the text of one successful attempt per input, in any order. Raises TaskFailed."""
        ...

    def run_at_once(
        self,
        task: Callable[[T, TaskRuntime], str],
        inputs: Sequence[T],
        take: Callable[[str], None],
        *,
        most: int | None = None,
    ) -> None:
        """As `run`, for tasks that may share the memory and the processors of this process, at most so many of them at
        the same time. `take` is called with each text, in this thread: also with those of all tasks that succeeded,
        before the error of another one is raised.
        """
        ...

    def write(self, task: WriteTask, data: object, watch: Watch = NO_WATCH) -> Iterable[CommitMessage]:
        """Write rows as files without a snapshot; yield the commit message of each bucket.

        `watch` counts the rows that this process sees.

        Raises InvalidRequest, TaskFailed, possibly after it yielded messages of other tasks; the caller deletes their
        files.
        """
        ...
