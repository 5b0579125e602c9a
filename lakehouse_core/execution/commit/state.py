"""State of a step: read the input of `plan_step` from the table, and reuse it in later attempts.

Rule: nothing is decided here. Live files are read once; each later attempt applies the deltas of newer snapshots.
Source: docs/reliability/commit.md#steps.
"""

from collections.abc import Sequence
from dataclasses import replace

from lakehouse_core.errors import CorruptTable, NotFound, SnapshotExpired
from lakehouse_core.execution.commit.keys.clashes import KeyClashes
from lakehouse_core.execution.commit.keys.hash_indexes import HashIndexes
from lakehouse_core.execution.commit.live_files import live_in
from lakehouse_core.execution.commit.order import CommitOrder
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.deltas import LONGEST_CATCH_UP, deltas_since, is_part
from lakehouse_core.metadata.look import Look
from lakehouse_core.planning.commit.hash_indexes import claims_of
from lakehouse_core.planning.commit.overwrites import overwritten
from lakehouse_core.planning.commit.read_scope import LaterChanges, ReadScope
from lakehouse_core.planning.commit.steps import (
    AppendStep,
    CommitStep,
    CompactStep,
    OverwriteStep,
    RestoreStep,
    RewriteManifestsStep,
    StepState,
    expired_error,
    needs_live_files,
    replaced_error,
    unread_error,
    with_messages,
)
from lakehouse_core.table.bucketing import has_hash_index, moves_keys
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.manifest import EntryKind, IndexManifestEntry, Keep, ManifestEntry, merge_entries
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import Seen, base_of


