"""Look: small objects of a table, each read once at one moment, together where the store can.

Rule: an object that was asked for and is not there stays missing for this look. Another look reads anew.
"""

from collections.abc import Iterable

from lakehouse_core.storage.object_store import StoreReader


class Look:
    """The objects that were read so far, and the keys of those that are missing. `store` is rooted at the table."""

    def __init__(self, store: StoreReader, keys: Iterable[str] = ()) -> None:
        self._store = store
        self._found: dict[str, bytes | None] = {}
        self.ask(keys)

    def ask(self, keys: Iterable[str]) -> None:
        """Read these objects, except those that were asked for before. Raises StorageUnavailable."""
        unknown = [key for key in keys if key not in self._found]
        if unknown:
            found = self._store.read_found(unknown)
            self._found.update((key, found.get(key)) for key in unknown)

    def known(self, key: str) -> bytes | None:
        """Return the object, None if it is missing or was not asked for."""
        return self._found.get(key)

    def lacks(self, key: str) -> bool:
        """Return whether the object was asked for and is missing."""
        return key in self._found and self._found[key] is None

    def get(self, key: str) -> bytes | None:
        """Return the object, None if it is missing. Reads it if it was not asked for before."""
        self.ask([key])
        return self._found[key]
