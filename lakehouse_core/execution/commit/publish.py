"""Publishing a snapshot: claim the next id, find out what became of the claim, and make sure that the id still counts.

Create-if-absent forgets a name once it was deleted. So after the claim the boundary is read: an id below it had been
used and expired while we slept.
Source: docs/reliability/commit.md#steps.
"""

from dataclasses import dataclass
from enum import Enum

from lakehouse_core.clock import Clock
from lakehouse_core.errors import (
    CommitOutcomeUnknown,
    CommitTimeout,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    WriteOutcomeUnknown,
)
from lakehouse_core.execution.commit.queue import CommitQueue
from lakehouse_core.execution.commit.replay import ledger_at
from lakehouse_core.execution.context import TableContext
from lakehouse_core.options import CommitOptions
from lakehouse_core.planning.commit.ledger import NONCE_PROPERTY, Ledger
from lakehouse_core.table.snapshot import Snapshot, parse_snapshot

# Another wait than this makes no attempt likelier to win.
_LONGEST_WAIT_SECONDS = 2.0
_PAUSE_SECONDS = 0.05
# So often in a row a commit that queues may lose before it sleeps: the race that it queued for, and some in its turn.
_LOSSES_WITHOUT_SLEEP = 4


class Patience:
    """How long one commit goes on trying: until its deadline, and no more often than the table allows."""

    def __init__(self, options: CommitOptions, clock: Clock, *, max_retries: int | None) -> None:
        self._options = options
        self._clock = clock
        self._max_retries = max_retries
        self._deadline = clock.monotonic_seconds() + options.timeout_millis / 1000
        self._started = clock.monotonic_seconds()
        self.attempts = 0

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic_seconds() >= self._deadline

    def start(self) -> None:
        """Count an attempt, which starts now."""
        self.attempts += 1
        self._started = self._clock.monotonic_seconds()

    def has_stalled(self, since: float) -> bool:
        """Return whether so much time has passed that what was read at `since` may be long gone."""
        return self._clock.monotonic_seconds() - since > self._options.max_stall_millis / 1000

    def wait_after_loss(self, who: str, queue: CommitQueue) -> None:
        """Wait for a turn before the next attempt. Raises CommitTimeout when there is none."""
        exhausted = self._max_retries is not None and self.attempts > self._max_retries
        if exhausted or self.is_over:
            raise CommitTimeout(
                f"{who}: lost {self.attempts} races in a row, nothing was applied. "
                "Commit the same again, or let fewer writers commit at once."
            )
        took = self._clock.monotonic_seconds() - self._started
        shortest = max(self._options.min_retry_wait_millis / 1000, took)
        longest = min(self._options.max_retry_wait_millis / 1000, _LONGEST_WAIT_SECONDS)
        queue.join()
        if queue.is_joined:
            # Few run at once, and whoever sleeps in one of the first places holds up all behind it. Only one that loses
            # again and again, to writers that do not queue, lets them pass.
            late = self.attempts - _LOSSES_WITHOUT_SLEEP
            factor = 2 ** min(late - 1, 20) if late > 0 else 0
        else:
            # A slow commit waits longer, or it would meet the same quick winners; and every loser waits for several
            # commits of its own length, or the next race would have as many runners.
            factor = 4 ** min(self.attempts, 10)
        self._clock.sleep(self._clock.uniform(0, min(longest, shortest * factor)))
        self.wait_in(queue)

    def wait_in(self, queue: CommitQueue) -> None:
        """Wait for a turn; the attempt starts then."""
        queue.wait(self._deadline)
        self._started = self._clock.monotonic_seconds()

    def pause(self) -> None:
        """Wait a little for a store that does not answer."""
        self._clock.sleep(self._clock.uniform(0, 2 * _PAUSE_SECONDS))


class _Found(Enum):
    OURS = "ours"
    ANOTHERS = "another's"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class _Claim:
    table: TableContext
    snapshot: Snapshot
    patience: Patience


