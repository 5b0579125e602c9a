"""Commit: publish a staged commit as one or two snapshots, exactly once, also under races and crashes.

Rule: an attempt writes new files only, then creates one snapshot. It deletes only files that no snapshot names. Source:
docs/reliability/commit.md#steps, docs/semantics/commit.md#commit-loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from lakehouse_core.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CommitTimeout,
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    TableDropped,
)
from lakehouse_core.execution.commit.outcome import (
    NOTHING_APPLIED,
    AlreadyCommitted,
    CommitResult,
    Committed,
    LostRace,
    NothingToCommit,
    Outdated,
    Published,
    StepOutcome,
    result_of,
)
from lakehouse_core.execution.commit.publish import publish
from lakehouse_core.execution.commit.replay import LedgerReader, find_applied
from lakehouse_core.execution.commit.snapshot_files import BaseManifests, NewSnapshot, SnapshotFiles
from lakehouse_core.execution.commit.staged_files import discard, discard_of_dropped
from lakehouse_core.execution.commit.state import StepReader
from lakehouse_core.execution.commit.waiting.turn import CommitTurn, commit_retry
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.foreign import ForeignObject
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.options import WriteKind
from lakehouse_core.planning.commit.checks import check_schema, check_staged
from lakehouse_core.planning.commit.conflicts import Conflict, conflict_error
from lakehouse_core.planning.commit.file_changes import check_new_files, new_files
from lakehouse_core.planning.commit.partial import NumberedAbove
from lakehouse_core.planning.commit.read_scope import ReadScope
from lakehouse_core.planning.commit.steps import (
    CommitStep,
    CompactStep,
    RewriteManifestsStep,
    StepPlan,
    commit_steps,
    plan_step,
)
from lakehouse_core.retry import Attempt
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.layout import QUEUE_MARK
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit

# To prepare a snapshot takes longer than to create it. If another commit is published meanwhile, the attempt creates
# nothing, keeps its files and looks at the new latest snapshot. After this many such looks in one attempt the race
# counts as lost.
_MOST_FREE_LOOKS: Final = 3


def commit(
    table: TableContext,
    staged: StagedCommit,
    *,
    parts: tuple[StagedCommit, ...] = (),
    reads: ReadScope | None = None,
    numbered_above: NumberedAbove | None = None,
) -> CommitResult:
    """Publish `staged` and return its snapshots: one, or two when it holds both rows and compactions.

    Safe to call again after a crash or a lost answer: a commit is recognised by user, identifier and kind. A compaction
    with conflicts in some buckets is applied in the others; the result names a compaction that failed after the rows of
    the same commit were applied. If other commits wrote the same buckets after staging, the engine of the table first
    writes the staged rows anew with higher sequence numbers. `parts`: the staged commits that `staged` joins;
    later ones win over earlier ones in the same way. `reads`: what a statement read at the base of `staged`; the commit
    is refused if other commits changed it since then. `numbered_above`: for a compaction, as in `CompactStep`.
    Raises CommitConflict (nothing applied: repeat the work), CommitTimeout (nothing applied: commit again),
    CommitOutcomeUnknown (commit again), StaleCommit, InvalidRequest, UnsupportedFeature, CorruptTable,
    StorageUnavailable, TaskFailed; NotFound if the table was dropped.
    """
    try:
        check_staged(staged)
        look = table.look(QUEUE_MARK)
        schema = table.schemas.latest(look)
        check_schema(staged, schema)
        first, *others = commit_steps(
            staged,
            skips_empty=schema.table_options.commit.ignore_empty is not False,
            parts=parts,
            reads=reads,
            numbered_above=numbered_above,
        )
        write_supported(schema, kind=WriteKind.MAINTENANCE if isinstance(first, CompactStep) else WriteKind.ROWS)
        result = result_of(make_snapshot(table, first, schema, look))
    except (NotFound, InvalidRequest):
        discard_of_dropped(table, staged)
        raise
    # A compaction that was not applied with its rows is dropped: its input files may have been replaced since.
    if result.replayed or not others:
        return result
    (compaction,) = others
    return result.then(_compact_after_rows(table, compaction, schema))


def commit_or_discard(
    table: TableContext,
    staged: StagedCommit,
    *,
    named_by: str,
    reads: ReadScope | None = None,
    numbered_above: NumberedAbove | None = None,
) -> CommitResult:
    """Publish a staged commit that only this call holds; delete its files if it certainly is not applied.

    `reads` and `numbered_above`: as in `commit`.

    REQUIRES: no other call repeats the commit, and it holds rows or a compaction, not both. Raises as `commit` does.
    """
    try:
        return commit(table, staged, reads=reads, numbered_above=numbered_above)
    except NOTHING_APPLIED:
        discard(table.store, table.schemas.schema(staged.schema_id), staged.messages, named_by=named_by)
        raise


def make_snapshot(
    table: TableContext,
    step: CommitStep,
    schema: TableSchema,
    look: Look,
    *,
    before_publish: Callable[[Snapshot | None], None] | None = None,
) -> StepOutcome:
    """Publish one step and return its outcome. `schema`, read with `look`, gives the options of the commit.
    `before_publish` is called in each attempt with the snapshot after which the step is published. Raises as `commit`
    and `before_publish` do.
    """
    return _StepRun(table, step, schema, look, before_publish=before_publish).run()


def _compact_after_rows(table: TableContext, step: CommitStep, schema: TableSchema) -> CommitResult:
    """Publish the compaction of a commit whose rows are applied. The rows stay applied, so a failure is part of the
    result.

    The next compaction does the work of a failed one. Raises CommitOutcomeUnknown.
    """
    run = _StepRun(table, step, schema)
    try:
        return result_of(run.run())
    except CommitOutcomeUnknown:
        raise
    except LakehouseError as error:
        if run.may_be_applied:
            raise CommitOutcomeUnknown(
                f"{step.name}: the rows are applied, but whether their compaction is applied too could not be read "
                f"({error}). Commit the same again, which finds out; never abort it."
            ) from error
        return CommitResult(
            attempts=run.attempts,
            conflicts=run.conflicts,
            compaction_failure=f"the rows are committed, but the compaction staged with them is not: {error}",
        )


class _StepRun:
    """The attempts to publish one step, with the state that an attempt leaves to the next.

    `may_be_applied`: a snapshot of the step is published, or was claimed with an unknown outcome.
    """

    def __init__(
        self,
        table: TableContext,
        step: CommitStep,
        schema: TableSchema,
        look: Look | None = None,
        *,
        before_publish: Callable[[Snapshot | None], None] | None = None,
    ) -> None:
        self._before_publish = before_publish
        self.attempts = 0
        self.conflicts: tuple[Conflict, ...] = ()
        self.may_be_applied = False
        self._table = table
        self._step = step
        self._files = SnapshotFiles(table, schema)
        self._reader = StepReader(table)
        self._turn = CommitTurn(table, schema.table_options.commit, look)
        # A rewrite of manifests races with all commits of other writers; only the deadline ends its attempts.
        is_limited = not isinstance(step, RewriteManifestsStep)
        self._tries = commit_retry(schema.table_options.commit, is_limited=is_limited).attempts(table.clock)
        self._ledgers = LedgerReader(table.snapshots)

    def run(self) -> StepOutcome:
        """Repeat attempts until the step is applied or has nothing to do; raise when it cannot be applied."""
        try:
            outcome = self._until_done()
        except BaseException:
            if not self.may_be_applied:
                self._reader.end(applied=False)
            raise
        self._reader.end(applied=isinstance(outcome, Committed))
        return replace(outcome, attempts=self.attempts)

    def _until_done(self) -> StepOutcome:
        try:
            for attempt in self._tries:
                self.attempts = attempt.number
                outcome = self._attempt(attempt)
                if not isinstance(outcome, LostRace):
                    return outcome
                self._turn.wait_after_loss(attempt)
            raise CommitTimeout(
                f"{self._step.name}: lost {self.attempts} races in a row, nothing was applied. "
                "Commit the same again, or let fewer writers commit at once."
            )
        except BaseException:
            if not self.may_be_applied:
                self._files.discard()
            raise
        finally:
            self._turn.leave()

    def _attempt(self, attempt: Attempt) -> StepOutcome | LostRace:
        try:
            for look in range(1 + _MOST_FREE_LOOKS):
                outcome = self._look(attempt, is_free=look < _MOST_FREE_LOOKS)
                if not isinstance(outcome, Outdated):
                    return outcome
        except CorruptTable as error:
            # Its writer removes a foreign object soon. An expiry may delete the files of a snapshot with a successor.
            is_over = attempt.is_last if isinstance(error, ForeignObject) else not self._turn.base_has_expired
            if self.may_be_applied or is_over:
                raise
            return LostRace()
        raise AssertionError("only a look that costs no attempt may be outdated")

    def _look(self, attempt: Attempt, *, is_free: bool) -> StepOutcome | LostRace | Outdated:
        """Plan the step after the latest snapshot, and publish the plan."""
        try:
            previous = self._turn.latest(attempt, self._prepare)
            ready = self._decide(previous)
            if not isinstance(ready, _Ready):
                return ready
            new = self._written(ready, is_free=is_free)
        except (CommitConflict, CorruptTable):
            # If the table was dropped, this raises NotFound: the drop deleted files that the step was reading.
            self._table.schemas.latest()
            # Another process may commit the same, and delete staged files once the commit is applied there.
            applied = self._applied_at(self._table.snapshots.latest())
            if applied is None:
                raise
            return applied
        return Outdated() if new is None else self._publish(ready, new, attempt)

    def _decide(self, previous: Snapshot | None) -> "_Ready | AlreadyCommitted | NothingToCommit":
        """Plan the step after `previous`, and merge the manifests of its base."""
        if (applied := self._applied_at(previous)) is not None:
            return applied
        schema = self._turn.schema()
        at_once = self._table.store.requests_at_once
        (step, plan), before = both(
            lambda: self._plan(previous, schema), lambda: self._files.before(previous), at_once=at_once
        )
        if plan.changes.is_empty and step.skips_empty:
            return self._nothing(previous, plan)
        # On a disk, where no second question is answered beside the first, nothing is written in vain.
        is_outdated = at_once == 1 and self._has_next(previous, plan, schema)
        base = self._files.merge(before, plan, schema)
        if plan.rewrites_manifests and base.is_unchanged and plan.changes.is_empty:
            return self._nothing(previous, plan, base.before)
        return _Ready(previous=previous, schema=schema, step=step, plan=plan, base=base, is_outdated=is_outdated)

    def _has_next(self, previous: Snapshot | None, plan: StepPlan, schema: TableSchema) -> bool:
        """Return whether the snapshot after `previous` is there. Raises as `check_new_files` does for the files of the
        plan.
        """
        files = tuple(new_files(plan.changes, DataLayout(schema)))
        next_key = self._table.layout.snapshot(_id_after(previous))
        infos = self._table.store.infos([*(file.key for file in files), next_key])
        check_new_files(files, infos)
        return next_key in infos

    def _written(self, ready: "_Ready", *, is_free: bool) -> NewSnapshot | None:
        """Write the files of the snapshot; return None if another one has its id and a further look costs no
        attempt.
        """
        if is_free and ready.is_outdated:
            return None
        previous, plan, schema = ready.previous, ready.plan, ready.schema
        ledger, at_once = self._ledgers.at(previous), self._table.store.requests_at_once
        new, is_taken = both(
            lambda: self._files.write(
                previous, ready.step, plan.changes, ready.base, schema=schema, ledger=ledger, marks=self._turn.marks
            ),
            lambda: (
                is_free and self._table.snapshots.ids.has(_id_after(previous))
                if at_once == 1
                else self._has_next(previous, plan, schema)
            ),
            at_once=at_once,
        )
        return None if is_free and is_taken else new

    def _prepare(self, latest: Snapshot) -> None:
        """Write the manifests of the changes while this commit waits; most often they still fit when its turn comes."""
        if self._applied_at(latest) is None:
            _, plan = self._plan(latest, self._turn.schema())
            self._files.write_ahead(plan.changes)

    def _plan(self, previous: Snapshot | None, schema: TableSchema) -> tuple[CommitStep, StepPlan]:
        turn = self._turn
        step, state = self._reader.read(self._step, previous, schema, look=turn.look, commits_ahead=turn.commits_ahead)
        plan = plan_step(step, state)
        self.conflicts = plan.conflicts
        if plan.is_refused:
            raise conflict_error(plan.conflicts, schema)
        return step, plan

    def _publish(self, ready: "_Ready", new: NewSnapshot, attempt: Attempt) -> Committed | LostRace:
        if self._turn.has_stalled:
            return LostRace()
        if self._before_publish is not None:
            self._before_publish(ready.previous)
        self.may_be_applied = True
        try:
            outcome = publish(self._table, new.snapshot, attempt, when_done=self._turn.leave)
        except (StorageUnavailable, InvalidRequest, TableDropped):
            # The request was refused before a file was created, or its file is removed.
            self.may_be_applied = False
            raise
        match outcome:
            case LostRace():
                self.may_be_applied = False
                return outcome
            case Published():
                if new.has_others:
                    self._files.keep(new)
                return Committed(
                    previous=ready.previous,
                    snapshot=new.snapshot,
                    plan=ready.plan,
                    manifests_before=ready.base.before,
                    manifests=ready.base.after,
                    forgotten_users=new.forgotten_users,
                    clock_note=new.clock_note,
                )
            case _:
                assert_never(outcome)

    def _applied_at(self, latest: Snapshot | None) -> AlreadyCommitted | None:
        if isinstance(self._step, RewriteManifestsStep):
            # The step has a fresh user, so it was never applied before, and the ledger need not be read.
            return None
        applied = find_applied(self._table, latest, self._ledgers.at(latest), self._step)
        if applied is not None:
            self._files.discard()
        return applied

    def _nothing(
        self, previous: Snapshot | None, plan: StepPlan, manifests: Sequence[ManifestFile] = ()
    ) -> NothingToCommit:
        # An earlier attempt may have written files.
        self._files.discard()
        return NothingToCommit(previous=previous, plan=plan, manifests=manifests)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """The plan of a step after `previous`, with the manifests of its base. `is_outdated`: there is a later
    snapshot; on an object store it is not known yet.
    """

    previous: Snapshot | None
    schema: TableSchema
    step: CommitStep
    plan: StepPlan
    base: BaseManifests
    is_outdated: bool


def _id_after(previous: Snapshot | None) -> int:
    return 1 if previous is None else previous.id + 1
