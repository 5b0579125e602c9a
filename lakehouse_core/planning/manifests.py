"""Manifests by their partition statistics: which of them may name files of some partitions.

Rule: nothing that may name such a file is left out; the statistics of a column may be missing.
Source: docs/semantics/reading.md#pruning-by-statistics.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.predicate import ColumnRange, Predicate, may_match
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.stats import decode_stats


def manifests_of_partitions(
    manifests: Sequence[ManifestFile], partitions: Iterable[bytes], types: Sequence[DataType]
) -> list[ManifestFile]:
    """Return the manifests that may name files of the partitions, by their partition statistics."""
    if not types:
        return list(manifests)
    wanted = [deserialize_row(partition, types) for partition in partitions]
    known = ((manifest, _ranges(manifest, types)) for manifest in manifests)
    return [manifest for manifest, ranges in known if any(_is_in(values, ranges) for values in wanted)]


def manifest_counts(
    manifests: Sequence[ManifestFile], partitions: Collection[bytes], types: Sequence[DataType]
) -> dict[bytes, int]:
    """Return for each partition how many manifests may name files of it."""
    ranges = [_ranges(manifest, types) for manifest in manifests]
    return {
        partition: sum(_is_in(deserialize_row(partition, types), each) for each in ranges) for partition in partitions
    }


def may_hold_match(manifest: ManifestFile, condition: Predicate | None, schema: TableSchema) -> bool:
    """Return whether the manifest may name files of partitions that satisfy `condition`, bound to columns of them."""
    if condition is None:
        return True
    fields = schema.partition_fields
    ranges = _ranges(manifest, [field.type for field in fields])
    return may_match(condition, dict(zip((field.name for field in fields), ranges, strict=True)))


def _ranges(manifest: ManifestFile, types: Sequence[DataType]) -> list[ColumnRange]:
    count = manifest.num_added_files + manifest.num_deleted_files
    return [
        ColumnRange(minimum=low, maximum=high, null_count=nulls, row_count=count)
        for low, high, nulls in zip(*decode_stats(manifest.partition_stats, types), strict=True)
    ]


def _is_in(values: Sequence[Any], ranges: Sequence[ColumnRange]) -> bool:
    return all(_may_be(value, found) for value, found in zip(values, ranges, strict=True))


def _may_be(value: Any, found: ColumnRange) -> bool:
    """Return whether a column may hold `value`; missing bounds exclude nothing."""
    if value is None:
        return found.null_count != 0
    if found.null_count == found.row_count:
        return False
    low, high = found.minimum, found.maximum
    return low is None or high is None or low <= value <= high
