"""What manifests, manifest lists and index manifests hold, and how later entries undo earlier ones.

Rule: a file is known by its identifier, not by its name; a DELETE must repeat it byte for byte.
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
    """A file that comes or goes. `partition` is a serialized BinaryRow; `total_buckets` is -1 where there are none."""

    kind: EntryKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A manifest as its list describes it. Sizes in bytes; nothing follows from what is None: it was not recorded."""

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
    # Of the manifest's bytes, as `table.checksums` makes it; lists of other engines have none.
    checksum: str | None = None


# Types of index files. Stored in every index manifest. Never change.
DELETION_VECTORS: Final = "DELETION_VECTORS"
HASH_INDEX: Final = "HASH"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorRange:
    """Where the deletion vector of `data_file_name` lies in its index file; `length` as the vector's format counts.

    `checksum`: the CRC-32 that the vector ends with, for another may lie in its place; other engines record none.
    """

    data_file_name: str
    offset: int
    length: int
    cardinality: int | None = None
    # No part of what it is: the same vector, recorded by another engine, has none.
    checksum: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """What a global index file covers. The two `meta` values belong to the index."""

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
    """Return what makes two entries speak of the same file: partition, bucket, level, names, index, path."""
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
    """Return what is left of `entries`, which are in commit order: first the DELETEs whose ADD is not among them,
    then the files that are live.

    Of a whole table nothing but ADDs is left. Raises CorruptTable when a live file is added again.
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