class StepReader:
    """Reads the state of one step in each of its attempts.

    What compares its rows with those of other commits is made by the attempt that needs it.
    """

    def __init__(self, table: TableContext) -> None:
        self._table = table
        self._live = _LiveFiles(table)
        self._clashes: KeyClashes | None = None
        self._order: CommitOrder | None = None
        self._hash_indexes: HashIndexes | None = None
        self._later: _LaterChanges | None = None
        self._renumbered: AppendStep | None = None

    def read(
        self, step: CommitStep, latest: Snapshot | None, schema: TableSchema, *, look: Look | None, commits_ahead: int
    ) -> tuple[CommitStep, StepState]:
        """Return the step and its state at `latest`. The step has higher sequence numbers for rows of buckets that
        other commits up to `latest` wrote, and hash indexes that hold the keys of those commits too.
        `look`: the one that found `latest`. `commits_ahead`: as for `CommitOrder.messages_at`.

        REQUIRES: every call is given the same step, and the one that an earlier call returned certainly was not
        applied. Raises as `state`, `KeyClashes`, `CommitOrder` and `HashIndexes` do.
        """
        if moves_keys(schema.bucketing) and isinstance(step, AppendStep | OverwriteStep) and not _keeps_keys(step):
            if self._clashes is None:
                parts = step.parts if isinstance(step, AppendStep) else ()
                self._clashes = KeyClashes(self._table, step.staged, parts)
            self._clashes.check_at(latest, schema)
        if isinstance(step, AppendStep):
            step = self._after_others(step, latest, schema, look=look, commits_ahead=commits_ahead)
        return step, self.state(step, latest, schema)

    def state(self, step: CommitStep, latest: Snapshot | None, schema: TableSchema) -> StepState:
        """Return the state at `latest`. Raises CommitConflict when the base of an overwrite has expired."""
        latest_id = None if latest is None else latest.id
        match step:
            case AppendStep():
                return self._of_append(step, latest, schema)
            case OverwriteStep():
                return self._of_overwrite(step, latest, schema)
            case CompactStep():
                partitions = frozenset(message.partition for message in step.messages)
                live = self._live.at(latest, partitions, schema)
                return StepState(schema=schema, latest_id=latest_id, live=live, indexes=self._indexes(latest))
            case RewriteManifestsStep():
                return StepState(schema=schema, latest_id=latest_id)
            case RestoreStep(target=target):
                return self._of_restore(target, latest, schema)

    def end(self, *, applied: bool) -> None:
        """Delete the files that renumbering made unused. REQUIRES: the step is applied, or certainly is not."""
        if self._order is not None:
            self._order.end(applied=applied)
        if self._hash_indexes is not None:
            self._hash_indexes.end(applied=applied)

    def _after_others(
        self, step: AppendStep, latest: Snapshot | None, schema: TableSchema, *, look: Look | None, commits_ahead: int
    ) -> AppendStep:
        """Return the step whose rows come after those of all commits up to `latest`."""
        messages = step.staged.messages
        if self._order is None and _may_be_overtaken(step, latest):
            self._order = CommitOrder(self._table, step.staged, step.parts)
        if self._order is not None:
            messages = self._order.messages_at(latest, schema, look=look, commits_ahead=commits_ahead)
        if has_hash_index(schema.bucketing) and _brings_keys(step):
            self._hash_indexes = self._hash_indexes or HashIndexes(self._table, step.staged)
            messages = self._hash_indexes.messages_at(messages, latest, schema)
        if messages is step.staged.messages:
            return step
        if self._renumbered is None or messages is not self._renumbered.staged.messages:
            self._renumbered = with_messages(step, messages)
        return self._renumbered

    def _of_append(self, step: AppendStep, latest: Snapshot | None, schema: TableSchema) -> StepState:
        latest_id = None if latest is None else latest.id
        state = self._with_later(StepState(schema=schema, latest_id=latest_id), step, latest)
        settings = self._table.schemas.bucket_settings(schema)
        if not needs_live_files(step.changes, bucketing=schema.bucketing, bucket_settings=settings):
            return state
        live = self._live.at(latest, step.changes.partitions, schema)
        return replace(state, live=live, indexes=self._indexes(latest))

    def _with_later(self, state: StepState, step: AppendStep | OverwriteStep, latest: Snapshot | None) -> StepState:
        """Return the state with the changes since what the step has read."""
        if self._later is None and step.reads is not None:
            self._later = _LaterChanges(self._table, step.reads, base_of(step.staged))
        later = () if self._later is None else self._later.at(latest)
        ids = {entry.file.schema_id for each in later for entry in each.entries}
        schemas = {number: self._table.schemas.schema(number) for number in sorted(ids)}
        return replace(state, later=later, file_schemas=schemas)

    def _of_overwrite(self, step: OverwriteStep, latest: Snapshot | None, schema: TableSchema) -> StepState:
        covers = overwritten(step.staged, schema)
        if covers is None or latest is None:
            return StepState(schema=schema, covers=covers)
        if is_part(self._table.snapshots, base_of(step.staged), latest) is False and (
            (step.staged.base_snapshot_id or 0) <= latest.id
        ):
            raise replaced_error(step.staged)
        indexes = self._indexes(latest)
        try:
            since_staged = deltas_since(
                self._table.snapshots,
                self._table.manifests,
                step.staged.base_snapshot_id or 0,
                latest.id,
                keep=lambda partition, *_: covers(partition),
                without=CommitKind.COMPACT,
            )
        except SnapshotExpired as error:
            raise expired_error(step.staged.base_snapshot_id or 0, error) from error
        # Also rows that wait for their buckets, whatever the option says now.
        found = self._table.manifests.live_entries(latest, keep=lambda partition, *_: covers(partition))
        state = StepState(
            schema=schema,
            latest_id=latest.id,
            live=[entry for entry in found if entry.kind is EntryKind.ADD],
            indexes=indexes,
            covers=covers,
            since_staged=since_staged,
        )
        return self._with_later(state, step, latest)

    def _of_restore(self, target: Snapshot, latest: Snapshot | None, schema: TableSchema) -> StepState:
        manifests = self._table.manifests
        return StepState(
            schema=schema,
            latest_id=None if latest is None else latest.id,
            live=() if latest is None else manifests.live_entries(latest, with_stats=True),
            indexes=self._indexes(latest),
            wanted=manifests.live_entries(target, with_stats=True),
            wanted_indexes=manifests.index_entries(target),
        )

    def _indexes(self, latest: Snapshot | None) -> Sequence[IndexManifestEntry]:
        return () if latest is None else self._table.manifests.index_entries(latest)


