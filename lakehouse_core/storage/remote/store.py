"""Store over a network: objects below a prefix of one bucket of a service.

Rule: a conditional request is sent once; an answer that does not say what became of it is an unknown outcome, which
callers resolve by reading.
Source: docs/reliability/store.md#object-stores, docs/decisions/0022-s3-stores.md.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import IO, Any, Final, cast
from weakref import finalize

import pyarrow as pa

from lakehouse_core.clock import Clock, SystemClock
from lakehouse_core.errors import StorageUnavailable, UnsupportedFeature
from lakehouse_core.storage.decider_marks import check_undecided
from lakehouse_core.storage.held_sink import HeldSink
from lakehouse_core.storage.keys import is_hidden, joined, key_parts, temp_name
from lakehouse_core.storage.object_store import Children, ObjectInfo, StoreSpec
from lakehouse_core.storage.remote.conditions import check_conditions
from lakehouse_core.storage.remote.files import RangeFile
from lakehouse_core.storage.remote.requests import Requests, or_none
from lakehouse_core.storage.remote.room import ROOM
from lakehouse_core.storage.remote.service import Service
from lakehouse_core.storage.remote.settings import RemoteSettings

# Up to this size an object is read whole where there is room; a larger one in ranges. Readers hold the smallest anyway.
_WHOLE_BYTES: Final = 32 << 20
_LEAST_BYTES: Final = 64 << 10
# A larger object is uploaded in parts while it is written.
_ONE_PART_BYTES: Final = 64 << 20
_PART_BYTES: Final = 16 << 20
_DELETED_AT_ONCE: Final = 1_000
# The warehouses in which no database decides.
_UNDECIDED: Final[set[tuple[RemoteSettings, str]]] = set()


class RemoteStore:
    """An ObjectStore in a bucket of a service. It has no folders: keys are all there is.

    `warehouse`: the prefix of the warehouse whose writers the store is for; None: it is for tasks, or for no warehouse.
    """

    folders = None

    def __init__(
        self, service: Service, spec: StoreSpec, *, clock: Clock | None = None, warehouse: str | None = None
    ) -> None:
        self.settings = service.settings.parsed(spec)
        self.service = service
        self._clock = clock or SystemClock()
        self._prefix = "/".join(key_parts(spec.root.partition("/")[2]))
        self.spec = StoreSpec(self.settings.scheme, joined(self.settings.bucket, self._prefix), self.settings.named)
        self.requests_at_once = self.sinks_at_once = self.settings.connections
        self._warehouse = warehouse
        self._requests = Requests(service, self.settings, self._prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address; another process opens the store with its own credentials."""
        return _reopened, (self.service.opened, self.spec, self._warehouse)

    def at(self, prefix: str, *, is_table: bool = False) -> "RemoteStore":
        spec = replace(self.spec, root=joined(self.spec.root, prefix))
        return RemoteStore(self.service, spec, clock=self._clock, warehouse=self._warehouse)

    def uri(self, key: str) -> str:
        return self._requests.uri(key)

    def read(self, key: str) -> bytes:
        return self._requests.get(key)[0]

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        asked = list(keys)
        found = zip(asked, self._requests.at_once(or_none(self.read), asked), strict=True)
        return {key: data for key, data in found if data is not None}

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        return or_none(self._requests.get)(key)

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        if size is None:
            size = self._requests.head(key).size
        if size <= min(_LEAST_BYTES, _WHOLE_BYTES):
            return pa.BufferReader(self.read(key))
        if size <= _WHOLE_BYTES and ROOM.take(size):
            return pa.BufferReader(pa.py_buffer(self._held(key, size)))
        with self._requests.answers.reading(key):
            return pa.PythonFile(RangeFile(partial(self._requests.get_range, key), size), mode="r")

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        return self._requests.heads(list(keys))

    def children(self, prefix: str) -> Children:
        objects, folders = self._requests.level(prefix)
        return Children(
            files=tuple(sorted(name for name in objects if name and not is_hidden(name))),
            folders=tuple(sorted(name for name in folders if not is_hidden(name))),
        )

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for infos in self._requests.pages(prefix):
            marks = self._marks([info.key for info in infos if not info.size])
            yield from (info for info in infos if info.key not in marks)

    def create_new(self, key: str, data: bytes) -> bool:
        return self._put_if(key, data, "create")

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        for key in objects:
            self._requests.path(key)
        if objects:
            self._check_writable()
        self._requests.at_once(
            lambda item: self._requests.put(*item, in_parts=len(item[1]) > _ONE_PART_BYTES), list(objects.items())
        )

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        self._requests.path(key)
        self._check_writable()
        with ExitStack() as stack:
            upload = partial(self._requests.upload, key, part_bytes=_PART_BYTES)
            sink = HeldSink(lambda: stack.enter_context(upload()), most_bytes=_ONE_PART_BYTES)
            yield cast(IO[bytes], sink)
            if sink.is_small:
                self.write({key: sink.content()})
            else:
                stack.close()

    def make_last(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._requests.path(key)

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        return self._put_if(key, data, "create" if if_version is None else {"e_tag": if_version})

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        asked = list(keys)
        for key in asked:
            self._requests.path(key)
        rest = iter(asked)
        while some := list(islice(rest, _DELETED_AT_ONCE)):
            self._requests.delete(some)
        return ()

    def now_millis(self) -> int:
        key = self._temp_key("now")
        try:
            self.write({key: b""})
            return self._requests.head(key).modified_millis
        finally:
            # The object may be there whatever the answer was.
            with suppress(StorageUnavailable):
                self.delete([key])

    def _held(self, key: str, size: int) -> memoryview:
        """Return the whole object. Its room of `size` bytes is given back when it is not used any more."""
        try:
            held = memoryview(self.read(key))
        except BaseException:
            ROOM.give(size)
            raise
        finalize(held, ROOM.give, size).atexit = False
        return held

    def _check_writable(self) -> None:
        """Raise UnsupportedFeature or InvalidRequest if the store cannot decide which writer wins. Asks once in a
        process.
        """
        check_conditions(self._requests, self._temp_key)
        place = (self.settings, self._warehouse or "")
        if self._warehouse is None or not self.settings.has_conditions or place in _UNDECIDED:
            return
        spec = replace(self.spec, root=joined(self.settings.bucket, self._warehouse))
        check_undecided(RemoteStore(self.service, spec, clock=self._clock))
        _UNDECIDED.add(place)

    def _marks(self, keys: Sequence[str]) -> frozenset[str]:
        """Return which of these empty objects are other engines' marks for folders: the client tells the key of a mark
        without its last slash, and there is no object of that key.
        """
        return frozenset(keys) - self.infos(keys).keys() if keys else frozenset()

    def _put_if(self, key: str, data: bytes, mode: Any) -> bool:
        if not self.settings.has_conditions:
            raise UnsupportedFeature(
                f"{self.uri(key)}: the store has no conditional writes (storage: conditional-writes=false), so the "
                "database of a SQL catalog must decide. Connect with metastore=, and write there. Nothing was written."
            )
        self._check_writable()
        return self._requests.put_if(key, data, mode)

    def _temp_key(self, name: str) -> str:
        """Return a fresh hidden key."""
        return temp_name(name, self._clock.uuid())


def for_writers(store: RemoteStore) -> RemoteStore:
    """Return the store for writers of the warehouse at its root."""
    return RemoteStore(store.service, store.spec, clock=store._clock, warehouse=store._prefix)


def _reopened(opened: Callable[[StoreSpec], RemoteStore], spec: StoreSpec, warehouse: str | None) -> RemoteStore:
    store = opened(spec)
    return store if warehouse is None else RemoteStore(store.service, spec, warehouse=warehouse)
