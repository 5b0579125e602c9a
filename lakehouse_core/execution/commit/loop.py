"""Commit: staged files become one or two snapshots, exactly once, whatever else happens meanwhile.

Load the latest snapshot, see whether this was committed before, judge conflicts, write manifests, claim the next id;
again when another commit was faster. Nothing in it grows with the history of the table.
Source: docs/reliability/commit.md#steps, docs/semantics/commit.md#commit-loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CommitTimeout,
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    TaskFailed,
)
from lakehouse_core.execution.commit.discard import discard
from lakehouse_core.execution.commit.manifest_merge import merge_full, merge_minor
from lakehouse_core.execution.commit.new_files import check_new_files
from lakehouse_core.execution.commit.publish import Patience
from lakehouse_core.execution.commit.replay import applied_before, ledger_at
from lakehouse_core.execution.commit.stamping import next_stamp
from lakehouse_core.execution.commit.state import Part, compact_part, first_part
from lakehouse_core.execution.commit.trial import Trial
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.manifest_writer import ManifestWriter
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.planning.commit.checks import check_staged
from lakehouse_core.planning.commit.conflicts import Conflict
from lakehouse_core.planning.commit.file_changes import Changes, is_compaction_only
from lakehouse_core.planning.commit.index_files import combined_indexes
from lakehouse_core.planning.commit.ledger import LEDGER_PROPERTY, Ledger
from lakehouse_core.planning.commit.manifest_merge import must_change, replace_inputs
from lakehouse_core.planning.commit.snapshot import WrittenLists, next_snapshot
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.manifest.entry import NamedListFile
from lakehouse_core.table.schema import TableSchema, write_supported
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit

# A full merge of more than this would hold up its writer for seconds; `compact_manifests` does it on its own time.
LARGEST_FULL_MERGE_BYTES: Final = 64 << 20

# Preparing takes longer than claiming. When somebody was faster meanwhile, nothing is claimed: what is made is kept and
# goes after the new latest snapshot, so often before it counts as a lost race.
_MOST_SECOND_LOOKS: Final = 3

# A commit of one part that ends so is not applied and never will be, unless somebody commits the same again.
_NOTHING_APPLIED: Final = (CommitConflict, CommitTimeout, InvalidRequest, StorageUnavailable, TaskFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What became of a staged commit: `snapshots` that it made, oldest first; none when there was nothing to do.

    `replayed`: it had been committed before, and nothing was done now; `snapshot_ids` are all snapshots of it,
    `snapshots` those that have not expired. `changes`: one for each snapshot made now. `lost`: compactions that
    another commit overtook; their buckets stay as they are. `compaction_failure`: why a compaction that was staged with
    rows was not applied with them. `forgotten_users`: users younger than a week for whom the ledger had no room; a
    repeated commit of theirs might not be recognised.
    """

    snapshots: tuple[Snapshot, ...] = ()
    snapshot_ids: tuple[int, ...] = ()
    snapshot_id_before: int | None = None
    attempts: int = 0
    replayed: bool = False
    changes: tuple[Changes, ...] = ()
    lost: tuple[Conflict, ...] = ()
    compaction_failure: str | None = None
    forgotten_users: int = 0
    clock_note: str | None = None
    noop_reason: str | None = None


def commit(table: TableContext, staged: StagedCommit) -> CommitResult:
    """Apply `staged` to the table and return the snapshots that carry it: one, or two when it holds compactions too.

    Safe to call again after a crash or a lost answer: a commit is known by user, identifier and kind. A compaction
    that lost in some buckets is applied in the others; one that fails after its rows were applied is told in the
    result. Rows that another commit overtook since they were staged are written anew first, by `engine`, with sequence
    numbers above those of the others.
    Raises CommitConflict (nothing applied: repeat the work), CommitTimeout (nothing applied: commit again),
    CommitOutcomeUnknown (commit again), StaleCommit, InvalidRequest, UnsupportedFeature, CorruptTable,
    StorageUnavailable, TaskFailed.
    """
    check_staged(staged)
    _check_schemas(table.schemas, staged)
    compaction = compact_part(table, staged)
    if compaction is None:
        first = _Committer(table, staged, first_part(table, staged))
        return first.run(skips_empty=first.ignores_empty)
    if is_compaction_only(staged):
        return _Committer(table, staged, compaction).run(skips_empty=True)
    result = _Committer(table, staged, first_part(table, staged)).run(skips_empty=True)
    if result.replayed:
        # A compaction that was not applied with its append is dropped: what it read may have changed since.
        return result
    second: _Committer | None = None
    try:
        second = _Committer(table, staged, compaction)
        return together(result, second.run(skips_empty=True))
    except CommitOutcomeUnknown:
        raise
    except LakehouseError as error:
        # The append is applied and stays so, whatever this is; the compaction comes again by itself.
        if second is not None and second.may_be_applied:
            who = f"{staged.commit_user}/{staged.commit_identifier}"
            raise CommitOutcomeUnknown(
                f"{who}: the rows are applied; whether the compaction staged with them is, cannot be looked at "
                f"({error}). Commit the same again, which finds out; never abort."
            ) from error
        return together(
            result,
            CommitResult(
                attempts=0 if second is None else second.attempts,
                lost=compaction.lost,
                compaction_failure=f"the rows are committed, the compaction staged with them is not: {error}",
            ),
        )


