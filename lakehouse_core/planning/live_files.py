"""Which files a root keeps alive, and where each of them lies. Source: Paimon semantics, I.1 to I.8.

Rule: names from manifests are hostile input. A name that could leave its folder stops whoever wanted to delete.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import Field

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.partition_path import partition_path
from lakehouse_core.format.stored import is_file_name
from lakehouse_core.options import parse_bool
from lakehouse_core.table.changes import CommitMessage
from lakehouse_core.table.joined_changelog import segment_of
from lakehouse_core.table.layout import bucket_folder, index_key, manifest_key, statistics_key
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, snapshot_checksums

# No part of what a root is: plans are written without it, as earlier releases read them.
_Checksum: TypeAlias = Annotated[str | None, Field(exclude=True)]

_INDEX_BESIDE_DATA = "index-file-in-data-file-dir"


class FileKind(StrEnum):
    """What a file is, in the order in which files are deleted: what is named goes before what names it."""

    DATA = "data"
    CHANGELOG = "changelog"
    EXTRA = "extra"
    INDEX = "index"
    STATISTICS = "statistics"
    MANIFEST = "manifest"
    INDEX_MANIFEST = "index manifest"
    MANIFEST_LIST = "manifest list"


class RootKind(StrEnum):
    """What sort of root it is decides what it needs."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedList:
    """A manifest list as a snapshot names it; the size in bytes is unknown in files before Java 1.1.

    `checksum`: what the snapshot's writer recorded, None where another engine wrote it.
    """

    name: str
    size: int | None = None
    checksum: _Checksum = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """What a root names. `key` is the object that makes it one ("snapshot/snapshot-3", or the plan that unlinked it).

    Roots of one `lineage` with consecutive ids continue each other: each one's delta changes the one before it.
    """

    key: str
    kind: RootKind
    lineage: str
    snapshot_id: int
    base: NamedList | None = None
    delta: NamedList | None = None
    changelog: NamedList | None = None
    index_manifest: str | None = None
    index_manifest_checksum: _Checksum = field(default=None, compare=False)
    statistics: str | None = None

    @property
    def lists(self) -> tuple[NamedList, ...]:
        return tuple(named for named in (self.base, self.delta, self.changelog) if named is not None)

    def same_files(self, other: "Root") -> bool:
        """True when both name the same state of the same table."""
        return (self.base, self.delta, self.index_manifest) == (other.base, other.delta, other.index_manifest)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file of the table by its key; `size` is what its manifest records, None where nothing does.

    Of an object that several changelog files share no entry tells the whole size, but each a least one.
    """

    key: str
    kind: FileKind
    size: int | None
    least_size: int = 0

    def size_fault(self, found: int) -> str | None:
        """Return which size was expected where `found` bytes are wrong, else None."""
        if self.size is not None and found != self.size:
            return str(self.size)
        return f"{self.least_size} at least" if found < self.least_size else None


def root_of(snapshot: Snapshot, key: str, kind: RootKind, *, lineage: str = "") -> Root:
    """Return everything that the file at `key` names, needed or not. Raises CorruptTable."""
    checksums = snapshot_checksums(snapshot, key)

    def named(name: str, size: int | None) -> NamedList:
        return NamedList(name=name, size=size, checksum=checksums.get(name))

    changelog = None
    if snapshot.changelog_manifest_list is not None:
        changelog = named(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)
    return Root(
        key=key,
        kind=kind,
        lineage=lineage,
        snapshot_id=snapshot.id,
        base=named(snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        delta=named(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        changelog=changelog,
        index_manifest=snapshot.index_manifest,
        index_manifest_checksum=checksums.get(snapshot.index_manifest or ""),
        statistics=snapshot.statistics,
    )


def needed(root: Root, *, delta_is_changelog: bool) -> Root:
    """Return `root` with only what a reader of it can ask for, which therefore must exist.

    A tag is read as a state, so the changelog of its snapshot is not its own. Of a long-lived changelog only the
    changelog is left: its changelog files, or, when the table has no changelog producer (`delta_is_changelog`), the
    files that its delta added.
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
                # Nobody reads the base, but Java keeps it until the changelog goes, and looks for it then.
                return without_state
            return replace(without_state, base=None, delta=None)


def lineages(roots: Iterable[Root]) -> Iterator[tuple[Root, ...]]:
    """Yield runs of roots with consecutive ids of one lineage, oldest first."""
    run: list[Root] = []
    for root in sorted(roots, key=lambda root: (root.lineage, root.snapshot_id)):
        if run and (root.lineage, root.snapshot_id) != (run[-1].lineage, run[-1].snapshot_id + 1):
            yield tuple(run)
            run = []
        run.append(root)
    if run:
        yield tuple(run)


