"""Readable files: check that live files are of supported kinds, independently of the table's present options.

A file of an unsupported format or outside the table is refused by name before any file is read or rewritten. Rows that
an index marks as deleted are never read.
Source: docs/format/manifest.md#manifest-record, docs/format/manifest.md#index-manifest-record.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow.compute as pc

from lakehouse_core.errors import CorruptTable, UnsupportedFeature
from lakehouse_core.format.avro_columns import Longs
from lakehouse_core.options import POSTPONE_BUCKET
from lakehouse_core.table.bucketing import are_placed, is_placed
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.file_refs import index_file
from lakehouse_core.table.manifest import DELETION_VECTORS, EntryColumns, IndexManifestEntry

READABLE_FORMATS: Final = ("parquet", "orc", "avro")
NOTHING_DELETED: Final[Mapping[str, DeletionFile]] = {}


def deletion_files(indexes: Iterable[IndexManifestEntry], folders: DataLayout) -> dict[str, DeletionFile]:
    """Return, by data file name, the locations of the deletion vectors.

    A vector may belong to a deleted file. Raises UnsupportedFeature for an index file that does not name its data
    files, or that is outside the table; CorruptTable if two vectors belong to one data file.
    """
    found: dict[str, DeletionFile] = {}
    for index in indexes:
        if index.index_type != DELETION_VECTORS:
            continue
        if (index.deletion_vectors is None and index.row_count) or index.external_path is not None:
            what = "of files it does not name" if index.external_path is None else f"from {index.external_path}"
            raise UnsupportedFeature(
                f"{index.file_name}: it marks deleted rows, {what} (deletion-vectors.enabled). Use Java Paimon."
            )
        folder = folders.index_folder(index.partition, index.bucket)
        key = index_file(index.file_name, index.file_size, folder=folder, named_by="the index manifest").key
        for vector in index.deletion_vectors or ():
            deletion = DeletionFile(
                key=key,
                offset=vector.offset,
                length=vector.length,
                cardinality=vector.cardinality,
                checksum=vector.checksum,
            )
            if found.setdefault(vector.data_file_name, deletion) is not deletion:
                raise CorruptTable(
                    f"{key}: it marks rows of {vector.data_file_name} as deleted, and so does "
                    f"{found[vector.data_file_name].key}; expected one vector per data file. "
                    "Do not compact or expire; run `lakehouse verify` and keep its report."
                )
    return found


def readable_files(files: Iterable[DataFile], schema_ids: Container[int]) -> list[DataFile]:
    """Return the files in a format that is read here, and whose schema is known."""
    return [file for file in files if file.schema_id in schema_ids and file.format in READABLE_FORMATS]


def check_file(file: DataFile, bucket: int, *, may_wait: bool = False) -> None:
    """Raise UnsupportedFeature, naming file and option, unless our readers can read all rows of the file.

    `may_wait`: the table has postponed buckets, so its rows may wait for theirs.
    """
    name = file.file_name
    if file.format not in READABLE_FORMATS:
        raise UnsupportedFeature(
            f"{name}: it is not a file of {', '.join(READABLE_FORMATS)}, whatever file.format or file.format.per.level "
            "say now. Have Java Paimon compact the table with one of these, or read it there."
        )
    if file.external_path is not None:
        raise UnsupportedFeature(
            f"{name}: it is outside the table, at {file.external_path} (data-file.external-paths). Use Java Paimon."
        )
    if file.write_cols is not None:
        raise UnsupportedFeature(
            f"{name}: it holds only the columns {', '.join(file.write_cols)} of its rows (data-evolution.enabled). "
            "Use Java Paimon."
        )
    if not is_placed(bucket) and not may_wait:
        raise UnsupportedFeature(
            f"{name}: it lies in bucket {bucket}, where rows wait for their buckets, and the option bucket is not "
            f"{POSTPONE_BUCKET} any more, so no compaction moves them. Set bucket to {POSTPONE_BUCKET} again, and "
            "compact the table."
        )


def check_files(entries: EntryColumns, rows: Longs, *, may_wait: bool = False) -> None:
    """Raise as `check_file` does for the first entry among `rows` that it refuses."""
    if not len(rows):
        return
    named = np.logical_or.reduce([pc.ends_with(entries.file_names, f".{each}").to_numpy() for each in READABLE_FORMATS])
    rare = np.array([one.external_path is not None or one.write_cols is not None for one in entries.rares])
    refused = ~named[rows] | rare[entries.rare_codes[rows]]
    if not may_wait:
        refused |= ~are_placed(entries.buckets[rows])
    for entry in entries.take(rows[refused][:1]).entries():
        check_file(entry.file, entry.bucket, may_wait=may_wait)


def check_all_placed(buckets: Iterable[int], what: str) -> None:
    """Raise UnsupportedFeature if one of the buckets of live files is the one whose rows wait for theirs: `what` cannot
    merge them with the others.
    """
    if not all(is_placed(bucket) for bucket in buckets):
        raise UnsupportedFeature(
            f"{what} cannot merge rows that wait for their buckets, as postpone.merge-on-read = true asks for. Read "
            "states in which none wait, such as the one that a compaction leaves, or set the option to false for the "
            "rows that have their buckets."
        )
