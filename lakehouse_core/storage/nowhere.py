"""Nowhere: sinks that keep no object, for work that is done only to see what it would make."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import RawIOBase
from typing import IO, Any, cast


class Nowhere:
    """Sinks that forget what they are given. Each has the size of what was written."""

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        yield cast(IO[bytes], _Counted())

    def write(self, objects: Mapping[str, bytes]) -> None:
        """Forget the objects."""

    def put(self, key: str, make: Callable[[], bytes], *, size_bytes: int) -> None:
        """Make the object, and forget it."""
        make()

    def settle(self) -> None:
        """Return at once."""

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        return ()


class _Counted(RawIOBase):
    """Counts the bytes that are written."""

    def __init__(self) -> None:
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._size += size
        return size

    def tell(self) -> int:
        return self._size