def metadata_files(root: Root) -> tuple[NamedFile, ...]:
    """Return the files that `root` names itself; manifests, data and index files are named one step further."""
    found = [
        NamedFile(key=manifest_key(plain_name(named.name, root.key)), kind=FileKind.MANIFEST_LIST, size=named.size)
        for named in root.lists
    ]
    if root.index_manifest is not None:
        key = manifest_key(plain_name(root.index_manifest, root.key))
        found.append(NamedFile(key=key, kind=FileKind.INDEX_MANIFEST, size=None))
    if root.statistics is not None:
        key = statistics_key(plain_name(root.statistics, root.key))
        found.append(NamedFile(key=key, kind=FileKind.STATISTICS, size=None))
    return tuple(found)


def manifest_file(name: str, size: int, *, named_by: str) -> NamedFile:
    return NamedFile(key=manifest_key(plain_name(name, named_by)), kind=FileKind.MANIFEST, size=size)


def index_file(name: str, size: int, *, folder: str | None, named_by: str) -> NamedFile:
    """Return an index file; `folder` is its bucket's where the table keeps index files beside data files."""
    plain = plain_name(name, named_by)
    key = index_key(plain) if folder is None else f"{folder}/{plain}"
    return NamedFile(key=key, kind=FileKind.INDEX, size=size)


def data_files(
    name: str, size: int, extra_files: Sequence[str], *, kind: FileKind, folder: str, named_by: str
) -> tuple[NamedFile, ...]:
    """Return a data or changelog file, or the object that it shares with others, and the files that belong to it."""
    found = [stored_file(f"{folder}/{plain_name(name, named_by)}", kind, size)]
    for extra in extra_files:
        found.append(NamedFile(key=f"{folder}/{plain_name(extra, named_by)}", kind=FileKind.EXTRA, size=None))
    return tuple(found)


def stored_file(key: str, kind: FileKind, size: int | None) -> NamedFile:
    """Return the object that holds the file at `key`: the file itself, but for changelog files that share an object."""
    segment = segment_of(key)
    if segment is None:
        return NamedFile(key=key, kind=kind, size=size)
    return NamedFile(key=segment.key, kind=kind, size=None, least_size=segment.end)


def message_files(message: CommitMessage, folders: "BucketFolders", *, named_by: str) -> Iterator[NamedFile]:
    """Yield the files that a commit of the message would add, upgraded ones too; none that lies outside the table."""
    data = (*message.new_files, *message.compact_after)
    changelog = (*message.changelog_files, *message.compact_changelog_files)
    folder = folders.of(message.partition, message.bucket)
    for files, kind in ((data, FileKind.DATA), (changelog, FileKind.CHANGELOG)):
        for file in files:
            if file.external_path is None:
                yield from data_files(
                    file.file_name, file.file_size, file.extra_files, kind=kind, folder=folder, named_by=named_by
                )
    beside = folders.of_index(message.partition, message.bucket)
    for index in (*message.new_index_files, *message.compact_new_index_files):
        yield index_file(index.file_name, index.file_size, folder=beside, named_by=named_by)


def plain_name(name: str, named_by: str) -> str:
    """Return `name`. Raises CorruptTable when it is anything but one plain file name."""
    if not is_file_name(name):
        raise CorruptTable(
            f"{named_by} names the file {name!r}, expected a plain name without a path. "
            "Nothing of it is deleted; run `lakehouse verify` and keep its report."
        )
    return name


class BucketFolders:
    """Where the buckets of a table lie. Partitions are serialized BinaryRows; each is decoded once."""

    def __init__(self, schema: TableSchema) -> None:
        options = schema.table_options
        self._names = schema.partition_keys
        self._types = tuple(field.type for field in schema.partition_fields)
        self._default_name = options.partition_default_name
        self._legacy = options.partition_legacy_name
        self._data_folder = options.data_file_directory or ""
        self._index_beside_data = parse_bool(_INDEX_BESIDE_DATA, schema.options.get(_INDEX_BESIDE_DATA, "false"))
        self._known: dict[tuple[bytes, int], str] = {}

    def of(self, partition: bytes, bucket: int) -> str:
        """Return the folder of a bucket's data files. Raises CorruptTable when the partition cannot be decoded."""
        if (partition, bucket) not in self._known:
            values = deserialize_row(partition, self._types)
            path = partition_path(
                self._names, self._types, values, default_name=self._default_name, legacy=self._legacy
            )
            self._known[partition, bucket] = bucket_folder(path, bucket, data_folder=self._data_folder)
        return self._known[partition, bucket]

    def of_index(self, partition: bytes, bucket: int) -> str | None:
        """Return the folder of a bucket's index files where they lie beside its data, else None."""
        return self.of(partition, bucket) if self._index_beside_data else None


def deletion_order(files: Mapping[str, NamedFile]) -> tuple[tuple[NamedFile, ...], ...]:
    """Return `files` in batches: each must be gone before the next may go, so that a rest can still be found."""
    ranks = (
        (FileKind.DATA, FileKind.CHANGELOG, FileKind.EXTRA, FileKind.INDEX, FileKind.STATISTICS),
        (FileKind.MANIFEST, FileKind.INDEX_MANIFEST),
        (FileKind.MANIFEST_LIST,),
    )
    return tuple(
        tuple(sorted((file for file in files.values() if file.kind in rank), key=lambda file: file.key))
        for rank in ranks
    )
