"""Publishing: create the file of a snapshot, resolve an uncertain answer, and verify that the id still counts.

Rule: create-if-absent succeeds for a deleted name. So the boundary is read afterwards: an id below it has expired. The
schema is read too: without it the table is dropped or renamed. Source: docs/reliability/commit.md#steps,
docs/reliability/commit.md#why-the-boundary.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from lakehouse_core.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    TableDropped,
    WriteOutcomeUnknown,
)
from lakehouse_core.execution.commit.outcome import LostRace, Published
from lakehouse_core.execution.commit.replay import ledger_at
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.presence import Gone, asked, gone
from lakehouse_core.metadata.hints import write_hint
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.metadata.roots import branch_names
from lakehouse_core.planning.commit.ledger import NONCE_PROPERTY, LedgerAnswer, ledger_answer
from lakehouse_core.retry import Attempt, Retry
from lakehouse_core.table.snapshot import Snapshot, parse_snapshot

# The policy for repeating a call to a store that does not answer; the deadline is that of the commit. Waits grow, so
# that commits that wait for one store do not keep it busy.
_OUTCOME: Final = Retry(None, min_wait_millis=100, max_wait_millis=5_000)
_NO_ANSWER: Final = "the store did not answer before the deadline whether it was written"


class _Standing(Enum):
    """What has become of a snapshot that was created. MOVED: it is part of the table, whose folder has moved with it to
    another name, or was dropped with it. LOST: its id had expired, and it is removed. NO_BRANCH: its branch was gone
    before, and it is removed.
    """

    COUNTS = "counts"
    MOVED = "moved"
    LOST = "lost"
    NO_BRANCH = "no branch"


class SnapshotOwner(Enum):
    """The writer of the snapshot that has the id. OURS: it has our nonce."""

    OURS = "ours"
    OTHER = "other"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class _Claim:
    """A snapshot to publish, and the deadline of its commit on the monotonic clock."""

    table: TableContext
    snapshot: Snapshot
    deadline: float


def publish(
    table: TableContext, snapshot: Snapshot, attempt: Attempt, *, when_done: Callable[[], object]
) -> Published | LostRace:
    """Publish `snapshot` under its id; after LostRace it certainly is not applied. `when_done`: called once it is
    published; it raises nothing.

    Raises CommitOutcomeUnknown when the store does not answer before the deadline of the attempt, StorageUnavailable or
    InvalidRequest when the store refused the write and nothing was applied, TableDropped.
    """
    claim = _Claim(table, snapshot, attempt.deadline)
    if not _is_created(claim):
        return LostRace()
    match _standing(claim):
        case _Standing.LOST:
            return LostRace()
        case _Standing.NO_BRANCH:
            raise CommitConflict(
                f"{table.name}: the branch was deleted or renamed before the commit. Nothing was applied."
            )
        case _Standing.MOVED:
            # A hint would stay alone in the old folder.
            when_done()
            return Published()
    latest_hint = table.layout.hints.latest
    both(lambda: write_hint(table.store, latest_hint, snapshot.id), when_done, at_once=table.store.requests_at_once)
    return Published()


def _is_created(claim: _Claim) -> bool:
    """Steps 8 and 9: create the snapshot's file; if the answer is uncertain, read which writer's snapshot it is."""
    is_uncertain = False
    for attempt in _OUTCOME.attempts(claim.table.clock, until=claim.deadline):
        try:
            if claim.table.snapshots.create(claim.snapshot):
                return True
        except WriteOutcomeUnknown:
            is_uncertain = True
        except StorageUnavailable:
            if not is_uncertain:
                raise
        except (InvalidRequest, TableDropped) as error:
            if not is_uncertain:
                raise
            raise _unknown(claim, f"its file cannot be read any more ({error})") from error
        match _snapshot_owner(claim):
            case SnapshotOwner.OURS:
                if _is_durable(claim):
                    return True
                is_uncertain = True
            case SnapshotOwner.OTHER:
                return False
            case SnapshotOwner.ABSENT:
                if not is_uncertain:
                    # The name was taken and is free again: the other snapshot expired, and ours was not written.
                    return False
        attempt.wait()
    raise _unknown(claim, _NO_ANSWER)


def _snapshot_owner(claim: _Claim) -> SnapshotOwner:
    key = claim.table.layout.snapshot(claim.snapshot.id)
    for attempt in _OUTCOME.attempts(claim.table.clock, until=claim.deadline):
        try:
            found = parse_snapshot(claim.table.store.read(key), key)
        except NotFound:
            return SnapshotOwner.ABSENT
        except StorageUnavailable:
            attempt.wait()
            continue
        except InvalidRequest as error:
            raise _unknown(claim, f"the file that has its name cannot be read ({error})") from error
        is_ours = found.properties.get(NONCE_PROPERTY) == claim.snapshot.properties[NONCE_PROPERTY]
        return SnapshotOwner.OURS if is_ours else SnapshotOwner.OTHER
    raise _unknown(claim, _NO_ANSWER)


def _is_durable(claim: _Claim) -> bool:
    """Make our snapshot durable; return False when the store does not confirm that."""
    try:
        claim.table.store.make_last([claim.table.layout.snapshot(claim.snapshot.id)])
    except StorageUnavailable:
        return False
    return True


def _standing(claim: _Claim) -> _Standing:
    """Step 10: an id below the boundary was used before. Then the ledger of the latest snapshot decides."""
    table, snapshots = claim.table, claim.table.snapshots
    schema_id = claim.snapshot.schema_id
    with_boundary = asked(table, schema_id) if table.layout.branch is None else ()
    for attempt in _OUTCOME.attempts(table.clock, until=claim.deadline):
        try:
            look = Look(table.store, [snapshots.boundary.key, *with_boundary])
            mark = snapshots.boundary.mark(look)
            found = gone(table, schema_id, look)
            if found is not None and not found.is_branch:
                break
            if mark.is_closed:
                raise _unknown(
                    claim,
                    f"a verb is {mark.work} its branch, and may have taken the snapshot along (a commit to the branch "
                    "under its new name tells whether it has)",
                )
            if found is not None:
                return _without_branch(claim)
            if mark.first_kept_id <= claim.snapshot.id:
                return _Standing.COUNTS
            answer = ledger_answer(claim.snapshot, ledger_at(snapshots, snapshots.latest()))
            match answer:
                case LedgerAnswer.APPLIED:
                    return _Standing.COUNTS
                case LedgerAnswer.FORGOTTEN:
                    raise _unknown(claim, "its id expired meanwhile, and the ledger entry of its commit was dropped")
                case LedgerAnswer.NOT_APPLIED:
                    # With its folder the snapshot may move: no reader looks below the boundary.
                    with suppress(TableDropped):
                        if _snapshot_owner(claim) is SnapshotOwner.OURS:
                            claim.table.store.delete([claim.table.layout.snapshot(claim.snapshot.id)])
                    return _Standing.LOST
                case _:
                    assert_never(answer)
        except CommitOutcomeUnknown:
            raise
        except TableDropped:
            return _Standing.MOVED
        except (StorageUnavailable, NotFound):
            attempt.wait()
        except LakehouseError as error:
            # After an error about the request or the table a caller may assume that nothing was applied.
            raise _unknown(
                claim,
                f"it was written, but the boundary, which tells whether its id has expired, cannot be read ({error})",
            ) from error
    else:
        raise _unknown(claim, _NO_ANSWER)
    return _moved(claim, found)


def _moved(claim: _Claim, found: Gone) -> _Standing:
    """Return MOVED if our snapshot has moved with the folder of its table. Else the table was gone before: remove our
    snapshot, if it is still there, and raise TableDropped.

    A drop of objects writes its mark and deletes the schemas before it lists what it deletes, so it finds each snapshot
    that was there before.
    """
    table, key = claim.table, claim.table.layout.snapshot(claim.snapshot.id)
    is_here = not found.has_moved and _snapshot_owner(claim) is SnapshotOwner.OURS
    if not is_here and table.store.folders is not None:
        return _Standing.MOVED
    try:
        left = table.store.delete([key]) if is_here else ()
    except (StorageUnavailable, TableDropped) as error:
        raise _unknown(claim, f"its table was dropped or renamed ({error})") from error
    if left:
        raise _unknown(claim, f"its table was dropped or renamed, and {table.store.uri(key)} was not removed")
    raise found.error(table)


def _without_branch(claim: _Claim) -> _Standing:
    """Return MOVED if our snapshot went with its branch, which was renamed or deleted after the commit. Else remove our
    snapshot, with which the folder looks like half a branch, and return NO_BRANCH.
    """
    table, snapshot = claim.table, claim.snapshot
    # What removes a branch lists its snapshots, and deletes its boundary last: one that is there now was not listed.
    if table.snapshots.boundary.mark().is_closed or not table.snapshots.ids.has(snapshot.id):
        if _is_in_branches(claim):
            return _Standing.MOVED
        raise _unknown(claim, "its branch was deleted or renamed, and the snapshot with it")
    if left := table.store.delete([table.layout.snapshot(snapshot.id)]):
        raise _unknown(claim, f"its branch was deleted, and {left[0]} was not removed")
    return _Standing.NO_BRANCH


def _is_in_branches(claim: _Claim) -> bool:
    """Return whether a branch has the commit, by its ledger. Without a branch it was deleted with its own."""
    names = [name for name in branch_names(claim.table.store) if name != claim.table.layout.branch]
    for name in names:
        snapshots = claim.table.on_branch(name).snapshots
        if ledger_answer(claim.snapshot, ledger_at(snapshots, snapshots.latest())) is LedgerAnswer.APPLIED:
            return True
    return not names


def _unknown(claim: _Claim, reason: str) -> CommitOutcomeUnknown:
    snapshot = claim.snapshot
    return CommitOutcomeUnknown(
        f"{snapshot.commit_user}/{snapshot.commit_identifier}: snapshot {snapshot.id} with nonce "
        f"{snapshot.properties[NONCE_PROPERTY]}: {reason}. Commit the same again, which finds out; never abort."
    )
