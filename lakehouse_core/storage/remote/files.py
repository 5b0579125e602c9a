"""Files of a store over a network: a large object read in ranges."""

import io
import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import cached_property
from typing import Final, TypeAlias, cast

from lakehouse_core.storage.forked import OneProcess
from lakehouse_core.storage.remote.room import ROOM, Room
from lakehouse_core.threads import Threads

Buffer: TypeAlias = "bytes | memoryview"
# Of a large object that is read on and on: what one request asks for, how much is asked for before it is read, at the
# first read and at most, how many requests run at once, and the bytes that may be left out between two reads. A row
# group of a data file takes some 4 MiB: its first batch waits once.
_PIECE_BYTES: Final = 2 << 20
_FIRST_AHEAD_BYTES: Final = 4 << 20
_MOST_AHEAD_BYTES: Final = 8 << 20
_PIECES_AT_ONCE: Final = 4
_GAP_BYTES: Final = 1 << 20
# The end of a large object, where formats keep what readers ask for first, is read at once; less of it without room.
_TAIL_BYTES: Final = 256 << 10
_SHORT_TAIL_BYTES: Final = 64 << 10


class RangeFile(io.RawIOBase):
    """A large object, read in ranges. The bytes after a read are asked for before they are read, the more the further
    reads go on, until one begins elsewhere, and never more than `room` has left. `read_range` returns so many bytes
    from a place on.
    """

    def __init__(self, read_range: Callable[[int, int], Buffer], size: int, room: Room = ROOM) -> None:
        self._room = room
        self._tail_room = 0
        self._read_range = read_range
        self._size = size
        self._position = 0
        self._process = OneProcess()
        self._end: Buffer | None = None
        # Where the last read ended, None before the first, and the bytes that are asked for beyond a read.
        self._read_end: int | None = None
        self._ahead_bytes = 0
        # The pieces that are asked for, by their starts, without gaps, and where the last of them ends.
        self._pieces: dict[int, Future[Buffer]] = {}
        self._asked_end = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return bytes, or a view of those that are held: a copy would hold the lock of the interpreter."""
        left = max(0, self._size - self._position)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        data = self._range(self._position, self._position + length)
        self._position += len(data)
        return cast(bytes, data)

    def close(self) -> None:
        """Ask for nothing more."""
        if not self.closed:
            self._pieces = {}
            self._room.give(self._tail_room + self._ahead_bytes)
            if "_pool" in vars(self):
                self._pool.shutdown(wait=False, cancel_futures=True)
        super().close()

    @cached_property
    def _pool(self) -> Threads:
        return Threads(_PIECES_AT_ONCE, thread_name_prefix="read-ahead")

    def _tail(self) -> Buffer:
        # Not a cached property: the ends of several files are read at once, and that has one lock for all of them.
        if self._end is None:
            if self._room.take(_TAIL_BYTES):
                self._tail_room = _TAIL_BYTES
            length = min(self._size, self._tail_room or _SHORT_TAIL_BYTES)
            self._end = self._read_range(self._size - length, length)
        return self._end

    def _range(self, start: int, end: int) -> Buffer:
        if start >= self._size - _TAIL_BYTES and not self._pieces:
            tail = self._tail()
            first = self._size - len(tail)
            if start >= first:
                return memoryview(tail)[start - first : end - first]
        follows = self._read_end is None or 0 <= start - self._read_end <= _GAP_BYTES
        self._read_end = end
        self._ahead_bytes = self._taken(
            min(max(2 * self._ahead_bytes, _FIRST_AHEAD_BYTES), _MOST_AHEAD_BYTES) if follows else 0
        )
        if not self._ahead_bytes:
            self._pieces = {}
            return self._read_range(start, end - start)
        self._process.check("A large object")
        self._ask(start, end)
        pieces = [(first, piece.result()) for first, piece in self._pieces.items() if first < end]
        last = pieces[-1][0]
        self._pieces = {first: piece for first, piece in self._pieces.items() if first >= last}
        parts = [memoryview(data)[max(0, start - first) : end - first] for first, data in pieces]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _taken(self, ahead_bytes: int) -> int:
        """Return how much may be asked for ahead: `ahead_bytes`, or what it was where there is no more room."""
        more = ahead_bytes - self._ahead_bytes
        if more > 0 and not self._room.take(more):
            return self._ahead_bytes
        if more < 0:
            self._room.give(-more)
        return ahead_bytes

    def _ask(self, start: int, end: int) -> None:
        """Ask for what is not asked for yet of the range and of the bytes beyond it; forget what lies before it."""
        if not self._pieces:
            self._asked_end = start
        self._pieces = {
            first: piece for first, piece in self._pieces.items() if min(first + _PIECE_BYTES, self._asked_end) > start
        }
        self._asked_end = max(self._asked_end, start)
        last = min(self._size, end + self._ahead_bytes)
        while self._asked_end < last:
            length = min(_PIECE_BYTES, self._size - self._asked_end)
            if self._asked_end >= end and self._asked_end + length > last and last < self._size:
                # Of what is beyond, whole pieces.
                break
            self._pieces[self._asked_end] = self._pool.submit(self._read_range, self._asked_end, length)
            self._asked_end += length
