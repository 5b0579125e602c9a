"""Snapshot files: the manifests and lists of one new snapshot, reused by later attempts while they still fit.

Rule: every file that a snapshot names is durable before the snapshot is published.
Source: docs/reliability/commit.md#steps, docs/semantics/commit.md#commit-loop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakehouse_core.clock import Clock
from lakehouse_core.execution.commit.manifest_merge import merge_full, merge_groups
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.metadata.manifest_writer import ManifestWriter
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.planning.commit.index_files import combined_indexes
from lakehouse_core.planning.commit.ledger import LEDGER_PROPERTY, Ledger
from lakehouse_core.planning.commit.manifest_merge import manifests_to_rewrite, minor_groups, replace_inputs
from lakehouse_core.planning.commit.read_scope import READING
from lakehouse_core.planning.commit.snapshot import WrittenLists, next_snapshot
from lakehouse_core.planning.commit.steps import AppendStep, CommitStep, StepPlan
from lakehouse_core.planning.timestamps import Stamp, is_far, stamp
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.bucketing import may_wait
from lakehouse_core.table.manifest import ManifestFile, ManifestListRef
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

# A full merge of more entries than this would delay its writer by seconds; it is left to `compact_manifests`.
_LARGEST_FULL_MERGE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class BaseManifests:
    """The manifests of the base of a new snapshot; `before`: all manifests of the snapshot before it."""

    before: Sequence[ManifestFile]
    after: Sequence[ManifestFile]

    @property
    def is_unchanged(self) -> bool:
        return self.after is self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """A snapshot that may be published: every file that it names is durable. `file_names`: its metadata files.
    `has_others`: earlier attempts wrote files that it does not name.
    """

    snapshot: Snapshot
    file_names: frozenset[str]
    has_others: bool
    forgotten_users: int
    clock_note: str | None


class SnapshotFiles:
    """The files of one future snapshot. Each attempt calls `merge` and then `write`."""

    def __init__(self, table: TableContext, schema: TableSchema) -> None:
        self._table = table
        self._writer = manifest_writer(table.store, table.clock, schema)
        self._max_skew_millis = schema.table_options.expiry.max_skew_millis
        self._forget()

    def write_ahead(self, changes: FileChanges) -> None:
        """Write the manifests of the changes, durably, before the previous snapshot is known."""
        if not changes.is_empty:
            self._delta.write(changes)
            self._writer.flush()

    def before(self, previous: Snapshot | None) -> Sequence[ManifestFile]:
        """Return the manifests of the snapshot before this one."""
        return () if previous is None else self._table.manifests.of(previous)

    def merge(self, before: Sequence[ManifestFile], plan: StepPlan, schema: TableSchema) -> BaseManifests:
        """Write the merged manifests of the base."""
        if plan.rewrites_manifests:
            return BaseManifests(before, self._rewritten(before, purges=not plan.changes.is_empty))
        return BaseManifests(before, self._merged(before, schema))

    def write(
        self,
        previous: Snapshot | None,
        step: CommitStep,
        changes: FileChanges,
        base: BaseManifests,
        *,
        schema: TableSchema,
        ledger: Ledger,
        marks: Mapping[str, str],
    ) -> NewSnapshot:
        """Return the snapshot after `previous` that carries `changes`, with all its files durable. `marks`: properties
        of the snapshot beside those of the step.
        """
        self._delta.write(changes)
        base_list = self._writer.write_list(base.after)
        index_manifest = self._index.after(previous, changes)
        names = [base_list.name, *self._delta.list_names, *([] if index_manifest is None else [index_manifest])]
        time = next_stamp(self._table.store, self._table.clock, previous, max_skew_millis=self._max_skew_millis)
        snapshot = next_snapshot(
            previous,
            changes,
            WrittenLists(
                base=base_list,
                delta=self._delta.delta_list,
                changelog=self._delta.changelog_list,
                index_manifest=index_manifest,
                checksums={name: self._writer.checksum_of(name) for name in names},
            ),
            schema=schema,
            commit_user=step.staged.commit_user,
            commit_identifier=step.staged.commit_identifier,
            properties=step.staged.properties,
            watermark=step.staged.watermark,
            operation=_operation(step),
            uuid=self._table.clock.uuid(),
            nonce=self._table.clock.uuid(),
            now_millis=time.time_millis,
        )
        noted, forgotten = ledger.with_commit(snapshot)
        properties = {**snapshot.properties, LEDGER_PROPERTY: noted.to_json(), **marks}
        self._writer.flush()
        file_names = frozenset({*names, *self._delta.manifest_names, *(one.file_name for one in base.after)})
        # The next commit of the same handle reads these files.
        self._table.manifests.remember(self._writer.small_files(file_names))
        return NewSnapshot(
            snapshot=snapshot.model_copy(update={"properties": properties}),
            file_names=file_names,
            has_others=self._writer.has_others(file_names),
            forgotten_users=forgotten,
            clock_note=time.note,
        )

    def keep(self, new: NewSnapshot) -> None:
        """Delete the written files that `new`, which is published, does not name."""
        self._writer.discard_all_but(new.file_names)

    def discard(self) -> None:
        """Delete all written files; a later attempt writes them again. REQUIRES: certainly no snapshot names them."""
        self._writer.discard_all_but(())
        self._forget()

    def _forget(self) -> None:
        self._delta = _Delta(self._writer)
        self._index = _IndexManifest(self._table.manifests, self._writer)
        self._merge: _Merge | None = None

    def _merged(self, current: Sequence[ManifestFile], schema: TableSchema) -> Sequence[ManifestFile]:
        """Return the base manifests of a step, merged by the first attempt; later ones reuse the merge while it
        fits.
        """
        if self._merge is None:
            self._merge = _Merge(tuple(current), tuple(self._merge_some(current, schema)))
        replaced = replace_inputs(current, self._merge.inputs, self._merge.outputs)
        return current if replaced is None else replaced

    def _rewritten(self, current: Sequence[ManifestFile], *, purges: bool) -> Sequence[ManifestFile]:
        """Return the base manifests of a rewrite: `current` itself if nothing changes. Later appends leave a merge
        valid. `purges`: no entry that deletes a file may be left.
        """
        if self._merge is not None:
            replaced = replace_inputs(current, self._merge.inputs, self._merge.outputs)
            if replaced is not None and not (purges and any(one.num_deleted_files for one in replaced)):
                return replaced
        merged = merge_full(self._table, self._writer, current)
        if merged is None:
            return current
        self._merge = _Merge(tuple(current), tuple(merged))
        return merged

    def _merge_some(self, current: Sequence[ManifestFile], schema: TableSchema) -> Sequence[ManifestFile]:
        options = schema.table_options
        small = manifests_to_rewrite(current, target_bytes=options.manifest_target_bytes)
        size_bytes = sum(manifest.file_size for manifest in small)
        if options.manifest_full_compaction_bytes <= size_bytes <= _LARGEST_FULL_MERGE_BYTES:
            merged = merge_full(self._table, self._writer, current)
            if merged is not None:
                return merged
        min_count = options.manifest_merge_min_count
        groups = minor_groups(current, target_bytes=options.manifest_target_bytes, min_count=min_count)
        if len(groups) == len(current):
            return current
        return merge_groups(self._table, self._writer, groups)


def manifest_writer(store: ObjectStore, clock: Clock, schema: TableSchema) -> ManifestWriter:
    """Return a manifest writer with the table's options."""
    types = [field.type for field in schema.partition_fields]
    return ManifestWriter(
        store,
        clock,
        options=schema.table_options,
        partition_types=types,
        keeps_order=may_wait(schema.bucketing),
    )


