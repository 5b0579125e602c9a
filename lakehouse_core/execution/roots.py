"""Roots: everything that keeps files of a table alive, read afresh, and what of a set of files they need.

Rule: one root that cannot be read stops whoever wanted to delete. An error is never taken for "there is none".
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable, UnsupportedFeature
from lakehouse_core.execution.pending import parse_pending
from lakehouse_core.execution.tag_files import read_tag
from lakehouse_core.planning.deletion import DeletionPlan, is_plan_name, parse_plan
from lakehouse_core.planning.live_files import (
    BucketFolders,
    FileKind,
    NamedFile,
    NamedList,
    Root,
    RootKind,
    data_files,
    index_file,
    lineages,
    manifest_file,
    message_files,
    metadata_files,
    needed,
    root_of,
)
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.changes import StagedCommit
from lakehouse_core.table.checksums import verify_bytes
from lakehouse_core.table.data_file import DataFile, FileSource
from lakehouse_core.table.joined_changelog import object_name
from lakehouse_core.table.layout import (
    BRANCH_FOLDER,
    CHANGELOG_FOLDER,
    OWN_FOLDER,
    PENDING_FOLDER,
    SCHEMA_FOLDER,
    SNAPSHOT_FOLDER,
    TAG_FOLDER,
    changelog_key,
    manifest_key,
    snapshot_key,
    tag_key,
)
from lakehouse_core.table.manifest import (
    EntryKind,
    ManifestEntry,
    ManifestFile,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
    merge_entries,
)
from lakehouse_core.table.snapshot import parse_snapshot

T = TypeVar("T")
R = TypeVar("R")

PINS_FOLDER = f"{OWN_FOLDER}/pins"

# A root may vanish between its listing and its reading, each time by another process's hand.
_ATTEMPTS = 5

_BRANCH = re.compile(r"branch-(.+)")
_SNAPSHOT = re.compile(r"snapshot-([1-9]\d{0,18})")
_CHANGELOG = re.compile(r"changelog-([1-9]\d{0,18})")
_TAG = re.compile(r"tag-(.+)")
_SCHEMA = re.compile(r"schema-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """All roots of a table and its branches. Plans hold what they unlinked; `pending` commits are by their keys."""

    roots: tuple[Root, ...]
    plans: tuple[DeletionPlan, ...]
    pending: tuple[tuple[str, StagedCommit], ...]


def collect_roots(store: ObjectStore, *, boundary: int) -> Roots:
    """Return every root there is; snapshots of the main branch below `boundary` count as gone.

    Raises CorruptTable, UnsupportedFeature or StorageUnavailable when a single one cannot be read.
    """
    for _ in range(_ATTEMPTS):
        try:
            return Roots(
                roots=(*_snapshot_roots(store, "", boundary), *_branch_roots(store)),
                plans=load_plans(store),
                pending=pending_commits(store),
            )
        except NotFound:
            # It was listed and is gone: list again rather than guess who removed it.
            continue
    raise StorageUnavailable(
        f"{store.uri('')}: in {_ATTEMPTS} attempts a root vanished between listing and reading. Nothing was deleted; "
        "end other maintenance of this table, then call again."
    )


def load_plans(store: ObjectStore) -> tuple[DeletionPlan, ...]:
    """Return the deletions on their way. Raises CorruptTable; NotFound when one ends meanwhile."""
    names = store.children(OWN_FOLDER).files
    keys = [f"{OWN_FOLDER}/{name}" for name in names if is_plan_name(name)]
    return tuple(parse_plan(store.read(key), key) for key in keys)


def ids_in(store: ObjectStore, folder: str) -> list[int]:
    """Return the ids of the snapshots or changelogs that lie in `folder`, rising."""
    pattern = _CHANGELOG if folder.endswith(CHANGELOG_FOLDER) else _SNAPSHOT
    return sorted(int(match[1]) for match in map(pattern.fullmatch, store.children(folder).files) if match)


def tag_names(store: ObjectStore, prefix: str = "") -> list[str]:
    names = store.children(f"{prefix}{TAG_FOLDER}").files
    return [match[1] for match in map(_TAG.fullmatch, names) if match]


class FileReader:
    """What lists, manifests and index manifests name. Lists are remembered, entries are not.

    Raises NotFound for what is missing, unlike the log, for which that is always damage.
    """

    def __init__(self, store: ObjectStore, folders: BucketFolders) -> None:
        self._store = store
        self._folders = folders
        self._lists: dict[tuple[str, str | None], list[ManifestFile]] = {}

    @property
    def folders(self) -> BucketFolders:
        """Where the buckets of the table lie."""
        return self._folders

    def manifests(self, named: NamedList) -> list[ManifestFile]:
        # A plan names a list without its checksum: what was read for it is not yet proven for a root that has one.
        key = named.name, named.checksum
        if key not in self._lists:
            self._lists[key] = decode_manifest_list(self._read(named.name, named.size, named.checksum), named.name)
        return self._lists[key]

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        data = self._read(manifest.file_name, manifest.file_size, manifest.checksum)
        return decode_manifest(data, manifest.file_name)

    def index_files(self, index_manifest: str, checksum: str | None) -> Iterator[NamedFile]:
        for entry in decode_index_manifest(self._read(index_manifest, None, checksum), index_manifest):
            if entry.external_path is None:
                folder = self._folders.of_index(entry.partition, entry.bucket)
                yield index_file(entry.file_name, entry.file_size, folder=folder, named_by=index_manifest)

    def data_files(
        self, partition: bytes, bucket: int, file: DataFile, *, kind: FileKind, named_by: str
    ) -> tuple[NamedFile, ...]:
        """Return a data file and its extra files; none when it lies outside the table, where nothing is deleted."""
        if file.external_path is not None:
            return ()
        folder = self._folders.of(partition, bucket)
        return data_files(file.file_name, file.file_size, file.extra_files, kind=kind, folder=folder, named_by=named_by)

    def _read(self, name: str, size: int | None, checksum: str | None) -> bytes:
        key = manifest_key(name)
        data = self._store.read(key)
        verify_bytes(data, self._store.uri(key), size=size, expected=checksum)
        return data


def dead_files(reader: FileReader, plans: Iterable[DeletionPlan]) -> dict[str, NamedFile]:
    """Return the files that the unlinked roots of `plans` named and that may be dead now, by key.

    What is missing was deleted by an earlier attempt: lists go after their manifests, manifests after their files.
    """
    found: dict[str, NamedFile] = {}
    for plan in plans:
        for root in plan.roots:
            found.update((file.key, file) for file in _dead_metadata(reader, root))
        for file in _dead_data(reader, plan):
            found.setdefault(file.key, file)
    return found


def _dead_metadata(reader: FileReader, root: Root) -> Iterator[NamedFile]:
    yield from metadata_files(root)
    for named in root.lists:
        for manifest in _missing_is_none(reader.manifests, named):
            yield manifest_file(manifest.file_name, manifest.file_size, named_by=named.name)
    if root.index_manifest is not None:
        yield from _missing_is_none(
            lambda name: list(reader.index_files(name, root.index_manifest_checksum)), root.index_manifest
        )


def _dead_data(reader: FileReader, plan: DeletionPlan) -> Iterator[NamedFile]:
    """Yield the data files that may have died with the roots of `plan`.

    A file that was live in an expired snapshot and is not live in the next was deleted by a delta in between.
    """
    match plan.kind:
        case RootKind.SNAPSHOT:
            deltas = [root.delta for root in (*plan.roots, plan.successor) if root is not None]
            yield from _named_data(reader, deltas, {EntryKind.DELETE}, FileKind.DATA)
        case RootKind.TAG:
            states = [named for root in plan.roots for named in (root.base, root.delta)]
            yield from _named_data(reader, states, {EntryKind.ADD}, FileKind.DATA)
        case RootKind.CHANGELOG:
            deltas = [root.delta for root in plan.roots]
            yield from _named_data(reader, deltas, {EntryKind.ADD, EntryKind.DELETE}, FileKind.DATA)
    if plan.kind is not RootKind.TAG:
        changelogs = [root.changelog for root in plan.roots]
        yield from _named_data(reader, changelogs, {EntryKind.ADD}, FileKind.CHANGELOG)


def _named_data(
    reader: FileReader, lists: Iterable[NamedList | None], kinds: Container[EntryKind], kind: FileKind
) -> Iterator[NamedFile]:
    for named in lists:
        if named is None:
            continue
        for manifest in _missing_is_none(reader.manifests, named):
            for entry in _missing_is_none(reader.entries, manifest):
                if entry.kind in kinds:
                    yield from reader.data_files(
                        entry.partition, entry.bucket, entry.file, kind=kind, named_by=manifest.file_name
                    )


def _missing_is_none(read: Callable[[T], list[R]], what: T) -> list[R]:
    try:
        return read(what)
    except NotFound:
        return []


def live_among(
    reader: FileReader,
    roots: Iterable[Root],
    candidates: Mapping[str, NamedFile],
    *,
    delta_is_changelog: bool,
) -> set[str]:
    """Return the keys of those `candidates` that some root needs. Memory grows with the candidates only.

    Raises CorruptTable when something that a root needs is missing or contradicts another root.
    """
    search = _Search(reader, candidates)
    reduced = [needed(root, delta_is_changelog=delta_is_changelog) for root in roots]
    for root in reduced:
        search.metadata(root)
    if not search.looks_for_data:
        return search.live
    snapshots = [root for root in reduced if root.kind is RootKind.SNAPSHOT]
    for run in lineages(snapshots):
        search.lineage(run)
    states = {(root.snapshot_id, root.base, root.delta) for root in snapshots}
    for root in reduced:
        match root.kind:
            case RootKind.TAG if (root.snapshot_id, root.base, root.delta) not in states:
                search.state(root)
            case RootKind.CHANGELOG:
                search.changelog(root)
    return search.live


def pending_files(reader: FileReader, pending: Iterable[tuple[str, StagedCommit]]) -> set[str]:
    """Return the keys of the files that commits not yet made will name."""
    keys: set[str] = set()
    for named_by, staged in pending:
        for message in staged.messages:
            keys.update(file.key for file in message_files(message, reader.folders, named_by=named_by))
    return keys


def _snapshot_roots(store: ObjectStore, prefix: str, boundary: int) -> Iterator[Root]:
    """Yield the snapshots, tags and changelogs below `prefix`: "" for the main branch, else the folder of a branch."""
    for snapshot_id in ids_in(store, f"{prefix}{SNAPSHOT_FOLDER}"):
        if snapshot_id >= boundary:
            key = f"{prefix}{snapshot_key(snapshot_id)}"
            yield root_of(parse_snapshot(store.read(key), key), key, RootKind.SNAPSHOT, lineage=prefix)
    for snapshot_id in ids_in(store, f"{prefix}{CHANGELOG_FOLDER}"):
        key = f"{prefix}{changelog_key(snapshot_id)}"
        yield root_of(parse_snapshot(store.read(key), key), key, RootKind.CHANGELOG, lineage=prefix)
    for name in tag_names(store, prefix):
        key = f"{prefix}{tag_key(name)}"
        yield root_of(read_tag(store, key).snapshot, key, RootKind.TAG, lineage=prefix)


def branch_prefixes(store: ObjectStore) -> list[str]:
    """Return the folders of the branches, each with "/" at its end."""
    names = store.children(BRANCH_FOLDER).folders
    return [f"{BRANCH_FOLDER}/{name}/" for name in names if _BRANCH.fullmatch(name)]


def _branch_roots(store: ObjectStore) -> Iterator[Root]:
    for prefix in branch_prefixes(store):
        if not any(map(_SCHEMA.fullmatch, store.children(f"{prefix}{SCHEMA_FOLDER}").files)):
            raise CorruptTable(
                f"{store.uri(prefix.rstrip('/'))}: the branch has no schema, so it is half made or half dropped. "
                "Nothing was deleted, for its files may be needed. Finish creating it, or remove its folder."
            )
        yield from _snapshot_roots(store, prefix, 0)


def pending_commits(store: ObjectStore) -> tuple[tuple[str, StagedCommit], ...]:
    """Return the commits that are not made yet. Files that look like anything else are not ours to judge: stop."""
    pins = store.children(PINS_FOLDER).files
    if pins:
        raise UnsupportedFeature(
            f"{store.uri(PINS_FOLDER)}: pin {pins[0]} was set by a newer version, and protects what this one cannot "
            "tell. Nothing was deleted; upgrade, or remove the pin."
        )
    found = []
    for name in store.children(PENDING_FOLDER).files:
        key = f"{PENDING_FOLDER}/{name}"
        found.append((key, parse_pending(store.read(key), store.uri(key))))
    return tuple(found)


class _Search:
    """Which of some candidates are live, root by root."""

    def __init__(self, reader: FileReader, candidates: Mapping[str, NamedFile]) -> None:
        self._reader = reader
        self._candidates = candidates
        kinds = (FileKind.DATA, FileKind.CHANGELOG, FileKind.EXTRA)
        self._names = {file.key.rsplit("/", 1)[-1] for file in candidates.values() if file.kind in kinds}
        # By name and checksum: what was read without a checksum is not proven for a root that has one.
        self._found: dict[tuple[str, str | None], list[ManifestEntry]] = {}
        self.live: set[str] = set()

    @property
    def looks_for_data(self) -> bool:
        return bool(self._names)

    def metadata(self, root: Root) -> None:
        for file in metadata_files(root):
            self._mark(file)
        for named in root.lists:
            for manifest in _of(root, self._reader.manifests, named):
                self._mark(manifest_file(manifest.file_name, manifest.file_size, named_by=named.name))
        if root.index_manifest is not None:
            checksum = root.index_manifest_checksum
            for file in _of(root, lambda name: list(self._reader.index_files(name, checksum)), root.index_manifest):
                self._mark(file)

    def lineage(self, run: tuple[Root, ...]) -> None:
        """Mark what the snapshots of one lineage need, oldest first.

        A file is live in one of them when it is live in the first or added by the delta of a later one.
        """
        self.state(run[0])
        for root in run[1:]:
            self._added(root, root.delta, FileKind.DATA)
        for root in run:
            self._added(root, root.changelog, FileKind.CHANGELOG)
        known = frozenset(self.live)
        self.state(run[-1])
        if unknown := self.live - known:
            raise CorruptTable(
                f"{run[-1].key}: {min(unknown)} is live there, but no snapshot since {run[0].key} adds it. "
                "Nothing was deleted; run `lakehouse verify` and keep its report."
            )

    def state(self, root: Root) -> None:
        """Mark the files that are live at `root`."""
        merged = merge_entries(self._entries(root, (root.base, root.delta)))
        for entry in merged:
            if entry.kind is EntryKind.ADD:
                self._mark_entry(entry, FileKind.DATA, root)

    def changelog(self, root: Root) -> None:
        if root.changelog is not None:
            self._added(root, root.changelog, FileKind.CHANGELOG)
        else:
            self._added(root, root.delta, FileKind.DATA, unless=FileSource.COMPACT)

    def _added(self, root: Root, named: NamedList | None, kind: FileKind, *, unless: FileSource | None = None) -> None:
        for entry in self._entries(root, (named,)):
            if entry.kind is EntryKind.ADD and (unless is None or entry.file.file_source is not unless):
                self._mark_entry(entry, kind, root)

    def _entries(self, root: Root, lists: Iterable[NamedList | None]) -> list[ManifestEntry]:
        """Return the entries of the lists that are about candidates."""
        found: list[ManifestEntry] = []
        for named in lists:
            if named is not None:
                for manifest in _of(root, self._reader.manifests, named):
                    found.extend(self._of_manifest(root, manifest))
        return found

    def _of_manifest(self, root: Root, manifest: ManifestFile) -> list[ManifestEntry]:
        key = manifest.file_name, manifest.checksum
        if key not in self._found:
            entries = _of(root, self._reader.entries, manifest)
            self._found[key] = [entry for entry in entries if self._concerns(entry)]
        return self._found[key]

    def _concerns(self, entry: ManifestEntry) -> bool:
        return object_name(entry.file.file_name) in self._names or any(
            extra in self._names for extra in entry.file.extra_files
        )

    def _mark_entry(self, entry: ManifestEntry, kind: FileKind, root: Root) -> None:
        for file in self._reader.data_files(entry.partition, entry.bucket, entry.file, kind=kind, named_by=root.key):
            self._mark(file)

    def _mark(self, file: NamedFile) -> None:
        if file.key in self._candidates:
            self.live.add(file.key)


def _of(root: Root, read: Callable[[T], list[R]], what: T) -> list[R]:
    """Return what `read` finds, or say which root needs it."""
    try:
        return read(what)
    except NotFound as error:
        raise NotFound(f"{root.key} needs what is missing: {error}") from error
