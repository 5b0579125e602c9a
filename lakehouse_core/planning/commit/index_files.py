"""Index files of a commit: combine the live ones with those of a change, and decide whether the change fits.

Rule: a deletion vector is removed with its data file, and only by a writer that has read it. Else deleted rows would
reappear, or be deleted twice without an error.
Source: docs/semantics/commit.md#conflict-detection, docs/semantics/commit.md#index-manifests.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.planning.commit.conflicts import Conflict
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import DELETION_VECTORS, HASH_INDEX, EntryKind, IndexManifestEntry, ManifestEntry

# Hash indexes list keys, not files, so that removing data files leaves them as they are.
_KNOWN_TYPES: Final = frozenset({DELETION_VECTORS, HASH_INDEX})

_Name: TypeAlias = tuple[bytes, int, str]


def index_entry(kind: EntryKind, partition: bytes, bucket: int, file: IndexFile) -> IndexManifestEntry:
    return IndexManifestEntry(
        kind=kind,
        partition=partition,
        bucket=bucket,
        index_type=file.index_type,
        file_name=file.file_name,
        file_size=file.file_size,
        row_count=file.row_count,
        deletion_vectors=file.deletion_vectors,
    )


def index_file_of(entry: IndexManifestEntry) -> IndexFile:
    """Return the live index file as a commit message names it for removal."""
    return IndexFile(
        index_type=entry.index_type,
        file_name=entry.file_name,
        file_size=entry.file_size,
        row_count=entry.row_count,
        deletion_vectors=entry.deletion_vectors,
    )


def vector_files(indexes: Iterable[IndexManifestEntry], partition: bytes, bucket: int) -> tuple[IndexFile, ...]:
    """Return the live files of deletion vectors of one bucket."""
    return tuple(
        index_file_of(entry)
        for entry in indexes
        if entry.index_type == DELETION_VECTORS and (entry.partition, entry.bucket) == (partition, bucket)
    )


def indexes_by_bucket(indexes: Iterable[IndexManifestEntry]) -> dict[tuple[bytes, int], tuple[IndexFile, ...]]:
    """Return the live deletion vectors and hash indexes of each bucket, which are removed with all its files."""
    found: defaultdict[tuple[bytes, int], list[IndexFile]] = defaultdict(list)
    for entry in indexes:
        if entry.index_type in _KNOWN_TYPES:
            found[entry.partition, entry.bucket].append(index_file_of(entry))
    return {place: tuple(files) for place, files in found.items()}


def combined_indexes(
    live: Iterable[IndexManifestEntry], changes: Iterable[IndexManifestEntry]
) -> list[IndexManifestEntry]:
    """Return the index files after `changes`: kept ones in their order, then added ones. REQUIRES: the changes fit."""
    changes = list(changes)
    gone = {_name(change) for change in changes if change.kind is EntryKind.DELETE}
    return [
        *(entry for entry in live if _name(entry) not in gone),
        *(change for change in changes if change.kind is EntryKind.ADD),
    ]


def find_index_conflicts(
    indexes: Sequence[IndexManifestEntry],
    changes: Sequence[IndexManifestEntry],
    entries: Sequence[ManifestEntry],
    live: Iterable[ManifestEntry],
    *,
    has_buckets: bool,
) -> list[Conflict]:
    """Return the conflicts of a change of index files (`changes`) and data files (`entries`), in order.

    `indexes` and `live`: the present index and data files; `live` covers at least all partitions of the change.
    `has_buckets`: a bucket has one index file of a type; otherwise a partition may have several.
    """
    touched = {(entry.partition, entry.bucket) for entry in entries}
    touched |= {(change.partition, change.bucket) for change in changes}
    there = [entry for entry in indexes if (entry.partition, entry.bucket) in touched]
    found = list(_unfit_indexes(there, changes))
    after = combined_indexes(there, changes)
    if has_buckets:
        found += _second_indexes(after, changes)
    files = {(entry.partition, entry.bucket, entry.file.file_name) for entry in live}
    added = {_data_name(entry) for entry in entries if entry.kind is EntryKind.ADD}
    removed = {_data_name(entry) for entry in entries if entry.kind is EntryKind.DELETE} - added
    return [*found, *_vector_conflicts(after, {*changes}, removed, (files - removed) | added)]


def check_other_indexes(indexes: Iterable[IndexManifestEntry], entries: Iterable[ManifestEntry]) -> None:
    """Raise UnsupportedFeature if the entries remove data files of a bucket with an index that this release cannot
    change.
    """
    touched = {(entry.partition, entry.bucket) for entry in entries if entry.kind is EntryKind.DELETE}
    for index in indexes:
        if index.index_type not in _KNOWN_TYPES and (index.partition, index.bucket) in touched:
            raise UnsupportedFeature(
                f"{index.file_name}: bucket {index.bucket} has a {index.index_type} index, which this release does not "
                "change. Nothing was applied; use another engine for this table."
            )


def _unfit_indexes(there: Iterable[IndexManifestEntry], changes: Iterable[IndexManifestEntry]) -> Iterable[Conflict]:
    names = {_name(entry) for entry in there}
    for change in changes:
        if change.kind is EntryKind.DELETE and _name(change) not in names:
            yield _of(change, f"index file {change.file_name} is not there any more")
        elif change.kind is EntryKind.ADD and _name(change) in names:
            yield _of(change, f"index file {change.file_name} is there already")


def _second_indexes(after: Iterable[IndexManifestEntry], changes: Iterable[IndexManifestEntry]) -> Iterable[Conflict]:
    counts = Counter((entry.partition, entry.bucket, entry.index_type) for entry in after)
    for change in changes:
        if change.kind is EntryKind.ADD and counts[change.partition, change.bucket, change.index_type] > 1:
            yield _of(change, f"another commit added a {change.index_type} index to the bucket of {change.file_name}")


def _vector_conflicts(
    after: Iterable[IndexManifestEntry],
    changes: set[IndexManifestEntry],
    removed: set[_Name],
    files: set[_Name],
) -> Iterable[Conflict]:
    """Yield the conflicts of deletion vectors: for a removed file, for a file that is not live, and a second one for a
    file.
    """
    seen: set[_Name] = set()
    for index in after:
        if index.index_type != DELETION_VECTORS:
            continue
        for vector in index.deletion_vectors or ():
            name = (index.partition, index.bucket, vector.data_file_name)
            if name in removed:
                yield _of(index, f"rows of {name[2]} are marked as deleted by {index.file_name}", file_name=name[2])
            elif index in changes and name not in files:
                yield _of(index, f"{index.file_name} marks rows of {name[2]}, which is not there any more")
            elif name in seen:
                yield _of(index, f"{index.file_name} marks rows of {name[2]}, and another index file does too")
            seen.add(name)


def _name(entry: IndexManifestEntry) -> tuple[bytes, int, str, str]:
    return (entry.partition, entry.bucket, entry.index_type, entry.file_name)


def _data_name(entry: ManifestEntry) -> _Name:
    return (entry.partition, entry.bucket, entry.file.file_name)


def _of(entry: IndexManifestEntry, reason: str, *, file_name: str | None = None) -> Conflict:
    return Conflict(
        partition=entry.partition, bucket=entry.bucket, reason=reason, file_name=file_name or entry.file_name
    )
