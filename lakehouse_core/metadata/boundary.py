"""Boundary: the smallest snapshot id that has not expired. Expiry raises it before it deletes.

Rule: the boundary never goes down. An id below it has expired; a file of such an id is ignored.
"""

from typing import Final

from lakehouse_core.errors import StorageUnavailable
from lakehouse_core.metadata.look import Look
from lakehouse_core.retry import Retry
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import replaced
from lakehouse_core.table.boundary import parse_boundary, serialize_boundary
from lakehouse_core.table.layout import TableLayout

_RAISING: Final = Retry()


class Boundary:
    """The boundary of one branch. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._key = layout.boundary

    @property
    def key(self) -> str:
        """The key of the boundary's file."""
        return self._key

    def first_id(self, look: Look | None = None) -> int:
        """Return the smallest id that has not expired; 0 if no boundary is set. Raises CorruptTable.

        `look`: the look that answers; None reads now.
        """
        data = (look or Look(self._store)).get(self._key)
        return 0 if data is None else parse_boundary(data, self._store.uri(self._key))

    def advance(self, first_kept_id: int) -> int:
        """Raise the boundary to `first_kept_id`, durably; return the boundary, which may be higher already."""
        for _ in _RAISING.attempts():
            found = self._store.read_versioned(self._key)
            if found is not None and (there := self.first_id()) >= first_kept_id:
                self._store.make_last([self._key])
                return there
            version = None if found is None else found[1]
            if replaced(self._store, self._key, serialize_boundary(first_kept_id), if_version=version):
                return first_kept_id
        raise StorageUnavailable(
            f"{self._store.uri('')}: the boundary changed in each of {_RAISING.max_attempts} attempts to raise it. "
            "Try again."
        )
