"""What the roots of a table need, root by root and entry by entry: slow, and easy to check by reading."""

from collections.abc import Iterable, Iterator

from lakehouse_core.execution.context import TableContext
from lakehouse_core.table.data_file import FileSource
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, ManifestFile, merge_entries
from lakehouse_core.table.snapshot import Snapshot


def reachable(table: TableContext, folders: DataLayout, *, delta_is_changelog: bool) -> set[str]:
    """Return the keys of all manifest lists, manifests, data and changelog files that some root needs."""
    keys: set[str] = set()
    for snapshot in table.snapshots.history():
        keys.update(_state(table, folders, snapshot))
        keys.update(_changelog(table, folders, snapshot))
    for tag in table.tags.all().values():
        keys.update(_state(table, folders, tag.snapshot))
    for changelog in map(table.changelogs.changelog, table.changelogs.ids()):
        if changelog.changelog_manifest_list is not None:
            keys.update(_changelog(table, folders, changelog))
        elif delta_is_changelog:
            keys.update(_names([changelog.base_manifest_list, changelog.delta_manifest_list]))
            keys.update(_names(manifest.file_name for manifest in table.manifests.of(changelog)))
            for entry in _entries(table, table.manifests.delta(changelog)):
                if entry.kind is EntryKind.ADD and entry.file.file_source is not FileSource.COMPACT:
                    keys.update(_files(folders, entry))
    return keys


def _state(table: TableContext, folders: DataLayout, snapshot: Snapshot) -> Iterator[str]:
    manifests = table.manifests.of(snapshot)
    yield from _names([snapshot.base_manifest_list, snapshot.delta_manifest_list])
    yield from _names(manifest.file_name for manifest in manifests)
    for entry in merge_entries(_entries(table, manifests)):
        yield from _files(folders, entry)


def _changelog(table: TableContext, folders: DataLayout, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.changelog_manifest_list is not None and not _is_lost(table, snapshot.changelog_manifest_list):
        manifests = table.manifests.changelog(snapshot)
        yield from _names([snapshot.changelog_manifest_list, *(manifest.file_name for manifest in manifests)])
        for entry in _entries(table, manifests):
            yield from _files(folders, entry)


def _is_lost(table: TableContext, name: str) -> bool:
    """Whether it is the changelog of a tag's snapshot, which had expired before a branch began with it."""
    key = f"manifest/{name}"
    return table.layout.branch is not None and key not in table.store.infos([key])


def _entries(table: TableContext, manifests: Iterable[ManifestFile]) -> Iterator[ManifestEntry]:
    for manifest in manifests:
        yield from table.manifests.entries(manifest)


def _files(folders: DataLayout, entry: ManifestEntry) -> Iterator[str]:
    folder = folders.bucket(entry.partition, entry.bucket)
    for name in (entry.file.file_name, *entry.file.extra_files):
        yield f"{folder}/{name}"


def _names(names: Iterable[str]) -> Iterator[str]:
    return (f"manifest/{name}" for name in names)
