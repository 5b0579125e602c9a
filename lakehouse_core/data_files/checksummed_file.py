"""Checksummed file: a data file that Arrow writes; it appears complete with its checksum, or never.

Rule: Arrow's writers write the end of a file on close. The sink holds the end back, because the checksum precedes it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from lakehouse_core.errors import LakehouseError
from lakehouse_core.storage.overlap import Sinks

# Arrow writes each page and each part of the footer apart, some forty in a small file.
_GATHERED_BYTES: Final = 64 << 10


class FileChecksum(Protocol):
    """The checksum of one file that is being written."""

    def observe(self, data: Any) -> None:
        """Add bytes that come before the end of the file."""
        ...

    def with_checksum(self, held: bytes) -> bytes:
        """Return `held`, which ends with the end of the file, with the checksum in it."""
        ...


class ChecksumSink:
    """A sink for an Arrow writer. Call `hold` before the writer closes, and `release` after it."""

    closed = False

    def __init__(self, sink: IO[bytes], checksum: FileChecksum) -> None:
        self._sink = sink
        self._checksum = checksum
        self._position = 0
        self._held: bytearray | None = None
        # The store's error when it refused bytes.
        self.failure: LakehouseError | None = None
        self._is_abandoned = False

    def write(self, data: Any) -> int:
        size = len(data)
        if self._is_abandoned:
            return size
        if self._held is None:
            self._checksum.observe(data)
            try:
                self._sink.write(data)
            except LakehouseError as error:
                self.failure = error
                raise
        else:
            self._held += data
        self._position += size
        return size

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is buffered here."""

    def hold(self) -> None:
        """Keep the following bytes, which end with the end of the file, until `release`."""
        self._held = bytearray()

    def release(self) -> int:
        """Write the held bytes with the checksum, and return the size of the file."""
        held = bytes(self._held or b"")
        self._held = None
        written = self._checksum.with_checksum(held)
        self._sink.write(written)
        return self._position + len(written) - len(held)

    def abandon(self) -> None:
        """Drop what comes from now on: Arrow writes what it has gathered when it frees its writer."""
        self._is_abandoned = True

    def close(self) -> None:
        """Keep the file open: the block that opened it closes it."""


class ArrowWriter(Protocol):
    """The common part of `pyarrow.parquet.ParquetWriter` and `pyarrow.orc.ORCWriter`."""

    is_open: bool

    def close(self) -> None: ...


W = TypeVar("W", bound=ArrowWriter)


class ChecksummedFile(Generic[W]):
    """One file that `writer` fills. End it with `finish` or `abandon`."""

    def __init__(
        self, store: Sinks, key: str, checksum: FileChecksum, open_writer: Callable[[pa.NativeFile], W]
    ) -> None:
        self._stack = ExitStack()
        self._sink = ChecksumSink(self._stack.enter_context(store.open_write(key)), checksum)
        self._gathered = pa.BufferedOutputStream(pa.PythonFile(self._sink, mode="w"), _GATHERED_BYTES)
        try:
            self._writer = open_writer(self._gathered)
        except BaseException as error:
            self._leave(error)
            raise

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._sink.tell()

    @contextmanager
    def filling(self) -> Iterator[W]:
        """Yield the writer. Raises the error of a store that refuses, such as StorageFull."""
        try:
            yield self._writer
            self._gathered.flush()
        except OSError as error:
            # ORC's writer replaces the store's error by its own.
            if self._sink.failure is not None:
                raise self._sink.failure from error
            raise

    def finish(self) -> int:
        """Close the writer, publish the file, and return its size."""
        self._sink.hold()
        with self.filling() as writer:
            writer.close()
        size_bytes = self._sink.release()
        self._stack.close()
        return size_bytes

    def abandon(self, error: BaseException) -> None:
        """Discard the file, which then never appears."""
        # Otherwise its finalizer would write the end of the file to a closed sink.
        self._writer.is_open = False
        self._leave(error)

    def _leave(self, error: BaseException) -> None:
        self._sink.abandon()
        self._stack.__exit__(type(error), error, error.__traceback__)
