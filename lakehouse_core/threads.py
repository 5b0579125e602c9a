"""Threads: pools whose calls are carried out even where no thread can be started any more.

That is so once the main thread of a program has ended while another one goes on, and at the limit of the system.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """A pool of threads. The thread that submits a call carries it out itself where no other one can be started."""

    _is_shut_down = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin a call. An interruption of this thread, while it carries the call out, is raised here, as the
        result may never be asked for. Raises RuntimeError once the pool was shut down.
        """
        submitting, calls = Lock(), [partial(function, *args, **kwargs)]

        def unless_taken() -> T:
            # A call whose thread did not start stays in the queue, and the caller has taken it from this list.
            with submitting:
                call = calls.pop()
            return call()

        with submitting:
            try:
                return super().submit(unless_taken)
            except RuntimeError:
                if self._is_shut_down:
                    raise
                call = calls.pop()
        ended = Future[T]()
        try:
            ended.set_result(call())
        except Exception as error:
            ended.set_exception(error)
        return ended

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut_down = True
        super().shutdown(wait, cancel_futures=cancel_futures)
