"""Whole objects under string keys: the only way in which the core touches storage.

A key is a relative path with "/" between its parts. A store is rooted somewhere; `at` roots it deeper, so that table
code uses keys relative to the table ("snapshot/snapshot-3"). "Not found" is raised only when the storage said so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, Literal, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """How to reach a store from another process; it never holds a client or a secret."""

    scheme: Literal["file", "memory"]
    root: str


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object of a listing. `modified_millis` is the storage's clock."""

    key: str
    size: int
    modified_millis: int


@dataclass(frozen=True, slots=True)
class Children:
    """The names directly below a prefix, sorted; not their keys."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


class StoreReader(Protocol):
    """The reading verbs of a store. A component that takes a StoreReader cannot write."""

    @property
    def spec(self) -> StoreSpec:
        """How another process opens the same store: `open_store(spec)`."""
        ...

    def at(self, prefix: str) -> "StoreReader":
        """Return this store rooted at `prefix`."""
        ...

    def uri(self, key: str) -> str:
        """Return the address at which another program finds the object (`file:///…`)."""
        ...

    def read(self, key: str) -> bytes:
        """Return the whole object. Raises NotFound, StorageUnavailable."""
        ...

    def read_all(self, keys: Iterable[str]) -> Iterator[bytes]:
        """Yield whole objects, in the order of `keys`. Raises NotFound at the first that is missing."""
        ...

    def read_versioned(self, key: str) -> tuple[bytes, str] | None:
        """Return the object and its version for `replace`, or None when there is none."""
        ...

    def open_read(self, key: str, size: int | None = None) -> pa.NativeFile:
        """Return the object as a seekable file. Raises NotFound, StorageUnavailable.

        `size` in bytes, if the caller knows it: a store that would have to ask for it need not.
        """
        ...

    def infos(self, keys: Iterable[str]) -> Mapping[str, ObjectInfo]:
        """Return what is known of these objects by key, in this order; those that are missing are left out."""
        ...

    def children(self, prefix: str) -> Children:
        """Return the names directly below `prefix`; empty when there is no such prefix. Hidden temp files excluded."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object below `prefix`, deep, all pages or an error; unsorted. Hidden temp files included."""
        ...


class ObjectStore(StoreReader, Protocol):
    """Create-if-absent and compare-and-set are the only locks that the core relies on."""

    @property
    def folders(self) -> "FolderStore | None":
        """This store as one that can move folders; None where keys alone exist, as on object stores."""
        ...

    def at(self, prefix: str) -> "ObjectStore":
        """Return this store rooted at `prefix`."""
        ...

    def create_new(self, key: str, data: bytes) -> bool:
        """Create the object atomically and durably; False when another one has `key` already.

        What this very call created is never another one, whatever the storage answered. Raises WriteOutcomeUnknown.
        """
        ...

    def write(self, key: str, data: bytes, *, durable: bool = True) -> None:
        """Write the whole object, replacing an older one at once. Raises StorageFull, WriteOutcomeUnknown.

        Without `durable` it may be older or garbage again after a power cut: enough for a hint, and faster.
        """
        ...

    def write_all(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects by key, each at once; at return all of them last.

        Raises as `write` does; some of them may be there then.
        """
        ...

    def open_write(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Return a sink; the object appears when the block ends well and never when an exception leaves it."""
        ...

    def make_last(self, keys: Iterable[str]) -> None:
        """Make what was found of these objects last: those that are there stay, and those that are gone stay gone.

        For objects that another process made, or whose write had a lost answer. Raises WriteOutcomeUnknown.
        """
        ...

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        """Compare-and-set; `if_version` None means "must not exist". False when another version is there."""
        ...

    def delete(self, keys: Iterable[str]) -> Sequence[str]:
        """Delete objects (missing ones are fine) and return the keys that could not be deleted.

        Raises WriteOutcomeUnknown when the names that went may come back.
        """
        ...

    def delete_folder(self, prefix: str) -> Sequence[str]:
        """Delete everything below `prefix`, hidden or not, and the folder; return what could not be deleted.

        Where the store has links, they go themselves, and nothing behind them does.
        """
        ...

    def now_millis(self) -> int:
        """Return the storage's own clock."""
        ...


class FolderStore(ObjectStore, Protocol):
    """A store whose folders exist by themselves: they can be empty, and move whole. Reached by `ObjectStore.folders`.

    A wrapper has folders where what it wraps has them, so a look at its methods would not tell.
    """

    def delete_empty_folders(self, prefix: str) -> None:
        """Remove folders at and below `prefix` that hold nothing; never a file."""
        ...

    def rename_folder(self, source: str, target: str) -> bool:
        """Move a folder within this store; False when `target` exists. Raises NotFound, WriteOutcomeUnknown."""
        ...
