"""Threads: pools whose calls are carried out even where no thread can be started any more.

That is so once the main thread of a program has ended while another one goes on, and at the limit of the system.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """A pool of threads. The thread that submits a call carries it out itself where no other one can be started."""

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        begun, outcome = Lock(), Future[T]()

        def carry_out() -> None:
            # A call whose thread did not start stays in the queue of those that run already: the first one takes it.
            if not begun.acquire(blocking=False):
                return
            try:
                outcome.set_result(function(*args, **kwargs))
            except BaseException as error:
                outcome.set_exception(error)

        def result() -> T:
            carry_out()
            return outcome.result()

        try:
            return super().submit(result)
        except RuntimeError:
            carry_out()
            return outcome