def commit_once(
    table: TableContext,
    staged: StagedCommit,
    *,
    named_by: str,
) -> CommitResult:
    """Apply a staged commit that only this call holds: where it is certain that nothing was applied, its files are
    deleted, for no other call will repeat it. `staged` is rows or a compaction, not both. Raises as `commit` does.
    """
    try:
        return commit(table, staged)
    except _NOTHING_APPLIED:
        discard(table.store, table.schemas.schema(staged.schema_id), staged.messages, named_by=named_by)
        raise


class _Committer:
    """One part of a commit on its way to its snapshot, with what one attempt leaves to the next."""

    def __init__(self, table: TableContext, staged: StagedCommit, part: Part) -> None:
        schema = table.schemas.latest()
        options = schema.table_options
        self._table = table
        self._staged = staged
        self._part = part
        self._writer = ManifestWriter(
            table.store, table.clock, options=options, partition_types=[field.type for field in schema.partition_fields]
        )
        self._trial = Trial(
            table, self._writer, Patience(options.commit, table.clock, max_retries=options.commit.max_retries)
        )
        self._delta = _Delta(self._writer)
        self._index = _IndexManifest(table, self._writer)
        self._merge: _Merge | None = None
        self._max_skew_millis = options.expiry.max_skew_millis
        self._clock_note: str | None = None
        self.ignores_empty = options.commit.ignore_empty is not False

    @property
    def attempts(self) -> int:
        return self._trial.attempts

    @property
    def may_be_applied(self) -> bool:
        """Whether a snapshot was claimed that counts, or of which nobody can tell."""
        return self._trial.may_be_applied

    def run(self, *, skips_empty: bool) -> CommitResult:
        """Try until the part is applied or cannot be."""
        who = f"{self._staged.commit_user}/{self._staged.commit_identifier}"
        try:
            result = self._trial.run(lambda: self._attempt(skips_empty, _MOST_SECOND_LOOKS), who)
        except BaseException:
            if not self._trial.may_be_applied:
                self._part.end(applied=False)
            raise
        self._part.end(applied=bool(result.changes))
        return result

    def _attempt(self, skips_empty: bool, second_looks: int) -> CommitResult | None:
        """Return the result, None when another commit was faster."""
        try:
            ready = self._look(skips_empty)
        except (CommitConflict, CorruptTable):
            # Another process may commit the same staged commit; when it is applied there, staged files may be deleted.
            latest = self._table.snapshots.latest()
            applied = self._applied_by(latest, ledger_at(self._table.snapshots, latest))
            if applied is None:
                raise
            return applied
        if isinstance(ready, CommitResult):
            return ready
        if second_looks and self._table.snapshots.has(ready.next_id):
            return self._attempt(skips_empty, second_looks - 1)
        snapshot, named, forgotten = self._prepare(ready)
        self._writer.flush()
        if second_looks and self._table.snapshots.has(ready.next_id):
            return self._attempt(skips_empty, second_looks - 1)
        return self._publish(ready, snapshot, named, forgotten)

    def _publish(self, ready: "_Ready", snapshot: Snapshot, named: set[str], forgotten: int) -> CommitResult | None:
        if not self._trial.publish(snapshot):
            return None
        self._writer.discard_all_but(named)
        return CommitResult(
            snapshots=(snapshot,),
            snapshot_ids=(snapshot.id,),
            snapshot_id_before=None if ready.latest is None else ready.latest.id,
            attempts=self.attempts,
            changes=(ready.changes,),
            lost=self._part.lost,
            forgotten_users=forgotten,
            clock_note=self._clock_note,
        )

    def _look(self, skips_empty: bool) -> "_Ready | CommitResult":
        """Read the latest snapshot and make what goes after it; the result when there is nothing to make."""
        latest = self._trial.latest(self._write_changes)
        ledger = ledger_at(self._table.snapshots, latest)
        applied = self._applied_by(latest, ledger)
        if applied is not None:
            return applied
        schema = self._table.schemas.latest()
        changes = self._part.changes_at(latest, schema)
        if changes.is_empty and skips_empty:
            return CommitResult(attempts=self.attempts, lost=self._part.lost, noop_reason="there is nothing to commit")
        check_new_files(self._table.store, changes, DataLayout(schema))
        current = [] if latest is None else self._table.manifests.of(latest)
        base = self._merged(current, schema)
        self._delta.write(changes)
        return _Ready(latest=latest, ledger=ledger, schema=schema, changes=changes, base=base)

    def _write_changes(self, latest: Snapshot) -> None:
        """Write the manifests of the changes while others have their turn; most often they still fit in our own."""
        if self._applied_by(latest, ledger_at(self._table.snapshots, latest)) is not None:
            return
        changes = self._part.changes_at(latest, self._table.schemas.latest())
        if not changes.is_empty:
            self._delta.write(changes)
            self._writer.flush()

    def _prepare(self, ready: "_Ready") -> tuple[Snapshot, set[str], int]:
        """Return the next snapshot, the names of what it names, and how many users the ledger lost."""
        base_list = self._writer.write_list(ready.base)
        index_manifest = self._index.after(ready.latest, ready.changes)
        lists = WrittenLists(
            base=base_list,
            delta=self._delta.list,
            changelog=self._delta.changelog_list,
            index_manifest=index_manifest,
            checksums=self._checksums(base_list, index_manifest),
        )
        made = next_stamp(self._table.store, self._table.clock, ready.latest, max_skew_millis=self._max_skew_millis)
        self._clock_note = made.note
        snapshot = next_snapshot(
            ready.latest,
            ready.changes,
            lists,
            schema_id=ready.schema.id,
            commit_user=self._staged.commit_user,
            commit_identifier=self._staged.commit_identifier,
            properties=self._staged.properties,
            watermark=self._staged.watermark,
            uuid=self._table.clock.uuid(),
            nonce=self._table.clock.uuid(),
            now_millis=made.time_millis,
        )
        noted, forgotten = ready.ledger.with_commit(snapshot)
        properties = {**snapshot.properties, LEDGER_PROPERTY: noted.to_json()}
        named = {base_list.name, *(manifest.file_name for manifest in ready.base), *self._delta.names}
        named |= {index_manifest} if index_manifest is not None else set()
        return snapshot.model_copy(update={"properties": properties}), named, forgotten

    def _merged(self, current: Sequence[ManifestFile], schema: TableSchema) -> Sequence[ManifestFile]:
        """Return the manifests of the new base; a merge is made in the first attempt and kept while it still fits."""
        if self._merge is None:
            self._merge = _Merge(inputs=tuple(current), outputs=tuple(self._merge_now(current, schema)))
        replaced = replace_inputs(current, self._merge.inputs, self._merge.outputs)
        return current if replaced is None else replaced

    def _merge_now(self, current: Sequence[ManifestFile], schema: TableSchema) -> Sequence[ManifestFile]:
        options = schema.table_options
        changing = must_change(current, target_bytes=options.manifest_target_bytes)
        size = sum(manifest.file_size for manifest in changing)
        if options.manifest_full_compaction_bytes <= size <= LARGEST_FULL_MERGE_BYTES:
            merged = merge_full(self._table, self._writer, current)
            if merged is not None:
                return merged
        return merge_minor(self._table, self._writer, current, min_count=options.manifest_merge_min_count)

    def _checksums(self, base: NamedListFile, index_manifest: str | None) -> dict[str, str]:
        lists = (base, self._delta.list, self._delta.changelog_list)
        names = [one.name for one in lists if one is not None]
        names += [index_manifest] if index_manifest is not None else []
        return {name: self._writer.checksum_of(name) for name in names}

    def _applied_by(self, latest: Snapshot | None, ledger: Ledger) -> CommitResult | None:
        """Return the result of the same commit when it is applied already."""
        snapshot_ids = applied_before(self._table.snapshots, latest, ledger, self._staged, self._part.kind)
        if snapshot_ids is None:
            return None
        self._make_last(latest)
        self._writer.discard_all_but(())
        snapshots = []
        for snapshot_id in snapshot_ids:
            try:
                snapshots.append(self._table.snapshots.snapshot(snapshot_id))
            except NotFound:
                continue
        return CommitResult(
            snapshots=tuple(snapshots), snapshot_ids=snapshot_ids, attempts=self.attempts, replayed=True
        )

    def _make_last(self, latest: Snapshot | None) -> None:
        """Make the found snapshot durable: the process that claimed it may have been killed before it did so."""
        try:
            self._table.store.make_last([] if latest is None else [self._table.layout.snapshot(latest.id)])
        except StorageUnavailable as error:
            raise CommitOutcomeUnknown(
                f"{self._staged.commit_user}/{self._staged.commit_identifier}: it was committed before, but the store "
                f"did not confirm that this lasts ({error}). Commit the same again; never abort."
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """What one look at the table gave: the next snapshot but for its name lists."""

    latest: Snapshot | None
    ledger: Ledger
    schema: TableSchema
    changes: Changes
    base: Sequence[ManifestFile]

    @property
    def next_id(self) -> int:
        return 1 if self.latest is None else self.latest.id + 1


@dataclass(frozen=True, slots=True)
class _Merge:
    """What a manifest merge made of the manifests at the start of the list."""

    inputs: tuple[ManifestFile, ...]
    outputs: tuple[ManifestFile, ...]


class _Delta:
    """The manifests of the changes and their lists, written again only when the changes are others."""

    def __init__(self, writer: ManifestWriter) -> None:
        self._writer = writer
        self._of: Changes | None = None
        self.list = NamedListFile(name="", size=0)
        self.changelog_list: NamedListFile | None = None
        self.names: set[str] = set()

    def write(self, changes: Changes) -> None:
        if changes == self._of:
            return
        delta = self._writer.write_entries(changes.entries)
        changelog = self._writer.write_entries(changes.changelog)
        self.list = self._writer.write_list(delta)
        self.changelog_list = self._writer.write_list(changelog) if changelog else None
        lists = (self.list, self.changelog_list)
        self.names = {manifest.file_name for manifest in (*delta, *changelog)}
        self.names |= {one.name for one in lists if one is not None}
        self._of = changes


class _IndexManifest:
    """The index manifest after some changes, written again only when the one before it is another."""

    def __init__(self, table: TableContext, writer: ManifestWriter) -> None:
        self._table = table
        self._writer = writer
        self._of: tuple[str | None, Changes] | None = None
        self._name: str | None = None

    def after(self, latest: Snapshot | None, changes: Changes) -> str | None:
        """Return its name, None where the changes have no index files or leave none."""
        if not changes.indexes:
            return None
        of = (None if latest is None else latest.index_manifest, changes)
        if of != self._of:
            live = [] if latest is None else self._table.manifests.index_entries(latest)
            entries = combined_indexes(live, changes.indexes)
            self._name = self._writer.write_index_manifest(entries) if entries else None
            self._of = of
        return self._name


def _check_schemas(schemas: SchemaLog, staged: StagedCommit) -> None:
    """Raise InvalidRequest when the files were written with a schema that the table does not have."""
    latest = schemas.latest()
    write_supported(latest)
    files = (file for message in staged.messages for file in (*message.new_files, *message.compact_after))
    unknown = sorted(number for number in {staged.schema_id, *(file.schema_id for file in files)} if number > latest.id)
    if unknown:
        raise InvalidRequest(
            f"{staged.table}: the commit was written with schema {unknown[0]}, the table's latest is {latest.id}. "
            "It is of another table; stage the data again."
        )


def together(first: CommitResult, second: CommitResult) -> CommitResult:
    """Return what two parts of one commit did, the second after the first."""
    return CommitResult(
        snapshots=(*first.snapshots, *second.snapshots),
        snapshot_ids=(*first.snapshot_ids, *second.snapshot_ids),
        snapshot_id_before=first.snapshot_id_before,
        attempts=first.attempts + second.attempts,
        changes=(*first.changes, *second.changes),
        lost=second.lost,
        compaction_failure=second.compaction_failure,
        forgotten_users=first.forgotten_users + second.forgotten_users,
        clock_note=first.clock_note or second.clock_note,
    )
