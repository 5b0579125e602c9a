"""Inspection: read each object of a table once, and report each damaged one once.

Data files are listed with their sizes, and read on demand.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from lakehouse_core.data_files.deletion_vectors import read_vectors
from lakehouse_core.data_files.file_index import check_indexes
from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound, UnsupportedFeature
from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.planning.findings import Finding, Invariant, manifest_findings, unreadable, vector_findings
from lakehouse_core.planning.readable import READABLE_FORMATS, deletion_files
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.storage.overlap import reading_ahead
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.file_index import index_file_name
from lakehouse_core.table.file_refs import FileRef
from lakehouse_core.table.joined_changelog import segment_of
from lakehouse_core.table.layout import MAIN, manifest_key
from lakehouse_core.table.manifest import (
    EntryColumns,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFile,
    ManifestListRef,
    Tally,
    columns_of,
    tally,
)
from lakehouse_core.table.root import Root
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, snapshot_checksums
from lakehouse_core.tasks.merge_scan import BucketFiles, objects_of

T = TypeVar("T")

# At most three lists of each are remembered until the root is checked.
_ROOTS_AHEAD = 16
# The errors of reading bytes that are damaged, or that no engine writes.
UNREADABLE: Final = (CorruptTable, UnsupportedFeature, InvalidRequest, NotFound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooted:
    """A root, reduced to the files that it names, with the snapshot that it holds."""

    root: Root
    snapshot: Snapshot

    @property
    def checksums(self) -> Mapping[str, str]:
        return snapshot_checksums(self.snapshot, self.root.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """A data file that is to be read whole, and the root that names it."""

    folder: str
    file: DataFile
    schemas: Mapping[int, TableSchema]
    root_key: str

    @property
    def key(self) -> str:
        return f"{self.folder}/{self.file.file_name}"

    @property
    def index_key(self) -> str:
        """The key of the object that holds the file's index, if it has one: a side file, or the file's entry."""
        name = index_file_name(self.file)
        return self.key if name is None else f"{self.folder}/{name}"


class Inspection:
    """One pass over a table. Each damaged object is reported once, for the first root that names it."""

    def __init__(self, store: StoreReader, *, reads_data: bool, watch: Watch = NO_WATCH) -> None:
        self._watch = watch
        self._root_count = 0
        self._roots_checked = 0
        # Values cached in a handle may differ from the files as they are now.
        self._manifests = ManifestReader(store, MAIN)
        self.store = store
        self.reads_data = reads_data
        self._data_asked: set[str] = set()
        self._data_unread: list[_Content] = []
        self._data_files_read = 0
        self._found: dict[tuple[Invariant, str], tuple[Finding, str | None]] = {}
        self._files: Mapping[str, int] = {}
        # By key, the times at which snapshot files were written, by the storage's clock.
        self.modified_millis: Mapping[str, int] = {}
        self._tallies: dict[ManifestFile, Tally | None] = {}
        self._indexes_read: set[tuple[str, str | None]] = set()
        self._vectors_read: set[str] = set()

    def list_files(self, root_count: int) -> None:
        """List the table's files for `exist`, `vectors` and `content`. `root_count`: the number of roots, for progress.

        REQUIRES: the roots were read before.
        """
        self._watch.at("listing the files")
        self._root_count = root_count
        infos = list(self.store.list(""))
        self._files = {info.key: info.size for info in infos}
        self.modified_millis = {info.key: info.modified_millis for info in infos if "/snapshot-" in f"/{info.key}"}

    def listed_below(self, folder: str) -> set[str]:
        """Return the keys of the listed files below a folder."""
        return {key for key in self._files if key.startswith(f"{folder}/")}

    def begin(self) -> None:
        """Count the next root as progress; when data is read, files count instead."""
        if not self.reads_data:
            self._watch.at("checking", self._roots_checked, self._root_count, "snapshots")
        self._roots_checked += 1

    def end(self) -> Sequence[tuple[Finding, str | None]]:
        """Return the findings in order, each with the key of its root, and end the inspection."""
        self._read_data()
        if not self.reads_data:
            self._watch.at("checking", self._root_count, self._root_count, "snapshots")
        return tuple(self._found.values())

    def ahead(self, roots: Iterable[Rooted]) -> Iterator[Rooted]:
        """Yield the roots; the manifest lists and manifests of a few are read together before that."""
        rest = iter(roots)
        while some := list(islice(rest, _ROOTS_AHEAD)):
            lists = [(one, named) for one in some for named in one.root.lists]
            self._manifests.fetch({named.name: named.size or 0 for _, named in lists})
            unread: dict[str, int] = {}
            for one, named in lists if self.store.requests_at_once > 1 else ():
                # What cannot be read is reported when it is checked.
                with suppress(*UNREADABLE):
                    for each in self._manifests.listed(named.name, named.size, one.checksums.get(named.name)):
                        if each not in self._tallies:
                            unread[each.file_name] = each.file_size
            self._manifests.fetch(unread)
            yield from some

    def report(self, findings: Iterable[Finding], root_key: str | None = None) -> None:
        """Add findings; `root_key`: the root that names the object."""
        for finding in findings:
            self._found.setdefault((finding.promise, finding.object), (finding, root_key))

    def read(self, promise: Invariant, object: str, read: Callable[[], T], root_key: str | None = None) -> T | None:
        """Return the result of `read`; if it fails, report why and return None."""
        try:
            return read()
        except UNREADABLE as error:
            self.report([unreadable(promise, object, error)], root_key)
            return None

    def manifests(self, rooted: Rooted, named: ManifestListRef) -> list[ManifestFile] | None:
        """Return the manifests of a list, None if it cannot be read."""
        expected = rooted.checksums.get(named.name)
        return self.read(
            Invariant.NAMED_FILES,
            manifest_key(named.name),
            lambda: self._manifests.listed(named.name, named.size, expected),
            rooted.root.key,
        )

    def tally(self, rooted: Rooted, named: ManifestListRef, manifest: ManifestFile) -> Tally | None:
        """Return the tally of a manifest, None if it cannot be read.

        The manifest is read at the first call only, and compared with its entry in the manifest list.
        """
        if manifest not in self._tallies:
            columns = self.read(
                Invariant.NAMED_FILES,
                manifest_key(manifest.file_name),
                lambda: self._manifests.columns([manifest]),
                rooted.root.key,
            )
            self._look_at(rooted, named, manifest, columns)
        return self._tallies[manifest]

    def entries(self, rooted: Rooted, named: ManifestListRef, manifest: ManifestFile) -> list[ManifestEntry] | None:
        """Return the entries of a manifest, None if it cannot be read."""
        if manifest in self._tallies and self._tallies[manifest] is None:
            return None
        entries = self.read(
            Invariant.NAMED_FILES,
            manifest_key(manifest.file_name),
            lambda: self._manifests.entries(manifest),
            rooted.root.key,
        )
        if manifest not in self._tallies:
            self._look_at(rooted, named, manifest, None if entries is None else columns_of(entries))
        return entries

    def _look_at(
        self, rooted: Rooted, named: ManifestListRef, manifest: ManifestFile, columns: EntryColumns | None
    ) -> None:
        self._tallies[manifest] = found = None if columns is None else tally(columns)
        if found is not None:
            self.report(manifest_findings(named.name, manifest, found), rooted.root.key)

    def index_entries(self, rooted: Rooted) -> list[IndexManifestEntry] | None:
        """Return the entries of a root's index manifest at the first call; None at later calls."""
        name = rooted.root.index_manifest
        expected = rooted.checksums.get(name or "")
        if name is None or (name, expected) in self._indexes_read:
            return None
        self._indexes_read.add((name, expected))
        return self.read(
            Invariant.NAMED_FILES,
            manifest_key(name),
            lambda: self._manifests.listed_index_files(name, expected),
            rooted.root.key,
        )

    def state_indexes(self, rooted: Rooted) -> Sequence[IndexManifestEntry]:
        """Return the index files at a root; none if they cannot be read: `index_entries` reports it."""
        name = rooted.root.index_manifest
        if name is None:
            return ()
        try:
            return self._manifests.listed_index_files(name, rooted.checksums.get(name))
        except UNREADABLE:
            return ()

    def deletions(self, rooted: Rooted, schema: TableSchema) -> Mapping[str, DeletionFile] | None:
        """Return the locations of the deletion vectors at a root; None if they cannot be told: the check of the branch
        reports two vectors of one file.
        """
        try:
            return deletion_files(self.state_indexes(rooted), DataLayout(schema))
        except UNREADABLE:
            return None

    def vectors(
        self, key: str, index: IndexManifestEntry, row_counts: Callable[[], Mapping[str, int]], root_key: str
    ) -> None:
        """Decode the deletion vectors of a whole index file once, and check their positions against the data files' row
        counts.
        """
        if key in self._vectors_read or self._files.get(key) != index.file_size:
            return
        self._vectors_read.add(key)

        def read() -> list[tuple[str, int]]:
            found = read_vectors(self.store.read(key), key, index.deletion_vectors or ())
            return [(name, int(rows[-1])) for name, rows in found if len(rows)]

        highest = self.read(Invariant.NAMED_FILES, key, read, root_key)
        self.report(vector_findings(key, highest or (), row_counts()), root_key)

    def exist(self, files: Iterable[FileRef], root_key: str) -> None:
        """Report which of `files` are missing, or have another size than recorded."""
        for file in files:
            size = self._files.get(file.key)
            if size is None:
                found, expected = "it is missing", f"a file, because {root_key} needs it"
            elif (recorded := file.size_fault(size)) is not None:
                found, expected = f"it has {size} bytes", f"{recorded}, as {root_key} records"
            else:
                continue
            self.report(
                [
                    Finding(
                        promise=Invariant.NAMED_FILES,
                        object=file.key,
                        found=found,
                        expected=expected,
                        advice="Restore it from a copy of the table; until then read snapshots that do not need it.",
                    )
                ],
                root_key,
            )

    def content(self, folder: str, file: DataFile, schemas: Mapping[int, TableSchema], root_key: str) -> None:
        """Read a whole data file once, if reading was requested and its format is known: with the next ones, at the
        latest at the end.
        """
        content = _Content(folder=folder, file=file, schemas=schemas, root_key=root_key)
        if not self.reads_data or content.key in self._data_asked or not self._is_whole(content.key, file):
            return
        self._data_asked.add(content.key)
        if file.schema_id in schemas:
            self._data_unread.append(content)
        # A disk is fastest one by one.
        if len(self._data_unread) >= self.store.requests_at_once:
            self._read_data()

    def _read_data(self) -> None:
        """Read the files that `content` was asked for; while one is decoded, the next ones are fetched."""
        contents, self._data_unread = self._data_unread, []
        with reading_ahead(self.store, self._objects_of(contents)) as opener:
            for content in contents:
                self._watch.at("reading the data", self._data_files_read, None, "files")
                self._data_files_read += 1
                file, schemas = content.file, content.schemas
                if file.format in READABLE_FORMATS:
                    files = BucketFiles(store=opener, folder=content.folder, schemas=schemas)
                    self.read(Invariant.NAMED_FILES, content.key, partial(_decode, files, file), content.root_key)
                # A missing index was reported before.
                if content.index_key in self._files:
                    check = partial(check_indexes, opener, content.folder, file, schemas[file.schema_id])
                    self.read(Invariant.NAMED_FILES, content.index_key, check, content.root_key)

    def _objects_of(self, contents: Iterable[_Content]) -> Iterator[tuple[str, int]]:
        """Yield the key and the size in bytes of each object that holds data files or their indexes."""
        for content in contents:
            if content.file.format in READABLE_FORMATS:
                yield from objects_of(content.folder, [content.file])
            if index_file_name(content.file) is not None and content.index_key in self._files:
                yield content.index_key, self._files[content.index_key]

    def _is_whole(self, key: str, file: DataFile) -> bool:
        segment = segment_of(key)
        if segment is None:
            return self._files.get(key) == file.file_size
        return self._files.get(segment.key, 0) >= segment.end


def _decode(files: BucketFiles, file: DataFile) -> None:
    reader = files.open(file)
    try:
        reader.decode_all()
    finally:
        reader.close()
