"""Manifests, manifest lists and index manifests as Avro files that Java 0.9 to 2.x and pypaimon read.

Rule: entries keep their order, and an ADD keeps its statistics.
Source: docs/format/manifest.md#avro-conventions.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from lakehouse_core.format.avro_file import Record, write_avro
from lakehouse_core.table.checksums import listed_checksums_to_header, vector_checksums_to_header
from lakehouse_core.table.data_file import EMPTY_STATS, DataFile, SimpleStats
from lakehouse_core.table.manifest.avro_schemas import (
    INDEX_MANIFEST_SCHEMA,
    INDEX_MANIFEST_VERSION,
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    MANIFEST_SCHEMA_2_1,
    MANIFEST_VERSION,
)
from lakehouse_core.table.manifest.entry import EntryKind, IndexManifestEntry, ManifestEntry, ManifestFile
from lakehouse_core.table.stats import UNREAD_STATS, unknown_stats

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
    """Return a list, because fastavro reads a tuple in a union as the name of a branch and its value."""
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
