"""Overlap: requests of one task that need not wait for one another: objects are read ahead, and closed behind.

Rule: where requests are fastest one by one (`requests_at_once` is 1, as on a disk) objects are read as without it: same
calls, same order. The same holds for writing where `sinks_at_once` is 1. Source: docs/decisions/0021-round-trips.md.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from inspect import GEN_RUNNING, getgeneratorstate
from threading import Lock
from typing import IO, Any, Final, Generic, Protocol, TypeVar, cast

import pyarrow as pa

from lakehouse_core.storage.forked import OneProcess
from lakehouse_core.storage.held_sink import HeldSink
from lakehouse_core.storage.object_store import FileOpener, ObjectStore
from lakehouse_core.threads import Threads

T = TypeVar("T")

# Larger objects are read in ranges when they are needed. Only their ends are fetched ahead, where formats keep what
# readers ask for first.
_LARGEST_AHEAD: Final = 32 << 20
_END_BYTES: Final = 8
# What the store keeps of the end.
_HELD_OF_LARGE: Final = 1 << 20
_MOST_BYTES_AHEAD: Final = 64 << 20
# What an open file takes at least.
_LEAST_HELD: Final = 64 << 10
_MOST_BYTES_BEHIND: Final = 64 << 20
# Larger files of a disk are written as they come, and only their ends behind. Each open one takes a descriptor.
_MOST_HELD_BYTES: Final = 1 << 20
_MOST_FILES_BEHIND: Final = 64
# Small files that one call writes, which makes and syncs each folder once for all of them.
_FILES_A_CALL: Final = 16


@contextmanager
def reading_ahead(store: FileOpener, objects: Iterable[tuple[str, int]]) -> Iterator[FileOpener]:
    """Open objects of this store in the block; while one is read, the next ones are fetched.

    `objects`: key and size in bytes of what the block opens, about in this order. Others can be opened too.
    """
    if store.requests_at_once == 1:
        yield store
        return
    with Threads(store.requests_at_once, thread_name_prefix="ahead") as pool:
        ahead = _Ahead(store, pool, objects)
        try:
            yield ahead
        finally:
            ahead.close()


class _Ahead:
    """Opens objects of `store`, the listed ones before they are asked for. Several threads may ask."""

    def __init__(self, store: FileOpener, pool: Threads, objects: Iterable[tuple[str, int]]) -> None:
        self._store = store
        self._pool = pool
        self._objects = iter(objects)
        self._next = next(self._objects, None)
        self._process = OneProcess()
        # What was asked for before its turn.
        self._opened: set[str] = set()
        self._running: dict[str, tuple[Future[pa.NativeFile], int]] = {}
        self._bytes = 0
        self._lock = Lock()

    @property
    def requests_at_once(self) -> int:
        return self._store.requests_at_once

    def uri(self, key: str) -> str:
        return self._store.uri(key)

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        self._process.check(self.uri(key))
        with self._lock:
            self._start()
            opened = self._taken(key)
            self._start()
        return self._store.open_read(key, size) if opened is None else opened.result()

    def _taken(self, key: str) -> Future[pa.NativeFile] | None:
        """Return the object that is being opened, None if it is not, and will not be."""
        if key not in self._running:
            self._opened.add(key)
            return None
        opened, held_bytes = self._running.pop(key)
        self._bytes -= held_bytes
        return opened

    def _open(self, key: str, size: int) -> pa.NativeFile:
        opened = self._store.open_read(key, size)
        if size > _LARGEST_AHEAD:
            try:
                opened.seek(size - _END_BYTES)
                opened.read(_END_BYTES)
                opened.seek(0)
            except BaseException:
                opened.close()
                raise
        return opened

    def close(self) -> None:
        """Close what was opened ahead and not asked for."""
        self._next = None
        _end(self._pool)
        for opened, _ in self._running.values():
            if opened.done() and not opened.cancelled() and opened.exception() is None:
                opened.result().close()
        self._running.clear()

    def _start(self) -> None:
        while self._next is not None:
            key, size = self._next
            held_bytes = max(size, _LEAST_HELD) if size <= _LARGEST_AHEAD else _HELD_OF_LARGE
            if self._running and self._bytes + held_bytes > _MOST_BYTES_AHEAD:
                return
            if key not in self._opened and key not in self._running:
                self._running[key] = self._pool.submit(self._open, key, size), held_bytes
                self._bytes += held_bytes
            self._next = next(self._objects, None)


@contextmanager
def drawing_ahead(
    store: FileOpener, sources: Sequence[Generator[T, None, None]], *, object_bytes: int
) -> Iterator[Sequence[Iterator[T]]]:
    """Draw the first items of all sources at once in the block, and the next item of each while the one before is used.

    `sources` read objects of this store, the largest of `object_bytes`: only of large ones is more to be fetched once
    they are open. One item of each source is kept in memory. At the end of the block all sources are closed, and no
    thread draws any more. No item may be None.
    """
    if store.requests_at_once == 1 or object_bytes <= _LARGEST_AHEAD:
        yield sources
        return
    with ExitStack() as stack:
        for source in sources:
            stack.callback(_close, source)
        pool = Threads(min(len(sources), store.requests_at_once), thread_name_prefix="drawing")
        stack.callback(_end, pool)
        yield [_Drawn(source, pool) for source in sources]


def _end(pool: Threads) -> None:
    """Begin nothing more, and wait for the threads. In a forked process they are gone, and what they did never ends."""
    pool.shutdown(cancel_futures=True)


def _close(source: Generator[Any, None, None]) -> None:
    """Close a source that no thread draws from; in a forked process it may be in the middle of an item for ever."""
    if getgeneratorstate(source) != GEN_RUNNING:
        source.close()


class _Drawn(Generic[T]):
    """The items of `source`, each drawn by a thread of `pool` before it is asked for."""

    def __init__(self, source: Generator[T, None, None], pool: Threads) -> None:
        self._source = source
        self._pool = pool
        self._process = OneProcess()
        self._next = pool.submit(next, source, None)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        self._process.check("Rows of an object store")
        item = self._next.result()
        if item is None:
            raise StopIteration
        self._next = self._pool.submit(next, self._source, None)
        return item


class Sinks(Protocol):
    """Where a task writes its files. They exist once `settle` has returned."""

    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """As `ObjectStore.open_write`; the object may appear later than the end of the block, or not at all."""
        ...

    def write(self, objects: Mapping[str, bytes]) -> None:
        """As `ObjectStore.write`; the objects may appear later, or not at all."""
        ...

    def put(self, key: str, make: Callable[[], bytes], *, size_bytes: int) -> None:
        """Write what `make` returns, which a thread may call later. `size_bytes`: what it holds in memory till then."""
        ...

    def settle(self) -> None:
        """Wait until all objects exist. Raises the first error of a write; then some may exist."""
        ...

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        """As `ObjectStore.delete`, also for objects that are still being written."""
        ...


@contextmanager
def closing_behind(store: ObjectStore) -> Iterator[Sinks]:
    """Write objects of this store in the block; while one is sent, the next ones are written. Call `settle` at the
    end.
    """
    if store.sinks_at_once == 1:
        yield DirectSinks(store)
        return
    with Threads(store.sinks_at_once, thread_name_prefix="behind") as pool:
        yield _Behind(store, pool) if store.requests_at_once > 1 else _BehindOnDisk(store, pool)


class DirectSinks:
    """Sinks whose objects exist when their block has ended."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        return self._store.open_write(key)

    def write(self, objects: Mapping[str, bytes]) -> None:
        self._store.write(objects)

    def put(self, key: str, make: Callable[[], bytes], *, size_bytes: int) -> None:
        with self._store.open_write(key) as sink:
            sink.write(make())

    def settle(self) -> None:
        """Return at once."""

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        return self._store.delete(keys)


