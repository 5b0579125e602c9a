"""verify: reads all metadata of a table and says which of its promises are broken. It changes nothing.

Data files are looked for and measured, and on demand read. What an expiry removes while we look is not reported.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, UnsupportedFeature
from lakehouse_core.execution.manifest_reader import ManifestReader
from lakehouse_core.execution.roots import branch_prefixes, ids_in, load_plans, pending_commits, tag_names
from lakehouse_core.execution.schema_log import SchemaLog
from lakehouse_core.execution.snapshot_log import SnapshotLog
from lakehouse_core.execution.tasks.deletion_vectors import read_vectors
from lakehouse_core.execution.tasks.merge_read import BucketFiles
from lakehouse_core.format.data_types import DataType
from lakehouse_core.options import ChangelogProducer
from lakehouse_core.planning.findings import (
    Finding,
    LiveFiles,
    Promise,
    hint_findings,
    id_findings,
    key_findings,
    lineage_findings,
    manifest_findings,
    no_schema,
    row_count_findings,
    schema_missing,
    unreadable,
    vector_findings,
)
from lakehouse_core.planning.live_files import (
    BucketFolders,
    FileKind,
    NamedFile,
    NamedList,
    Root,
    RootKind,
    data_files,
    index_file,
    metadata_files,
    needed,
    root_of,
)
from lakehouse_core.planning.readable import READABLE_FORMATS
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.checksums import CHECKSUMS_PROPERTY, checksums_from_text
from lakehouse_core.table.data_file import DataFile, FileSource
from lakehouse_core.table.joined_changelog import segment_of
from lakehouse_core.table.layout import (
    BOUNDARY_KEY,
    CHANGELOG_FOLDER,
    CONSUMER_FOLDER,
    CONSUMER_PREFIX,
    OWN_FOLDER,
    PENDING_FOLDER,
    SNAPSHOT_FOLDER,
    changelog_key,
    manifest_key,
    schema_key,
    snapshot_key,
    tag_key,
)
from lakehouse_core.table.manifest import (
    DELETION_VECTORS,
    EntryKind,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFile,
    file_identifier,
)
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, parse_consumer, parse_snapshot, parse_tag

T = TypeVar("T")

_ATTEMPTS = 5

# What reading stored bytes ends in when they are damaged, or not what any engine writes.
_UNREADABLE = (CorruptTable, UnsupportedFeature, InvalidRequest, NotFound)


def verify(log: SnapshotLog, schemas: SchemaLog, *, reads_data: bool = False) -> tuple[Finding, ...]:
    """Return every broken promise of the table and its branches; nothing when all is well.

    With `reads_data` every Parquet file that a root names is decoded as well, against the checksums of its pages.
    Raises NotFound when there is no table, StorageUnavailable when the store does not answer.
    """
    if not schemas.ids():
        raise NotFound(f"{log.store.uri('')}: there is no table, for it has no schema. Check the name.")
    return _Verification(log, schemas, reads_data=reads_data).findings()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rooted:
    """A root, reduced to what it needs, with the snapshot that it holds."""

    root: Root
    snapshot: Snapshot

    @property
    def checksums(self) -> Mapping[str, str]:
        return checksums_from_text(self.snapshot.properties.get(CHECKSUMS_PROPERTY), self.root.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """The main branch, or another: snapshots and changelogs in rising order of ids."""

    schema: TableSchema
    schemas: Mapping[int, TableSchema]
    snapshots: Sequence[_Rooted]
    tags: Sequence[_Rooted]
    changelogs: Sequence[_Rooted]


class _Verification:
    """One pass over a table. Each damaged object is reported once, for the first root that names it."""

    def __init__(self, log: SnapshotLog, schemas: SchemaLog, *, reads_data: bool) -> None:
        self._log = log
        # What a handle remembers says nothing of the files as they are now.
        self._manifests = ManifestReader(log.store)
        self._store = log.store
        self._schemas = schemas
        self._reads_data = reads_data
        self._data_read: set[str] = set()
        self._found: dict[tuple[Promise, str], tuple[Finding, str | None]] = {}
        self._files: Mapping[str, int] = {}
        self._described: set[str] = set()
        self._unreadable: set[str] = set()
        self._vectors_read: set[str] = set()

    def findings(self) -> tuple[Finding, ...]:
        boundary = self._boundary()
        unlinking = self._plans()
        self._pending()
        self._consumers()
        branches = [
            self._branch(prefix, boundary=0 if prefix else boundary, unlinking=unlinking)
            for prefix in ("", *branch_prefixes(self._store))
        ]
        # Listed after the roots were read: whatever they name was written before them.
        self._files = {info.key: info.size for info in self._store.list("")}
        for branch in branches:
            if branch is not None:
                _BranchCheck(self, branch).run()
        # Whatever an expiry took meanwhile was looked for in vain, and rightly so.
        boundary = self._boundary()
        return tuple(
            finding
            for finding, root_key in self._found.values()
            if root_key is None or _is_root_still(self._store, root_key, boundary)
        )

    def report(self, findings: Iterable[Finding], root_key: str | None = None) -> None:
        for finding in findings:
            self._found.setdefault((finding.promise, finding.object), (finding, root_key))

    def read(self, promise: Promise, object: str, read: Callable[[], T], root_key: str | None = None) -> T | None:
        """Return what `read` finds, or None after reporting why it finds nothing."""
        try:
            return read()
        except _UNREADABLE as error:
            self.report([unreadable(promise, object, error)], root_key)
            return None

    def manifests(self, rooted: _Rooted, named: NamedList) -> list[ManifestFile] | None:
        expected = rooted.checksums.get(named.name)
        return self.read(
            Promise.NAMED_FILES,
            manifest_key(named.name),
            lambda: self._manifests.listed(named.name, named.size, expected),
            rooted.root.key,
        )

    def entries(self, rooted: _Rooted, named: NamedList, manifest: ManifestFile) -> list[ManifestEntry] | None:
        """Return the entries of a manifest; what its list says of it is checked the first time."""
        key = manifest_key(manifest.file_name)
        if key in self._unreadable:
            return None
        entries = self.read(Promise.NAMED_FILES, key, lambda: self._manifests.entries(manifest), rooted.root.key)
        if entries is None:
            self._unreadable.add(key)
        elif key not in self._described:
            self._described.add(key)
            self.report(manifest_findings(named.name, manifest, entries), rooted.root.key)
        return entries

    def vectors(self, key: str, index: IndexManifestEntry, row_counts: Mapping[str, int], root_key: str) -> None:
        """Decode the vectors of an index file that is there whole, once, and look for their rows in the data files."""
        if key in self._vectors_read or self._files.get(key) != index.file_size:
            return
        self._vectors_read.add(key)

        def read() -> list[tuple[str, int]]:
            found = read_vectors(self._store.read(key), key, index.deletion_vectors or ())
            return [(name, int(rows[-1])) for name, rows in found if len(rows)]

        highest = self.read(Promise.NAMED_FILES, key, read, root_key)
        self.report(vector_findings(key, highest or (), row_counts), root_key)

    def index_entries(self, snapshot: Snapshot) -> list[IndexManifestEntry]:
        return self._log.index_entries(snapshot)

    def exist(self, files: Iterable[NamedFile], root_key: str) -> None:
        """Report which of `files` are missing, or have another size than recorded."""
        for file in files:
            size = self._files.get(file.key)
            if size is None:
                found, expected = "it is missing", f"a file, for {root_key} needs it"
            elif (recorded := file.size_fault(size)) is not None:
                found, expected = f"it has {size} bytes", f"{recorded}, as {root_key} has it"
            else:
                continue
            self.report(
                [
                    Finding(
                        promise=Promise.NAMED_FILES,
                        object=file.key,
                        found=found,
                        expected=expected,
                        advice="Restore it from a copy of the table; until then read snapshots that do not need it.",
                    )
                ],
                root_key,
            )

    def content(self, folder: str, file: DataFile, schemas: Mapping[int, TableSchema], root_key: str) -> None:
        """Read a data file that is there whole, once, where that was asked for and its format is ours."""
        key = f"{folder}/{file.file_name}"
        if not self._reads_data or key in self._data_read or not self._is_whole(key, file):
            return
        self._data_read.add(key)
        if file.schema_id in schemas and file.format in READABLE_FORMATS:
            files = BucketFiles(store=self._store, folder=folder, schemas=schemas)
            self.read(Promise.NAMED_FILES, key, partial(_decode, files, file), root_key)

    def _is_whole(self, key: str, file: DataFile) -> bool:
        segment = segment_of(key)
        if segment is None:
            return self._files.get(key) == file.file_size
        return self._files.get(segment.key, 0) >= segment.end

    def _boundary(self) -> int:
        return self.read(Promise.DENSE_IDS, BOUNDARY_KEY, self._log.boundary) or 0

    def _plans(self) -> frozenset[int]:
        """Return the ids of snapshots that deletions under way have yet to unlink, or are unlinking."""
        plans = self.read(Promise.READABLE_ROOTS, OWN_FOLDER, lambda: _steady(load_plans, self._store)) or ()
        return frozenset(root.snapshot_id for plan in plans if plan.kind is RootKind.SNAPSHOT for root in plan.roots)

    def _pending(self) -> None:
        self.read(Promise.READABLE_ROOTS, PENDING_FOLDER, lambda: _steady(pending_commits, self._store))

    def _consumers(self) -> None:
        for name in self._store.children(CONSUMER_FOLDER).files:
            if name.startswith(CONSUMER_PREFIX):
                key = f"{CONSUMER_FOLDER}/{name}"
                self.read(Promise.READABLE_ROOTS, key, partial(_consumer, self._store, key))

    def _branch(self, prefix: str, *, boundary: int, unlinking: frozenset[int]) -> _Branch | None:
        store = self._store
        schemas = self._schemas if not prefix else SchemaLog(store.at(prefix.rstrip("/")))
        read = {
            id: self.read(Promise.READABLE_SCHEMAS, f"{prefix}{schema_key(id)}", partial(schemas.schema, id))
            for id in schemas.ids()
        }
        schema = read.get(max(read, default=0))
        if schema is None:
            self.report([no_schema(prefix)] if not read else [])
            return None
        folders = (f"{prefix}{SNAPSHOT_FOLDER}", f"{prefix}{CHANGELOG_FOLDER}")
        # Hints first: what they speak of is there before them.
        hints = {key: _content(store, key) for folder in folders for key in (f"{folder}/EARLIEST", f"{folder}/LATEST")}
        every_id, changelog_ids = (ids_in(store, folder) for folder in folders)
        for key, content in hints.items():
            ids = every_id if key.startswith(folders[0]) else changelog_ids
            self.report(hint_findings(key, content, latest_id=ids[-1] if ids else None))
        leaving = unlinking if not prefix else frozenset()
        if list(id_findings(prefix, every_id, boundary=boundary, unlinking=leaving)):
            # A listing during an expiry may show an older id and miss a younger one: look again.
            boundary, leaving = (0, frozenset()) if prefix else (self._boundary(), self._plans())
            every_id = ids_in(store, folders[0])
            self.report(id_findings(prefix, every_id, boundary=boundary, unlinking=leaving))
        producer_is_none = schema.table_options.changelog_producer is ChangelogProducer.NONE

        def rooted(keys: Iterable[str], kind: RootKind) -> list[_Rooted]:
            roots = (self._rooted(f"{prefix}{key}", kind, prefix, producer_is_none) for key in keys)
            return [root for root in roots if root is not None]

        return _Branch(
            schema=schema,
            schemas={id: one for id, one in read.items() if one is not None},
            snapshots=rooted((snapshot_key(id) for id in every_id if id >= boundary), RootKind.SNAPSHOT),
            tags=rooted(map(tag_key, tag_names(store, prefix)), RootKind.TAG),
            changelogs=rooted(map(changelog_key, changelog_ids), RootKind.CHANGELOG),
        )

    def _rooted(self, key: str, kind: RootKind, lineage: str, delta_is_changelog: bool) -> _Rooted | None:
        snapshot = self.read(Promise.READABLE_ROOTS, key, partial(_snapshot, self._store, key, kind), key)
        if snapshot is None:
            return None
        root = needed(root_of(snapshot, key, kind, lineage=lineage), delta_is_changelog=delta_is_changelog)
        rooted = _Rooted(root=root, snapshot=snapshot)
        checksums = self.read(Promise.READABLE_ROOTS, key, lambda: rooted.checksums, key)
        return None if checksums is None else rooted


class _BranchCheck:
    """The roots of one branch, one after the other, and every file that they name."""

    def __init__(self, verification: _Verification, branch: _Branch) -> None:
        self._all = verification
        self._branch = branch
        self._folders = BucketFolders(branch.schema)
        self._key_types: Sequence[DataType] = tuple(field.type for field in branch.schema.key_fields)

    def run(self) -> None:
        for run in _runs(self._branch.snapshots):
            self._all.report(lineage_findings([(each.root.key, each.snapshot) for each in run]), run[0].root.key)
            self._lineage(run)
        states = {(each.root.snapshot_id, each.root.base, each.root.delta) for each in self._branch.snapshots}
        for tag in self._branch.tags:
            self._metadata(tag)
            if (tag.root.snapshot_id, tag.root.base, tag.root.delta) not in states:
                self._lineage([tag])
        for changelog in self._branch.changelogs:
            self._metadata(changelog)
            self._changelog(changelog)

    def _lineage(self, run: Sequence[_Rooted]) -> None:
        """Replay the deltas of `run`; where something is missing, begin again at the next snapshot."""
        live: LiveFiles | None = None
        before: Sequence[ManifestFile] = ()
        for rooted in run:
            root = rooted.root
            if root.kind is RootKind.SNAPSHOT:
                self._metadata(rooted)
            assert root.base is not None
            assert root.delta is not None
            base = self._all.manifests(rooted, root.base)
            delta = self._all.manifests(rooted, root.delta)
            is_first = live is None
            if is_first or list(base or ()) != list(before):
                live = self._base(rooted, base, live)
            changes = self._entries(rooted, root.delta, delta)
            if live is None or changes is None or base is None or delta is None:
                live = None
                # What came before cannot be told; what came with this snapshot can.
                self._look_at(rooted, _surviving(changes or ()), FileKind.DATA)
                continue
            before = [*base, *delta]
            self._step(rooted, live, changes, is_first=is_first)

    def _base(self, rooted: _Rooted, base: Sequence[ManifestFile] | None, live: LiveFiles | None) -> LiveFiles | None:
        """Return the state before `rooted`: the replay so far where there is one, else what its base lists."""
        assert rooted.root.base is not None
        entries = self._entries(rooted, rooted.root.base, base)
        if entries is None:
            return None
        listed = LiveFiles()
        key = rooted.root.key
        self._all.report(listed.apply(key, entries), key)
        if live is None:
            return listed
        self._all.report(live.differences(key, listed.entries), key)
        return live

    def _step(self, rooted: _Rooted, live: LiveFiles, changes: Sequence[ManifestEntry], *, is_first: bool) -> None:
        """Apply the delta of `rooted` to `live`, then check what it came to; of the first snapshot, everything."""
        key = rooted.root.key
        self._all.report(live.apply(key, changes), key)
        # A file that one of the deltas deletes may be gone, but for the snapshots before it.
        new = live.entries.keys() if is_first else map(file_identifier, changes)
        files = [live.entries[identifier] for identifier in new if identifier in live.entries]
        touched = _buckets(files if is_first else changes)
        self._look_at(rooted, files, FileKind.DATA)
        self._all.report(live.bucket_findings(key, touched, self._folders.of, self._key_types), key)
        self._vectors(rooted, live)
        changelog_rows = None
        if rooted.root.changelog is not None:
            changelog_rows = self._changelog(rooted)
        elif rooted.root.kind is RootKind.SNAPSHOT:
            changelog_rows = 0
        self._all.report(
            row_count_findings(
                key,
                rooted.snapshot,
                total=live.row_count,
                delta=sum(entry.file.row_count * (1 if entry.kind is EntryKind.ADD else -1) for entry in changes),
                changelog=changelog_rows,
            ),
            key,
        )

    def _vectors(self, rooted: _Rooted, live: LiveFiles) -> None:
        """Look into the deletion vectors of `rooted`, whose files are `live`."""
        if rooted.root.index_manifest is None:
            return
        key = manifest_key(rooted.root.index_manifest)
        indexes = self._all.read(
            Promise.NAMED_FILES, key, lambda: self._all.index_entries(rooted.snapshot), rooted.root.key
        )
        for index in indexes or ():
            if index.index_type == DELETION_VECTORS and index.external_path is None:
                file = self._all.read(Promise.NAMED_FILES, key, partial(self._index_file, index, key), rooted.root.key)
                if file is not None:
                    row_counts = live.row_counts(index.partition, index.bucket)
                    self._all.vectors(file.key, index, row_counts, rooted.root.key)

    def _changelog(self, rooted: _Rooted) -> int | None:
        """Look at the files of a changelog and return their rows; None when they cannot be told."""
        root = rooted.root
        named = root.changelog if root.changelog is not None else root.delta
        if named is None:
            return None
        entries = self._entries(rooted, named, self._all.manifests(rooted, named))
        if entries is None:
            return None
        added = [entry for entry in entries if entry.kind is EntryKind.ADD]
        if root.changelog is None:
            added = [entry for entry in added if entry.file.file_source is not FileSource.COMPACT]
        self._look_at(rooted, added, FileKind.CHANGELOG)
        return sum(entry.file.row_count for entry in added)

    def _entries(
        self, rooted: _Rooted, named: NamedList, manifests: Sequence[ManifestFile] | None
    ) -> list[ManifestEntry] | None:
        """Return the entries of all manifests of a list, or None when one cannot be read."""
        if manifests is None:
            return None
        found = [self._all.entries(rooted, named, manifest) for manifest in manifests]
        return None if None in found else [entry for entries in found for entry in entries or ()]

    def _metadata(self, rooted: _Rooted) -> None:
        root = rooted.root
        self._all.exist(metadata_files(root), root.key)
        if rooted.snapshot.schema_id not in self._branch.schemas:
            self._all.report([schema_missing(root.key, rooted.snapshot.schema_id)], root.key)
        for named in root.lists:
            for manifest in self._all.manifests(rooted, named) or ():
                self._all.entries(rooted, named, manifest)
        if root.index_manifest is not None:
            key = manifest_key(root.index_manifest)
            files = self._all.read(Promise.NAMED_FILES, key, lambda: self._index_files(rooted.snapshot), root.key)
            self._all.exist(files or (), root.key)

    def _index_files(self, snapshot: Snapshot) -> list[NamedFile]:
        assert snapshot.index_manifest is not None
        return [
            self._index_file(entry, snapshot.index_manifest)
            for entry in self._all.index_entries(snapshot)
            if entry.external_path is None
        ]

    def _index_file(self, entry: IndexManifestEntry, named_by: str) -> NamedFile:
        folder = self._folders.of_index(entry.partition, entry.bucket)
        return index_file(entry.file_name, entry.file_size, folder=folder, named_by=named_by)

    def _look_at(self, rooted: _Rooted, entries: Iterable[ManifestEntry], kind: FileKind) -> None:
        """Check that the files of `entries` are there, and that their schemas and keys can be read."""
        key = rooted.root.key
        for entry in entries:
            folder = self._folders.of(entry.partition, entry.bucket)
            if entry.file.schema_id not in self._branch.schemas:
                self._all.report([schema_missing(f"{key}, {entry.file.file_name}", entry.file.schema_id)], key)
            if self._key_types:
                self._all.report(key_findings(key, folder, entry, self._key_types), key)
            if entry.file.external_path is None:
                files = self._all.read(
                    Promise.NAMED_FILES,
                    f"{key}, {entry.file.file_name}",
                    partial(self._files_of, entry, kind, key),
                    key,
                )
                self._all.exist(files or (), key)
                self._all.content(folder, entry.file, self._branch.schemas, key)

    def _files_of(self, entry: ManifestEntry, kind: FileKind, key: str) -> tuple[NamedFile, ...]:
        file = entry.file
        folder = self._folders.of(entry.partition, entry.bucket)
        return data_files(file.file_name, file.file_size, file.extra_files, kind=kind, folder=folder, named_by=key)


def _runs(snapshots: Sequence[_Rooted]) -> Iterator[list[_Rooted]]:
    """Yield runs of consecutive ids: where one is missing, the next begins anew."""
    run: list[_Rooted] = []
    for each in snapshots:
        if run and each.root.snapshot_id != run[-1].root.snapshot_id + 1:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _surviving(changes: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the files that a delta adds and does not delete again."""
    added: dict[Hashable, ManifestEntry] = {}
    for entry in changes:
        if entry.kind is EntryKind.ADD:
            added[file_identifier(entry)] = entry
        else:
            added.pop(file_identifier(entry), None)
    return list(added.values())


