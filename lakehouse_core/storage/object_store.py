"""Object store: whole objects under string keys, the core's only access to storage.

A key is a relative path with "/" between its parts. Keys are relative to the store's root; `at` returns a store with a
deeper root, so that table code uses keys relative to the table ("snapshot/snapshot-3"). Rule: NotFound is raised only
if the storage reported it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Final, Literal, Protocol, TypeVar

import pyarrow as pa

from lakehouse_core.errors import NotFound, TableDropped

R = TypeVar("R")

NOT_THERE: Final = (
    "the folder of the table is gone: the table was dropped or renamed. Open it again under its present name."
)


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A store's address for other processes, without clients and secrets.

    `root`: a path, or bucket and prefix. `settings`: how a store over a network is reached, by name. `is_table`: see
    `StoreReader.at`.
    """

    scheme: Literal["file", "memory", "s3", "az"]
    root: str
    settings: tuple[tuple[str, str], ...] = ()
    is_table: bool = False


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object of a listing: size in bytes; `modified_millis` by the storage's clock."""

    key: str
    size: int
    modified_millis: int


@dataclass(frozen=True, slots=True)
class Children:
    """The names (not the keys) directly below a prefix, sorted."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


class FileOpener(Protocol):
    """What a reader of data files needs of a store."""

    @property
    def requests_at_once(self) -> int:
        """The number of requests that take as long together as one; 1 for a disk, which is fastest one by one."""
        ...

    def uri(self, key: str) -> str:
        """Return the address at which another program finds the object (`file:///…`)."""
        ...

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        """Return the object as a seekable file. Raises NotFound, StorageUnavailable.

        `size`: the object's size in bytes if the caller knows it, which saves some stores a request.
        """
        ...


class StoreReader(FileOpener, Protocol):
    """The reading verbs of a store. A component that takes a StoreReader cannot write."""

    @property
    def spec(self) -> StoreSpec:
        """The store's address: another process opens the store by `open_store(spec)`."""
        ...

    def at(self, prefix: str, *, is_table: bool = False) -> "StoreReader":
        """Return this store rooted at `prefix`.

        `is_table`: that is the folder of a table that is there. Where folders move, each call raises TableDropped once
        the folder has moved or is gone; another store would find nothing, or make the folder anew.
        """
        ...

    def read(self, key: str) -> bytes:
        """Return the whole object. Raises NotFound, StorageUnavailable."""
        ...

    def read_found(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        """Return whole objects by key, in this order, without missing ones. Raises StorageUnavailable."""
        ...

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        """Return the object and its version for `replace`, None if it does not exist."""
        ...

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        """Return size and time of these objects by key, in this order, without missing ones."""
        ...

    def children(self, prefix: str) -> Children:
        """Return the names directly below `prefix`, none if it does not exist. Hidden temporary files are excluded."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object below `prefix`, at any depth, unsorted, including hidden temporary files. Raises
        StorageUnavailable rather than yield a part.
        """
        ...


class ObjectStore(StoreReader, Protocol):
    """Create-if-absent and compare-and-set are the only locks that the core relies on."""

    @property
    def folders(self) -> "Folders | None":
        """The folders of this store; None if the store has keys only, as object stores do."""
        ...

    def at(self, prefix: str, *, is_table: bool = False) -> "ObjectStore": ...

    @property
    def sinks_at_once(self) -> int:
        """The number of written objects that become durable together in about the time of one."""
        ...

    def create_new(self, key: str, data: bytes) -> bool:
        """Create the object atomically and durably; return False if another object has `key`.

        An object that this call created never counts as another one, whatever the storage answered. Raises
        WriteOutcomeUnknown.
        """
        ...

    def write(self, objects: Mapping[str, bytes], *, durable: bool = True) -> None:
        """Write whole objects by key, each atomically, in the place of older ones. All are durable when the call
        returns. Raises StorageFull, WriteOutcomeUnknown; then some of the objects may exist.

        Without `durable` an object may be an older one or damaged after a power cut, which is faster and enough for a
        hint.
        """
        ...

    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Return a sink; the object appears when the block ends without an exception, and otherwise never."""
        ...

    def make_last(self, keys: Iterable[str]) -> None:
        """Make the present state of these objects durable: existing ones stay, and missing ones stay deleted.

        For objects that another process wrote or deleted, or whose write had a lost answer. Raises WriteOutcomeUnknown.
        """
        ...

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        """Replace the object if it has version `if_version` (None: if it does not exist); return False otherwise."""
        ...

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        """Delete objects, ignoring missing ones; return the keys that could not be deleted.

        Raises WriteOutcomeUnknown if deleted objects may reappear.
        """
        ...

    def now_millis(self) -> int:
        """Return the storage's time in milliseconds since 1970."""
        ...


class Folders(Protocol):
    """The folders of a store that has real ones, which can be empty and move as a whole."""

    def delete(self, prefix: str) -> Sequence[str]:
        """Delete a folder and all that is below it, hidden objects too; return the keys that could not be deleted.

        A link is deleted itself; its target stays.
        """
        ...

    def delete_empty(self, prefix: str) -> None:
        """Delete empty folders at and below `prefix`, and no file."""
        ...

    def rename(self, source: str, target: str) -> bool:
        """Move a folder within the store; return False if `target` exists. Raises NotFound, WriteOutcomeUnknown."""
        ...


def read_all(store: StoreReader, keys: Iterable[str]) -> Iterator[bytes]:
    """Yield whole objects, in the order of `keys`. Raises NotFound at the first that is missing."""
    rest = iter(keys)
    while some := list(islice(rest, store.requests_at_once)):
        found = store.read_found(some)
        yield from (found[key] if key in found else store.read(key) for key in some)


def delete_folder(store: ObjectStore, prefix: str) -> Sequence[str]:
    """Delete all objects below `prefix`, hidden ones too; return the keys that could not be deleted."""
    if store.folders is not None:
        return store.folders.delete(prefix)
    return store.delete([info.key for info in store.list(prefix)])


def each_found(get: Callable[[str], R], keys: Iterable[str]) -> dict[str, R]:
    """Return what `get` returns for each key, without the objects that are missing. Raises as `get` does otherwise,
    TableDropped too.
    """
    found: dict[str, R] = {}
    for key in keys:
        try:
            found[key] = get(key)
        except TableDropped:
            raise
        except NotFound:
            continue
    return found
