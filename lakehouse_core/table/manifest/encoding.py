"""Manifests, manifest lists and index manifests as Avro files that Java 0.9 to 2.x and pypaimon read.

Rule: a field that a file lacks is None; a field of another type than the format's is CorruptTable.
Source: docs/format/manifest.md#avro-conventions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.avro_container import AvroContainer, open_container
from lakehouse_core.format.avro_file import Record, records_of, write_avro
from lakehouse_core.format.stored import is_file_name
from lakehouse_core.table.checksums import (
    listed_checksums_from_header,
    listed_checksums_to_header,
    vector_checksums_from_header,
    vector_checksums_to_header,
)
from lakehouse_core.table.data_file import EMPTY_STATS, DataFile, FileSource, SimpleStats
from lakehouse_core.table.manifest.avro_schemas import (
    INDEX_MANIFEST_SCHEMA,
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    MANIFEST_SCHEMA_2_1,
)
from lakehouse_core.table.manifest.entry import (
    DeletionVectorRange,
    EntryKind,
    GlobalIndex,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFile,
)
from lakehouse_core.table.stats import UNREAD_STATS, unknown_stats

MANIFEST_VERSION = 2
INDEX_MANIFEST_VERSION = 1

Keep: TypeAlias = Callable[[bytes, int, int], bool]
_T = TypeVar("_T")


def encode_manifest(
    entries: Iterable[ManifestEntry], *, codec: str = "zstandard", metadata: Mapping[str, bytes] | None = None
) -> bytes:
    """Return the manifest file of `entries`, in their order. `codec` is Avro's name, `metadata` goes into its header.

    A DELETE whose statistics were not read is written without any; an ADD must have them.
    """
    listed = list(entries)
    with_sequences = any(entry.file.write_cols_sequences is not None for entry in listed)
    schema = MANIFEST_SCHEMA_2_1 if with_sequences else MANIFEST_SCHEMA
    return write_avro(schema, (_entry_record(entry) for entry in listed), codec=codec, metadata=metadata)


def encode_manifest_list(manifests: Iterable[ManifestFile], *, codec: str = "zstandard") -> bytes:
    """Return the list file of `manifests`, in their order; it may be empty, as the base list of a first snapshot is."""
    listed = list(manifests)
    records = (_manifest_file_record(manifest) for manifest in listed)
    metadata = listed_checksums_to_header([manifest.checksum for manifest in listed])
    return write_avro(MANIFEST_LIST_SCHEMA, records, codec=codec, metadata=metadata)


def encode_index_manifest(entries: Iterable[IndexManifestEntry], *, codec: str = "zstandard") -> bytes:
    listed = list(entries)
    checksums = [one.checksum for entry in listed for one in entry.deletion_vectors or ()]
    metadata = vector_checksums_to_header(checksums)
    return write_avro(INDEX_MANIFEST_SCHEMA, map(_index_record, listed), codec=codec, metadata=metadata)


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
    """Return the entries of an opened manifest, record by record: right for few entries and for odd files."""
    shared: dict[bytes, bytes] = {}

    def entry(fields: "_Fields") -> ManifestEntry | None:
        return _entry(fields, keep, with_stats, shared)

    return [found for found in _decoded(container, entry, MANIFEST_VERSION) if found is not None]


class _Fields:
    """One record, asked field by field; a wrong answer is CorruptTable naming file, record and field."""

    __slots__ = ("_record", "_where")

    def __init__(self, record: Record, where: str) -> None:
        self._record = record
        self._where = where

    def integer(self, name: str, low: int = -(2**63)) -> int:
        value = self.optional_integer(name, low)
        if value is None:
            raise self.wrong(name, value, "an integer")
        return value

    def optional_integer(self, name: str, low: int = -(2**63)) -> int | None:
        value = self._record.get(name)
        if value is not None and (type(value) is not int or value < low):
            raise self.wrong(name, value, f"an integer from {low}")
        return value

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if value is None:
            raise self.wrong(name, value, "a string")
        return value

    def file_name(self, name: str) -> str:
        """Return the name of a file: hostile until it is known to stay in its folder."""
        value = self.text(name)
        if not is_file_name(value):
            raise self.wrong(name, value, "a plain file name without a path")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._record.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, value, "a string")
        return value

    def binary(self, name: str) -> bytes:
        value = self.optional_binary(name)
        if value is None:
            raise self.wrong(name, value, "bytes")
        return value

    def optional_binary(self, name: str) -> bytes | None:
        value = self._record.get(name)
        if value is not None and not isinstance(value, bytes):
            raise self.wrong(name, value, "bytes")
        return value

    def optional_list(self, name: str, item: type[_T]) -> tuple[_T, ...] | None:
        value = self._record.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(part) is item for part in value):
            raise self.wrong(name, value, f"a list of {item.__name__}")
        return tuple(value)

    def records(self, name: str) -> "tuple[_Fields, ...] | None":
        value = self._record.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, value, "a list of records")
        return tuple(self._inner(name, part) for part in value)

    def record(self, name: str) -> "_Fields":
        return self._inner(name, self._record.get(name))

    def optional_record(self, name: str) -> "_Fields | None":
        return None if self._record.get(name) is None else self.record(name)

    def null_counts(self, name: str) -> tuple[int | None, ...] | None:
        value = self._record.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(part is None or type(part) is int for part in value):
            raise self.wrong(name, value, "a list of counts")
        return tuple(value)

    def wrong(self, name: str, value: object, expected: str) -> CorruptTable:
        return CorruptTable(
            f"{self._where}: field {name} is {value!r:.100}, expected {expected}. Keep the file as evidence; "
            "restore it from a copy of the table, or read a snapshot that does not name it."
        )

    def _inner(self, name: str, value: object) -> "_Fields":
        if not isinstance(value, dict):
            raise self.wrong(name, value, "a record")
        return _Fields(value, f"{self._where}, {name}")


def _decoded(container: AvroContainer, build: Callable[[_Fields], _T], version: int) -> list[_T]:
    return [build(fields) for fields in _versioned(container, version)]


def _versioned(container: AvroContainer, version: int) -> Iterator[_Fields]:
    for number, record in enumerate(records_of(container)):
        fields = _Fields(record, f"{container.name}: record {number}")
        found = fields.integer("_VERSION")
        if found != version:
            raise UnsupportedFeature(
                f"{container.name}: record {number} has version {found}, expected {version}: "
                + ("create the table anew." if found < version else "upgrade before reading.")
            )
        yield fields


def _kind(fields: _Fields) -> EntryKind:
    kind = fields.integer("_KIND")
    if kind not in (0, 1):
        raise fields.wrong("_KIND", kind, "0 (ADD) or 1 (DELETE)")
    return EntryKind(kind)


def _entry(fields: _Fields, keep: Keep | None, with_stats: bool, shared: dict[bytes, bytes]) -> ManifestEntry | None:
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


def _data_file(fields: _Fields, with_stats: bool, shared: dict[bytes, bytes]) -> DataFile:
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


def _file_source(fields: _Fields) -> FileSource | None:
    found = fields.optional_integer("_FILE_SOURCE")
    if found is None:
        return None
    if found not in (0, 1):
        raise fields.wrong("_FILE_SOURCE", found, "0 (APPEND) or 1 (COMPACT)")
    return FileSource(found)


def _stats(fields: _Fields) -> SimpleStats:
    return SimpleStats(
        min_values=fields.binary("_MIN_VALUES"),
        max_values=fields.binary("_MAX_VALUES"),
        null_counts=fields.null_counts("_NULL_COUNTS"),
    )


def _manifest_file(fields: _Fields) -> ManifestFile:
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


def _index_entry(fields: _Fields) -> IndexManifestEntry:
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


def _deletion_vector(fields: _Fields) -> DeletionVectorRange:
    return DeletionVectorRange(
        data_file_name=fields.file_name("f0"),
        offset=fields.integer("f1", 0),
        length=fields.integer("f2", 0),
        cardinality=fields.optional_integer("_CARDINALITY", 0),
    )


def _global_index(fields: _Fields) -> GlobalIndex:
    return GlobalIndex(
        row_range_start=fields.integer("_ROW_RANGE_START"),
        row_range_end=fields.integer("_ROW_RANGE_END"),
        index_field_id=fields.integer("_INDEX_FIELD_ID"),
        extra_field_ids=fields.optional_list("_EXTRA_FIELD_IDS", int),
        index_meta=fields.optional_binary("_INDEX_META"),
        source_meta=fields.optional_binary("_SOURCE_META"),
    )


def _entry_record(entry: ManifestEntry) -> Record:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": _data_file_record(entry.file, entry.kind),
    }


def _data_file_record(file: DataFile, kind: EntryKind) -> Record:
    key_stats, value_stats, value_stats_cols = file.key_stats, file.value_stats, file.value_stats_cols
    if key_stats is UNREAD_STATS or value_stats is UNREAD_STATS:
        # Statistics are no part of a file's identity, so a DELETE needs none; an ADD would lose them for good.
        assert kind is EntryKind.DELETE, f"{file.file_name}: read manifests with_stats=True before writing them again"
        key_arity = int.from_bytes(file.min_key[:4], "big")
        key_stats, value_stats, value_stats_cols = unknown_stats(key_arity), EMPTY_STATS, ()
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_record(key_stats),
        "_VALUE_STATS": _stats_record(value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time_millis,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_index,
        "_FILE_SOURCE": None if file.file_source is None else int(file.file_source),
        "_VALUE_STATS_COLS": _listed(value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": _listed(file.write_cols),
        "_WRITE_COLS_SEQUENCES": _listed(file.write_cols_sequences),
    }


def _stats_record(stats: SimpleStats) -> Record:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": _listed(stats.null_counts),
    }


def _listed(values: tuple[_T, ...] | None) -> list[_T] | None:
    """Return a list: fastavro takes a tuple in a union for the name of a branch and its value."""
    return None if values is None else list(values)


def _manifest_file_record(manifest: ManifestFile) -> Record:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": manifest.file_name,
        "_FILE_SIZE": manifest.file_size,
        "_NUM_ADDED_FILES": manifest.num_added_files,
        "_NUM_DELETED_FILES": manifest.num_deleted_files,
        "_PARTITION_STATS": _stats_record(manifest.partition_stats),
        "_SCHEMA_ID": manifest.schema_id,
        "_MIN_BUCKET": manifest.min_bucket,
        "_MAX_BUCKET": manifest.max_bucket,
        "_MIN_LEVEL": manifest.min_level,
        "_MAX_LEVEL": manifest.max_level,
        "_MIN_ROW_ID": manifest.min_row_id,
        "_MAX_ROW_ID": manifest.max_row_id,
    }


def _index_record(entry: IndexManifestEntry) -> Record:
    covered = entry.global_index
    return {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": None
        if entry.deletion_vectors is None
        else [
            {"f0": one.data_file_name, "f1": one.offset, "f2": one.length, "_CARDINALITY": one.cardinality}
            for one in entry.deletion_vectors
        ],
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": None
        if covered is None
        else {
            "_ROW_RANGE_START": covered.row_range_start,
            "_ROW_RANGE_END": covered.row_range_end,
            "_INDEX_FIELD_ID": covered.index_field_id,
            "_EXTRA_FIELD_IDS": _listed(covered.extra_field_ids),
            "_INDEX_META": covered.index_meta,
            "_SOURCE_META": covered.source_meta,
        },
    }
