"""The snapshots of a table, and the creation of the next one.

Rule: LATEST and EARLIEST are hints. A wrong or missing one costs a listing and never correctness. Snapshots are written
once and never changed.
Source: docs/format/layout.md#hints, docs/reliability/commit.md#steps.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from lakehouse_core.errors import (
    CorruptTable,
    InvalidRequest,
    NotFound,
    SnapshotExpired,
    StorageUnavailable,
)
from lakehouse_core.metadata.boundary import Boundary
from lakehouse_core.metadata.hints import read_hint, write_hint
from lakehouse_core.metadata.ids import snapshot_ids
from lakehouse_core.metadata.lru import Recent
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.metadata.read_back import readable_file
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.snapshot import (
    Snapshot,
    parse_snapshot,
    serialize_snapshot,
)

R = TypeVar("R")

# A hint further behind than this is dearer to follow than a listing.
_LONGEST_PROBE = 32
# At most a few MB: a snapshot takes some KB.
_REMEMBERED_SNAPSHOTS: Final = 128
_LONGEST_REMEMBERED: Final = 32 * 1024


class SnapshotLog:
    """Reads the history of one branch and adds to it. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout
        self._boundary = Boundary(store, layout)
        self._parsed: Recent[Snapshot] = Recent(_REMEMBERED_SNAPSHOTS)

    def __reduce__(self) -> tuple[Any, ...]:
        """What was read stays here; another process reads it again."""
        return SnapshotLog, (self._store, self._layout)

    @property
    def layout(self) -> TableLayout:
        """Where the snapshots lie."""
        return self._layout

    @property
    def boundary(self) -> Boundary:
        """The first id that counts."""
        return self._boundary

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, None when the table has none. Never lists when the LATEST hint is of use."""
        for _ in LISTING.attempts():
            latest_id = self.latest_id()
            if latest_id is None:
                return None
            found = self._load(latest_id)
            if found is not None:
                return found
        raise self._restless("the latest snapshot")

    def latest_id(self) -> int | None:
        """Return the id of the newest snapshot, None when the table has none."""
        boundary = self._boundary.first_id()
        hint = read_hint(self._store, self._layout.latest_hint)
        if hint is not None and hint >= boundary and self._exists(self._layout.snapshot(hint)):
            for candidate in range(hint + 1, hint + 1 + _LONGEST_PROBE):
                # The hint may lag: its writer died after its commit, or another's hint came later.
                if not self._exists(self._layout.snapshot(candidate)):
                    return candidate - 1
        ids = self.ids_from(boundary)
        return ids[-1] if ids else None

    def has(self, snapshot_id: int) -> bool:
        """Return whether there is a file of that id, whatever it counts."""
        return self._exists(self._layout.snapshot(snapshot_id))

    def has_expired(self, snapshot: Snapshot | None) -> bool:
        """Return whether `snapshot`, which was there, counts as gone by now; its files may be missing then."""
        # Other engines expire without a boundary.
        return snapshot is not None and (not self.has(snapshot.id) or snapshot.id < self._boundary.first_id())

    def of_latest(self, read: Callable[[Snapshot | None], R]) -> R:
        """Return what `read` makes of the latest snapshot; of a newer one where that expires while it is read."""
        for _ in LISTING.attempts():
            latest = self.latest()
            try:
                return read(latest)
            except (CorruptTable, NotFound):
                if not self.has_expired(latest):
                    raise
        raise self._restless("the latest snapshot")

    def earliest_id(self) -> int | None:
        """Return the lowest id that still counts, None when the table has no snapshot."""
        boundary = self._boundary.first_id()
        hint = read_hint(self._store, self._layout.earliest_hint)
        candidate = max(hint or 0, boundary)
        if candidate and self._exists(self._layout.snapshot(candidate)):
            below = candidate - 1
            if below < max(boundary, 1) or not self._exists(self._layout.snapshot(below)):
                return candidate
        ids = self.ids_from(boundary)
        return ids[0] if ids else None

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return one snapshot. Raises SnapshotExpired naming the earliest, NotFound, InvalidRequest, CorruptTable."""
        if snapshot_id < 1:
            raise InvalidRequest(f"Snapshot {snapshot_id}: ids start at 1. Ask for one that `snapshots` lists.")
        # First the file, then the boundary: in the other order an expiry in between would not be seen.
        found = self._load(snapshot_id)
        if found is not None and snapshot_id >= self._boundary.first_id():
            return found
        earliest, latest = self.earliest_id(), self.latest_id()
        if earliest is None or latest is None:
            raise NotFound(f"Snapshot {snapshot_id}: the table has no snapshot yet. Write to it first.")
        if snapshot_id < earliest:
            raise SnapshotExpired(f"Snapshot {snapshot_id} is expired. The earliest available is {earliest}.")
        if snapshot_id > latest:
            raise NotFound(f"Snapshot {snapshot_id} is not there yet. The latest is {latest}.")
        found = self._load(snapshot_id)
        if found is not None:
            return found
        raise CorruptTable(
            f"{self._store.uri(self._layout.snapshot(snapshot_id))}: it is missing between snapshots {earliest} and "
            f"{latest}. Do not expire snapshots; run `lakehouse verify` and keep its report."
        )

    def history(self) -> list[Snapshot]:
        """Return every snapshot that counts, oldest first. Lists the folder and reads them all."""
        for _ in LISTING.attempts():
            ids = self.ids_from(self._boundary.first_id())
            found = list(in_order(self._load, ids))
            # Expiry takes the oldest first; what went while we read is as if it had gone before.
            kept = [snapshot for snapshot in found if snapshot is not None]
            if None not in found[len(found) - len(kept) :]:
                return kept
        raise self._restless("a snapshot")

    def ids_from(self, boundary: int) -> list[int]:
        """Return the ids of the snapshots from `boundary` on, rising, by listing them.

        Raises CorruptTable when there is none: expiry keeps the latest, so a table with a boundary is never empty.
        """
        every: list[int] = []
        for _ in LISTING.attempts():
            every = snapshot_ids(self._store, self._layout)
            ids = [snapshot_id for snapshot_id in every if snapshot_id >= boundary]
            # A listing during commits and an expiry may miss the new and the old latest alike.
            if ids or not boundary:
                return ids
        if not every:
            raise CorruptTable(
                f"{self._store.uri('')}: its snapshots are gone, and its boundary is {boundary}. "
                "Restore them from a copy of the table."
            )
        raise CorruptTable(
            f"{self._store.uri('')}: its latest snapshot is {every[-1]}, below its boundary {boundary}: another engine "
            f"rolled it back. Nothing was changed; write {every[0]} into lakehouse/boundary if that was meant."
        )

    def since(self, after_id: int, until_id: int) -> list[Snapshot]:
        """Return the snapshots (after_id, until_id], oldest first. Raises as `snapshot` does for each."""
        return list(in_order(self.snapshot, range(after_id + 1, until_id + 1)))

    def newest_first(self, latest: Snapshot) -> Iterator[Snapshot]:
        """Yield `latest` and what came before it, down to the boundary or to the first id that is gone."""
        yield latest
        boundary = self._boundary.first_id()
        below = range(latest.id - 1, max(boundary, 1) - 1, -1)
        for snapshot in in_order(self._load, below):
            if snapshot is None:
                return
            yield snapshot

    def create(self, snapshot: Snapshot) -> bool:
        """Publish `snapshot` under its id; False when that id is taken.

        Raises InvalidRequest for a snapshot that readers would not take for what it is, WriteOutcomeUnknown.
        """
        key = self._layout.snapshot(snapshot.id)
        data = readable_file(snapshot, serialize_snapshot, lambda data: parse_snapshot(data, key), what="The snapshot")
        created = self._store.create_new(key, data)
        if created and len(data) <= _LONGEST_REMEMBERED:
            self._parsed.put((snapshot.id, data), snapshot)
        return created

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Say where the newest snapshot is. Best effort: a failure costs the next reader a few probes."""
        write_hint(self._store, self._layout.latest_hint, snapshot_id)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Say where the oldest snapshot is; a LATEST that names an older one is set right too.

        Java takes LATEST at its word when the id after it is not there.
        """
        write_hint(self._store, self._layout.earliest_hint, snapshot_id)
        if (latest := read_hint(self._store, self._layout.latest_hint)) is not None and latest < snapshot_id:
            write_hint(self._store, self._layout.latest_hint, self.latest_id() or snapshot_id)

    def _load(self, snapshot_id: int) -> Snapshot | None:
        key = self._layout.snapshot(snapshot_id)
        try:
            data = self._store.read(key)
        except NotFound:
            return None
        # An id may come again after a rollback, so the file is read each time; the same bytes are parsed once.
        if (known := self._parsed.get((snapshot_id, data))) is not None:
            return known
        snapshot = parse_snapshot(data, key)
        if len(data) <= _LONGEST_REMEMBERED:
            self._parsed.put((snapshot_id, data), snapshot)
        return snapshot

    def _exists(self, key: str) -> bool:
        return key in self._store.infos([key])

    def _restless(self, what: str) -> StorageUnavailable:
        return StorageUnavailable(
            f"{self._store.uri('')}: {what} changed in each of {LISTING.max_attempts} attempts to read it. Try again."
        )
