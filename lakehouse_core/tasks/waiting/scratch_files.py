"""Scratch files: objects of one task that are never stored, one behind the other in a file without a name.

Rule: nothing is left of them, however the task ends: see `tasks/write/scratch`.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import IO, cast

import pyarrow as pa

from lakehouse_core.errors import NotFound
from lakehouse_core.storage.held_sink import HeldSink
from lakehouse_core.tasks.write.scratch import closed, nameless_file, on_disk


class ScratchFiles:
    """Sinks for a writer, and an opener for readers of what it wrote. `folder`: where the file is, None for the
    system's folder of temporary files.

    REQUIRES: one object is written at a time, and none after the first was opened.
    """

    requests_at_once = 1

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._places: dict[str, tuple[int, int]] = {}
        self._end = 0
        self._mapped: mmap.mmap | None = None
        with self._on_disk():
            self._file = nameless_file(folder)

    def uri(self, key: str) -> str:
        return f"scratch:{key}"

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        """Raises StorageFull, StorageUnavailable."""
        with self._on_disk():
            self._file.seek(self._end)
            sink = HeldSink(lambda: self._file, most_bytes=0)
            yield cast(IO[bytes], sink)
        self._places[key] = self._end, sink.tell()
        self._end += sink.tell()

    def write(self, objects: Mapping[str, bytes]) -> None:
        for key, data in objects.items():
            with self.open_write(key) as sink:
                sink.write(data)

    def put(self, key: str, make: Callable[[], bytes], *, size_bytes: int) -> None:
        self.write({key: make()})

    def settle(self) -> None:
        with self._on_disk():
            self._file.flush()

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        """Keep the bytes: they go with the file."""
        return ()

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        if key not in self._places:
            raise NotFound(f"{self.uri(key)} was not written.")
        start, length = self._places[key]
        if self._mapped is None:
            with self._on_disk():
                self._mapped = mmap.mmap(self._file.fileno(), self._end, access=mmap.ACCESS_READ)
        # The system drops the pages when it needs their memory, and the mapping with the last reader.
        return pa.BufferReader(pa.py_buffer(self._mapped).slice(start, length))

    def close(self) -> None:
        self._mapped = None
        closed(self._file)

    def _on_disk(self) -> AbstractContextManager[None]:
        return on_disk(self._folder, remedy="compact the table, so that no rows wait for their buckets")
