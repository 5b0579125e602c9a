"""Commit queue: commits that lost a race wait for their turn, first come, first served.

A waiting commit has a ticket, an empty object in `lakehouse/queue`; a later commit deletes tickets of killed processes.
Rule: safety never depends on the queue. A queue that cannot be read or written, or in which nothing moves, is ignored.
Source: docs/reliability/commit.md#waiting-and-fairness.
"""

from collections.abc import Callable, Collection
from contextlib import suppress

from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest, NotFound, StorageUnavailable
from lakehouse_core.storage import ObjectStore
from lakehouse_core.table.layout import QUEUE_FOLDER, QUEUE_MARK

# The number of commits that try at a time: while one waits for its disk, the next prepares. With three, each writes its
# manifest list and snapshot 2.9 times before it wins; with one, the table is idle until the next commit notices its
# turn.
_ADMITTED = 2
# With so many tickets ahead a commit is next in line once the admitted ones end.
_NEAR = 2 * _ADMITTED - 1
# After this time without a change all tickets ahead count as left by killed processes and are deleted.
_STANDSTILL_SECONDS = 20.0
# A ticket older than our own by this much, by the storage's clock, counts as left by a killed process: the default of
# commit.timeout is shorter.
_OLDEST_MILLIS = 600_000
_SHORTEST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 1.0
# The assumed duration of one commit, until this commit has seen another one end.
_FIRST_PACE_SECONDS = 0.015
# The errors of a folder that cannot be read or written, or that is a link which the store does not follow.
_NO_QUEUE = (StorageUnavailable, NotFound, InvalidRequest)


class CommitQueue:
    """The place of one commit in the queue of its table."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ticket: str | None = None
        self._ahead_count = 0

    @property
    def ahead_count(self) -> int:
        """How many commits may still be published before this one, as far as the queue told; 0 if it is not queued."""
        return self._ahead_count if self.is_joined else 0

    @property
    def is_joined(self) -> bool:
        return self._ticket is not None

    def join(self, *, if_any: bool = False) -> bool:
        """Go to the end of the queue, with `if_any` only if it has tickets. Return whether this commit is queued."""
        if self._ticket is not None:
            return True
        try:
            names = self._store.children(QUEUE_FOLDER).files
            if if_any and not names:
                return False
            # Two commits that join at once may get the same number; then the rest of the name decides their order.
            ticket = f"{QUEUE_FOLDER}/{max(map(_number, names), default=0) + 1:010}-{self._clock.uuid()}"
            self._store.write({ticket: b""}, durable=False)
        except _NO_QUEUE:
            return False
        self._ticket = ticket
        # One that is admitted may have ended while the tickets were counted.
        self._ahead_count = len(names) + 1
        return True

    def mark(self) -> None:
        """Tell commits that lost no race of the queue: no snapshot tells them while no commit of the queue wins."""
        with suppress(*_NO_QUEUE):
            self._store.write({QUEUE_MARK: b""}, durable=False)

    def unmark(self) -> None:
        self._discard([QUEUE_MARK])

    def wait(self, until: float, *, near: Callable[[], object] = lambda: None) -> None:
        """Return when it is this commit's turn, when the queue has stopped moving, or at the time `until`. `near`:
        called once if the turn is near after a longer wait.
        """
        if self._ticket is None:
            return
        began = moved = self._clock.monotonic_seconds()
        ahead = before = self._ahead()
        count_at_first = self._ahead_count = len(ahead)
        is_far = count_at_first > _NEAR
        while len(ahead) >= _ADMITTED:
            now = self._clock.monotonic_seconds()
            if ahead != before:
                before, moved = ahead, now
            elif now - moved > _STANDSTILL_SECONDS:
                self._discard(ahead)
                return
            if now >= until:
                return
            gone = count_at_first - len(ahead)
            pace = (now - began) / gone if gone > 0 else _FIRST_PACE_SECONDS
            pause = min(pace * _commits_to_sleep(len(ahead)), _LONGEST_PAUSE_SECONDS, until - now)
            self._clock.sleep(max(pause, _SHORTEST_PAUSE_SECONDS))
            ahead = self._still_ahead()
            self._ahead_count = len(ahead)
            if is_far and len(ahead) <= _NEAR:
                is_far = False
                near()

    def leave(self) -> None:
        """Delete the ticket, so that the next commit has its turn."""
        if self._ticket is not None:
            self._discard([self._ticket])
            self._ticket = None

    def _ahead(self) -> list[str]:
        """Delete expired tickets; return the remaining ones before this one, oldest first."""
        assert self._ticket is not None
        try:
            written = {info.key: info.modified_millis for info in self._store.list(QUEUE_FOLDER)}
        except _NO_QUEUE:
            return []
        ahead = self._before_own(written)
        dead = [key for key in ahead if written[key] < written[self._ticket] - _OLDEST_MILLIS]
        if dead:
            self._discard(dead)
        return [key for key in ahead if key not in dead]

    def _still_ahead(self) -> list[str]:
        """Return the tickets before this one, oldest first, without reading their ages."""
        try:
            keys = {f"{QUEUE_FOLDER}/{name}" for name in self._store.children(QUEUE_FOLDER).files}
        except _NO_QUEUE:
            return []
        return self._before_own(keys)

    def _before_own(self, tickets: Collection[str]) -> list[str]:
        """Return the tickets before this one, oldest first."""
        own = self._ticket
        if own is None or own not in tickets:
            # Another commit deleted our ticket, because it was old or the queue had stopped moving.
            return []
        return sorted(key for key in tickets if key < own)

    def _discard(self, tickets: list[str]) -> None:
        # A ticket that stays is ignored once it is old. No error may be raised: the commit may be applied by now.
        with suppress(*_NO_QUEUE):
            self._store.delete(tickets)


def _commits_to_sleep(ahead_count: int) -> float:
    """Return how long a commit sleeps with this many tickets ahead, as a multiple of the time that one commit takes.

    The admitted commits may end at once. A commit that is next in line then looks eight times per commit: if it slept
    too long, all commits behind it would wait, measure a slower pace and sleep longer themselves. Any other commit
    sleeps for half of the commits that must end before that, because their times differ.
    """
    must_end = ahead_count - _NEAR
    return must_end / 2 if must_end > 0 else 1 / 8


def _number(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() else 0
