"""File changes: the files that a staged commit adds and removes, as one or two snapshots, and what they amount to.

Source: docs/semantics/commit.md#commit-loop, docs/reliability/commit.md#steps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakehouse_core.errors import CommitConflict, CorruptTable, InvalidRequest
from lakehouse_core.planning.commit.conflicts import Conflict, find_conflicts
from lakehouse_core.planning.commit.index_files import find_index_conflicts, index_entry
from lakehouse_core.table.bucketing import has_buckets, is_placed
from lakehouse_core.table.commit_message import Append, CommitKind, CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.file_refs import FileKind, FileRef, stored_file
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import index_key
from lakehouse_core.table.manifest import (
    DELETION_VECTORS,
    EntryKind,
    Identifier,
    IndexManifestEntry,
    ManifestEntry,
    file_identifier,
)
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The data and index files that one snapshot adds and removes, in order, and the changelog files it adds."""

    kind: CommitKind
    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    indexes: tuple[IndexManifestEntry, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.changelog and not self.indexes

    @property
    def waits(self) -> bool:
        """Whether some of the added rows wait for their buckets."""
        return not all(is_placed(entry.bucket) for entry in self.entries if entry.kind is EntryKind.ADD)

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
class Effects:
    """Counts of added and removed files, with their rows (before any merge) and bytes; changelog files are separate.

    A file that only changed its level counts as `upgraded`, not as added or removed.
    """

    files_added: int = 0
    files_removed: int = 0
    files_upgraded: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    changelog_files_added: int = 0
    changelog_rows_added: int = 0


def append_changes(staged: StagedCommit) -> FileChanges:
    """Return the changes of the first snapshot, without the files that an overwrite removes: `with_removed` adds them.

    A commit that deletes files or rows is an OVERWRITE. The changelog files of an overwrite are not kept, as in Java.
    """
    overwrites = not isinstance(staged.mode, Append)
    indexes = tuple(
        entry
        for message in staged.messages
        for entry in _index_entries(message, gone=message.deleted_index_files, new=message.new_index_files)
    )
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
    return FileChanges(
        kind=CommitKind.OVERWRITE if overwrites or deletes else CommitKind.APPEND,
        entries=tuple(entries),
        changelog=() if overwrites else tuple(changelog),
        indexes=indexes,
    )


def compact_changes(messages: Sequence[CommitMessage]) -> FileChanges:
    """Return the changes of compactions: files that they read are removed, files that they wrote are added."""
    return FileChanges(
        kind=CommitKind.COMPACT,
        entries=(
            *(_entry(EntryKind.DELETE, message, file) for message in messages for file in message.compact_before),
            *(_entry(EntryKind.ADD, message, file) for message in messages for file in message.compact_after),
        ),
        changelog=tuple(
            _entry(EntryKind.ADD, message, file) for message in messages for file in message.compact_changelog_files
        ),
        indexes=tuple(
            entry
            for message in messages
            for entry in _index_entries(
                message, gone=message.compact_deleted_index_files, new=message.compact_new_index_files
            )
        ),
    )


def check_itself(entries: Sequence[ManifestEntry]) -> None:
    """Raise InvalidRequest if the entries add one file twice, or have two bucket counts for one partition."""
    added: set[Identifier] = set()
    counts: dict[bytes, int] = {}
    for entry in entries:
        identifier = file_identifier(entry)
        if entry.kind is EntryKind.ADD:
            if identifier in added:
                raise InvalidRequest(
                    f"The commit adds {entry.file.file_name} of bucket {entry.bucket} twice. Stage the data again."
                )
            added.add(identifier)
            count = counts.setdefault(entry.partition, entry.total_buckets)
            if count != entry.total_buckets:
                raise InvalidRequest(
                    f"The commit has files of one partition with {count} and with {entry.total_buckets} buckets. "
                    "Stage the data again with one bucket count."
                )


def may_return(entries: Iterable[ManifestEntry]) -> bool:
    """Return whether one of the added entries may be one that an earlier commit has removed.

    This is so where a file gets other entry fields and stays in its level: its index went away, or into the entry. An
    extra file is new, and makes the entry a new one.
    """
    removed: dict[tuple[bytes, int, int, str], set[str]] = {}
    added: list[tuple[tuple[bytes, int, int, str], DataFile]] = []
    for entry in entries:
        place = (entry.partition, entry.bucket, entry.file.level, entry.file.file_name)
        if entry.kind is EntryKind.DELETE:
            removed[place] = {*entry.file.extra_files}
        else:
            added.append((place, entry.file))
    return any(place in removed and removed[place].issuperset(file.extra_files) for place, file in added)


def conflicts_of(
    changes: FileChanges,
    live: Sequence[ManifestEntry],
    schema: TableSchema,
    indexes: Sequence[IndexManifestEntry] = (),
) -> list[Conflict]:
    """Return the conflicts that `find_conflicts` and `find_index_conflicts` find in the changes."""
    found = find_conflicts(live, changes.entries, schema)
    if indexes or changes.indexes:
        buckets = has_buckets(schema.bucketing)
        found += find_index_conflicts(indexes, changes.indexes, changes.entries, live, has_buckets=buckets)
    return found


def is_compaction(message: CommitMessage) -> bool:
    return bool(
        message.compact_before
        or message.compact_after
        or message.compact_changelog_files
        or message.compact_new_index_files
        or message.compact_deleted_index_files
    )


def new_files(changes: FileChanges, folders: DataLayout) -> Iterator[FileRef]:
    """Yield the files that a snapshot of the changes names; they must exist before it is published."""
    for entry in (*changes.entries, *changes.changelog):
        if entry.kind is EntryKind.ADD:
            folder = folders.bucket(entry.partition, entry.bucket)
            sizes = {entry.file.file_name: entry.file.file_size, **dict.fromkeys(entry.file.extra_files)}
            for name, size in sizes.items():
                yield stored_file(f"{folder}/{name}", FileKind.DATA, size)
    for index in changes.indexes:
        if index.kind is EntryKind.ADD:
            beside = folders.index_folder(index.partition, index.bucket)
            key = index_key(index.file_name) if beside is None else f"{beside}/{index.file_name}"
            yield FileRef(key=key, kind=FileKind.INDEX, size=index.file_size)


def effects_of(changes: Iterable[FileChanges]) -> Effects:
    """Return the net effect of `changes`, which were applied in this order."""
    added: dict[tuple[bytes, int, str], ManifestEntry] = {}
    removed: dict[tuple[bytes, int, str], ManifestEntry] = {}
    changelog: list[ManifestEntry] = []
    for change in changes:
        for entry in change.entries:
            place = (entry.partition, entry.bucket, entry.file.file_name)
            (added if entry.kind is EntryKind.ADD else removed)[place] = entry
        changelog += change.changelog
    upgraded = added.keys() & removed.keys()
    came = [entry.file for place, entry in added.items() if place not in upgraded]
    went = [entry.file for place, entry in removed.items() if place not in upgraded]
    return Effects(
        files_added=len(came),
        files_removed=len(went),
        files_upgraded=len(upgraded),
        rows_added=sum(file.row_count for file in came),
        rows_removed=sum(file.row_count for file in went),
        bytes_added=sum(file.file_size for file in came),
        bytes_removed=sum(file.file_size for file in went),
        changelog_files_added=len(changelog),
        changelog_rows_added=sum(entry.file.row_count for entry in changelog),
    )


class Stored(Protocol):
    """What a store tells of an object."""

    @property
    def size(self) -> int: ...


def check_new_files(files: Iterable[FileRef], infos: Mapping[str, Stored]) -> None:
    """Raise CommitConflict if one of the files that a commit adds is missing, CorruptTable if its size is not as
    recorded. `infos`: by key, what the store tells of those that are there.
    """
    for file in files:
        if (info := infos.get(file.key)) is None:
            raise CommitConflict(
                f"{file.key}: the commit adds it, but it is missing: it was removed as an orphan, or never "
                "written. Nothing was applied: write the data again."
            )
        if (recorded := file.size_fault(info.size)) is not None:
            raise CorruptTable(
                f"{file.key}: it has {info.size} bytes, its writer recorded {recorded}. Nothing was applied: "
                "write the data again."
            )


def _index_entries(
    message: CommitMessage, *, gone: Iterable[IndexFile], new: Iterable[IndexFile]
) -> Iterator[IndexManifestEntry]:
    for kind, files in ((EntryKind.DELETE, gone), (EntryKind.ADD, new)):
        for file in files:
            yield index_entry(kind, message.partition, message.bucket, file)


def _entry(kind: EntryKind, message: CommitMessage, file: DataFile) -> ManifestEntry:
    return ManifestEntry(
        kind=kind,
        partition=message.partition,
        bucket=message.bucket,
        total_buckets=message.total_buckets,
        file=file,
    )
