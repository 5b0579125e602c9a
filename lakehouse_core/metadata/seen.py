"""Seen: a store for verbs that only read, in which each listing and each small object is that of the first question.

Rule: what was not there at the first question stays missing, also an object whose folder was listed without it. Such a
store serves one call and is dropped then, so that no later call misses a newer snapshot.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import IO, Any, Final, NoReturn

import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, NotFound
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.storage.object_store import Children, ObjectInfo, ObjectStore
from lakehouse_core.table.layout import MANIFEST_FOLDER, PENDING_FOLDER

# Objects of any size, which never change or are read by one caller.
_LARGE: Final = (f"{MANIFEST_FOLDER}/", f"{PENDING_FOLDER}/")


class SeenStore:
    """Answers from memory what was asked before. Manifests, staged commits and data files are not remembered."""

    folders = None

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.spec = store.spec
        self.requests_at_once = store.requests_at_once
        self.sinks_at_once = store.sinks_at_once
        self._objects: dict[str, bytes | None] = {}
        self._children: dict[str, Children] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the store without what was seen; another process reads again."""
        return SeenStore, (self._store,)

    def at(self, prefix: str, *, is_table: bool = False) -> "SeenStore":
        return SeenStore(self._store.at(prefix, is_table=is_table))

    def uri(self, key: str) -> str:
        return self._store.uri(key)

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        return self._store.open_read(key, size)

    def read(self, key: str) -> bytes:
        data = self.read_found([key]).get(key)
        if data is None:
            raise NotFound(f"{self.uri(key)}: the object does not exist. Check the name.")
        return data

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        asked = list(dict.fromkeys(keys))
        unknown = [key for key in asked if key not in self._objects and not self._is_unlisted(key)]
        found = self._store.read_found(unknown) if unknown else {}
        for key in unknown:
            if not key.startswith(_LARGE):
                # Threads may share a moment: what another one has seen meanwhile holds.
                self._objects.setdefault(key, found.get(key))
        data = ((key, self._objects[key] if key in self._objects else found.get(key)) for key in asked)
        return {key: each for key, each in data if each is not None}

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        return self._store.read_versioned(key)

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        return self._store.infos(keys)

    def children(self, prefix: str) -> Children:
        if prefix not in self._children:
            self._children.setdefault(prefix, self._store.children(prefix))
        return self._children[prefix]

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._store.list(prefix)

    def now_millis(self) -> int:
        return self._store.now_millis()

    def create_new(self, key: str, data: bytes) -> bool:
        self._refuse(key)

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        self._refuse(*objects)

    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        self._refuse(key)

    def make_last(self, keys: Iterable[str]) -> None:
        self._refuse(*keys)

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        self._refuse(key)

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        self._refuse(*keys)

    def _is_unlisted(self, key: str) -> bool:
        folder, _, name = key.rpartition("/")
        listed = self._children.get(folder)
        return listed is not None and name not in listed.files

    def _refuse(self, *keys: str) -> NoReturn:
        raise InvalidRequest(
            f"{self.uri(keys[0] if keys else '')}: this handle shows one moment of the table and reads only. Change "
            "the table by the handle that it was made of."
        )


def see(store: SeenStore, keys: Iterable[str] = (), *, folders: Iterable[str] = ()) -> None:
    """Read these objects and list these folders together, in one round trip where the store can."""
    tasks: list[Callable[[], object]] = [partial(store.read_found, keys)]
    tasks += [partial(store.children, folder) for folder in folders]
    for _ in in_order(lambda task: task(), tasks, at_once=store.requests_at_once):
        pass
