"""Snapshot log: read the snapshots of a table, and create the next one.

Rule: snapshots never change, but after a rollback by another engine an id may name another one.
Source: docs/reliability/commit.md#steps.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, SnapshotExpired, StorageUnavailable
from lakehouse_core.metadata.arbiter import CREATE_IF_ABSENT, Arbiter
from lakehouse_core.metadata.boundary import Boundary
from lakehouse_core.metadata.foreign import ForeignObject
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.lru import Recent
from lakehouse_core.metadata.read_ahead import FEW_SMALL, in_order
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.metadata.snapshot_ids import SnapshotIds
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import TableLayout
from lakehouse_core.table.read_back import readable_file
from lakehouse_core.table.snapshot import Snapshot, parse_snapshot, serialize_snapshot

R = TypeVar("R")

# This many take at most a few MB: a snapshot takes some KB.
_REMEMBERED_SNAPSHOTS: Final = 128
_LONGEST_REMEMBERED: Final = 32 * 1024
# What one byte of the file takes: as bytes, and as values.
_BYTES_OF_ONE: Final = 3


class SnapshotLog:
    """Reads the history of one branch and adds to it. `store` is rooted at the table; `schemas` tell the snapshots of
    the table from those that a commit to another table created.
    """

    def __init__(
        self,
        store: ObjectStore,
        layout: TableLayout,
        arbiter: Arbiter = CREATE_IF_ABSENT,
        schemas: SchemaLog | None = None,
    ) -> None:
        self._store = store
        self._arbiter = arbiter
        self._layout = layout
        self._schemas = SchemaLog(store, layout, arbiter) if schemas is None else schemas
        self._boundary = Boundary(store, layout)
        self._ids = SnapshotIds(store, layout)
        self._parsed: Recent[Snapshot] = Recent(_REMEMBERED_SNAPSHOTS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address without the cache; another process reads again."""
        return SnapshotLog, (self._store, self._layout, self._arbiter, self._schemas)

    def over(self, store: ObjectStore) -> "SnapshotLog":
        """Return the log over another store of the same table. Files of equal bytes are parsed once for both."""
        log = SnapshotLog(store, self._layout, self._arbiter, self._schemas.over(store))
        log._parsed, log._ids = self._parsed, self._ids.over(store)
        return log

    @property
    def layout(self) -> TableLayout:
        """The keys of the branch's files."""
        return self._layout

    @property
    def boundary(self) -> Boundary:
        """The boundary of the branch."""
        return self._boundary

    @property
    def ids(self) -> SnapshotIds:
        """The ids of the branch's snapshots."""
        return self._ids

    def latest(self, look: Look | None = None) -> Snapshot | None:
        """Return the newest snapshot, None if the table has none. Lists the folder only if the LATEST hint is of no
        use. `look`: the look that answers; None reads now. Raises as `SchemaLog.check_own` does.
        """
        foreign: ForeignObject | None = None
        for _ in LISTING.attempts():
            look = look or Look(self._store, self._ids.asked())
            latest_id = self._ids.latest(look)
            if latest_id is None:
                return None
            found, look = self._load(latest_id, look), None
            if found is None:
                continue
            try:
                self._schemas.check_own(found)
            except ForeignObject as error:
                foreign = error
                continue
            return found
        raise foreign or self._restless("the latest snapshot")

    def has_expired(self, snapshot: Snapshot | None) -> bool:
        """Return whether `snapshot`, which was read before, has expired by now; its files may be missing then."""
        # Other engines expire snapshots without raising the boundary.
        return snapshot is not None and (not self._ids.has(snapshot.id) or snapshot.id < self._boundary.first_id())

    def of_latest(self, read: Callable[[Snapshot | None], R], look: Look | None = None) -> R:
        """Return the result of `read` for the latest snapshot; if it expires during the read, for a newer one.

        `look`: as in `latest`, for the first of them.
        """
        for _ in LISTING.attempts():
            latest, look = self.latest(look), None
            try:
                return read(latest)
            except (CorruptTable, NotFound):
                if not self.has_expired(latest):
                    raise
        raise self._restless("the latest snapshot")

    def found(self, snapshot_id: int, look: Look | None = None) -> Snapshot | None:
        """Return the snapshot of which a file exists, also if the id has expired; None without a file. `look`: the look
        that answers; None reads now.
        """
        return self._load(snapshot_id, look)

    def looked_up(self, first_id: int, last_id: int, look: Look | None = None) -> Look:
        """Return a look that has the snapshots from `first_id` to `last_id`; `look`: one that may have some of them."""
        look = look or Look(self._store)
        look.ask(map(self._layout.snapshot, range(max(first_id, 1), last_id + 1)))
        return look

    def snapshot(self, snapshot_id: int, look: Look | None = None) -> Snapshot:
        """Return one snapshot. Raises SnapshotExpired naming the earliest, NotFound, InvalidRequest, CorruptTable; as
        `SchemaLog.check_own` does.

        `look`: a look that has the file, or reads it now.
        """
        if snapshot_id < 1:
            raise InvalidRequest(f"Snapshot {snapshot_id}: ids start at 1. Ask for one that `snapshots` lists.")
        # The file is read before the boundary; in the other order an expiry in between would go unnoticed.
        found = self._load(snapshot_id, look)
        if found is not None and snapshot_id >= self._boundary.first_id():
            self._schemas.check_own(found)
            return found
        earliest, latest = self._ids.earliest(), self._ids.latest()
        if earliest is None or latest is None:
            raise NotFound(f"Snapshot {snapshot_id}: the table has no snapshot yet. Write to it first.")
        if snapshot_id < earliest:
            raise SnapshotExpired(f"Snapshot {snapshot_id} is expired. The earliest available is {earliest}.")
        if snapshot_id > latest:
            raise NotFound(f"Snapshot {snapshot_id} does not exist yet: the latest is {latest}.")
        found = self._load(snapshot_id)
        if found is not None:
            return found
        raise CorruptTable(
            f"{self._store.uri(self._layout.snapshot(snapshot_id))}: it is missing between snapshots {earliest} and "
            f"{latest}. Do not expire snapshots; run `lakehouse verify` and keep its report."
        )

    def history(self) -> list[Snapshot]:
        """Return every snapshot that has not expired, oldest first. Lists the folder and reads all of them."""
        for _ in LISTING.attempts():
            _, ids = self._ids.with_boundary()
            found = list(in_order(self._load, ids, at_once=self._store.requests_at_once, few=FEW_SMALL))
            # Expiry removes the oldest first; snapshots that expire during the read count as expired before it.
            kept = [snapshot for snapshot in found if snapshot is not None]
            if None not in found[len(found) - len(kept) :]:
                return kept
        raise self._restless("a snapshot")

    def since(self, after_id: int, until_id: int) -> list[Snapshot]:
        """Return the snapshots (after_id, until_id], oldest first. Raises as `snapshot` does for each."""
        ids = range(after_id + 1, until_id + 1)
        if not ids:
            return []
        look = self.looked_up(ids[0], ids[-1])
        found = [self._load(snapshot_id, look) for snapshot_id in ids]
        # The files are read before the boundary; in the other order an expiry in between would go unnoticed.
        first = self._boundary.first_id()
        pairs = zip(ids, found, strict=True)
        return [self.snapshot(each) if one is None or each < first else one for each, one in pairs]

    def newest_first(self, latest: Snapshot) -> Iterator[Snapshot]:
        """Yield `latest` and the earlier snapshots, newest first, down to the boundary or the first missing id."""
        yield latest
        boundary = self._boundary.first_id()
        below = range(latest.id - 1, max(boundary, 1) - 1, -1)
        for snapshot in in_order(self._load, below, at_once=self._store.requests_at_once):
            if snapshot is None:
                return
            yield snapshot

    def create(self, snapshot: Snapshot) -> bool:
        """Publish `snapshot` under its id; return False if that id is taken.

        Raises InvalidRequest for a snapshot whose file readers would parse as another one, WriteOutcomeUnknown.
        """
        key = self._layout.snapshot(snapshot.id)
        data = readable_file(snapshot, serialize_snapshot, lambda data: parse_snapshot(data, key), what="The snapshot")
        created = self._arbiter.create(self._store, key, data)
        if created and len(data) <= _LONGEST_REMEMBERED:
            self._parsed.put((snapshot.id, data), snapshot, _BYTES_OF_ONE * len(data))
            self._ids.start_at(snapshot.id)
        return created

    def _load(self, snapshot_id: int, look: Look | None = None) -> Snapshot | None:
        key = self._layout.snapshot(snapshot_id)
        data = (look or Look(self._store)).get(key)
        if data is None:
            return None
        # An id may be used again after a rollback, so the file is read each time; equal bytes are parsed once.
        if (known := self._parsed.get((snapshot_id, data))) is not None:
            return known
        snapshot = parse_snapshot(data, key)
        if len(data) <= _LONGEST_REMEMBERED:
            self._parsed.put((snapshot_id, data), snapshot, _BYTES_OF_ONE * len(data))
        return snapshot

    def _restless(self, what: str) -> StorageUnavailable:
        return StorageUnavailable(
            f"{self._store.uri('')}: {what} changed in each of {LISTING.max_attempts} attempts to read it. Try again."
        )
