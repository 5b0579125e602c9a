"""Memory store: a linearizable, versioned store that ends with the process. For tests and experiments.

Stores of one name share their objects while any of them exists, so `open_store(spec)` finds them in this process.
"""

import io
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any
from weakref import WeakValueDictionary

import pyarrow as pa

from lakehouse_core.clock import Clock, SystemClock
from lakehouse_core.errors import InvalidRequest, NotFound, TableDropped
from lakehouse_core.storage.keys import is_hidden, joined, key_parts
from lakehouse_core.storage.object_store import NOT_THERE, Children, ObjectInfo, StoreSpec


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    version: str
    modified_millis: int


@dataclass(eq=False, weakref_slot=True, slots=True)
class _Space:
    """The objects of all stores of one name, and the clock for their times."""

    name: str
    clock: Clock
    objects: dict[str, _Object] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    versions: Iterator[int] = field(default_factory=itertools.count)

    def below(self, prefix: str) -> dict[str, _Object]:
        """Return the objects below `prefix` with keys relative to it, as of one moment."""
        start = f"{prefix}/" if prefix else ""
        with self.lock:
            return {key.removeprefix(start): one for key, one in self.objects.items() if key.startswith(start)}

    def has_below(self, prefix: str) -> bool:
        """Return whether an object is below `prefix`, which costs no more than to find the first one."""
        start = f"{prefix}/" if prefix else ""
        with self.lock:
            return any(key.startswith(start) for key in self.objects)


_SPACES: WeakValueDictionary[str, _Space] = WeakValueDictionary()
_SPACES_LOCK = threading.Lock()
_UNNAMED = itertools.count(1)


class MemoryStore:
    """An ObjectStore in this process's memory. Without a name it is new and found only by its `spec`.

    `clock` gives the times of objects; that of the first store of a name is used.
    """

    requests_at_once = 1
    sinks_at_once = 1

    def __init__(
        self, name: str | None = None, *, prefix: str = "", clock: Clock | None = None, is_table: bool = False
    ) -> None:
        self._name = name or f"memory-{next(_UNNAMED)}"
        self._prefix = "/".join(key_parts(prefix))
        self.spec = StoreSpec("memory", joined(self._name, self._prefix), is_table=is_table)
        with _SPACES_LOCK:
            space = _SPACES.get(self._name)
            if space is None:
                space = _Space(self._name, clock or SystemClock())
                _SPACES[self._name] = space
        self._space = space
        self.folders = MemoryFolders(space, self._prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidRequest(
            f"{self.uri('')}: a memory store belongs to one process and cannot be pickled. Use a folder."
        )

    def at(self, prefix: str, *, is_table: bool = False) -> "MemoryStore":
        return MemoryStore(self._name, prefix=joined(self._prefix, prefix), is_table=is_table)

    def uri(self, key: str) -> str:
        return f"memory://{joined(self._name, self._key(key))}"

    def read(self, key: str) -> bytes:
        return self._object(key).data

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        return {key: one.data for key, one in self._found(keys).items()}

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        return pa.BufferReader(self._object(key).data)

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        found = self._found(keys).items()
        return {key: ObjectInfo(key, len(one.data), one.modified_millis) for key, one in found}

    def create_new(self, key: str, data: bytes) -> bool:
        with self._space.lock:
            if self._key(key) in self._space.objects:
                return False
            self._put(key, data)
            return True

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        for key in objects:
            key_parts(key)
        for key, data in objects.items():
            with self._space.lock:
                self._put(key, data)

    @contextmanager
    def open_write(self, key: str) -> Iterator[IO[bytes]]:
        self._key(key)
        with _Sink() as sink:
            yield sink
            self.write({key: sink.getvalue()})

    def make_last(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._key(key)

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        found = self._found([key]).get(key)
        return None if found is None else (found.data, found.version)

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        with self._space.lock:
            found = self._found([key]).get(key)
            if (None if found is None else found.version) != if_version:
                return False
            self._put(key, data)
            return True

    def children(self, prefix: str) -> Children:
        files: set[str] = set()
        folders: set[str] = set()
        for key, _ in self._below(prefix):
            name, *deeper = key.split("/", 1)
            if not is_hidden(name):
                (folders if deeper else files).add(name)
        return Children(files=tuple(sorted(files)), folders=tuple(sorted(folders)))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for key, found in self._below(prefix):
            yield ObjectInfo(key=joined(prefix, key), size=len(found.data), modified_millis=found.modified_millis)

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        for key in keys:
            with self._space.lock:
                if self._space.objects.pop(self._key(key), None) is None:
                    self._check_there()
        return ()

    def now_millis(self) -> int:
        return self._space.clock.now_millis()

    def _key(self, key: str) -> str:
        return joined(self._prefix, key)

    def _found(self, keys: Iterable[str]) -> Mapping[str, _Object]:
        found = {key: self._space.objects.get(self._key(key)) for key in keys}
        if None in found.values():
            self._check_there()
        return {key: one for key, one in found.items() if one is not None}

    def _check_there(self) -> None:
        """Raise TableDropped if the store is that of a table whose folder has moved or is gone."""
        if self.spec.is_table and not self._space.has_below(self._prefix):
            raise TableDropped(f"{self.uri('')}: {NOT_THERE}")

    def _object(self, key: str) -> _Object:
        found = self._found([key]).get(key)
        if found is None:
            raise NotFound(f"{self.uri(key)}: the object does not exist. Check the name.")
        return found

    def _put(self, key: str, data: bytes) -> None:
        self._check_there()
        self._space.objects[self._key(key)] = _Object(
            bytes(data), str(next(self._space.versions)), self._space.clock.now_millis()
        )

    def _below(self, prefix: str) -> Iterator[tuple[str, _Object]]:
        """Yield the objects below `prefix`, as of one moment, with keys relative to it."""
        with self._space.lock:
            found = self._space.below(self._key(prefix))
            if not found:
                self._check_there()
        return iter(found.items())


class MemoryFolders:
    """Folders of a memory store, which are there while they hold an object."""

    def __init__(self, space: _Space, prefix: str) -> None:
        self._space = space
        self._prefix = prefix

    def delete(self, prefix: str) -> Sequence[str]:
        folder = joined(self._prefix, prefix)
        with self._space.lock:
            for key in self._space.below(folder):
                del self._space.objects[joined(folder, key)]
        return ()

    def delete_empty(self, prefix: str) -> None:
        key_parts(prefix)

    def rename(self, source: str, target: str) -> bool:
        old, new = joined(self._prefix, source), joined(self._prefix, target)
        with self._space.lock:
            moving = self._space.below(old)
            if not moving:
                raise NotFound(f"memory://{joined(self._space.name, old)}: the folder does not exist. Check the name.")
            if new in self._space.objects or self._space.has_below(new):
                return False
            for key, found in moving.items():
                del self._space.objects[joined(old, key)]
                self._space.objects[joined(new, key)] = found
            return True


class _Sink(io.BytesIO):
    """A buffer of written bytes, which keeps them if a writer closes it early, as Parquet writers do."""

    def close(self) -> None:
        """Do nothing: the block that opened the sink stores or drops the buffer."""

    def __exit__(self, *_: object) -> None:
        return None
