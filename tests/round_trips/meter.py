"""Meter: how many requests a verb makes to an object store, and how many of them wait for one another.

A round trip is one request, or up to 32 requests that the store sends at once. Each thread has a time of its own, in
round trips. A task of a pool begins when it was submitted, or when one of the pool's threads is free; who asks for its
result waits for its end. So the depth of a verb is the same in every run, whatever the threads really do.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Any, TypeVar
from unittest import mock
from weakref import WeakKeyDictionary

import pyarrow as pa
import sqlalchemy as sa

from lakehouse_core.catalog.sql.address import SqlAddress
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.tables import ALL
from lakehouse_core.storage import Children, MemoryStore, ObjectInfo
from lakehouse_core.storage.keys import joined

T = TypeVar("T")

# What an object store sends at once, deletes in one request, and lists in one page.
AT_ONCE = 32
DELETED_AT_ONCE = 1_000
LISTED_AT_ONCE = 1_000


@dataclass(slots=True)
class Meter:
    """The requests of all threads, each with its key, and the time of each thread in round trips."""

    requests: list[str] = field(default_factory=list)
    _times: threading.local = field(default_factory=threading.local)

    @property
    def now(self) -> int:
        """The time of this thread."""
        return getattr(self._times, "now", 0)

    @now.setter
    def now(self, trips: int) -> None:
        self._times.now = trips

    def trips(self, method: str, keys: Sequence[str], *, at_once: int = 1) -> None:
        """Count one request per key, `at_once` of them in a round trip; none for no key."""
        self.requests.extend(f"{method} {key}" for key in keys)
        self.now += -(-len(keys) // at_once)


@dataclass(slots=True)
class _Pool:
    """The times at which the threads of a pool are free."""

    free: list[int]
    unplaced: list["_Task"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Task:
    submitted: int
    pool: _Pool
    done: threading.Event = field(default_factory=threading.Event)
    lasted: int = 0
    end: int | None = None

    def ended(self) -> int:
        """Return the task's end, once the tasks that were submitted before it have their places."""
        while self.end is None:
            first = self.pool.unplaced.pop(0)
            first.done.wait()
            thread = min(range(len(self.pool.free)), key=self.pool.free.__getitem__)
            first.end = max(first.submitted, self.pool.free[thread]) + first.lasted
            self.pool.free[thread] = first.end
        return self.end


@contextmanager
def metered() -> Iterator[Meter]:
    """Count while the block runs. Thread pools of the block take the caller's time with them."""
    meter = Meter()
    pools: WeakKeyDictionary[ThreadPoolExecutor, _Pool] = WeakKeyDictionary()
    tasks: WeakKeyDictionary[Future[Any], _Task] = WeakKeyDictionary()
    submit, result = ThreadPoolExecutor.submit, Future.result

    def submitted(pool: ThreadPoolExecutor, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        known = pools.setdefault(pool, _Pool([0] * pool._max_workers))
        task = _Task(meter.now, known)
        known.unplaced.append(task)

        def timed() -> T:
            meter.now = 0
            try:
                return function(*args, **kwargs)
            finally:
                task.lasted = meter.now
                task.done.set()

        future = submit(pool, timed)
        tasks[future] = task
        return future

    def awaited(future: Future[T], timeout: float | None = None) -> T:
        try:
            return result(future, timeout)
        finally:
            if future in tasks:
                meter.now = max(meter.now, tasks[future].ended())

    with mock.patch.object(ThreadPoolExecutor, "submit", submitted), mock.patch.object(Future, "result", awaited):
        yield meter


class MeteredStore:
    """A memory store that counts its requests as an object store over a network would send them. It has no folders."""

    folders = None
    requests_at_once = AT_ONCE
    sinks_at_once = AT_ONCE

    def __init__(self, inner: MemoryStore, meter: Meter, prefix: str = "") -> None:
        self._inner = inner
        self.spec = inner.spec
        self._meter = meter
        self._prefix = prefix

    def at(self, prefix: str, *, is_table: bool = False) -> "MeteredStore":
        return MeteredStore(self._inner.at(prefix), self._meter, joined(self._prefix, prefix))

    def uri(self, key: str) -> str:
        return self._inner.uri(key)

    def read(self, key: str) -> bytes:
        self._one("GET", key)
        return self._inner.read(key)

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        asked = list(keys)
        self._many("GET", asked)
        return self._inner.read_found(asked)

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        self._one("GET", key)
        return self._inner.read_versioned(key)

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        # Small objects are fetched whole; to know that one is small takes a request.
        if size is None:
            self._one("HEAD", key)
        self._one("GET", key)
        return self._inner.open_read(key, size)

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        asked = list(keys)
        self._many("HEAD", asked)
        return self._inner.infos(asked)

    def children(self, prefix: str) -> Children:
        found = self._inner.children(prefix)
        self._pages(prefix, len(found.files) + len(found.folders))
        return found

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found = list(self._inner.list(prefix))
        self._pages(prefix, len(found))
        return iter(found)

    def create_new(self, key: str, data: bytes) -> bool:
        self._one("PUT", key)
        return self._inner.create_new(key, data)

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        self._many("PUT", list(objects))
        self._inner.write(objects, durable=durable)

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        with self._inner.open_write(key) as sink:
            yield sink
        self._one("PUT", key)

    def make_last(self, keys: Iterable[str]) -> None:
        """Do nothing: an object store's writes and deletes last when they are answered."""

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        self._one("PUT", key)
        return self._inner.replace(key, data, if_version=if_version)

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        gone = list(keys)
        self._meter.trips("DELETE", [f"{len(gone)} keys"] * -(-len(gone) // DELETED_AT_ONCE))
        return self._inner.delete(gone)

    def now_millis(self) -> int:
        self._one("PUT", "now")
        self._one("HEAD", "now")
        return self._inner.now_millis()

    def _one(self, method: str, key: str) -> None:
        self._many(method, [key])

    def _many(self, method: str, keys: Sequence[str]) -> None:
        self._meter.trips(method, [joined(self._prefix, key) for key in keys], at_once=AT_ONCE)

    def _pages(self, prefix: str, names: int) -> None:
        self._meter.trips("LIST", [f"{joined(self._prefix, prefix)}/"] * max(1, -(-names // LISTED_AT_ONCE)))


class MeteredDatabase(SqlDatabase):
    """A database that counts what waits for its server: connections, statements, and commits of transactions."""

    def __init__(self, address: SqlAddress, meter: Meter, tables: tuple[sa.Table, ...] = ALL) -> None:
        super().__init__(address, tables)
        self._meter = meter

    @cached_property
    def _engine(self) -> sa.Engine:
        engine = super()._engine
        sa.event.listen(engine, "connect", lambda *_: self._meter.trips("SQL", ["connect"]))
        sa.event.listen(engine, "before_cursor_execute", self._asked)
        return engine

    def _asked(self, connection: sa.Connection, cursor: Any, statement: str, *more: object) -> None:
        # A server begins a transaction with its first statement.
        if not statement.startswith("BEGIN"):
            self._meter.trips("SQL", [" ".join(statement.split())[:80]])

    def _commit(self, transaction: sa.RootTransaction) -> None:
        self._meter.trips("SQL", ["commit"])
        super()._commit(transaction)
