"""The engine seam: where tasks run. Two of them: this process, a Spark cluster.

A task is a plain function of a small frozen value; its result is text in both engines, so that nothing is pickled on
the way back.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from lakehouse_core.execution.tasks.write import WriteTask
from lakehouse_core.table.changes import CommitMessage

T = TypeVar("T")


class Engine(Protocol):
    """Where tasks run."""

    def run(self, task: Callable[[T], str], inputs: Sequence[T]) -> Iterator[str]:
        """Yield one result per input, of the attempt that won, in any order. Raises TaskFailed."""
        ...

    def write(self, task: WriteTask, data: object) -> list[CommitMessage]:
        """Write rows as files that nobody sees yet; return what each bucket got. Raises InvalidRequest, TaskFailed."""
        ...
