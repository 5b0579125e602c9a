"""Manifests, manifest lists and index manifests from Avro files of Java 0.9 to 2.x and pypaimon, record by record.

Rule: used for few entries and for unusual files. A fault raises CorruptTable, which names file, record and field.
Source: docs/format/manifest.md#avro-conventions.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias, TypeVar

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.avro_container import AvroContainer, open_container
from lakehouse_core.format.avro_file import records_of
from lakehouse_core.format.stored import is_file_name
from lakehouse_core.table.checksums import listed_checksums_from_header, vector_checksums_from_header
from lakehouse_core.table.data_file import DataFile, FileSource, SimpleStats
from lakehouse_core.table.manifest.avro_schemas import INDEX_MANIFEST_VERSION, MANIFEST_VERSION
from lakehouse_core.table.manifest.entry import (
    DeletionVectorRange,
    EntryKind,
    GlobalIndex,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFile,
)
from lakehouse_core.table.manifest.fields import Fields
from lakehouse_core.table.stats import UNREAD_STATS

Keep: TypeAlias = Callable[[bytes, int, int], bool]
_T = TypeVar("_T")


def decode_manifest_list(data: bytes, name: str) -> list[ManifestFile]:
    """Return the manifests of a list in order; `name` stands for the file in errors. Raises CorruptTable."""
    container = open_container(data, name)
    manifests = _decoded(container, _manifest_file, MANIFEST_VERSION)
    checksums = listed_checksums_from_header(container.metadata, len(manifests), name)
    return [
        manifest if checksum is None else replace(manifest, checksum=checksum)
        for manifest, checksum in zip(manifests, checksums, strict=True)
    ]


def decode_index_manifest(data: bytes, name: str) -> list[IndexManifestEntry]:
    """Return the live index files of a snapshot; `name` stands for the file in errors. Raises CorruptTable."""
    container = open_container(data, name)
    entries = _decoded(container, _index_entry, INDEX_MANIFEST_VERSION)
    count = sum(len(entry.deletion_vectors or ()) for entry in entries)
    checksums = iter(vector_checksums_from_header(container.metadata, count, name))
    return [_with_checksums(entry, checksums) for entry in entries]


def decode_entries(container: AvroContainer, *, keep: Keep | None, with_stats: bool) -> list[ManifestEntry]:
    """Return the entries of an opened manifest, decoded record by record."""
    shared: dict[bytes, bytes] = {}

    def entry(fields: Fields) -> ManifestEntry | None:
        return _entry(fields, keep, with_stats, shared)

    return [found for found in _decoded(container, entry, MANIFEST_VERSION) if found is not None]


def _decoded(container: AvroContainer, build: Callable[[Fields], _T], version: int) -> list[_T]:
    return [build(fields) for fields in _versioned(container, version)]


def _versioned(container: AvroContainer, version: int) -> Iterator[Fields]:
    for number, record in enumerate(records_of(container)):
        fields = Fields(record, f"{container.name}: record {number}")
        found = fields.integer("_VERSION")
        if found != version:
            raise UnsupportedFeature(
                f"{container.name}: record {number} has version {found}, expected {version}: "
                + ("create the table anew." if found < version else "upgrade before reading.")
            )
        yield fields


def _kind(fields: Fields) -> EntryKind:
    kind = fields.integer("_KIND")
    if kind not in (0, 1):
        raise fields.wrong("_KIND", kind, "0 (ADD) or 1 (DELETE)")
    return EntryKind(kind)


def _entry(fields: Fields, keep: Keep | None, with_stats: bool, shared: dict[bytes, bytes]) -> ManifestEntry | None:
    partition = fields.binary("_PARTITION")
    partition = shared.setdefault(partition, partition)
    bucket = fields.integer("_BUCKET", -2)
    file = fields.record("_FILE")
    if keep is not None and not keep(partition, bucket, file.integer("_LEVEL", 0)):
        return None
    return ManifestEntry(
        kind=_kind(fields),
        partition=partition,
        bucket=bucket,
        total_buckets=fields.integer("_TOTAL_BUCKETS", -2),
        file=_data_file(file, with_stats, shared),
    )


def _data_file(fields: Fields, with_stats: bool, shared: dict[bytes, bytes]) -> DataFile:
    min_key, max_key = fields.binary("_MIN_KEY"), fields.binary("_MAX_KEY")
    extra_files = fields.optional_list("_EXTRA_FILES", str)
    if extra_files is None or not all(map(is_file_name, extra_files)):
        raise fields.wrong("_EXTRA_FILES", extra_files, "a list of plain file names without a path")
    return DataFile(
        file_name=fields.file_name("_FILE_NAME"),
        file_size=fields.integer("_FILE_SIZE", 0),
        row_count=fields.integer("_ROW_COUNT", 0),
        min_key=shared.setdefault(min_key, min_key),
        max_key=shared.setdefault(max_key, max_key),
        key_stats=_stats(fields.record("_KEY_STATS")) if with_stats else UNREAD_STATS,
        value_stats=_stats(fields.record("_VALUE_STATS")) if with_stats else UNREAD_STATS,
        min_sequence_number=fields.integer("_MIN_SEQUENCE_NUMBER"),
        max_sequence_number=fields.integer("_MAX_SEQUENCE_NUMBER"),
        schema_id=fields.integer("_SCHEMA_ID", 0),
        level=fields.integer("_LEVEL", 0),
        extra_files=extra_files,
        creation_time_millis=fields.optional_integer("_CREATION_TIME"),
        delete_row_count=fields.optional_integer("_DELETE_ROW_COUNT", 0),
        embedded_index=fields.optional_binary("_EMBEDDED_FILE_INDEX"),
        file_source=_file_source(fields),
        value_stats_cols=fields.optional_list("_VALUE_STATS_COLS", str) if with_stats else None,
        external_path=fields.optional_text("_EXTERNAL_PATH"),
        first_row_id=fields.optional_integer("_FIRST_ROW_ID"),
        write_cols=fields.optional_list("_WRITE_COLS", str),
        write_cols_sequences=fields.optional_list("_WRITE_COLS_SEQUENCES", int),
    )


def _file_source(fields: Fields) -> FileSource | None:
    found = fields.optional_integer("_FILE_SOURCE")
    if found is None:
        return None
    if found not in (0, 1):
        raise fields.wrong("_FILE_SOURCE", found, "0 (APPEND) or 1 (COMPACT)")
    return FileSource(found)


def _stats(fields: Fields) -> SimpleStats:
    return SimpleStats(
        min_values=fields.binary("_MIN_VALUES"),
        max_values=fields.binary("_MAX_VALUES"),
        null_counts=fields.null_counts("_NULL_COUNTS"),
    )


def _manifest_file(fields: Fields) -> ManifestFile:
    return ManifestFile(
        file_name=fields.file_name("_FILE_NAME"),
        file_size=fields.integer("_FILE_SIZE", 0),
        num_added_files=fields.integer("_NUM_ADDED_FILES", 0),
        num_deleted_files=fields.integer("_NUM_DELETED_FILES", 0),
        partition_stats=_stats(fields.record("_PARTITION_STATS")),
        schema_id=fields.integer("_SCHEMA_ID", 0),
        min_bucket=fields.optional_integer("_MIN_BUCKET"),
        max_bucket=fields.optional_integer("_MAX_BUCKET"),
        min_level=fields.optional_integer("_MIN_LEVEL"),
        max_level=fields.optional_integer("_MAX_LEVEL"),
        min_row_id=fields.optional_integer("_MIN_ROW_ID"),
        max_row_id=fields.optional_integer("_MAX_ROW_ID"),
    )


def _index_entry(fields: Fields) -> IndexManifestEntry:
    ranges = fields.records("_DELETIONS_VECTORS_RANGES")
    covered = fields.optional_record("_GLOBAL_INDEX")
    return IndexManifestEntry(
        kind=_kind(fields),
        partition=fields.binary("_PARTITION"),
        bucket=fields.integer("_BUCKET", -2),
        index_type=fields.text("_INDEX_TYPE"),
        file_name=fields.file_name("_FILE_NAME"),
        file_size=fields.integer("_FILE_SIZE", 0),
        row_count=fields.integer("_ROW_COUNT", 0),
        deletion_vectors=None if ranges is None else tuple(_deletion_vector(one) for one in ranges),
        external_path=fields.optional_text("_EXTERNAL_PATH"),
        global_index=None if covered is None else _global_index(covered),
    )


def _with_checksums(entry: IndexManifestEntry, checksums: Iterator[int | None]) -> IndexManifestEntry:
    if entry.deletion_vectors is None:
        return entry
    vectors = tuple(replace(vector, checksum=next(checksums)) for vector in entry.deletion_vectors)
    return replace(entry, deletion_vectors=vectors)


def _deletion_vector(fields: Fields) -> DeletionVectorRange:
    return DeletionVectorRange(
        data_file_name=fields.file_name("f0"),
        offset=fields.integer("f1", 0),
        length=fields.integer("f2", 0),
        cardinality=fields.optional_integer("_CARDINALITY", 0),
    )


def _global_index(fields: Fields) -> GlobalIndex:
    return GlobalIndex(
        row_range_start=fields.integer("_ROW_RANGE_START"),
        row_range_end=fields.integer("_ROW_RANGE_END"),
        index_field_id=fields.integer("_INDEX_FIELD_ID"),
        extra_field_ids=fields.optional_list("_EXTRA_FIELD_IDS", int),
        index_meta=fields.optional_binary("_INDEX_META"),
        source_meta=fields.optional_binary("_SOURCE_META"),
    )
