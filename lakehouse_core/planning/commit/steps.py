"""Commit steps: split a staged commit into one step for each snapshot, and plan a step for the present table.

Rule: a step is a value. The table's state comes as a `StepState`, read anew in each attempt.
Source: docs/reliability/commit.md#steps, docs/semantics/commit.md#commit-loop, docs/semantics/commit.md#overwrites.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, assert_never

from lakehouse_core.errors import CommitConflict, SnapshotExpired
from lakehouse_core.planning.commit.conflicts import Conflict, older_counts, unseen_files
from lakehouse_core.planning.commit.file_changes import (
    FileChanges,
    append_changes,
    check_itself,
    compact_changes,
    conflicts_of,
    is_compaction,
    may_return,
)
from lakehouse_core.planning.commit.index_files import check_other_indexes
from lakehouse_core.planning.commit.overwrites import restored_files, with_removed, with_upgraded_files
from lakehouse_core.planning.commit.partial import NumberedAbove, changes_that_fit, overtaken_moves
from lakehouse_core.planning.commit.read_scope import LaterChanges, ReadScope, unseen_changes
from lakehouse_core.planning.commit.waiting import (
    check_keep_order,
    check_may_wait,
    check_none_waits,
    check_restored,
)
from lakehouse_core.planning.partitions import bucket_name
from lakehouse_core.table.bucketing import Bucketing, Dynamic, Fixed, Postpone, Unaware, is_placed
from lakehouse_core.table.commit_message import Append, CommitKind, CommitMessage, StaticOverwrite
from lakehouse_core.table.manifest import (
    DELETION_VECTORS,
    HASH_INDEX,
    EntryKind,
    IndexManifestEntry,
    ManifestEntry,
)
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit

_NOTHING: Final = FileChanges(kind=CommitKind.COMPACT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendStep:
    """Add files, and delete the files that its messages name. Deletes make its snapshot an OVERWRITE.

    `parts`: the staged commits that `staged` joins, in order; empty if it was staged as one. `reads`: what a statement
    read before it wrote the files, None for a plain write.
    """

    staged: StagedCommit
    changes: FileChanges
    skips_empty: bool
    parts: tuple[StagedCommit, ...] = ()
    reads: ReadScope | None = None

    @property
    def kind(self) -> CommitKind:
        return self.changes.kind

    @property
    def name(self) -> str:
        return _name(self.staged)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverwriteStep:
    """Replace the files of its partitions, if its writer has seen all of them. `changes` do not include the
    removals. `reads`: what of the table itself its rows were made of, None if they come from elsewhere.
    """

    staged: StagedCommit
    changes: FileChanges
    skips_empty: bool
    reads: ReadScope | None = None

    @property
    def kind(self) -> CommitKind:
        return CommitKind.OVERWRITE

    @property
    def name(self) -> str:
        return _name(self.staged)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactStep:
    """Replace files by the output of compactions, in the buckets where all input is still live.

    `numbered_above`: of the buckets into which waiting rows were moved, the highest sequence number before.
    """

    staged: StagedCommit
    messages: tuple[CommitMessage, ...]
    skips_empty: bool = True
    numbered_above: NumberedAbove = field(default_factory=dict)

    @property
    def kind(self) -> CommitKind:
        return CommitKind.COMPACT

    @property
    def name(self) -> str:
        return _name(self.staged)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifestsStep:
    """Rewrite all manifests as fewer ones. It names no data file, so it has no conflicts; `staged` names user and
    identifier.
    """

    staged: StagedCommit
    skips_empty: bool = False

    @property
    def kind(self) -> CommitKind:
        return CommitKind.COMPACT

    @property
    def name(self) -> str:
        return f"compact_manifests by {self.staged.commit_user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStep:
    """Bring the files of another state, `target`, and remove all others. It fits after every snapshot, so it has no
    conflicts; `staged` names user and identifier. `verb`: what brings them.
    """

    staged: StagedCommit
    target: Snapshot
    skips_empty: bool = True
    verb: str = "rollback_to"

    @property
    def kind(self) -> CommitKind:
        return CommitKind.OVERWRITE

    @property
    def name(self) -> str:
        return f"{self.verb} {self.target.id} by {self.staged.commit_user}"


CommitStep: TypeAlias = AppendStep | OverwriteStep | CompactStep | RewriteManifestsStep | RestoreStep


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """The state of the table at `latest_id` (None: no snapshot), as input of a step's plan.

    `live`: the live files of the step's partitions, None if the step needs no comparison with them. `wanted` and
    `wanted_indexes`: the files of the state that a step brings back, with their statistics. `covers`: the
    partitions that an overwrite replaces, None if it replaces none. `since_staged`: kind and delta of each snapshot
    since the step was staged, for an overwrite. `later`: the changes since then with their statistics, for a step that
    has read rows; `file_schemas`: by id, the schemas of their files.
    """

    schema: TableSchema
    latest_id: int | None = None
    live: Sequence[ManifestEntry] | None = None
    indexes: Sequence[IndexManifestEntry] = ()
    wanted: Sequence[ManifestEntry] = ()
    wanted_indexes: Sequence[IndexManifestEntry] = ()
    covers: Callable[[bytes], bool] | None = None
    since_staged: Iterable[tuple[CommitKind, Iterable[ManifestEntry]]] = ()
    later: Sequence[LaterChanges] = ()
    file_schemas: Mapping[int, TableSchema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The plan of a step. `conflicts`: the changes that it gave up; a step with conflicts and nothing left to do is
    refused. `rewrites_manifests`: the base has no entry that deletes a file.
    """

    changes: FileChanges
    conflicts: tuple[Conflict, ...] = ()
    rewrites_manifests: bool = False

    @property
    def is_refused(self) -> bool:
        return bool(self.conflicts) and self.changes.is_empty