class _Behind:
    """Sinks that threads of `pool` close."""

    def __init__(self, store: ObjectStore, pool: Threads) -> None:
        self._store = store
        self._pool = pool
        self._closing: deque[tuple[Future[None], int]] = deque()
        self._bytes = 0
        self._failures: list[BaseException] = []

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        with ExitStack() as stack:
            sink = stack.enter_context(self._store.open_write(key))
            yield sink
            size = sink.tell()
            self._make_room(size)
            self._send_rest(stack.pop_all(), size)

    def write(self, objects: Mapping[str, bytes]) -> None:
        size = sum(map(len, objects.values()))
        self._make_room(size)
        self._send(lambda: self._store.write(objects), size)

    def put(self, key: str, make: Callable[[], bytes], *, size_bytes: int) -> None:
        self._make_room(size_bytes)
        self._send(partial(self._put, key, make), size_bytes)

    def _put(self, key: str, make: Callable[[], bytes]) -> None:
        data = make()
        with self._store.open_write(key) as sink:
            sink.write(data)

    def settle(self) -> None:
        wait([closed for closed, _ in self._closing])
        while self._closing:
            self._end_first()

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        wait([closed for closed, _ in self._closing])
        return self._store.delete(keys)

    def _make_room(self, size: int) -> None:
        """Wait until so many more bytes may be sent. Raises the first error of earlier ones."""
        while self._closing and (self._failures or self._is_full(size)):
            self._end_first()

    def _is_full(self, size: int) -> bool:
        return self._bytes + size > _MOST_BYTES_BEHIND

    def _send_rest(self, block: ExitStack, size: int) -> None:
        """Close the block of an object behind."""
        self._send(block.close, size, give_up=lambda error: block.__exit__(type(error), error, None))

    def _send(
        self, close: Callable[[], None], size: int, *, give_up: Callable[[BaseException], object] = lambda error: None
    ) -> None:
        self._closing.append((self._pool.submit(self._close, close, give_up), size))
        self._bytes += size

    def _close(self, close: Callable[[], None], give_up: Callable[[BaseException], object]) -> None:
        """Close an object, or give it up if another one of the task has failed: a store that is away would be asked
        for all of them.
        """
        try:
            if self._failures:
                give_up(self._failures[0])
                raise self._failures[0]
            close()
        except BaseException as error:
            self._failures.append(error)
            raise

    def _end_first(self) -> None:
        closed, size = self._closing[0]
        # A caller that is interrupted here deletes the object, and waits for it then.
        wait([closed])
        self._closing.popleft()
        self._bytes -= size
        closed.result()


