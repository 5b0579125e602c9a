"""From a specification to the store it means: what a task does first in its own process."""

from typing import assert_never

from lakehouse_core.storage.local import LocalStore
from lakehouse_core.storage.memory import MemoryStore
from lakehouse_core.storage.object_store import ObjectStore, StoreSpec


def open_store(spec: StoreSpec) -> ObjectStore:
    """Return the store that `spec` describes. A memory store is found only in the process that made it."""
    match spec.scheme:
        case "file":
            return LocalStore(spec.root)
        case "memory":
            name, _, prefix = spec.root.partition("/")
            return MemoryStore(name, prefix=prefix)
        case _:
            assert_never(spec.scheme)
