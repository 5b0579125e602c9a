"""Retry: how often, how long and with which waits a piece of work is repeated.

Rule: every repetition is bounded, by a number of attempts or by a deadline. Waits are random, so that two callers that
met do not meet again.
Source: docs/reliability/invariants.md#i28-nothing-waits-for-ever.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from lakehouse_core.clock import Clock
from lakehouse_core.errors import LakehouseError

R = TypeVar("R")

# The factor by which the wait may grow with each failed attempt.
_GROWTH: Final = 4
# Higher powers of the factor exceed every longest wait.
_MOST_GROWTH: Final = 10


@dataclass(frozen=True, slots=True)
class Retry:
    """A policy for repeating. None: without this bound; one of the two bounds is always set.

    `timeout_millis` counts from the call of `attempts`. Without a longest wait the next attempt follows at once.
    """

    max_attempts: int | None = 5
    timeout_millis: int | None = None
    min_wait_millis: int = 0
    max_wait_millis: int = 0

    def attempts(self, clock: Clock | None = None, *, until: float | None = None) -> Iterator["Attempt"]:
        """Yield attempts until one is the last. The caller leaves the loop on success and raises its error after it.

        `clock`: required by a policy with waits or a deadline. `until`: a deadline in seconds of the monotonic clock,
        in place of the timeout, for work inside another attempt.
        """
        deadline = until
        if deadline is None and self.timeout_millis is not None:
            assert clock is not None, "a deadline needs a clock"
            deadline = clock.monotonic_seconds() + self.timeout_millis / 1000
        assert self.max_attempts is not None or deadline is not None, "a retry needs a bound"
        assert clock is not None or (deadline is None and not self.max_wait_millis), "a wait needs a clock"
        return self._attempts(clock, math.inf if deadline is None else deadline)

    def call(
        self,
        read: Callable[[], R],
        *,
        on: tuple[type[LakehouseError], ...],
        exhausted: Callable[[int], LakehouseError] | None = None,
        clock: Clock | None = None,
    ) -> R:
        """Return what `read` returns, called again after an error of the kinds `on`.

        After the last attempt: raise `exhausted` of the number of attempts, or without it the last error.
        """
        for attempt in self.attempts(clock):
            try:
                return read()
            except on as error:
                if attempt.is_last:
                    if exhausted is None:
                        raise
                    raise exhausted(attempt.number) from error
                attempt.wait()
        raise AssertionError("the last attempt returns or raises")

    def _attempts(self, clock: Clock | None, deadline: float) -> Iterator["Attempt"]:
        number = 0
        while True:
            number += 1
            attempt = Attempt(self, clock, number=number, deadline=deadline)
            yield attempt
            if attempt.is_last:
                return


class Attempt:
    """One attempt of a retry. `number` counts from 1; `deadline` is on the monotonic clock, infinite without one."""

    def __init__(self, retry: Retry, clock: Clock | None, *, number: int, deadline: float) -> None:
        self.number = number
        self.deadline = deadline
        self._retry = retry
        self._clock = clock
        self._started = 0.0 if clock is None else clock.monotonic_seconds()
        self._is_last: bool | None = None

    @property
    def is_last(self) -> bool:
        """Whether no attempt follows. Decided at the first question, so a wait past the deadline is not in vain."""
        if self._is_last is None:
            used_up = self._retry.max_attempts is not None and self.number >= self._retry.max_attempts
            self._is_last = used_up or self._is_late()
        return self._is_last

    def restart(self) -> None:
        """Count the time that the attempt takes from now: until now it waited for its turn."""
        if self._clock is not None:
            self._started = self._clock.monotonic_seconds()

    def wait(self, growth: int | None = None) -> None:
        """Sleep a random time before the next attempt; return at once when there is none.

        It is up to `growth` times what this attempt took, or the shortest wait where that is longer, within the longest
        wait. By default `growth` rises with each attempt: slow work would meet the same quick winners again.
        """
        if self.is_last or self._clock is None or not self._retry.max_wait_millis:
            return
        took = self._clock.monotonic_seconds() - self._started
        shortest = max(self._retry.min_wait_millis / 1000, took)
        times = _GROWTH ** min(self.number, _MOST_GROWTH) if growth is None else growth
        self._clock.sleep(self._clock.uniform(0, min(self._retry.max_wait_millis / 1000, shortest * times)))

    def _is_late(self) -> bool:
        return self._clock is not None and self._clock.monotonic_seconds() >= self.deadline


# A listing and the reads after it race with other processes. Each failed attempt means that another file was deleted.
LISTING: Final = Retry()
# Schema changes are short; this many lost races in a row mean that other writers alter the table continuously.
ALTER: Final = Retry(10)
# A read point that moves on, such as the latest snapshot, is resolved again when its state expires during planning.
PLAN: Final = Retry(3)
# Work of a verb that others overtook, begun again from a new plan: the first run, and three more.
REPLAN: Final = Retry(4, min_wait_millis=20, max_wait_millis=2_000)
