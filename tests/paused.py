"""A call of a verb in a thread of its own, which pauses before one of its calls of the store."""

from collections.abc import Callable
from threading import Event, Thread

from lakehouse_core.storage import Call, FaultyStore, ObjectStore
from tests.limits import HANGS_AFTER_SECONDS


class Paused:
    """`run` gets the store in which it pauses, and begins at once. `error`: what it raised, None before its end."""

    def __init__(self, store: ObjectStore, run: Callable[[ObjectStore], object], *, before: int) -> None:
        self.calls = 0
        self.error: BaseException | None = None
        self._run, self._before = run, before
        self._has_paused, self._goes_on = Event(), Event()
        self._thread = Thread(target=self._work, args=(FaultyStore(store, on_call=self._called),))
        self._thread.start()
        assert self._has_paused.wait(HANGS_AFTER_SECONDS)

    def end(self) -> None:
        """Let it go on, and return when it has ended."""
        self._goes_on.set()
        self._thread.join(HANGS_AFTER_SECONDS)
        assert not self._thread.is_alive()

    def _called(self, call: Call) -> None:
        self.calls = call.number
        if call.number == self._before:
            self._has_paused.set()
            assert self._goes_on.wait(HANGS_AFTER_SECONDS)

    def _work(self, store: ObjectStore) -> None:
        try:
            self._run(store)
        except BaseException as error:
            self.error = error
        finally:
            self._has_paused.set()
