"""Reachability: find the files that roots of a table need, all of them or those among some candidates.

Rule: one root that cannot be read stops the deletion. An error never counts as "there is no such root".
Source: docs/reliability/deletion.md#what-keeps-files.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, NotFound, UnsupportedFeature
from lakehouse_core.execution.expiry.branch_schemas import DeltasAreChangelogs
from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.table.data_file import DataFile, FileSource
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_plan import DeletionPlan
from lakehouse_core.table.file_refs import FileKind, FileRef, data_files, index_file, manifest_file, message_files
from lakehouse_core.table.joined_changelog import object_name
from lakehouse_core.table.manifest import (
    EntryKind,
    ManifestEntry,
    ManifestFile,
    ManifestListRef,
    merge_entries,
)
from lakehouse_core.table.root import Root, RootKind, consecutive_runs, metadata_files, needed
from lakehouse_core.table.staged_commit import StagedCommit

T = TypeVar("T")
R = TypeVar("R")


class NamedFiles:
    """The files that lists, manifests and index manifests name; `manifests` raises NotFound for a missing file.

    Each list is decoded once and kept, because several roots and plans need the same lists. `at_once`: the number of
    requests that the store answers in the time of one. `refuses_outside`: a file outside the table is
    UnsupportedFeature; else it is left out.
    """

    def __init__(
        self, manifests: ManifestReader, folders: DataLayout, *, at_once: int, refuses_outside: bool = False
    ) -> None:
        self._manifests = manifests
        self._at_once = at_once
        self._refuses_outside = refuses_outside
        self._folders = folders
        self._lists: dict[tuple[str, str | None], list[ManifestFile]] = {}

    @property
    def folders(self) -> DataLayout:
        """The bucket folders of the table."""
        return self._folders

    def manifests(self, named: ManifestListRef) -> list[ManifestFile]:
        # A plan names a list without its checksum, so a list read for a plan is checked again for a root with a
        # checksum.
        key = named.name, named.checksum
        if key not in self._lists:
            self._lists[key] = self._manifests.listed(named.name, named.size, named.checksum)
        return self._lists[key]

    def load(self, lists: Iterable[ManifestListRef]) -> None:
        """Read these lists together; `manifests` raises NotFound later for those that are missing."""
        unknown = {(named.name, named.checksum): named for named in lists}
        unknown = {key: named for key, named in unknown.items() if key not in self._lists}
        read = partial(_missing_is_none, self.manifests)
        for _ in in_order(read, unknown.values(), ahead=1, at_once=self._at_once):
            pass

    def each(
        self, manifests: Iterable[ManifestFile], read: Callable[[ManifestFile], list[R]]
    ) -> Iterator[tuple[ManifestFile, list[R]]]:
        """Yield each manifest with the result of `read`, in order; several are read at once."""
        return in_order(lambda manifest: (manifest, read(manifest)), manifests, ahead=1, at_once=self._at_once)

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        return self._manifests.entries(manifest)

    def index_files(self, index_manifest: str, checksum: str | None) -> Iterator[FileRef]:
        for entry in self._manifests.listed_index_files(index_manifest, checksum):
            if self._is_inside(entry.file_name, entry.external_path):
                folder = self._folders.index_folder(entry.partition, entry.bucket)
                yield index_file(entry.file_name, entry.file_size, folder=folder, named_by=index_manifest)

    def data_files(
        self, partition: bytes, bucket: int, file: DataFile, *, kind: FileKind, named_by: str
    ) -> tuple[FileRef, ...]:
        """Return a data file and its extra files; none if the file is outside the table."""
        if not self._is_inside(file.file_name, file.external_path):
            return ()
        folder = self._folders.bucket(partition, bucket)
        return data_files(file.file_name, file.file_size, file.extra_files, kind=kind, folder=folder, named_by=named_by)

    def _is_inside(self, name: str, external_path: str | None) -> bool:
        if external_path is not None and self._refuses_outside:
            raise UnsupportedFeature(
                f"{name}: it is outside the table, at {external_path} (data-file.external-paths). Have Java Paimon "
                "compact the table without that option."
            )
        return external_path is None


def unlinked_files(named_files: NamedFiles, plans: Iterable[DeletionPlan]) -> dict[str, FileRef]:
    """Return, by key, the files that the unlinked roots of `plans` named and that may be unreachable now.

    An earlier attempt deleted missing files: it deletes lists after their manifests, and manifests after their files.
    """
    found: dict[str, FileRef] = {}
    plans = list(plans)
    named_files.load(named for plan in plans for root in plan.roots for named in root.lists)
    for plan in plans:
        for root in plan.roots:
            found.update((file.key, file) for file in _dead_metadata(named_files, root))
        for file in _dead_data(named_files, plan):
            found.setdefault(file.key, file)
    return found


def _dead_metadata(named_files: NamedFiles, root: Root) -> Iterator[FileRef]:
    yield from metadata_files(root)
    for named in root.lists:
        for manifest in _missing_is_none(named_files.manifests, named):
            yield manifest_file(manifest.file_name, manifest.file_size, named_by=named.name)
    if root.index_manifest is not None:
        yield from _missing_is_none(
            lambda name: list(named_files.index_files(name, root.index_manifest_checksum)), root.index_manifest
        )


def _dead_data(named_files: NamedFiles, plan: DeletionPlan) -> Iterator[FileRef]:
    """Yield the data files that may be unreachable without the roots of `plan`.

    If a file is live in an expired snapshot and not in the next kept one, a delta between the two deletes it.
    """
    if plan.of_branch:
        states = [named for root in plan.roots for named in (root.base, root.delta)]
        yield from _named_data(named_files, states, {EntryKind.ADD, EntryKind.DELETE}, FileKind.DATA)
        changelogs = [root.changelog for root in plan.roots]
        yield from _named_data(named_files, changelogs, {EntryKind.ADD}, FileKind.CHANGELOG)
        return
    match plan.kind:
        case RootKind.SNAPSHOT:
            deltas = [root.delta for root in (*plan.roots, plan.successor) if root is not None]
            yield from _named_data(named_files, deltas, {EntryKind.DELETE}, FileKind.DATA)
        case RootKind.TAG:
            states = [named for root in plan.roots for named in (root.base, root.delta)]
            yield from _named_data(named_files, states, {EntryKind.ADD}, FileKind.DATA)
        case RootKind.CHANGELOG:
            deltas = [root.delta for root in plan.roots]
            yield from _named_data(named_files, deltas, {EntryKind.ADD, EntryKind.DELETE}, FileKind.DATA)
    if plan.kind is not RootKind.TAG:
        changelogs = [root.changelog for root in plan.roots]
        yield from _named_data(named_files, changelogs, {EntryKind.ADD}, FileKind.CHANGELOG)


def _named_data(
    named_files: NamedFiles, lists: Iterable[ManifestListRef | None], kinds: Container[EntryKind], kind: FileKind
) -> Iterator[FileRef]:
    there = [named for named in lists if named is not None]
    named_files.load(there)
    manifests = (manifest for named in there for manifest in _missing_is_none(named_files.manifests, named))
    for manifest, entries in named_files.each(manifests, partial(_missing_is_none, named_files.entries)):
        for entry in entries:
            if entry.kind in kinds:
                yield from named_files.data_files(
                    entry.partition, entry.bucket, entry.file, kind=kind, named_by=manifest.file_name
                )


def _missing_is_none(read: Callable[[T], list[R]], what: T) -> list[R]:
    try:
        return read(what)
    except NotFound:
        return []


def reachable_among(
    named_files: NamedFiles,
    roots: Iterable[Root],
    candidates: Mapping[str, FileRef],
    *,
    delta_is_changelog: DeltasAreChangelogs,
) -> set[str]:
    """Return the keys of those `candidates` that a root needs. Memory grows with the candidates only.

    Raises CorruptTable when a file that a root needs is missing or contradicts another root.
    """
    return set(_found(_Search(named_files, candidates), roots, delta_is_changelog=delta_is_changelog))


def reachable(
    named_files: NamedFiles, roots: Iterable[Root], *, delta_is_changelog: DeltasAreChangelogs
) -> Mapping[str, FileRef]:
    """Return all files that the roots need, by key. Memory grows with the files that manifests name.

    Raises as `reachable_among` does, NotFound for a missing manifest, and UnsupportedFeature for a file outside the
    table.
    """
    return _found(_Search(named_files, None), roots, delta_is_changelog=delta_is_changelog)


def _found(
    search: "_Search", roots: Iterable[Root], *, delta_is_changelog: DeltasAreChangelogs
) -> Mapping[str, FileRef]:
    named_files = search.named_files
    reduced = [
        needed(root, delta_is_changelog=root.kind is RootKind.CHANGELOG and delta_is_changelog.of(root))
        for root in roots
    ]
    named_files.load(named for root in reduced for named in root.lists)
    reduced = [_without_lost_changelog(named_files, root) for root in reduced]
    for root in reduced:
        search.metadata(root)
    if not search.looks_for_data:
        return search.live
    snapshots = [root for root in reduced if root.kind is RootKind.SNAPSHOT]
    for run in consecutive_runs(snapshots):
        search.history(run)
    states = {(root.snapshot_id, root.base, root.delta) for root in snapshots}
    for root in reduced:
        match root.kind:
            case RootKind.TAG if (root.snapshot_id, root.base, root.delta) not in states:
                search.state(root)
            case RootKind.CHANGELOG:
                search.changelog(root)
    return search.live


def _without_lost_changelog(named_files: NamedFiles, root: Root) -> Root:
    """Return `root` without the changelog that had expired before its branch was made of a tag.

    A tag does not keep the changelog of its snapshot, and the first snapshot of a branch is that of its tag.
    """
    if root.changelog is None or not root.is_of_branch:
        return root
    try:
        named_files.manifests(root.changelog)
    except NotFound:
        return replace(root, changelog=None)
    return root


def pending_files(named_files: NamedFiles, pending: Iterable[tuple[str, StagedCommit]]) -> set[str]:
    """Return the keys of the files that pending commits will name."""
    keys: set[str] = set()
    for named_by, staged in pending:
        for message in staged.messages:
            keys.update(file.key for file in message_files(message, named_files.folders, named_by=named_by))
    return keys


class _Search:
    """A search, root by root, for the candidates that roots need. `candidates` None: every file is one."""

    def __init__(self, named_files: NamedFiles, candidates: Mapping[str, FileRef] | None) -> None:
        self.named_files = named_files
        self._candidates = candidates
        kinds = (FileKind.DATA, FileKind.CHANGELOG, FileKind.EXTRA)
        there = () if candidates is None else candidates.values()
        self._names = {file.key.rsplit("/", 1)[-1] for file in there if file.kind in kinds}
        # By name and checksum: a list read without a checksum is read again for a root with one. The third part: one
        # that was missing counts as empty.
        self._found: dict[tuple[str, str | None, bool], list[ManifestEntry]] = {}
        self.live: dict[str, FileRef] = {}

    @property
    def looks_for_data(self) -> bool:
        return self._candidates is None or bool(self._names)

    def metadata(self, root: Root) -> None:
        for file in metadata_files(root):
            self._mark(file)
        for named in root.lists:
            for manifest in _of(root, self.named_files.manifests, named):
                self._mark(manifest_file(manifest.file_name, manifest.file_size, named_by=named.name))
        if root.index_manifest is not None:
            checksum = root.index_manifest_checksum
            for file in _of(root, lambda name: list(self.named_files.index_files(name, checksum)), root.index_manifest):
                self._mark(file)

    def history(self, run: tuple[Root, ...]) -> None:
        """Mark the candidates that consecutive snapshots need; `run` is oldest first.

        A file is live in one of them if it is live in the first, or if the delta of a later one adds it.
        """
        self.state(run[0])
        for root in run[1:]:
            self._added(root, root.delta, FileKind.DATA)
        for root in run:
            self._added(root, root.changelog, FileKind.CHANGELOG)
        known = frozenset(self.live)
        self.state(run[-1])
        if unknown := self.live.keys() - known:
            raise CorruptTable(
                f"{run[-1].key}: {min(unknown)} is live in it, but no snapshot since {run[0].key} adds it. "
                "Nothing was deleted; run `lakehouse verify` and keep its report."
            )

    def state(self, root: Root) -> None:
        """Mark the files that are live at `root`."""
        merged = merge_entries(self._entries(root, (root.base, root.delta)))
        for entry in merged:
            if entry.kind is EntryKind.ADD:
                self._mark_entry(entry, FileKind.DATA, root)

    def changelog(self, root: Root) -> None:
        """Mark the candidates that a long-lived changelog needs."""
        if root.changelog is not None:
            self._added(root, root.changelog, FileKind.CHANGELOG)
        else:
            self._added(root, root.delta, FileKind.DATA, unless=FileSource.COMPACT)

    def _added(
        self, root: Root, named: ManifestListRef | None, kind: FileKind, *, unless: FileSource | None = None
    ) -> None:
        for entry in self._entries(root, (named,)):
            if entry.kind is EntryKind.ADD and (unless is None or entry.file.file_source is not unless):
                self._mark_entry(entry, kind, root)

    def _entries(self, root: Root, lists: tuple[ManifestListRef | None, ...]) -> list[ManifestEntry]:
        """Return the entries of the lists that are about candidates."""
        there = [named for named in lists if named is not None]
        manifests = [manifest for named in there for manifest in _of(root, self.named_files.manifests, named)]
        # The changelog of a branch may be half deleted.
        may_miss = root.is_of_branch and lists == (root.changelog,)
        unknown = [manifest for manifest in manifests if (*_identity(manifest), may_miss) not in self._found]
        read = partial(_missing_is_none if may_miss else partial(_of, root), self.named_files.entries)
        for manifest, entries in self.named_files.each(unknown, read):
            self._found[*_identity(manifest), may_miss] = [entry for entry in entries if self._concerns(entry)]
        return [entry for manifest in manifests for entry in self._found[*_identity(manifest), may_miss]]

    def _concerns(self, entry: ManifestEntry) -> bool:
        return (
            self._candidates is None
            or object_name(entry.file.file_name) in self._names
            or any(extra in self._names for extra in entry.file.extra_files)
        )

    def _mark_entry(self, entry: ManifestEntry, kind: FileKind, root: Root) -> None:
        for file in self.named_files.data_files(
            entry.partition, entry.bucket, entry.file, kind=kind, named_by=root.key
        ):
            self._mark(file)

    def _mark(self, file: FileRef) -> None:
        if self._candidates is None or file.key in self._candidates:
            held = self.live.setdefault(file.key, file)
            if file.least_size > held.least_size:
                self.live[file.key] = file


def _identity(manifest: ManifestFile) -> tuple[str, str | None]:
    return manifest.file_name, manifest.checksum


def _of(root: Root, read: Callable[[T], list[R]], what: T) -> list[R]:
    """Return the result of `read`; name the root in the error when a file is missing."""
    try:
        return read(what)
    except NotFound as error:
        raise NotFound(f"{root.key} needs a missing file: {error}") from error
