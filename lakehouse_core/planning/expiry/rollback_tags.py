"""Rollback tags: which states a rollback keeps by tags, and until when.

An engine that expires the snapshots up to and including s deletes the files that s removed and that the nearest tag
before s does not have. A file that a rollback brings back is safe if the state that had it is tagged, and each state
since in which a file may have come back before. No snapshot before the rollback is left to expire: no tag is needed.
Source: docs/semantics/maintenance.md#rollback.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from lakehouse_core.table.snapshot import Snapshot

# A tag whose verb was killed, or has not committed yet, is kept for this time.
KEPT_UNNEEDED_MILLIS: Final = 24 * 3_600_000


def returns(history: Sequence[Snapshot], *, after_id: int) -> list[Snapshot]:
    """Return the snapshots later than `after_id` in which removed files may have come back, and the first of `history`,
    which stands for the expired ones before it. `history` holds the snapshots that exist, rising.
    """
    return [
        snapshot
        for snapshot in history
        if snapshot.id > after_id and (snapshot is history[0] or snapshot.returns_files)
    ]


def rollback_ids(history: Iterable[Snapshot]) -> list[int]:
    """Return the ids of the snapshots in which removed files may have come back."""
    return [snapshot.id for snapshot in history if snapshot.returns_files]


def is_needed(tagged_id: int, rollbacks: Iterable[int], *, first_kept_id: int, age_millis: int | None) -> bool:
    """Return whether a rollback tag of snapshot `tagged_id` still keeps files from another engine's expiry.

    `rollbacks`: ids of the existing snapshots that rollbacks made. `first_kept_id`: the first snapshot that exists.
    `age_millis`: the age of the tag, None if unknown.
    """
    later = [id for id in rollbacks if id > tagged_id]
    if later:
        return max(later) > first_kept_id
    return age_millis is None or age_millis <= KEPT_UNNEEDED_MILLIS