class _BehindOnDisk(_Behind):
    """Sinks of a disk, whose syncs wait together. Threads make small files from memory, with their folders. The first
    file is made at once: most tasks write one.
    """

    def __init__(self, store: ObjectStore, pool: Threads) -> None:
        super().__init__(store, pool)
        self._has_first = False
        # Small files of the next call.
        self._small: dict[str, Callable[[], bytes]] = {}
        self._small_bytes = 0

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        with ExitStack() as stack:
            sink = HeldSink(lambda: stack.enter_context(self._store.open_write(key)), most_bytes=_MOST_HELD_BYTES)
            yield cast(IO[bytes], sink)
            self._make_room(sink.tell())
            if sink.is_small:
                self._send(partial(self._put, key, sink.content), sink.tell())
            else:
                self._send_rest(stack.pop_all(), sink.tell())

    def put(self, key: str, make: Callable[[], bytes], *, size_bytes: int) -> None:
        self._small[key] = make
        self._small_bytes += size_bytes
        if not self._has_first or len(self._small) == _FILES_A_CALL or self._small_bytes > _MOST_HELD_BYTES:
            self._send_small()

    def settle(self) -> None:
        self._send_small()
        super().settle()

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        self._small.clear()
        return super().delete(keys)

    def _send_small(self) -> None:
        if self._small:
            small, size = self._small, self._small_bytes
            self._small, self._small_bytes = {}, 0
            self._make_room(size)
            self._send(lambda: self._store.write({key: make() for key, make in small.items()}), size)

    def _is_full(self, size: int) -> bool:
        return len(self._closing) >= _MOST_FILES_BEHIND or super()._is_full(size)

    def _send(
        self, close: Callable[[], None], size: int, *, give_up: Callable[[BaseException], object] = lambda error: None
    ) -> None:
        if self._has_first:
            super()._send(close, size, give_up=give_up)
            return
        self._has_first = True
        close()
