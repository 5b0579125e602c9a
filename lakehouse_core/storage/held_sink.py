"""Held sink: the bytes of an object that is being written, in memory while they are few."""

import io
from collections.abc import Callable
from typing import Any


class HeldSink(io.RawIOBase):
    """Holds written bytes until their block ends; more than `most_bytes` of them go to the store meanwhile.

    Writers may close it early, as Parquet writers do. `begin` opens what takes the bytes of a larger object.
    """

    def __init__(self, begin: Callable[[], Any], *, most_bytes: int) -> None:
        self._begin = begin
        self._most_bytes = most_bytes
        self._held: io.BytesIO | None = io.BytesIO()
        self._store: Any = None
        self._written = 0

    @property
    def is_small(self) -> bool:
        return self._held is not None

    def content(self) -> bytes:
        """REQUIRES: `is_small`."""
        assert self._held is not None
        return self._held.getvalue()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._held is not None:
            self._held.write(data)
            if self._written + size > self._most_bytes:
                self._store = self._begin()
                self._store.write(self._held.getvalue())
                self._held = None
        else:
            self._store.write(bytes(data))
        self._written += size
        return size

    def close(self) -> None:
        """Do nothing: the block that opened the sink stores or drops the bytes."""
