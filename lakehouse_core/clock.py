"""Clock: time, sleep, random numbers and UUIDs behind one seam, of the system or virtual and seeded.

Rule: no other module reads time or random numbers from the machine.
"""

import random
import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The source of time and chance of the core."""

    def now_millis(self) -> int:
        """Return wall-clock time in milliseconds since the epoch."""
        ...

    def local_now_millis(self) -> int:
        """Return the local wall clock in milliseconds, counted as UTC, as in `_CREATION_TIME`."""
        ...

    def local_millis(self, millis: int) -> int | None:
        """Return the local wall clock at a time since the epoch, counted as UTC; None beyond the years 1 to 9999."""
        ...

    def monotonic_seconds(self) -> float:
        """Return seconds that never go back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...

    def uuid(self) -> str:
        """Return a fresh UUID as text."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """Return a random number between `low` and `high`."""
        ...


class SystemClock:
    """The machine's time and chance."""

    def now_millis(self) -> int:
        return time.time_ns() // 1_000_000

    def local_now_millis(self) -> int:
        local = datetime.now().astimezone()
        return int(local.replace(tzinfo=UTC).timestamp() * 1000)

    def local_millis(self, millis: int) -> int | None:
        seconds, rest = divmod(millis, 1000)
        try:
            local = datetime.fromtimestamp(seconds, UTC).astimezone()
        except (OverflowError, ValueError, OSError):
            return None
        return int(local.replace(tzinfo=UTC).timestamp()) * 1000 + rest

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)


class VirtualClock:
    """A clock whose time moves only on request, and whose chance repeats: the same seed gives the same run."""

    def __init__(self, *, seed: int = 0, now_millis: int = 1_700_000_000_000) -> None:
        self._random = random.Random(seed)
        self._now_millis = float(now_millis)

    def now_millis(self) -> int:
        return int(self._now_millis)

    def local_now_millis(self) -> int:
        return int(self._now_millis)

    def local_millis(self, millis: int) -> int | None:
        return millis

    def monotonic_seconds(self) -> float:
        return self._now_millis / 1000

    def sleep(self, seconds: float) -> None:
        self._now_millis += seconds * 1000

    def advance(self, seconds: float) -> None:
        """Move the time by `seconds`; a negative number sets the clock back."""
        self._now_millis += seconds * 1000

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)
