"""Snapshot ids: which snapshots a branch has, by its hints, by asking for one id after another, or by a listing.

Rule: LATEST and EARLIEST are hints. A wrong or missing one costs a listing, and never gives a wrong result.
Source: docs/format/layout.md#hints.
"""

from typing import Final

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.metadata.boundary import Boundary
from lakehouse_core.metadata.hints import read_hint, write_hint
from lakehouse_core.metadata.ids import snapshot_ids
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import TableLayout

# How many ids are asked for at once, after one another. From further behind a listing is faster.
_PROBES: Final = (2, 4, 8, 16)


class SnapshotIds:
    """The ids of one branch's snapshots. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, layout: TableLayout) -> None:
        self._store = store
        self._layout = layout
        self._boundary = Boundary(store, layout)
        # The newest id that was found so far; most often the table has not moved on, or by one.
        self._newest: int | None = None

    def over(self, store: ObjectStore) -> "SnapshotIds":
        """Return the ids by another store of the same table; a search begins where the last one ended here."""
        ids = SnapshotIds(store, self._layout)
        ids.start_at(self._newest)
        return ids

    def start_at(self, snapshot_id: int | None) -> None:
        """Begin the next search at this snapshot, which is there; None: where the hint says."""
        self._newest = snapshot_id

    def asked(self, after: int = 0) -> tuple[str, ...]:
        """Return the keys of a look for `latest`. They answer it if at most `after` commits were made since the last
        look; if LATEST does not lag, one more.
        """
        newest = self._newest
        near = () if newest is None else range(newest, newest + 2 + after)
        return (self._boundary.key, self._layout.hints.latest, *map(self._layout.snapshot, near))

    def latest(self, look: Look | None = None) -> int | None:
        """Return the id of the newest snapshot, None if the table has none. `look`: the look that answers; None reads
        now.
        """
        look = look or Look(self._store, self.asked())
        boundary = self._boundary.first_id(look)
        # Threads may share a log: each returns what it found itself.
        newest = self._probed(look, boundary)
        if newest is None:
            ids = self._ids_from(boundary)
            newest = ids[-1] if ids else None
        self._newest = newest
        return newest

    def earliest(self) -> int | None:
        """Return the smallest id that has not expired, None if the table has no snapshot."""
        look = Look(self._store, [self._boundary.key, self._layout.hints.earliest])
        boundary = self._boundary.first_id(look)
        candidate = max(read_hint(look, self._layout.hints.earliest) or 0, boundary)
        if candidate:
            there = self._store.infos(map(self._layout.snapshot, (candidate, candidate - 1)))
            is_first = candidate <= max(boundary, 1) or self._layout.snapshot(candidate - 1) not in there
            if is_first and self._layout.snapshot(candidate) in there:
                return candidate
        ids = self._ids_from(boundary)
        return ids[0] if ids else None

    def with_boundary(self) -> tuple[int, list[int]]:
        """Return the smallest id that has not expired, and the ids of all snapshots from there on, rising.

        Raises CorruptTable if there is none although the table has a boundary.
        """
        boundary, every = both(
            self._boundary.first_id,
            lambda: snapshot_ids(self._store, self._layout),
            at_once=self._store.requests_at_once,
        )
        ids = [snapshot_id for snapshot_id in every if snapshot_id >= boundary]
        return boundary, ids if ids or not boundary else self._ids_from(boundary)

    def has(self, snapshot_id: int) -> bool:
        """Return whether a file of that id exists, also if the id has expired."""
        key = self._layout.snapshot(snapshot_id)
        return key in self._store.infos([key])

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Write the EARLIEST hint; correct a LATEST hint that names an older snapshot.

        Java trusts LATEST if no snapshot of the next id exists.
        """
        _, latest = both(
            lambda: write_hint(self._store, self._layout.hints.earliest, snapshot_id),
            lambda: read_hint(Look(self._store), self._layout.hints.latest),
            at_once=self._store.requests_at_once,
        )
        if latest is not None and latest < snapshot_id:
            write_hint(self._store, self._layout.hints.latest, self.latest() or snapshot_id)

    def _probed(self, look: Look, boundary: int) -> int | None:
        """Return the newest id by asking for one after another; None if no start is known, or it is too far behind."""
        start, newest = read_hint(look, self._layout.hints.latest) or 0, self._newest
        if newest is not None and look.get(self._layout.snapshot(newest)) is not None:
            # The hint may lag: its writer died after its commit, or an older hint was written later.
            start = max(start, newest)
        if not start or start < boundary:
            return None
        last = start - 1
        for count in _PROBES:
            ids = range(last + 1, last + 1 + count)
            if not look.lacks(self._layout.snapshot(ids[0])):
                look.ask(map(self._layout.snapshot, ids))
            for snapshot_id in ids:
                if look.get(self._layout.snapshot(snapshot_id)) is None:
                    return last if last >= start else None
                last = snapshot_id
        return None

    def _ids_from(self, boundary: int) -> list[int]:
        """Return the ids of the snapshots from `boundary` on, rising, by listing them.

        Raises CorruptTable if there is none: expiry keeps the latest, so a table with a boundary is never empty.
        """
        every: list[int] = []
        for _ in LISTING.attempts():
            every = snapshot_ids(self._store, self._layout)
            ids = [snapshot_id for snapshot_id in every if snapshot_id >= boundary]
            # A listing during commits and an expiry may lack both the new and the old latest snapshot.
            if ids or not boundary:
                return ids
        if not every and self._layout.branch is not None and self._boundary.first_id() != boundary:
            raise NotFound(
                f"{self._store.uri(self._layout.folder)}: the branch was deleted or renamed meanwhile. Check its name."
            )
        if not every:
            raise CorruptTable(
                f"{self._store.uri('')}: its boundary is {boundary}, but its snapshots are missing. "
                "Restore them from a copy of the table."
            )
        raise CorruptTable(
            f"{self._store.uri('')}: its latest snapshot is {every[-1]}, below its boundary {boundary}: another engine "
            f"rolled it back. Nothing was changed; write {every[0]} into lakehouse/boundary if that was meant."
        )
