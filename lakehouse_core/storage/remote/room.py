"""Room: the bytes of objects that this process keeps in memory for reads, whole files and what is fetched ahead.

Rule: no reader waits for room, because a merge needs all its files open; one that finds none asks for smaller ranges.
Source: docs/reliability/store.md#memory-of-reads.
"""

from collections import deque
from threading import Lock
from typing import Final


class Room:
    """Bytes that may be held at once, by any thread of the process."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held_bytes = 0
        # What is given back by objects that are collected, at any moment of a thread, so without the lock.
        self._given: deque[int] = deque()
        self._lock = Lock()

    @property
    def held_bytes(self) -> int:
        """The bytes that are held now."""
        with self._lock:
            return self._counted()

    def take(self, size: int) -> bool:
        """Take `size` bytes and return True; return False, at once, where so many are not left."""
        with self._lock:
            if self._counted() + size > self._most_bytes:
                return False
            self._held_bytes += size
            return True

    def give(self, size: int) -> None:
        """Give back bytes that were taken."""
        self._given.append(size)

    def _counted(self) -> int:
        while self._given:
            self._held_bytes -= self._given.popleft()
        return self._held_bytes


# Four tasks that read ahead what `overlap` lets them, or a merge of 256 files of 1 MB.
ROOM: Final = Room(256 << 20)
