"""Roots: the files that a root keeps, and their keys.

Rule: names from manifests are hostile input. A name that could leave its folder stops the deletion.
Source: docs/reliability/deletion.md#what-keeps-files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import Field

from lakehouse_core.table.file_refs import FileKind, FileRef, plain_name
from lakehouse_core.table.layout import manifest_key, statistics_key
from lakehouse_core.table.manifest.list_ref import ManifestListRef, UnstoredChecksum
from lakehouse_core.table.snapshot import Snapshot, snapshot_checksums

# Stored in deletion plans as `lineage`. Never rename.
_StoredHistory: TypeAlias = Annotated[str, Field(alias="lineage")]


class RootKind(StrEnum):
    """The kind of a root, which decides the files that it needs."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The files that a root names. `key`: the root's object ("snapshot/snapshot-3", or the plan that unlinked it).

    `history`: the prefix of the branch's keys ("" for main), behind the key of the plan that unlinked the root. In one
    history, the delta of each root is the difference to the root with the previous id.
    """

    key: str
    kind: RootKind
    history: _StoredHistory
    snapshot_id: int
    base: ManifestListRef | None = None
    delta: ManifestListRef | None = None
    changelog: ManifestListRef | None = None
    index_manifest: str | None = None
    index_manifest_checksum: UnstoredChecksum = field(default=None, compare=False)
    statistics: str | None = None

    @property
    def lists(self) -> tuple[ManifestListRef, ...]:
        return tuple(named for named in (self.base, self.delta, self.changelog) if named is not None)

    @property
    def is_of_branch(self) -> bool:
        """Whether it is a root of another branch than main, also one that a plan unlinked."""
        return bool(self.history.removeprefix(f"{self.key}/"))

    def same_files(self, other: "Root") -> bool:
        """Return whether both name the same state of the same table."""
        return (self.base, self.delta, self.index_manifest) == (other.base, other.delta, other.index_manifest)


def root_of(snapshot: Snapshot, key: str, kind: RootKind, *, history: str = "") -> Root:
    """Return all files that the object at `key` names, needed or not. Raises CorruptTable."""
    checksums = snapshot_checksums(snapshot, key)

    def named(name: str, size: int | None) -> ManifestListRef:
        return ManifestListRef(name=name, size=size, checksum=checksums.get(name))

    changelog = None
    if snapshot.changelog_manifest_list is not None:
        changelog = named(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)
    return Root(
        key=key,
        kind=kind,
        history=history,
        snapshot_id=snapshot.id,
        base=named(snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        delta=named(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        changelog=changelog,
        index_manifest=snapshot.index_manifest,
        index_manifest_checksum=checksums.get(snapshot.index_manifest or ""),
        statistics=snapshot.statistics,
    )


def needed(root: Root, *, delta_is_changelog: bool) -> Root:
    """Return `root` with only the files that its readers can need, which must exist.

    A tag is read as a state, so it does not keep the changelog of its snapshot. A long-lived changelog keeps only
    changes: its changelog files, or, when the table has no changelog producer (`delta_is_changelog`), the files that
    its delta added.
    """
    match root.kind:
        case RootKind.SNAPSHOT:
            return root
        case RootKind.TAG:
            return replace(root, changelog=None)
        case RootKind.CHANGELOG:
            without_state = replace(root, index_manifest=None, statistics=None)
            if root.changelog is not None:
                return replace(without_state, base=None, delta=None)
            if delta_is_changelog:
                # No reader needs the base, but Java keeps it until the changelog expires, and reads it then.
                return without_state
            return replace(without_state, base=None, delta=None)


def consecutive_runs(roots: Iterable[Root]) -> Iterator[tuple[Root, ...]]:
    """Yield runs of roots with consecutive ids of one history, oldest first."""
    run: list[Root] = []
    for root in sorted(roots, key=lambda root: (root.history, root.snapshot_id)):
        if run and (root.history, root.snapshot_id) != (run[-1].history, run[-1].snapshot_id + 1):
            yield tuple(run)
            run = []
        run.append(root)
    if run:
        yield tuple(run)


def metadata_files(root: Root) -> tuple[FileRef, ...]:
    """Return the files that `root` names directly; those files name manifests, data files and index files."""
    found = [
        FileRef(key=manifest_key(plain_name(named.name, root.key)), kind=FileKind.MANIFEST_LIST, size=named.size)
        for named in root.lists
    ]
    if root.index_manifest is not None:
        key = manifest_key(plain_name(root.index_manifest, root.key))
        found.append(FileRef(key=key, kind=FileKind.INDEX_MANIFEST, size=None))
    if root.statistics is not None:
        key = statistics_key(plain_name(root.statistics, root.key))
        found.append(FileRef(key=key, kind=FileKind.STATISTICS, size=None))
    return tuple(found)
