"""Commits: what a staged commit does to the set of files, and the snapshot that says so.

Source: docs/semantics/commit.md#commit-loop, docs/reliability/commit.md#steps.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Final, assert_never

from lakehouse_core.errors import InvalidRequest, shown, written_as
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import parse_literal
from lakehouse_core.format.stored import check_text, is_int64
from lakehouse_core.planning.commit.conflicts import Conflict, find_conflicts
from lakehouse_core.planning.commit.index_files import find_index_conflicts, index_entry
from lakehouse_core.planning.commit.ledger import LEDGER_PROPERTY, NONCE_PROPERTY, QUEUE_PROPERTY
from lakehouse_core.table.bucket_folders import BucketFolders
from lakehouse_core.table.checksums import CHECKSUMS_PROPERTY, checksums_to_text
from lakehouse_core.table.commit_message import (
    BATCH_IDENTIFIER,
    Append,
    CommitKind,
    CommitMessage,
    DynamicOverwrite,
    StagedCommit,
    StaticOverwrite,
)
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_refs import FileKind, FileRef, stored_file
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import index_key, snapshot_key
from lakehouse_core.table.manifest import DELETION_VECTORS, EntryKind, IndexManifestEntry, ManifestEntry
from lakehouse_core.table.manifest.entry import NamedListFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, snapshot_checksums

# What the committer itself writes among a snapshot's properties.
RESERVED_PROPERTIES: Final = frozenset({LEDGER_PROPERTY, NONCE_PROPERTY, QUEUE_PROPERTY, CHECKSUMS_PROPERTY})
# Every snapshot is read whole, and its file holds 16 MiB at most.
_MOST_PROPERTY_BYTES: Final = 1 << 20
# A ledger of 48 KiB holds some dozens of the longest.
_LONGEST_USER_BYTES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one snapshot does: data and index files that come and go, in order, and the changelog files it adds."""

    kind: CommitKind
    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    indexes: tuple[IndexManifestEntry, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.changelog and not self.indexes

    @property
    def partitions(self) -> frozenset[bytes]:
        return frozenset(partition for partition, _ in self.buckets)

    @property
    def buckets(self) -> frozenset[tuple[bytes, int]]:
        return frozenset(
            {
                *((entry.partition, entry.bucket) for entry in self.entries),
                *((entry.partition, entry.bucket) for entry in self.indexes),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLists:
    """The lists that a new snapshot names, and checksums by name of these and of its index manifest, if it is new.

    `index_manifest` counts where the changes have index files: None when none is left.
    """

    base: NamedListFile
    delta: NamedListFile
    changelog: NamedListFile | None = None
    index_manifest: str | None = None
    checksums: Mapping[str, str]


def check_staged(staged: StagedCommit) -> None:
    """Raise InvalidRequest when `staged` cannot be committed to any table."""
    check_commit(staged.commit_user, staged.commit_identifier)
    if not isinstance(staged.mode, Append | StaticOverwrite | DynamicOverwrite):
        raise InvalidRequest(
            f"mode={shown(staged.mode)}: expected Append(), StaticOverwrite(partition) or DynamicOverwrite()."
        )
    check_properties(staged.properties)
    for name, number in (("base_snapshot_id", staged.base_snapshot_id), ("watermark", staged.watermark)):
        if number is not None and not is_int64(number):
            raise InvalidRequest(f"staged commit: {name} is {shown(number)}: expected a whole number of 64 bits.")
    if not is_int64(staged.schema_id) or not isinstance(staged.messages, tuple):
        raise InvalidRequest(f"staged commit: schema_id is {shown(staged.schema_id)}, or its messages are no tuple.")
    if not all(isinstance(message, CommitMessage) for message in staged.messages):
        raise InvalidRequest("staged commit: its messages are none. Stage the data again.")
    if not isinstance(staged.mode, Append) and any(
        message.deleted_files or message.deleted_index_files for message in staged.messages
    ):
        raise InvalidRequest("An overwrite decides itself which files go: its messages may not delete any.")
    for message in staged.messages:
        for file in (*message.new_files, *message.changelog_files, *message.compact_after):
            if file.external_path is not None:
                raise InvalidRequest(
                    f"{file.file_name} lies outside the table, at {file.external_path}. Write it below."
                )


def check_commit(commit_user: object, commit_identifier: object) -> None:
    """Raise InvalidRequest unless the two can name a commit."""
    if not isinstance(commit_user, str) or not commit_user:
        raise InvalidRequest("A commit needs a commit user, so that it is recognised when it is repeated.")
    check_text("The commit user", commit_user, longest=_LONGEST_USER_BYTES)
    if not is_int64(commit_identifier) or not 0 <= commit_identifier <= BATCH_IDENTIFIER:
        raise InvalidRequest(
            f"Commit identifier {shown(commit_identifier)} of {commit_user}: expected 0 to {BATCH_IDENTIFIER}."
        )


def check_properties(properties: object) -> None:
    """Raise InvalidRequest for what a snapshot cannot carry beside the committer's own properties."""
    if not isinstance(properties, Mapping):
        raise InvalidRequest(f"properties={shown(properties)}: expected a dict from names to texts.")
    size = 0
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"Snapshot property {shown(name)} = {shown(value)}: names and values are text{written_as(value)}."
            )
        check_text("The name of a snapshot property", name)
        check_text(f"Snapshot property {shown(name)}", value, longest=_MOST_PROPERTY_BYTES)
        size += len(name.encode()) + len(value.encode())
    if size > _MOST_PROPERTY_BYTES:
        raise InvalidRequest(
            f"The snapshot properties have {size} bytes, at most {_MOST_PROPERTY_BYTES} are kept. Keep them elsewhere, "
            "and an address of them here."
        )
    if taken := sorted(RESERVED_PROPERTIES & properties.keys()):
        raise InvalidRequest(f"Snapshot property {shown(taken[0])} is reserved for the committer. Choose another name.")


def append_changes(staged: StagedCommit) -> Changes:
    """Return what the first snapshot does, without the files that an overwrite removes: `with_removed` adds them.

    Deleting files or rows makes a commit an OVERWRITE. The changelog files of an overwrite are not kept, as in Java.
    """
    overwrites = not isinstance(staged.mode, Append)
    indexes = _index_entries(staged.messages, attrgetter("deleted_index_files"), attrgetter("new_index_files"))
    deletes = any(message.deleted_files for message in staged.messages) or any(
        index.index_type == DELETION_VECTORS for index in indexes
    )
    entries = [
        *(_entry(EntryKind.ADD, message, file) for message in staged.messages for file in message.new_files),
        *(_entry(EntryKind.DELETE, message, file) for message in staged.messages for file in message.deleted_files),
    ]
    changelog = (
        _entry(EntryKind.ADD, message, file) for message in staged.messages for file in message.changelog_files
    )
    return Changes(
        kind=CommitKind.OVERWRITE if overwrites or deletes else CommitKind.APPEND,
        entries=tuple(entries),
        changelog=() if overwrites else tuple(changelog),
        indexes=indexes,
    )


def compact_changes(messages: Sequence[CommitMessage]) -> Changes:
    """Return what the second snapshot does: files that compactions read go, files that they wrote come."""
    return Changes(
        kind=CommitKind.COMPACT,
        entries=(
            *(_entry(EntryKind.DELETE, message, file) for message in messages for file in message.compact_before),
            *(_entry(EntryKind.ADD, message, file) for message in messages for file in message.compact_after),
        ),
        changelog=tuple(
            _entry(EntryKind.ADD, message, file) for message in messages for file in message.compact_changelog_files
        ),
        indexes=_index_entries(
            messages, attrgetter("compact_deleted_index_files"), attrgetter("compact_new_index_files")
        ),
    )


def conflicts_of(
    changes: Changes,
    live: Sequence[ManifestEntry],
    schema: TableSchema,
    indexes: Sequence[IndexManifestEntry] = (),
    *,
    rescales: bool = False,
) -> list[Conflict]:
    """Return what speaks against the changes: see `find_conflicts` and `find_index_conflicts`."""
    has_buckets = not schema.is_append or schema.table_options.bucket > 0
    return [
        *find_conflicts(live, changes.entries, schema, rescales=rescales),
        *find_index_conflicts(indexes, changes.indexes, changes.entries, live, has_buckets=has_buckets),
    ]


def is_compaction(message: CommitMessage) -> bool:
    return bool(
        message.compact_before
        or message.compact_after
        or message.compact_changelog_files
        or message.compact_new_index_files
        or message.compact_deleted_index_files
    )


def is_compaction_only(staged: StagedCommit) -> bool:
    """Return whether the commit adds and replaces nothing, so that its compactions are its only snapshot."""
    return isinstance(staged.mode, Append) and append_changes(staged).is_empty


def overwritten(staged: StagedCommit, schema: TableSchema) -> Callable[[bytes], bool] | None:
    """Return which partitions an overwrite replaces, None when it replaces nothing.

    Raises InvalidRequest for a partition that does not parse, and for new files outside a static one.
    """
    new_partitions = {message.partition for message in staged.messages if message.new_files}
    match staged.mode:
        case Append():
            return None
        case DynamicOverwrite():
            if not schema.partition_keys:
                return lambda partition: True
            return new_partitions.__contains__ if new_partitions else None
        case StaticOverwrite(partition):
            covers = _static_scope(partition, schema)
            if not all(map(covers, new_partitions)):
                wanted = ", ".join(f"{name}={text}" for name, text in partition.items())
                raise InvalidRequest(
                    f"The overwrite of {wanted} has rows of other partitions. Leave them out, or overwrite dynamically."
                )
            return covers
        case _:
            assert_never(staged.mode)


def with_removed(
    changes: Changes, live: Iterable[ManifestEntry], indexes: Iterable[IndexManifestEntry] = ()
) -> Changes:
    """Return the overwrite that also removes the `live` files, data and index.

    Removals come first: bucket counts may differ.
    """
    removed = (replace(entry, kind=EntryKind.DELETE) for entry in live)
    unmarked = (replace(entry, kind=EntryKind.DELETE) for entry in indexes)
    return replace(changes, entries=(*removed, *changes.entries), indexes=(*unmarked, *changes.indexes))


def upgraded(changes: Changes, schema: TableSchema) -> Changes:
    """Return the overwrite of a key table with new files at the top level, in buckets where this needs no merge.

    That is where all new files are at level 0, hold no deletes and share no key range. Java does it since 1.4.
    """
    types = [field.type for field in schema.key_fields]
    if not types:
        return changes
    buckets: Mapping[tuple[bytes, int], list[DataFile]] = defaultdict(list)
    for entry in changes.entries:
        if entry.kind is EntryKind.ADD:
            buckets[entry.partition, entry.bucket].append(entry.file)
    ready = set()
    for place, files in buckets.items():
        ranges = sorted((deserialize_row(file.min_key, types), deserialize_row(file.max_key, types)) for file in files)
        disjoint = all(highest < lowest for (_, highest), (lowest, _) in pairwise(ranges))
        if disjoint and place[1] >= 0 and all(file.level == 0 and file.delete_row_count == 0 for file in files):
            ready.add(place)
    top = schema.table_options.num_levels - 1
    return replace(
        changes,
        entries=tuple(
            replace(entry, file=replace(entry.file, level=top))
            if entry.kind is EntryKind.ADD and (entry.partition, entry.bucket) in ready
            else entry
            for entry in changes.entries
        ),
    )


def next_snapshot(
    previous: Snapshot | None,
    changes: Changes,
    lists: WrittenLists,
    *,
    schema_id: int,
    commit_user: str,
    commit_identifier: int,
    properties: Mapping[str, str],
    watermark: int | None = None,
    uuid: str,
    nonce: str,
    now_millis: int,
) -> Snapshot:
    """Return the snapshot after `previous` that carries `changes`; the ledger is still to be put in.

    Index files, statistics, watermark and row ids are carried on. Time never goes back, whatever the clock does.
    """
    delta = sum(_sign(entry) * entry.file.row_count for entry in changes.entries)
    before = 0 if previous is None else previous.total_record_count
    marks = (watermark, None if previous is None else previous.watermark)
    watermarks = [mark for mark in marks if mark is not None]
    # Statistics describe columns; after an alteration they may describe others.
    keeps_statistics = previous is not None and previous.schema_id == schema_id
    index_manifest = _index_manifest(previous, changes, lists)
    checksums = {**_carried_checksums(previous, index_manifest), **lists.checksums}
    return Snapshot(
        uuid=uuid,
        id=1 if previous is None else previous.id + 1,
        schema_id=schema_id,
        base_manifest_list=lists.base.name,
        base_manifest_list_size=lists.base.size,
        delta_manifest_list=lists.delta.name,
        delta_manifest_list_size=lists.delta.size,
        changelog_manifest_list=None if lists.changelog is None else lists.changelog.name,
        changelog_manifest_list_size=None if lists.changelog is None else lists.changelog.size,
        index_manifest=index_manifest,
        commit_user=commit_user,
        commit_identifier=commit_identifier,
        commit_kind=changes.kind,
        time_millis=now_millis if previous is None else max(now_millis, previous.time_millis),
        total_record_count=None if before is None else before + delta,
        delta_record_count=delta,
        changelog_record_count=sum(entry.file.row_count for entry in changes.changelog) if changes.changelog else None,
        watermark=max(watermarks) if watermarks else None,
        statistics=previous.statistics if previous is not None and keeps_statistics else None,
        properties={**properties, NONCE_PROPERTY: nonce, CHECKSUMS_PROPERTY: checksums_to_text(checksums)},
        next_row_id=None if previous is None else previous.next_row_id,
    )


def _index_manifest(previous: Snapshot | None, changes: Changes, lists: WrittenLists) -> str | None:
    if changes.indexes:
        return lists.index_manifest
    return None if previous is None else previous.index_manifest


def _carried_checksums(previous: Snapshot | None, index_manifest: str | None) -> Mapping[str, str]:
    """Return what `previous` recorded of the index manifest, where that is carried on."""
    if previous is None or index_manifest is None:
        return {}
    checksums = snapshot_checksums(previous, snapshot_key(previous.id))
    return {name: checksum for name, checksum in checksums.items() if name == index_manifest}


def new_files(changes: Changes, folders: BucketFolders) -> Iterator[FileRef]:
    """Yield the files that must lie on disk before a snapshot may name them."""
    for entry in (*changes.entries, *changes.changelog):
        if entry.kind is EntryKind.ADD:
            folder = folders.of(entry.partition, entry.bucket)
            sizes = {entry.file.file_name: entry.file.file_size, **dict.fromkeys(entry.file.extra_files)}
            for name, size in sizes.items():
                yield stored_file(f"{folder}/{name}", FileKind.DATA, size)
    for index in changes.indexes:
        if index.kind is EntryKind.ADD:
            beside = folders.of_index(index.partition, index.bucket)
            key = index_key(index.file_name) if beside is None else f"{beside}/{index.file_name}"
            yield FileRef(key=key, kind=FileKind.INDEX, size=index.file_size)


def _index_entries(
    messages: Iterable[CommitMessage],
    gone: Callable[[CommitMessage], Iterable[IndexFile]],
    new: Callable[[CommitMessage], Iterable[IndexFile]],
) -> tuple[IndexManifestEntry, ...]:
    return tuple(
        index_entry(kind, message.partition, message.bucket, file)
        for message in messages
        for kind, files in ((EntryKind.DELETE, gone(message)), (EntryKind.ADD, new(message)))
        for file in files
    )


def _entry(kind: EntryKind, message: CommitMessage, file: DataFile) -> ManifestEntry:
    return ManifestEntry(
        kind=kind,
        partition=message.partition,
        bucket=message.bucket,
        total_buckets=message.total_buckets,
        file=file,
    )


def _static_scope(partition: Mapping[str, str], schema: TableSchema) -> Callable[[bytes], bool]:
    keys = schema.partition_keys
    if unknown := sorted(partition.keys() - set(keys)):
        raise InvalidRequest(
            f"Column {shown(unknown[0])} is no partition key. The partition keys are: {', '.join(keys) or 'none'}."
        )
    types = [field.type for field in schema.partition_fields]
    default_name = schema.table_options.partition_default_name
    wanted = {
        keys.index(name): None if text == default_name else parse_literal(text, types[keys.index(name)])
        for name, text in partition.items()
    }
    known: dict[bytes, bool] = {}

    def covers(row: bytes) -> bool:
        if row not in known:
            values = deserialize_row(row, types)
            known[row] = all(values[index] == value for index, value in wanted.items())
        return known[row]

    return covers


def _sign(entry: ManifestEntry) -> int:
    return 1 if entry.kind is EntryKind.ADD else -1
