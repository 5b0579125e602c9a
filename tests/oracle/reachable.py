"""What the roots of a table need, root by root and entry by entry: slow, and easy to check by reading."""

from collections.abc import Iterable, Iterator

from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.table.bucket_folders import BucketFolders
from lakehouse_core.table.data_file import FileSource
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, ManifestFile, merge_entries
from lakehouse_core.table.snapshot import Snapshot


def reachable(log: SnapshotLog, folders: BucketFolders, *, delta_is_changelog: bool) -> set[str]:
    """Return the keys of all manifest lists, manifests, data and changelog files that some root needs."""
    keys: set[str] = set()
    for snapshot in log.history():
        keys.update(_state(log, folders, snapshot))
        keys.update(_changelog(log, folders, snapshot))
    for tag in log.tags().values():
        keys.update(_state(log, folders, tag.snapshot))
    for changelog in map(log.changelog, log.changelog_ids()):
        if changelog.changelog_manifest_list is not None:
            keys.update(_changelog(log, folders, changelog))
        elif delta_is_changelog:
            keys.update(_names([changelog.base_manifest_list, changelog.delta_manifest_list]))
            keys.update(_names(manifest.file_name for manifest in log.manifests_of(changelog)))
            for entry in _entries(log, log.delta_manifests(changelog)):
                if entry.kind is EntryKind.ADD and entry.file.file_source is not FileSource.COMPACT:
                    keys.update(_files(folders, entry))
    return keys


def _state(log: SnapshotLog, folders: BucketFolders, snapshot: Snapshot) -> Iterator[str]:
    manifests = log.manifests_of(snapshot)
    yield from _names([snapshot.base_manifest_list, snapshot.delta_manifest_list])
    yield from _names(manifest.file_name for manifest in manifests)
    for entry in merge_entries(_entries(log, manifests)):
        yield from _files(folders, entry)


def _changelog(log: SnapshotLog, folders: BucketFolders, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.changelog_manifest_list is not None:
        manifests = log.changelog_manifests(snapshot)
        yield from _names([snapshot.changelog_manifest_list, *(manifest.file_name for manifest in manifests)])
        for entry in _entries(log, manifests):
            yield from _files(folders, entry)


def _entries(log: SnapshotLog, manifests: Iterable[ManifestFile]) -> Iterator[ManifestEntry]:
    for manifest in manifests:
        yield from log.manifests.entries(manifest)


def _files(folders: BucketFolders, entry: ManifestEntry) -> Iterator[str]:
    folder = folders.of(entry.partition, entry.bucket)
    for name in (entry.file.file_name, *entry.file.extra_files):
        yield f"{folder}/{name}"


def _names(names: Iterable[str]) -> Iterator[str]:
    return (f"manifest/{name}" for name in names)
