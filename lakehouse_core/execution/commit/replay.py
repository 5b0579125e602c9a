"""Recognises a commit that was applied before: by the ledger, and by a walk where the ledger does not reach.

A pair of user and identifier is applied at most once per kind, also after a crash, a lost answer, expiry
(docs/reliability/invariants.md#i4-a-commit-is-applied-once).
"""

from collections.abc import Iterable

from lakehouse_core.errors import StaleCommit
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.planning.commit.ledger import Ledger, ledger_of, rebuilt
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.layout import MAIN
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit


def ledger_at(snapshots: SnapshotLog, latest: Snapshot | None) -> Ledger:
    """Return who has committed what up to `latest`.

    Foreign writers do not carry the ledger on: then the snapshots since the last one that has it are walked.
    """
    if latest is None:
        return Ledger()
    later: list[Snapshot] = []
    for snapshot in snapshots.newest_first(latest):
        ledger = ledger_of(snapshot, MAIN.snapshot(snapshot.id))
        if ledger is not None:
            return rebuilt(ledger, reversed(later))
        later.append(snapshot)
    # What expired before anybody kept a ledger is not known any more.
    return rebuilt(Ledger(dropped_until=later[-1].id - 1), reversed(later))


def applied_before(
    snapshots: SnapshotLog, latest: Snapshot | None, ledger: Ledger, staged: StagedCommit, kind: CommitKind
) -> tuple[int, ...] | None:
    """Return the ids of the snapshots that `staged` made before, None when its part of `kind` was never applied.

    Raises StaleCommit when its user has gone on to a later identifier and nobody can tell any more.
    """
    if latest is None:
        return None
    entry = ledger.entries.get(staged.commit_user)
    if entry is None:
        return _walk_to_base(snapshots, latest, ledger, staged, kind)
    if entry.identifier < staged.commit_identifier:
        return None
    if entry.identifier == staged.commit_identifier:
        return tuple(sorted(entry.snapshots.values())) if kind in entry.snapshots else None
    found = _of(snapshots.newest_first(latest), staged)
    if any(snapshot.commit_kind is kind for snapshot in found):
        return tuple(sorted(snapshot.id for snapshot in found))
    raise StaleCommit(
        f"{staged.commit_user} has committed {entry.identifier} already, which is later than "
        f"{staged.commit_identifier}, and no snapshot left shows {staged.commit_identifier}. "
        "Stage the data again under a fresh commit user if it is surely not in the table."
    )


def _walk_to_base(
    snapshots: SnapshotLog, latest: Snapshot, ledger: Ledger, staged: StagedCommit, kind: CommitKind
) -> tuple[int, ...] | None:
    """Look where the ledger has forgotten users: between what the writer saw and the last that was dropped."""
    first = (staged.base_snapshot_id or 0) + 1
    last = min(ledger.dropped_until, latest.id)
    if first > last:
        return None
    earliest = snapshots.earliest_id() or latest.id
    found = _of(snapshots.since(max(first, earliest) - 1, last), staged)
    if any(snapshot.commit_kind is kind for snapshot in found):
        return tuple(sorted(snapshot.id for snapshot in found))
    if first < earliest:
        raise StaleCommit(
            f"{staged.commit_user}/{staged.commit_identifier} was staged at snapshot {first - 1}, and the snapshots up "
            f"to {earliest - 1} are expired, so nobody can tell whether it was committed. Look into the table; if its "
            "rows are not there, stage them again."
        )
    return None


def _of(snapshots: Iterable[Snapshot], staged: StagedCommit) -> list[Snapshot]:
    return [
        snapshot
        for snapshot in snapshots
        if (snapshot.commit_user, snapshot.commit_identifier) == (staged.commit_user, staged.commit_identifier)
    ]