def commit_steps(
    staged: StagedCommit,
    *,
    skips_empty: bool,
    parts: tuple[StagedCommit, ...] = (),
    reads: ReadScope | None = None,
    numbered_above: NumberedAbove | None = None,
) -> tuple[CommitStep, ...]:
    """Return the steps of a staged commit in order: first the added and removed files, then the compactions.

    `skips_empty`: a commit that changes nothing makes no snapshot. `parts` as in `AppendStep`, `reads` also as in
    `OverwriteStep`, `numbered_above` as in `CompactStep`. Raises InvalidRequest for messages that contradict each
    other.
    """
    compactions = tuple(filter(is_compaction, staged.messages))
    compacted, changes = compact_changes(compactions), append_changes(staged)
    check_itself(compacted.entries)
    is_append = isinstance(staged.mode, Append)
    compact = CompactStep(staged=staged, messages=compactions, numbered_above=numbered_above or {})
    if compactions and is_append and changes.is_empty:
        return (compact,)
    check_itself(changes.entries)
    skips_empty = skips_empty or bool(compactions)
    first = (
        AppendStep(staged=staged, changes=changes, skips_empty=skips_empty, parts=parts, reads=reads)
        if is_append
        else OverwriteStep(staged=staged, changes=changes, skips_empty=skips_empty, reads=reads)
    )
    return (first, compact) if compactions else (first,)


def with_messages(step: AppendStep, messages: tuple[CommitMessage, ...]) -> AppendStep:
    """Return the step with `messages` in place of its own."""
    staged = replace(step.staged, messages=messages)
    return replace(step, staged=staged, changes=append_changes(staged))


def needs_live_files(changes: FileChanges, *, bucketing: Bucketing, bucket_settings: Iterable[str]) -> bool:
    """Return whether added and removed files must be compared with the live files of their partitions.

    An append without deletes needs no comparison, unless the option `bucket` has had several values (`bucket_settings`,
    as texts): then partitions may have different bucket counts, and a file must have that of its partition.
    """
    entries = changes.entries
    if changes.kind is not CommitKind.APPEND or any(entry.kind is EntryKind.DELETE for entry in entries):
        return True
    match bucketing:
        case Fixed():
            settings = set(bucket_settings)
            return len(settings) > 1 or any(str(entry.total_buckets) not in settings for entry in entries)
        case Postpone():
            # Partitions have different bucket counts; rows that wait fit any.
            return any(is_placed(entry.bucket) for entry in entries)
        case Unaware() | Dynamic():
            return False
        case _:
            assert_never(bucketing)


def plan_step(step: CommitStep, state: StepState) -> StepPlan:
    """Return the plan of `step` for the table in this state.

    Raises CommitConflict for an overwrite whose writer has not seen everything, and for rows beside others that no
    compaction would move; InvalidRequest for a state with such rows; UnsupportedFeature.
    """
    match step:
        case AppendStep(changes=changes, reads=reads):
            if changes.waits:
                check_may_wait(step.name, state.schema)
            if reads is not None:
                unseen = unseen_changes(reads, changes, state.later, state.file_schemas)
                if unseen:
                    return StepPlan(changes=FileChanges(kind=changes.kind), conflicts=tuple(unseen))
                # What adds rows only is told to readers of changes, by compactions that find it below the top level.
                removes = reads.whole_partitions and changes.kind is CommitKind.OVERWRITE
                if removes and state.schema.table_options.overwrite_upgrade:
                    changes = with_upgraded_files(changes, state.schema, state.live or ())
            if state.live is None:
                return StepPlan(changes=changes)
            check_none_waits(step.name, changes.entries, state.live, state.schema)
            return _unless_conflicting(changes, state.live, state)
        case OverwriteStep():
            return _plan_overwrite(step, state)
        case CompactStep(messages=messages, numbered_above=numbered_above):
            live = state.live or ()
            overtaken = overtaken_moves(messages, live, numbered_above)
            changes, conflicts = changes_that_fit(messages, live, state.schema, state.indexes, overtaken)
            if state.indexes:
                check_other_indexes(state.indexes, changes.entries)
            # As for restored files.
            returns = may_return(changes.entries)
            return StepPlan(changes=changes, conflicts=tuple(conflicts), rewrites_manifests=returns)
        case RewriteManifestsStep():
            return StepPlan(changes=_NOTHING, rewrites_manifests=True)
        case RestoreStep():
            check_restored(step.target.id, state.wanted, state.schema)
            check_keep_order(step.verb, state.live or (), state.wanted)
            changes = restored_files(state.live or (), state.indexes, state.wanted, state.wanted_indexes)
            check_other_indexes(state.indexes, changes.entries)
            # Java reads a file as deleted if any manifest deletes it, so none may that is older than its return.
            return StepPlan(changes=changes, rewrites_manifests=not changes.is_empty)
        case _:
            assert_never(step)