def next_stamp(store: ObjectStore, clock: Clock, previous: Snapshot | None, *, max_skew_millis: int) -> Stamp:
    """Return the time of the snapshot after `previous`; the caller may raise it to the time of `previous`.

    The storage's clock is read only if the writer's clock is far from the time of `previous`.
    """
    now_millis = clock.now_millis()
    previous_millis = None if previous is None else previous.time_millis
    if not is_far(now_millis, previous_millis, max_skew_millis=max_skew_millis):
        return Stamp(time_millis=now_millis)
    return stamp(now_millis, store.now_millis(), max_skew_millis=max_skew_millis)


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge of the first manifests of a list."""

    inputs: tuple[ManifestFile, ...]
    outputs: tuple[ManifestFile, ...]


class _Delta:
    """The manifests of the changes and their lists, written again only when the changes differ."""

    def __init__(self, writer: ManifestWriter) -> None:
        self._writer = writer
        self._changes: FileChanges | None = None
        self._delta_list: ManifestListRef | None = None
        self.changelog_list: ManifestListRef | None = None
        self.manifest_names: frozenset[str] = frozenset()

    @property
    def delta_list(self) -> ManifestListRef:
        """REQUIRES: `write` was called."""
        assert self._delta_list is not None
        return self._delta_list

    @property
    def list_names(self) -> list[str]:
        return [one.name for one in (self._delta_list, self.changelog_list) if one is not None]

    def write(self, changes: FileChanges) -> None:
        if changes == self._changes:
            return
        delta = self._writer.write_entries(changes.entries)
        changelog = self._writer.write_entries(changes.changelog)
        self._delta_list = self._writer.write_list(delta)
        self.changelog_list = self._writer.write_list(changelog) if changelog else None
        self.manifest_names = frozenset(manifest.file_name for manifest in (*delta, *changelog))
        self._changes = changes


class _IndexManifest:
    """The index manifest after some changes, written again only when its predecessor or the changes differ."""

    def __init__(self, manifests: ManifestReader, writer: ManifestWriter) -> None:
        self._manifests = manifests
        self._writer = writer
        self._written_for: tuple[str | None, FileChanges] | None = None
        self._name: str | None = None

    def after(self, previous: Snapshot | None, changes: FileChanges) -> str | None:
        """Return its name, None if the changes have no index files or leave none."""
        if not changes.indexes:
            return None
        wanted = (None if previous is None else previous.index_manifest, changes)
        if wanted != self._written_for:
            live = [] if previous is None else self._manifests.index_entries(previous)
            entries = combined_indexes(live, changes.indexes)
            self._name = self._writer.write_index_manifest(entries) if entries else None
            self._written_for = wanted
        return self._name


def _operation(step: CommitStep) -> str | None:
    """Return the name of the statement as other engines know it, None for what they have no name for."""
    if not isinstance(step, AppendStep) or step.reads is None or step.reads.operation not in READING:
        return None
    return step.reads.operation
