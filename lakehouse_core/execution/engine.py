"""The engine seam: where tasks run. Two of them: this process, a Spark cluster.

A task is a plain function of a small frozen value; its result is text in both engines, so that nothing is pickled on
the way back. The engine gives each task the runtime of the place where it runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from lakehouse_core.execution.tasks.runtime import TaskRuntime
from lakehouse_core.execution.tasks.write.task import WriteTask
from lakehouse_core.progress import NOBODY, Watch
from lakehouse_core.table.commit_message import CommitMessage

T = TypeVar("T")


class Engine(Protocol):
    """Where tasks run."""

    def run(self, task: Callable[[T, TaskRuntime], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield one result per input, of the attempt that won, in any order. Raises TaskFailed."""
        ...

    def write(self, task: WriteTask, data: object, watch: Watch = NOBODY) -> Iterable[CommitMessage]:
        """Write rows as files without a snapshot; yield the commit message of each bucket.

        `watch` counts the rows that pass here.

        Raises InvalidRequest, TaskFailed, maybe after messages of other tasks: their files are the caller's to delete.
        """
        ...
