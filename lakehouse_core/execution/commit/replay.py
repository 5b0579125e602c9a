"""Replay: recognise a commit that was applied before, by the ledger or, where the ledger has no entry, by reading the
snapshots.

Rule: a pair of user and identifier is applied at most once per kind, also after a crash, a lost answer or expiry.
Source: docs/reliability/invariants.md#i4-a-commit-is-applied-once, docs/reliability/commit.md#steps.
"""

from collections.abc import Iterable
from contextlib import suppress

from lakehouse_core.errors import CommitOutcomeUnknown, NotFound, StaleCommit, StorageUnavailable
from lakehouse_core.execution.commit.outcome import AlreadyCommitted
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.planning.commit.ledger import Ledger, ledger_of, rebuilt
from lakehouse_core.planning.commit.steps import CommitStep
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit


def ledger_at(snapshots: SnapshotLog, latest: Snapshot | None) -> Ledger:
    """Return the ledger of `latest`; without one, rebuild it from the last snapshot that has one.

    Other engines do not copy the ledger into their snapshots.
    """
    if latest is None:
        return Ledger()
    later: list[Snapshot] = []
    for snapshot in snapshots.newest_first(latest):
        ledger = ledger_of(snapshot, snapshots.layout.snapshot(snapshot.id))
        if ledger is not None:
            return rebuilt(ledger, reversed(later))
        later.append(snapshot)
    # No ledger knows commits that expired before the first ledger was written.
    return rebuilt(Ledger(dropped_until=later[-1].id - 1), reversed(later))


class LedgerReader:
    """Reads the ledger of the latest snapshot, once for as long as that is the latest."""

    def __init__(self, snapshots: SnapshotLog) -> None:
        self._snapshots = snapshots
        self._found: tuple[Snapshot | None, Ledger] | None = None

    def at(self, latest: Snapshot | None) -> Ledger:
        """Return what `ledger_at` returns."""
        if self._found is None or self._found[0] is not latest:
            self._found = latest, ledger_at(self._snapshots, latest)
        return self._found[1]


def find_applied(
    table: TableContext, latest: Snapshot | None, ledger: Ledger, step: CommitStep
) -> AlreadyCommitted | None:
    """Return the snapshots of the commit of `step`, durable; None when the step was not applied up to `latest`.

    `ledger`: that of `latest`. Raises StaleCommit when the user has committed a later identifier and the snapshots that
    would show this one are expired. Raises CommitOutcomeUnknown when the store does not confirm that the snapshots are
    durable.
    """
    snapshot_ids = applied_snapshot_ids(table.snapshots, latest, ledger, step.staged, step.kind)
    if latest is None or snapshot_ids is None:
        return None
    _make_durable(table, latest, step)
    snapshots = []
    for snapshot_id in snapshot_ids:
        with suppress(NotFound):
            snapshots.append(table.snapshots.snapshot(snapshot_id))
    return AlreadyCommitted(snapshot_ids=snapshot_ids, snapshots=tuple(snapshots))


def applied_snapshot_ids(
    snapshots: SnapshotLog, latest: Snapshot | None, ledger: Ledger, staged: StagedCommit, kind: CommitKind
) -> tuple[int, ...] | None:
    """Return the ids of all snapshots of `staged`, None when its step of `kind` was not applied up to `latest`.

    `ledger`: that of `latest`. Raises StaleCommit as `find_applied` does.
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
        f"Commit user {staged.commit_user} has committed {entry.identifier} already, which is later than "
        f"{staged.commit_identifier}, and no snapshot left shows whether {staged.commit_identifier} was applied. "
        "If its rows are not in the table, stage them again under a new commit user."
    )


def _make_durable(table: TableContext, latest: Snapshot, step: CommitStep) -> None:
    """Make the found snapshot durable: the process that created it may have been killed before it did so."""
    try:
        table.store.make_last([table.layout.snapshot(latest.id)])
    except StorageUnavailable as error:
        raise CommitOutcomeUnknown(
            f"{step.name}: it was committed before, but the store did not confirm that its snapshot is durable "
            f"({error}). "
            "Commit the same again; never abort."
        ) from error


def _walk_to_base(
    snapshots: SnapshotLog, latest: Snapshot, ledger: Ledger, staged: StagedCommit, kind: CommitKind
) -> tuple[int, ...] | None:
    """Search the snapshots whose users the ledger dropped: from the writer's base to the last dropped one."""
    first = (staged.base_snapshot_id or 0) + 1
    last = min(ledger.dropped_until, latest.id)
    if first > last:
        return None
    earliest = snapshots.ids.earliest() or latest.id
    found = _of(snapshots.since(max(first, earliest) - 1, last), staged)
    if any(snapshot.commit_kind is kind for snapshot in found):
        return tuple(sorted(snapshot.id for snapshot in found))
    if first < earliest:
        raise StaleCommit(
            f"{staged.commit_user}/{staged.commit_identifier} was staged at snapshot {first - 1}, and the snapshots up "
            f"to {earliest - 1} are expired, so it is not known whether it was committed. Read the table; if the "
            "rows are missing, stage them again."
        )
    return None


def _of(snapshots: Iterable[Snapshot], staged: StagedCommit) -> list[Snapshot]:
    return [
        snapshot
        for snapshot in snapshots
        if (snapshot.commit_user, snapshot.commit_identifier) == (staged.commit_user, staged.commit_identifier)
    ]
