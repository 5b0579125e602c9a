"""Who waits to commit to a table, first come, first served: a ticket for each in `lakehouse/queue`.

Rule: this is advice, and safety never depends on it. Whoever does not know of it (Java) or sees no sign of others comes
at once; what cannot be read or written counts as no queue; and a queue that stands still is none.
"""

from contextlib import suppress

from lakehouse_core.clock import Clock
from lakehouse_core.errors import NotFound, StorageUnavailable
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.layout import QUEUE_FOLDER

# So many try at a time: while one waits for its disk, another prepares. Of 2 to 5, 3 and 4 gave the most commits.
_ADMITTED = 3
# What holders that died cost, together and once.
_STANDSTILL_SECONDS = 20.0
# By the storage's clock, before the ticket that finds it: no commit waits so long unless its table says so.
_OLDEST_MILLIS = 600_000
_SHORTEST_PAUSE_SECONDS = 0.003
_LONGEST_PAUSE_SECONDS = 1.0
# How long a commit takes, as long as none was seen.
_FIRST_PACE_SECONDS = 0.015


class CommitQueue:
    """The place of one commit in the queue of its table."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ticket: str | None = None

    @property
    def is_joined(self) -> bool:
        return self._ticket is not None

    def join(self, *, if_any: bool = False) -> None:
        """Go to the end of the queue; with `if_any`, only where somebody waits."""
        if self._ticket is not None:
            return
        try:
            names = self._store.children(QUEUE_FOLDER).files
            if if_any and not names:
                return
            # Two that join at once may get one number; then their names decide.
            ticket = f"{QUEUE_FOLDER}/{max(map(_number, names), default=0) + 1:010}-{self._clock.uuid()}"
            self._store.write(ticket, b"", lasts=False)
        except (StorageUnavailable, NotFound):
            return
        self._ticket = ticket

    def wait(self, until: float) -> None:
        """Return when it is this commit's turn, when nothing moves any more, or when the clock says `until`."""
        if self._ticket is None:
            return
        began = moved = self._clock.monotonic_seconds()
        ahead = before = self._ahead()
        count_at_first = len(ahead)
        while len(ahead) >= _ADMITTED:
            now = self._clock.monotonic_seconds()
            if ahead != before:
                before, moved = ahead, now
            elif now - moved > _STANDSTILL_SECONDS:
                self._discard(ahead)
                return
            if now >= until:
                return
            # Half of the time that the others should take: few looks by the last, many by the next.
            gone = count_at_first - len(ahead)
            pace = (now - began) / gone if gone > 0 else _FIRST_PACE_SECONDS
            pause = min(pace * (len(ahead) - _ADMITTED + 1) / 2, _LONGEST_PAUSE_SECONDS, until - now)
            self._clock.sleep(max(pause, _SHORTEST_PAUSE_SECONDS))
            ahead = self._ahead()

    def leave(self) -> None:
        """Let the next one go."""
        if self._ticket is not None:
            self._discard([self._ticket])
            self._ticket = None

    def _ahead(self) -> list[str]:
        """Return the tickets before this one, oldest first; those of long ago are thrown away."""
        assert self._ticket is not None
        try:
            written = {info.key: info.modified_millis for info in self._store.list(QUEUE_FOLDER)}
        except (StorageUnavailable, NotFound):
            return []
        if self._ticket not in written:
            # Somebody took it for dead.
            return []
        ahead = sorted(key for key in written if key < self._ticket)
        dead = [key for key in ahead if written[key] < written[self._ticket] - _OLDEST_MILLIS]
        if dead:
            self._discard(dead)
        return [key for key in ahead if key not in dead]

    def _discard(self, tickets: list[str]) -> None:
        # What stays is old one day.
        with suppress(StorageUnavailable):
            self._store.delete(tickets)


def _number(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() else 0
