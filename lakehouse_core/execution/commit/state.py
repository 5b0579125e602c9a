"""The parts of a commit, one snapshot each: what an append, an overwrite or a compaction does to the table as it is.

Each is asked again in every attempt, for the latest snapshot may have changed what it has to do.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from lakehouse_core.errors import CommitConflict, SnapshotExpired, UnsupportedFeature
from lakehouse_core.execution.commit.order import CommitOrder
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.deltas import LONGEST_CATCH_UP, deltas_since
from lakehouse_core.planning.commit.conflicts import (
    Conflict,
    check_itself,
    manifests_of_partitions,
    needs_live_files,
    refuse,
    unseen_files,
)
from lakehouse_core.planning.commit.file_changes import (
    Changes,
    append_changes,
    compact_changes,
    conflicts_of,
    is_compaction,
)
from lakehouse_core.planning.commit.overwrites import overwritten, upgraded, with_removed
from lakehouse_core.planning.commit.partial import surviving
from lakehouse_core.planning.partitions import partition_name
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.commit_message import Append, CommitKind, CommitMessage, StaticOverwrite
from lakehouse_core.table.manifest import (
    DELETION_VECTORS,
    EntryKind,
    IndexManifestEntry,
    Keep,
    ManifestEntry,
    merge_entries,
)
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit


class Part(Protocol):
    """What one snapshot of a commit does."""

    @property
    def kind(self) -> CommitKind:
        """The kind of its snapshot."""
        ...

    @property
    def lost(self) -> tuple[Conflict, ...]:
        """What it gave up at the last asking."""
        ...

    def changes_at(self, latest: Snapshot | None, schema: TableSchema) -> Changes:
        """Return what it does after `latest`; maybe nothing. Raises CommitConflict when it does not fit any more.

        REQUIRES: what it returned before certainly was not applied.
        """
        ...

    def end(self, *, applied: bool) -> None:
        """Delete what it leaves behind, now that its changes are applied, or certainly are not."""
        ...


def first_part(table: TableContext, staged: StagedCommit) -> Part:
    """Return the part of the first snapshot; a compaction alone has nothing to do in it."""
    if isinstance(staged.mode, Append):
        return _AppendPart(table, staged)
    return _OverwritePart(table, staged)


def compact_part(table: TableContext, staged: StagedCommit) -> Part | None:
    """Return the part of the second snapshot, None when the commit holds no compaction."""
    messages = tuple(filter(is_compaction, staged.messages))
    return _CompactPart(table, messages) if messages else None


class _AppendPart:
    """Adds files; deletes those that its messages name, which makes it an OVERWRITE."""

    lost: tuple[Conflict, ...] = ()

    def __init__(self, table: TableContext, staged: StagedCommit) -> None:
        self._table = table
        self._staged = staged
        self._live = _LiveFiles(table)
        self._order = CommitOrder(table, staged)
        self._changes = append_changes(staged)
        check_itself(self._changes.entries)

    @property
    def kind(self) -> CommitKind:
        return self._changes.kind

    def changes_at(self, latest: Snapshot | None, schema: TableSchema) -> Changes:
        messages = self._order.messages_at(latest, schema)
        if messages is not self._staged.messages:
            self._staged = replace(self._staged, messages=messages)
            self._changes = append_changes(self._staged)
        changes = self._changes
        settings = self._table.schemas.bucket_settings()
        if needs_live_files(changes.kind, changes.entries, bucketing=schema.bucketing, bucket_settings=settings):
            live = self._live.at(latest, changes.partitions, schema)
            indexes = _indexes(self._table, latest)
            _refuse_indexed(indexes, changes)
            if conflicts := conflicts_of(changes, live, schema, indexes):
                raise refuse(conflicts, describer(schema))
        return changes

    def end(self, *, applied: bool) -> None:
        self._order.end(applied=applied)


class _OverwritePart:
    """Replaces whatever is in its partitions when it is applied, provided that its writer has seen it."""

    kind = CommitKind.OVERWRITE
    lost: tuple[Conflict, ...] = ()

    def __init__(self, table: TableContext, staged: StagedCommit) -> None:
        self._table = table
        self._staged = staged
        self._added = append_changes(staged)
        self._upgrades = not any(map(is_compaction, staged.messages))
        check_itself(self._added.entries)

    def changes_at(self, latest: Snapshot | None, schema: TableSchema) -> Changes:
        covers = overwritten(self._staged, schema)
        if covers is None:
            return self._added
        live: list[ManifestEntry] = []
        indexes = _indexes(self._table, latest)
        if latest is not None:
            self._refuse_unseen(latest, covers, schema)
            found = self._table.manifests.live_entries(
                latest, keep=lambda partition, bucket, _: is_placed(bucket) and covers(partition)
            )
            live = [entry for entry in found if entry.kind is EntryKind.ADD]
        added = self._added
        if self._upgrades and schema.table_options.overwrite_upgrade:
            added = upgraded(added, schema)
        covered = [entry for entry in indexes if is_placed(entry.bucket) and covers(entry.partition)]
        changes = with_removed(added, live, (entry for entry in covered if entry.index_type == DELETION_VECTORS))
        _refuse_indexed(indexes, changes)
        if conflicts := conflicts_of(changes, live, schema, indexes, rescales=True):
            raise refuse(conflicts, describer(schema))
        return changes

    def end(self, *, applied: bool) -> None:
        """It leaves nothing behind: no row that it adds has another beside it."""

    def _refuse_unseen(self, latest: Snapshot, covers: Callable[[bytes], bool], schema: TableSchema) -> None:
        """Raise CommitConflict when a file came to the overwritten partitions that the writer cannot have seen."""
        base = self._staged.base_snapshot_id or 0
        if base > latest.id:
            raise CommitConflict(
                f"The overwrite was staged at snapshot {base}, and the latest is {latest.id} now: the table was rolled "
                "back, so what it would replace is not what it saw. Nothing was applied: stage the overwrite again."
            )
        try:
            changed = deltas_since(
                self._table.snapshots,
                self._table.manifests,
                base,
                latest.id,
                keep=lambda partition, *_: covers(partition),
                without=CommitKind.COMPACT,
            )
        except SnapshotExpired as error:
            raise CommitConflict(
                f"The overwrite was staged at snapshot {base}, and what came since has expired in part: {error} "
                "Nothing was applied: stage the overwrite again."
            ) from error
        if unseen := unseen_files(changed, covers):
            where = describer(schema)(unseen[0].partition, unseen[0].bucket)
            raise CommitConflict(
                f"Since snapshot {base}, at which the overwrite was staged, {len(unseen)} files were added to the "
                f"partitions that it replaces, for example {unseen[0].file.file_name} in {where}. Nothing was applied: "
                "stage the overwrite again if those rows may go too, or write them again after it."
                f"{self._narrower(schema)}"
            )

    def _narrower(self, schema: TableSchema) -> str:
        """How to replace less, where that is a choice."""
        if not schema.partition_keys or not isinstance(self._staged.mode, StaticOverwrite):
            return ""
        whole = "the partition that was named" if self._staged.mode.partition else "the whole table"
        return f" It replaces {whole}; with dynamic=True only the partitions that its data has."


class _CompactPart:
    """Replaces files by what a compaction made of them, in the buckets in which they are all still there."""

    kind = CommitKind.COMPACT

    def __init__(self, table: TableContext, messages: Sequence[CommitMessage]) -> None:
        self._table = table
        self._messages = messages
        self._live = _LiveFiles(table)
        self.lost: tuple[Conflict, ...] = ()
        check_itself(compact_changes(messages).entries)

    def changes_at(self, latest: Snapshot | None, schema: TableSchema) -> Changes:
        partitions = frozenset(message.partition for message in self._messages)
        live = self._live.at(latest, partitions, schema)
        indexes = _indexes(self._table, latest)
        left, lost = surviving(self._messages, live, schema, indexes)
        self.lost = tuple(lost)
        if lost and not left:
            raise refuse(lost, describer(schema))
        changes = compact_changes(left)
        _refuse_indexed(indexes, changes)
        return changes

    def end(self, *, applied: bool) -> None:
        """Whoever staged it holds its files."""


class _LiveFiles:
    """The live files of some partitions: read once, then carried on by the deltas of the snapshots that came since."""

    def __init__(self, table: TableContext) -> None:
        self._table = table
        self._at: int | None = None
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
            types = [field.type for field in schema.partition_fields]
            manifests = manifests_of_partitions(self._table.manifests.of(latest), partitions, types)
            self._entries = self._table.manifests.live_entries(latest, keep=keep, manifests=manifests)
        self._at = latest.id
        return self._entries

    def _deltas_until(self, latest: Snapshot, keep: Keep) -> list[tuple[CommitKind, list[ManifestEntry]]]:
        """Return the deltas that lead to `latest`. Raises SnapshotExpired when there are too many or they are gone."""
        if self._at is None or not 0 <= latest.id - self._at <= LONGEST_CATCH_UP:
            raise SnapshotExpired(f"Snapshot {latest.id} is too far from {self._at}.")
        return deltas_since(self._table.snapshots, self._table.manifests, self._at, latest.id, keep=keep)


def _indexes(table: TableContext, latest: Snapshot | None) -> list[IndexManifestEntry]:
    return [] if latest is None else table.manifests.index_entries(latest)


def _refuse_indexed(indexes: Iterable[IndexManifestEntry], changes: Changes) -> None:
    """Raise UnsupportedFeature when files go that other indexes speak of: these would have to change with them."""
    touched = {(entry.partition, entry.bucket) for entry in changes.entries if entry.kind is EntryKind.DELETE}
    for index in indexes:
        if index.index_type != DELETION_VECTORS and (index.partition, index.bucket) in touched:
            raise UnsupportedFeature(
                f"{index.file_name}: bucket {index.bucket} has a {index.index_type} index, which this release does not "
                "change. Nothing was applied; use another engine for this table."
            )


def describer(schema: TableSchema) -> Callable[[bytes, int | None], str]:
    """Return what puts a partition, and a bucket of it or None, into words."""

    def describe(partition: bytes, bucket: int | None) -> str:
        places = [f"partition {partition_name(partition, schema)}"] if schema.partition_keys else []
        if bucket is not None:
            places.append(f"bucket {bucket}")
        return ", ".join(places) or "the table"

    return describe