def _buckets(entries: Iterable[ManifestEntry]) -> set[tuple[bytes, int]]:
    return {(entry.partition, entry.bucket) for entry in entries}


def _steady(read: Callable[[ObjectStore], T], store: ObjectStore) -> T:
    """Read what is listed first: another process may end one of them in between."""
    for _ in range(_ATTEMPTS):
        try:
            return read(store)
        except NotFound:
            continue
    return read(store)


def _decode(files: BucketFiles, file: DataFile) -> None:
    reader = files.open(file)
    try:
        reader.decode_all()
    finally:
        reader.close()


def _content(store: ObjectStore, key: str) -> bytes | None:
    try:
        return store.read(key)
    except NotFound:
        return None


def _snapshot(store: ObjectStore, key: str, kind: RootKind) -> Snapshot:
    data = store.read(key)
    return parse_tag(data, key).snapshot if kind is RootKind.TAG else parse_snapshot(data, key)


def _consumer(store: ObjectStore, key: str) -> int:
    return parse_consumer(store.read(key), key)


def _is_root_still(store: ObjectStore, key: str, boundary: int) -> bool:
    try:
        store.size(key)
    except NotFound:
        return False
    return key not in {snapshot_key(id) for id in ids_in(store, SNAPSHOT_FOLDER) if id < boundary}
