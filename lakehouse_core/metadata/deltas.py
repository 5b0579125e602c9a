"""Deltas: read the file changes of the snapshots after a given one, while other runs may expire them.

Rule: an id names a snapshot only together with its time, because other engines can roll a table back.
Source: docs/semantics/reading.md#increments.
"""

from typing import Final

from lakehouse_core.errors import CorruptTable, SnapshotExpired
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.manifest import Keep, ManifestEntry
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import Seen

# For more snapshots than this, reading the live files takes less time.
LONGEST_CATCH_UP: Final = 32


def is_part(snapshots: SnapshotLog, seen: Seen, latest: Snapshot, look: Look | None = None) -> bool | None:
    """Return whether the history that ends with `latest` has the snapshot that was seen; None: it has expired.

    Another engine can roll a table back to a lower id, and give the ids above it to other snapshots. `look`: one that
    may have the snapshot.
    """
    if seen.id > latest.id:
        return False
    if seen.time_millis is None or seen.id == 0:
        return True
    there = latest if seen.id == latest.id else snapshots.found(seen.id, look)
    return None if there is None else there.time_millis == seen.time_millis


def deltas_since(
    snapshots: SnapshotLog,
    manifests: ManifestReader,
    after_id: int,
    until_id: int,
    *,
    keep: Keep,
    without: CommitKind | None = None,
    look: Look | None = None,
) -> list[tuple[CommitKind, list[ManifestEntry]]]:
    """Return kind and kept entries of each of the snapshots (after_id, until_id], oldest first, except those of kind
    `without`. `look`: one that may have some of the snapshots.

    Raises SnapshotExpired if one of them has expired, CorruptTable.
    """
    if until_id <= after_id:
        return []
    look = snapshots.looked_up(after_id + 1, until_id, look)
    # The error of one that is missing is that of reading it alone.
    every = [snapshots.found(each, look) or snapshots.snapshot(each) for each in range(after_id + 1, until_id + 1)]
    read = [one for one in every if one.commit_kind is not without]
    try:
        # The snapshots are read before the boundary; in the other order an expiry in between would go unnoticed.
        deltas, first_id = both(
            lambda: list(manifests.deltas(read, keep=keep)),
            snapshots.boundary.first_id,
            at_once=manifests.requests_at_once,
        )
    except CorruptTable as error:
        if snapshots.boundary.first_id() <= after_id + 1:
            raise
        # Expiry deleted its files during the read.
        raise SnapshotExpired(f"Snapshot {after_id + 1} expired while it was read.") from error
    if first_id > after_id + 1:
        raise SnapshotExpired(f"Snapshot {after_id + 1} is expired. The earliest that may be available is {first_id}.")
    return list(zip((one.commit_kind for one in read), deltas, strict=True))
