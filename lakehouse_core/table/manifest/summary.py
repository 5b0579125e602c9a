"""Manifest summary: the description of a manifest in its list, by which a reader skips manifests."""

from collections.abc import Sequence
from math import isnan

from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.data_file import EMPTY_STATS, SimpleStats
from lakehouse_core.table.manifest.entry import EntryKind, ManifestEntry, ManifestFile
from lakehouse_core.table.stats import ColumnBounds, encode_stats


def summarize_manifest(
    entries: Sequence[ManifestEntry],
    partition_types: Sequence[DataType],
    *,
    file_name: str,
    file_size: int,
    checksum: str | None = None,
) -> ManifestFile:
    """Return the description of a manifest of `entries` (at least one), stored as `file_name` with `file_size`
    bytes.
    """
    levels = [entry.file.level for entry in entries]
    buckets = [entry.bucket for entry in entries]
    first_row_ids = [entry.file.first_row_id for entry in entries]
    known_row_ids = [row_id for row_id in first_row_ids if row_id is not None]
    has_row_ids = len(known_row_ids) == len(entries)
    added = sum(entry.kind is EntryKind.ADD for entry in entries)
    return ManifestFile(
        file_name=file_name,
        file_size=file_size,
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=_partition_stats(entries, partition_types),
        schema_id=max(entry.file.schema_id for entry in entries),
        min_bucket=min(buckets),
        max_bucket=max(buckets),
        min_level=min(levels),
        max_level=max(levels),
        min_row_id=min(known_row_ids) if has_row_ids else None,
        max_row_id=(
            max((entry.file.first_row_id or 0) + entry.file.row_count - 1 for entry in entries) if has_row_ids else None
        ),
        checksum=checksum,
    )


def _partition_stats(entries: Sequence[ManifestEntry], types: Sequence[DataType]) -> SimpleStats:
    """Return exact bounds of the partition columns over all entries, computed from distinct partitions."""
    if not types:
        return EMPTY_STATS
    counts: dict[bytes, int] = {}
    for entry in entries:
        counts[entry.partition] = counts.get(entry.partition, 0) + 1
    rows = [(deserialize_row(partition, types), count) for partition, count in counts.items()]
    bounds = []
    for column in range(len(types)):
        known = [row[column] for row, _ in rows if row[column] is not None]
        if any(isinstance(value, float) and isnan(value) for value in known):
            # Engines order NaN differently, so a column with NaN gets no bounds.
            known = []
        nulls = sum(count for row, count in rows if row[column] is None)
        bounds.append(ColumnBounds(min(known, default=None), max(known, default=None), nulls))
    return encode_stats(bounds, types)
