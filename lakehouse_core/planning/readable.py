"""Which live files can be read rightly, whatever the table's options say now: options change, files stay.

A file in another format, outside the table or with deleted rows marked elsewhere is refused by its name before anything
is read or rewritten. Source: Paimon format, "Manifest record", "Index manifest record", "Deletion vector files".
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.avro_columns import Longs
from lakehouse_core.options import POSTPONE_BUCKET
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.manifest import EntryColumns, IndexManifestEntry

_FORMAT: Final = "parquet"
_DELETION_VECTORS: Final = "DELETION_VECTORS"
NOTHING_MARKED: Final[Mapping[str, str]] = {}


def marked_files(indexes: Iterable[IndexManifestEntry]) -> dict[str, str]:
    """Return the data files of which index files mark rows as deleted, each with such an index file.

    Raises UnsupportedFeature for an index file of which this is not told.
    """
    marked: dict[str, str] = {}
    for index in indexes:
        if index.index_type != _DELETION_VECTORS:
            continue
        if index.deletion_vectors is None and index.row_count:
            raise UnsupportedFeature(
                f"{index.file_name}: it marks deleted rows, not told of which files (deletion-vectors.enabled). "
                "Use Java Paimon."
            )
        marked.update((vector.data_file_name, index.file_name) for vector in index.deletion_vectors or ())
    return marked


def check_file(file: DataFile, bucket: int, marked: Mapping[str, str] = NOTHING_MARKED) -> None:
    """Raise UnsupportedFeature, naming file and option, unless the rows of the file are what a Parquet reader finds.

    `marked`: what `marked_files` tells of the snapshot.
    """
    name = file.file_name
    if not name.endswith(f".{_FORMAT}"):
        raise UnsupportedFeature(
            f"{name}: it is no Parquet file, whatever file.format or file.format.per.level say now. Have Java Paimon "
            "compact the table with file.format = parquet, or read it there."
        )
    if file.external_path is not None:
        raise UnsupportedFeature(
            f"{name}: it lies outside the table, at {file.external_path} (data-file.external-paths). Use Java Paimon."
        )
    if file.write_cols is not None:
        raise UnsupportedFeature(
            f"{name}: it holds only the columns {', '.join(file.write_cols)} of its rows (data-evolution.enabled). "
            "Use Java Paimon."
        )
    if bucket < 0:
        raise UnsupportedFeature(
            f"{name}: it lies in bucket {bucket}, where rows wait for one (bucket = {POSTPONE_BUCKET}). Have Java "
            "Paimon compact the table, or read it there."
        )
    if name in marked:
        raise UnsupportedFeature(
            f"{name}: {marked[name]} marks rows of it as deleted, whatever deletion-vectors.enabled says now. Have "
            "Java Paimon compact the table in full, or read it there."
        )


def check_files(entries: EntryColumns, rows: Longs, marked: Mapping[str, str] = NOTHING_MARKED) -> None:
    """Raise as `check_file` does for the first of these rows that it refuses."""
    if not len(rows):
        return
    named = pc.ends_with(entries.file_names, f".{_FORMAT}").to_numpy()
    rare = np.array([one.external_path is not None or one.write_cols is not None for one in entries.rares])
    refused = ~named[rows] | rare[entries.rare_codes[rows]] | (entries.buckets[rows] < 0)
    if marked:
        refused |= pc.is_in(entries.file_names, pa.array(marked, pa.string())).to_numpy()[rows]
    for entry in entries.take(rows[refused][:1]).entries():
        check_file(entry.file, entry.bucket, marked)