def replaced_error(staged: StagedCommit) -> CommitConflict:
    """Return the error of an overwrite if another snapshot has the id of its base."""
    return CommitConflict(
        f"{_name(staged)}: the overwrite was staged at snapshot {staged.base_snapshot_id}, and another snapshot has "
        "this id now: the table was rolled back, so the files that it would replace are not those that its writer "
        "saw. Nothing was applied: stage the overwrite again."
    )


def unread_error(reads: ReadScope, base_id: int, why: str) -> CommitConflict:
    """Return the error of a statement if the snapshots since its base, which has the id `base_id`, cannot be read."""
    return CommitConflict(
        f"The {reads.operation} read its rows at snapshot {base_id}, and {why}. Nothing was applied: run it again."
    )


def expired_error(base_id: int, error: SnapshotExpired) -> CommitConflict:
    """Return the error of an overwrite if snapshots after `base_id` have expired."""
    return CommitConflict(
        f"The overwrite was staged at snapshot {base_id}, and some later snapshots have expired: {error} Nothing "
        "was applied: stage the overwrite again."
    )


def _name(staged: StagedCommit) -> str:
    return f"{staged.commit_user}/{staged.commit_identifier}"


def _plan_overwrite(step: OverwriteStep, state: StepState) -> StepPlan:
    if step.changes.waits:
        check_may_wait(step.name, state.schema)
    if state.covers is None:
        return StepPlan(changes=step.changes)
    if step.reads is not None:
        unseen = unseen_changes(step.reads, step.changes, state.later, state.file_schemas)
        if unseen:
            return StepPlan(changes=FileChanges(kind=step.changes.kind), conflicts=tuple(unseen))
    _check_seen(step, state, state.covers)
    added = step.changes
    # A compaction staged with the overwrite names the overwrite's files at level 0.
    if state.schema.table_options.overwrite_upgrade and not any(map(is_compaction, step.staged.messages)):
        added = with_upgraded_files(added, state.schema)
    live = state.live or ()
    covered = [entry for entry in state.indexes if is_placed(entry.bucket) and state.covers(entry.partition)]
    changes = with_removed(
        added, live, (entry for entry in covered if entry.index_type in (DELETION_VECTORS, HASH_INDEX))
    )
    check_none_waits(step.name, changes.entries, live, state.schema)
    return _unless_conflicting(changes, live, state)


def _unless_conflicting(changes: FileChanges, live: Sequence[ManifestEntry], state: StepState) -> StepPlan:
    """Return a plan with all changes, or with none if one of them has a conflict."""
    if state.indexes:
        check_other_indexes(state.indexes, changes.entries)
    conflicts = [
        *older_counts(live, changes.entries, state.schema),
        *conflicts_of(changes, live, state.schema, state.indexes),
    ]
    return StepPlan(changes=FileChanges(kind=changes.kind) if conflicts else changes, conflicts=tuple(conflicts))


def _check_seen(step: OverwriteStep, state: StepState, covers: Callable[[bytes], bool]) -> None:
    """Raise CommitConflict if the overwritten partitions hold a file that was added after staging."""
    base_id = step.staged.base_snapshot_id or 0
    if state.latest_id is None:
        return
    if base_id > state.latest_id:
        raise CommitConflict(
            f"The overwrite was staged at snapshot {base_id}, and the latest is {state.latest_id} now: the table "
            "was rolled back. The files that it would replace are not those that its writer saw. Nothing was "
            "applied: stage the overwrite again."
        )
    if unseen := unseen_files(state.since_staged, covers):
        where = bucket_name(unseen[0].partition, unseen[0].bucket, state.schema)
        raise CommitConflict(
            f"Since snapshot {base_id}, at which the overwrite was staged, {len(unseen)} files were added to the "
            f"partitions that it replaces, for example {unseen[0].file.file_name} in {where}. Nothing was applied: "
            "stage the overwrite again if those rows may go too, or write them again after it."
            f"{_narrower(step.staged, state.schema)}"
        )


def _narrower(staged: StagedCommit, schema: TableSchema) -> str:
    """Return the advice for replacing less, if that is possible."""
    if not schema.partition_keys or not isinstance(staged.mode, StaticOverwrite):
        return ""
    whole = "the partition that was named" if staged.mode.partition else "the whole table"
    return f" It replaces {whole}; with dynamic=True only the partitions that its data has."
