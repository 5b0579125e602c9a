"""Publishing: create the file of a snapshot, resolve an uncertain answer, and verify that the id still counts.

Rule: create-if-absent succeeds for a deleted name. So the boundary is read afterwards: an id below it has expired. The
schema is read too: without it the table is dropped or renamed. Source: docs/reliability/commit.md#steps,
docs/reliability/commit.md#why-the-boundary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn, assert_never

from lakehouse_core.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    WriteOutcomeUnknown,
)
from lakehouse_core.execution.commit.outcome import LostRace, Published
from lakehouse_core.execution.commit.replay import ledger_at
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.hints import write_hint
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.planning.commit.ledger import NONCE_PROPERTY, LedgerAnswer, ledger_answer
from lakehouse_core.retry import Attempt, Retry
from lakehouse_core.table.layout import DROP_MARK
from lakehouse_core.table.snapshot import Snapshot, parse_snapshot

# The policy for repeating a call to a store that does not answer; the deadline is that of the commit. Waits grow, so
# that commits that wait for one store do not keep it busy.
_OUTCOME: Final = Retry(None, min_wait_millis=100, max_wait_millis=5_000)
_NO_ANSWER: Final = "the store did not answer before the deadline whether it was written"


class TableDropped(NotFound):
    """The table was dropped or renamed before the commit, and the snapshot that the commit had written is removed."""


class _Standing(Enum):
    """What has become of a snapshot that was created. MOVED: it is part of the table, whose folder has moved with it to
    another name, or to be dropped. LOST: its id had expired, and it is removed.
    """

    COUNTS = "counts"
    MOVED = "moved"
    LOST = "lost"


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
        case _Standing.MOVED:
            # A hint would stay alone in the old folder.
            when_done()
            return Published()
    _check_branch(claim)
    latest_hint = table.snapshots.layout.latest_hint
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
        except InvalidRequest as error:
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
    snapshots = claim.table.snapshots
    for attempt in _OUTCOME.attempts(claim.table.clock, until=claim.deadline):
        try:
            look = Look(claim.table.store, [snapshots.boundary.key, *_asked_of_table(claim)])
            if _has_moved(claim, look):
                return _Standing.MOVED
            mark = snapshots.boundary.mark(look)
            if mark.is_closed:
                raise _unknown(
                    claim,
                    f"a verb is {mark.work} its branch, and may have taken the snapshot along (a commit to the branch "
                    "under its new name tells whether it has)",
                )
            if mark.first_kept_id <= claim.snapshot.id:
                return _Standing.COUNTS
            answer = ledger_answer(claim.snapshot, ledger_at(snapshots, snapshots.latest()))
            match answer:
                case LedgerAnswer.APPLIED:
                    return _Standing.COUNTS
                case LedgerAnswer.FORGOTTEN:
                    raise _unknown(claim, "its id expired meanwhile, and the ledger entry of its commit was dropped")
                case LedgerAnswer.NOT_APPLIED:
                    if _snapshot_owner(claim) is SnapshotOwner.OURS:
                        claim.table.store.delete([claim.table.layout.snapshot(claim.snapshot.id)])
                    return _Standing.LOST
                case _:
                    assert_never(answer)
        except (CommitOutcomeUnknown, TableDropped):
            raise
        except (StorageUnavailable, NotFound):
            attempt.wait()
        except LakehouseError as error:
            # After an error about the request or the table a caller may assume that nothing was applied.
            raise _unknown(
                claim,
                f"it was written, but the boundary, which tells whether its id has expired, cannot be read ({error})",
            ) from error
    raise _unknown(claim, _NO_ANSWER)


def _asked_of_table(claim: _Claim) -> list[str]:
    """Return the keys of the schema that the snapshot names, and of the mark of a drop, where a table is dropped object
    by object.
    """
    table = claim.table
    if table.layout.branch is not None:
        return []
    schema = table.layout.schema(claim.snapshot.schema_id)
    return [schema] if table.store.folders is not None else [schema, DROP_MARK]


def _has_moved(claim: _Claim, look: Look) -> bool:
    """Return whether our snapshot has moved with the folder of its table. Remove it and raise TableDropped if the table
    went before: the schema is gone, or schema 0 beside the mark of a drop. A drop of objects writes the mark and
    deletes the schemas before it lists the objects that it deletes, so it finds each snapshot that was there before.
    """
    if not _asked_of_table(claim):
        return False
    try:
        claim.table.schemas.check_same(claim.snapshot.schema_id, look)
        first = claim.table.layout.schema(0)
        if look.known(DROP_MARK) is not None and not claim.table.store.infos([first]):
            raise NotFound(f"{claim.table.store.uri(first)}: the first schema is missing, and a drop has begun")
    except CorruptTable:
        # A damaged schema is not a drop; those who read it say so.
        return False
    except (NotFound, InvalidRequest) as error:
        is_here = _snapshot_owner(claim) is SnapshotOwner.OURS
        if is_here or claim.table.store.folders is None:
            _withdraw(claim, error, is_here=is_here)
        return True
    return False


def _withdraw(claim: _Claim, reason: LakehouseError, *, is_here: bool) -> NoReturn:
    """Remove our snapshot, if it is still here, and raise TableDropped."""
    table, key = claim.table, claim.table.layout.snapshot(claim.snapshot.id)
    if is_here and table.store.delete([key]):
        raise _unknown(claim, f"its table was dropped or renamed, and {table.store.uri(key)} was not removed")
    raise TableDropped(
        f"{table.name}: the table was dropped or renamed before the commit, and nothing was applied ({reason})."
    )


def _check_branch(claim: _Claim) -> None:
    """Raise CommitConflict if the branch was deleted or renamed before its snapshot was published."""
    table = claim.table
    if table.layout.branch is None:
        return
    try:
        is_gone = _is_gone(claim)
    except CommitOutcomeUnknown:
        raise
    except LakehouseError as error:
        raise _unknown(
            claim, f"it was written, and whether its branch is still there cannot be read ({error})"
        ) from error
    if is_gone:
        raise CommitConflict(f"{table.name}: the branch was deleted or renamed before the commit. Nothing was applied.")


def _is_gone(claim: _Claim) -> bool:
    """Return whether the branch is gone; then remove our snapshot, with which the folder looks like half a branch."""
    table, snapshot = claim.table, claim.snapshot
    if table.store.infos([table.layout.schema(snapshot.schema_id)]):
        return False
    # What removes a branch lists its snapshots, and deletes its boundary last: one that is there now was not listed.
    if table.snapshots.boundary.mark().is_closed or not table.snapshots.has(snapshot.id):
        raise _unknown(claim, "its branch was deleted or renamed, and the snapshot with it")
    if left := table.store.delete([table.layout.snapshot(snapshot.id)]):
        raise _unknown(claim, f"its branch was deleted, and {left[0]} was not removed")
    return True


def _unknown(claim: _Claim, reason: str) -> CommitOutcomeUnknown:
    snapshot = claim.snapshot
    return CommitOutcomeUnknown(
        f"{snapshot.commit_user}/{snapshot.commit_identifier}: snapshot {snapshot.id} with nonce "
        f"{snapshot.properties[NONCE_PROPERTY]}: {reason}. Commit the same again, which finds out; never abort."
    )
