"""Entries of manifests, manifest lists and index manifests, and how later entries undo earlier ones.

Rule: entries belong to the same file if their identifiers are equal, not their names; a DELETE must repeat the
identifier byte for byte.
Source: docs/format/manifest.md#manifest-record, docs/format/manifest.md#live-files.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from lakehouse_core.errors import CorruptTable
from lakehouse_core.table.data_file import DataFile, SimpleStats


class EntryKind(IntEnum):
    """Stored in every manifest. Never renumber."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A file that is added or deleted. `partition` is a serialized BinaryRow; `total_buckets` is -1 without buckets."""

    kind: EntryKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A manifest as its list describes it. Sizes in bytes; None: not recorded, so unknown."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    # Over the partition columns, untruncated.
    partition_stats: SimpleStats
    # The highest among the entries.
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    # The checksum of the manifest's bytes by `table.checksums`; lists of other engines have none.
    checksum: str | None = None


# Types of index files. Stored in every index manifest. Never change.
DELETION_VECTORS: Final = "DELETION_VECTORS"
HASH_INDEX: Final = "HASH"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorRange:
    """The position of the deletion vector of `data_file_name` in its index file; `length` as the vector's format counts
    it.

    `checksum`: the CRC-32 at the vector's end, which detects another vector in its place; other engines record none.
    """

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None
    # Not part of equality: the same vector, recorded by another engine, has no checksum.
    checksum: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """The rows and columns that a global index file covers. The two `meta` values belong to the index."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifestEntry:
    """A live index file. An index manifest lists all of them, so only ADD is ever stored."""

    kind: EntryKind = EntryKind.ADD
    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndex | None = None


Identifier: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


def file_identifier(entry: ManifestEntry) -> Identifier:
    """Return the file's identifier, equal for two entries of the same file: partition, bucket, level, names, index,
    path.
    """
    file = entry.file
    return (
        entry.partition,
        entry.bucket,
        file.level,
        file.file_name,
        file.extra_files,
        file.embedded_index,
        file.external_path,
    )


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the net effect of `entries`, which are in commit order: first the DELETEs without their ADD, then the live
    files.

    For all entries of a table, only ADDs remain. Raises CorruptTable if a live file is added again.
    """
    live: dict[Identifier, ManifestEntry] = {}
    deleted: dict[Identifier, ManifestEntry] = {}
    for entry in entries:
        identifier = file_identifier(entry)
        if entry.kind is EntryKind.ADD:
            if identifier in live:
                raise added_twice(entry)
            live[identifier] = entry
        elif live.pop(identifier, None) is None:
            deleted.setdefault(identifier, entry)
    return [*deleted.values(), *live.values()]


def added_twice(entry: ManifestEntry) -> CorruptTable:
    return CorruptTable(
        f"{entry.file.file_name} in bucket {entry.bucket} at level {entry.file.level} is added twice and never deleted "
        "in between. Do not expire snapshots; run `lakehouse verify` and keep its report."
    )