def _may_be_overtaken(step: AppendStep, latest: Snapshot | None) -> bool:
    """Return whether rows of others may have to come before some of the step: those of commits since it was staged, or
    of another of its parts.
    """
    if step.reads is not None:
        # What the statement read tells that no other commit wrote its keys.
        return False
    is_base = latest is None or base_of(step.staged) == Seen(latest.id, latest.time_millis)
    return bool(step.parts) or not is_base


def _keeps_keys(step: AppendStep | OverwriteStep) -> bool:
    """Return whether each key of the step stays in its partition."""
    return isinstance(step, AppendStep) and step.reads is not None and step.reads.moves_no_keys


def _brings_keys(step: AppendStep) -> bool:
    """Return whether the step brings keys that the indexes of its buckets may lack. A statement of whole partitions has
    indexes of its own.
    """
    if step.reads is None:
        return True
    return not step.reads.whole_partitions and any(map(claims_of, step.staged.messages))


class _LaterChanges:
    """The changes since the base of a statement, extended from attempt to attempt."""

    def __init__(self, table: TableContext, reads: ReadScope, base: Seen) -> None:
        self._table = table
        self._reads = reads
        self._base_id = base.id
        self._seen = base
        self._changes: list[LaterChanges] = []

    def at(self, latest: Snapshot | None) -> Sequence[LaterChanges]:
        """Return the changes of the snapshots from the base to `latest`, oldest first.

        Raises CommitConflict if one of them has expired, or if the table was rolled back.
        """
        if latest is None or self._seen.id > latest.id or is_part(self._table.snapshots, self._seen, latest) is False:
            if latest is None and not self._seen.id:
                return ()
            raise unread_error(self._reads, self._base_id, "the table was rolled back since then")
        try:
            new = self._since(self._seen.id, latest.id)
        except SnapshotExpired as error:
            raise unread_error(self._reads, self._base_id, "snapshots since then have expired") from error
        if self._reads.sees_marks and any(each.kind is CommitKind.OVERWRITE for each in new):
            raise unread_error(self._reads, self._base_id, "rows were deleted or updated since then")
        self._changes += new
        self._seen = Seen(latest.id, latest.time_millis)
        return self._changes

    def _since(self, after_id: int, until_id: int) -> list[LaterChanges]:
        snapshots, manifests = self._table.snapshots, self._table.manifests
        read = [one for one in snapshots.since(after_id, until_id) if one.commit_kind is not CommitKind.COMPACT]
        try:
            return [
                LaterChanges(
                    kind=one.commit_kind,
                    operation=one.operation,
                    entries=[
                        entry
                        for entries in manifests.entries_of_each(manifests.delta(one), with_stats=True)
                        for entry in entries
                    ],
                )
                for one in read
            ]
        except (CorruptTable, NotFound) as error:
            if not any(map(snapshots.has_expired, read)):
                raise
            raise SnapshotExpired(f"Snapshot {after_id + 1} expired while it was read.") from error


class _LiveFiles:
    """The live files of some partitions, read once and then updated by the deltas of later snapshots."""

    def __init__(self, table: TableContext) -> None:
        self._table = table
        self._at: Seen | None = None
        self._entries: list[ManifestEntry] = []

    def at(self, latest: Snapshot | None, partitions: frozenset[bytes], schema: TableSchema) -> list[ManifestEntry]:
        if latest is None:
            return []

        def keep(partition: bytes, bucket: int, level: int) -> bool:
            return partition in partitions

        try:
            for _, changed in self._deltas_until(latest, keep):
                self._entries = merge_entries([*self._entries, *changed])
        except SnapshotExpired:
            self._entries = live_in(self._table, latest, partitions, schema, keep=keep)
        self._at = Seen(latest.id, latest.time_millis)
        return self._entries

    def _deltas_until(self, latest: Snapshot, keep: Keep) -> list[tuple[CommitKind, list[ManifestEntry]]]:
        """Return the deltas up to `latest`. Raises SnapshotExpired when there are too many or one has expired."""
        at = self._at
        if at is None or latest.id - at.id > LONGEST_CATCH_UP or not is_part(self._table.snapshots, at, latest):
            raise SnapshotExpired(f"Snapshot {latest.id} is too far from {at}.")
        return deltas_since(self._table.snapshots, self._table.manifests, at.id, latest.id, keep=keep)
