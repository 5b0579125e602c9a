"""A data file that Arrow writes: it appears with a seal in it when it is finished, or never.

Arrow's writers write the end of a file when they are closed. It is held back, for the seal goes before it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, Generic, Protocol, TypeVar

from lakehouse_core.errors import LakehouseError
from lakehouse_core.storage.object_store import ObjectStore


class FileChecksum(Protocol):
    """The seal of one file that is written."""

    def observe(self, data: Any) -> None:
        """See bytes that pass before the end of the file."""
        ...

    def sealed(self, held: bytes) -> bytes:
        """Return `held`, which ends with the end of the file, with the seal in it."""
        ...


class ChecksumSink:
    """A sink for one of Arrow's writers. Call `hold` before the writer is closed, `release` after it."""

    closed = False

    def __init__(self, sink: IO[bytes], seal: FileChecksum) -> None:
        self._sink = sink
        self._seal = seal
        self._position = 0
        self._held: bytearray | None = None
        # What the store said when it refused bytes.
        self.failure: LakehouseError | None = None

    def write(self, data: Any) -> int:
        size = len(data)
        if self._held is None:
            self._seal.observe(data)
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
        """Keep what follows, which ends with the end of the file, until `release`."""
        self._held = bytearray()

    def release(self) -> int:
        """Write what was held, sealed, and return the size of the file."""
        held = bytes(self._held or b"")
        self._held = None
        sealed = self._seal.sealed(held)
        self._sink.write(sealed)
        return self._position + len(sealed) - len(held)

    def close(self) -> None:
        """The file belongs to whoever opened it."""


class ArrowWriter(Protocol):
    """What `pyarrow.parquet.ParquetWriter` and `pyarrow.orc.ORCWriter` have in common."""

    is_open: bool

    def close(self) -> None: ...


W = TypeVar("W", bound=ArrowWriter)


class ChecksummedFile(Generic[W]):
    """One file while `writer` fills it. End it with `finish` or `abandon`."""

    def __init__(
        self, store: ObjectStore, key: str, seal: FileChecksum, open_writer: Callable[[ChecksumSink], W]
    ) -> None:
        self._stack = ExitStack()
        self._sink = ChecksumSink(self._stack.enter_context(store.open_write(key)), seal)
        try:
            self._writer = open_writer(self._sink)
        except BaseException as error:
            self._leave(error)
            raise

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._sink.tell()

    @contextmanager
    def filling(self) -> Iterator[W]:
        """Give the writer to write with. Raises what the store says when it refuses, StorageFull for one."""
        try:
            yield self._writer
        except OSError as error:
            # ORC's writer makes an error of its own of it.
            if self._sink.failure is not None:
                raise self._sink.failure from error
            raise

    def finish(self) -> int:
        """Close the writer, let the file appear, and return its size."""
        self._sink.hold()
        with self.filling() as writer:
            writer.close()
        size_bytes = self._sink.release()
        self._stack.close()
        return size_bytes

    def abandon(self, error: BaseException) -> None:
        """Let go of the file, which then never appears."""
        # Or its finalizer would write the end of a file into a sink that is gone.
        self._writer.is_open = False
        self._leave(error)

    def _leave(self, error: BaseException) -> None:
        self._stack.__exit__(type(error), error, error.__traceback__)
