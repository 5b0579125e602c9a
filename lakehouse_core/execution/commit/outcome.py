"""Outcomes of a commit: the results of one attempt, of one step, and of a staged commit with all its steps.

Source: docs/reliability/commit.md#errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from lakehouse_core.errors import (
    CommitConflict,
    CommitTimeout,
    InvalidRequest,
    NotFound,
    StorageUnavailable,
    TaskFailed,
)
from lakehouse_core.metadata.foreign import ForeignObject
from lakehouse_core.planning.commit.conflicts import Conflict
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.planning.commit.steps import StepPlan
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.snapshot import Snapshot

# After these errors a commit of one step is not applied, and never will be unless the caller commits it again.
NOTHING_APPLIED: Final = (
    CommitConflict,
    CommitTimeout,
    ForeignObject,
    InvalidRequest,
    NotFound,
    StorageUnavailable,
    TaskFailed,
)


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot is applied."""


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another writer took the id, or the id has expired. Nothing is applied: wait, then try again."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """The latest snapshot changed before the next id was claimed. Nothing is lost: look again at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A step became `snapshot`, made after `previous`. `manifests_before` and `manifests`: the base manifests of the
    two.

    `forgotten_users`: users younger than a week that the ledger dropped. `clock_note`: how its time was found.
    """

    previous: Snapshot | None
    snapshot: Snapshot
    plan: StepPlan
    manifests_before: Sequence[ManifestFile]
    manifests: Sequence[ManifestFile]
    attempts: int = 0
    forgotten_users: int = 0
    clock_note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyCommitted:
    """The step was committed before. `snapshot_ids`: all snapshots of its commit; `snapshots`: the kept ones."""

    snapshot_ids: tuple[int, ...]
    snapshots: tuple[Snapshot, ...]
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToCommit:
    """The step changes nothing after `previous`. `manifests`: those of `previous`, if the step loaded them."""

    previous: Snapshot | None
    plan: StepPlan
    manifests: Sequence[ManifestFile] = ()
    attempts: int = 0


StepOutcome: TypeAlias = Committed | AlreadyCommitted | NothingToCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The result of a staged commit. `snapshots`: those that it made, oldest first; none when there was nothing to do.

    `replayed`: an earlier call had committed it, and this call did nothing; `snapshot_ids` are the ids of all its
    snapshots, `snapshots` those that have not expired. `changes`: one for each snapshot made now. `conflicts`: the
    conflicts of compactions with other commits; their buckets stay as they are. `compaction_failure`: why a compaction
    that was staged with rows was not applied with them. `forgotten_users`: users younger than a week that the ledger
    dropped for lack of room; a repeated commit of such a user might not be recognised.
    """

    snapshots: tuple[Snapshot, ...] = ()
    snapshot_ids: tuple[int, ...] = ()
    snapshot_id_before: int | None = None
    attempts: int = 0
    replayed: bool = False
    changes: tuple[FileChanges, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    compaction_failure: str | None = None
    forgotten_users: int = 0
    clock_note: str | None = None
    noop_reason: str | None = None

    def then(self, second: "CommitResult") -> "CommitResult":
        """Return the combined result of two steps; `second` is the later one."""
        return CommitResult(
            snapshots=(*self.snapshots, *second.snapshots),
            snapshot_ids=(*self.snapshot_ids, *second.snapshot_ids),
            snapshot_id_before=self.snapshot_id_before,
            attempts=self.attempts + second.attempts,
            changes=(*self.changes, *second.changes),
            conflicts=second.conflicts,
            compaction_failure=second.compaction_failure,
            forgotten_users=self.forgotten_users + second.forgotten_users,
            clock_note=self.clock_note or second.clock_note,
        )


def result_of(outcome: StepOutcome) -> CommitResult:
    """Return the result of a commit of one step."""
    match outcome:
        case Committed(snapshot=snapshot, previous=previous, plan=plan):
            return CommitResult(
                snapshots=(snapshot,),
                snapshot_ids=(snapshot.id,),
                snapshot_id_before=None if previous is None else previous.id,
                attempts=outcome.attempts,
                changes=(plan.changes,),
                conflicts=plan.conflicts,
                forgotten_users=outcome.forgotten_users,
                clock_note=outcome.clock_note,
            )
        case AlreadyCommitted(snapshots=snapshots, snapshot_ids=snapshot_ids):
            return CommitResult(
                snapshots=snapshots, snapshot_ids=snapshot_ids, attempts=outcome.attempts, replayed=True
            )
        case NothingToCommit(plan=plan):
            return CommitResult(
                attempts=outcome.attempts, conflicts=plan.conflicts, noop_reason="there is nothing to commit"
            )
        case _:
            assert_never(outcome)