def publish(table: TableContext, snapshot: Snapshot, patience: Patience, *, since: float) -> bool:
    """Return True when `snapshot` is applied, False when it certainly is not.

    `since`: when the attempt read the latest snapshot. Raises CommitOutcomeUnknown when the store does not tell before
    the deadline, StorageUnavailable when it refused and nothing was applied.
    """
    claim = _Claim(table, snapshot, patience)
    if patience.has_stalled(since) or not _claimed(claim):
        return False
    if not _id_counts(claim):
        return False
    table.snapshots.write_latest_hint(snapshot.id)
    return True


def _claimed(claim: _Claim) -> bool:
    """Steps 8 and 9: create the snapshot's file, and when the answer is not plain, look whose it is."""
    unsure = False
    while True:
        try:
            if claim.table.snapshots.create(claim.snapshot):
                return True
        except WriteOutcomeUnknown:
            unsure = True
        except StorageUnavailable:
            if not unsure:
                raise
        except InvalidRequest as error:
            if not unsure:
                raise
            raise _unknown(claim, f"its name cannot be looked at any more ({error})") from error
        match _whose(claim):
            case _Found.OURS:
                if _lasts(claim):
                    return True
                unsure = True
            case _Found.ANOTHERS:
                return False
            case _Found.NOTHING if not unsure:
                # The name was taken and is free again: its snapshot expired, ours was not written.
                return False
        _wait_or_give_up(claim)


def _whose(claim: _Claim) -> _Found:
    key = claim.table.layout.snapshot(claim.snapshot.id)
    while True:
        try:
            found = parse_snapshot(claim.table.store.read(key), key)
        except NotFound:
            return _Found.NOTHING
        except StorageUnavailable:
            _wait_or_give_up(claim)
            continue
        except InvalidRequest as error:
            raise _unknown(claim, f"what has its name cannot be looked at ({error})") from error
        ours = found.properties.get(NONCE_PROPERTY) == claim.snapshot.properties[NONCE_PROPERTY]
        return _Found.OURS if ours else _Found.ANOTHERS


def _lasts(claim: _Claim) -> bool:
    """Return whether the snapshot, which was found to be ours, is sure to outlive a power cut."""
    try:
        claim.table.store.make_last([claim.table.layout.snapshot(claim.snapshot.id)])
    except StorageUnavailable:
        return False
    return True


def _id_counts(claim: _Claim) -> bool:
    """Step 10: an id below the boundary had been used before. Then the ledger of the latest snapshot decides."""
    while True:
        try:
            if claim.table.snapshots.boundary.first_id() <= claim.snapshot.id:
                return True
            ledger = ledger_at(claim.table.snapshots, claim.table.snapshots.latest())
            match _noted(claim.snapshot, ledger):
                case True:
                    return True
                case None:
                    raise _unknown(claim, "its id expired meanwhile, and so did what was noted about it")
            if _whose(claim) is _Found.OURS:
                claim.table.store.delete([claim.table.layout.snapshot(claim.snapshot.id)])
            return False
        except (StorageUnavailable, NotFound):
            _wait_or_give_up(claim)
        except CommitOutcomeUnknown:
            raise
        except LakehouseError as error:
            # Whoever hears that the request or the table is wrong may take it that nothing was applied.
            raise _unknown(claim, f"it was written, and whether its id counts cannot be looked at ({error})") from error


def _noted(ours: Snapshot, ledger: Ledger) -> bool | None:
    """Return whether the ledger says that `ours` was applied; None when it has forgotten."""
    entry = ledger.entries.get(ours.commit_user)
    if entry is None:
        return None if ledger.dropped_until >= ours.id else False
    if entry.identifier > ours.commit_identifier:
        return None
    return entry.identifier == ours.commit_identifier and entry.snapshots.get(ours.commit_kind) == ours.id


def _wait_or_give_up(claim: _Claim) -> None:
    if claim.patience.is_over:
        raise _unknown(claim, "the store did not tell before the deadline whether it was written")
    claim.patience.pause()


def _unknown(claim: _Claim, reason: str) -> CommitOutcomeUnknown:
    snapshot = claim.snapshot
    return CommitOutcomeUnknown(
        f"{snapshot.commit_user}/{snapshot.commit_identifier}: snapshot {snapshot.id} with nonce "
        f"{snapshot.properties[NONCE_PROPERTY]}: {reason}. Commit the same again, which finds out; never abort."
    )
