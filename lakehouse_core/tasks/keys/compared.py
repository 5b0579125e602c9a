"""Compared keys: the keys of small files that commits of one handle compared, so that many commits of one base read
each file once.

Rule: the name of a data file is never used twice, so its keys stay the same.
Source: docs/semantics/tables.md#cross-partition-updates.
"""

from collections.abc import Iterable
from threading import Lock
from typing import Final
from uuid import UUID

from lakehouse_core.clock import Clock
from lakehouse_core.merge.deduplicate import Kinds
from lakehouse_core.merge.key_digests import Digests
from lakehouse_core.metadata.lru import Recent
from lakehouse_core.storage.object_store import FileOpener
from lakehouse_core.tasks.keys.live import KeySource, PlacedFiles, stored_keys

# At most some 20 MB: a key takes 17 bytes. Larger files are read each time.
_KEY_BYTES: Final = 17
_REMEMBERED: Final = 1024
_MOST_ROWS: Final = 1024


class ComparedKeys:
    """Reads the keys of files with one seed. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._seed: int | None = None
        self._recent: Recent[list[tuple[Digests, Kinds]]] = Recent(_REMEMBERED)

    @property
    def seed(self) -> int:
        """The seed of the digests."""
        with self._lock:
            if self._seed is None:
                self._seed = UUID(self._clock.uuid()).int
            return self._seed

    def of(self, source: KeySource, placed: PlacedFiles, store: FileOpener) -> Iterable[tuple[Digests, Kinds]]:
        """Return the keys of all records of some files, as `stored_keys` yields them. Raises as it does."""
        row_count = sum(file.row_count for file in placed.files)
        if row_count > _MOST_ROWS:
            return stored_keys(source, placed, store, self.seed)
        name = (placed.folder, *(file.file_name for file in placed.files))
        found = self._recent.get(name)
        if found is None:
            found = list(stored_keys(source, placed, store, self.seed))
            self._recent.put(name, found, _KEY_BYTES * row_count)
        return found
