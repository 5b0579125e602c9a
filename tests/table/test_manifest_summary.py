"""What a manifest list says of a manifest: counts, ranges, and bounds of its partitions."""

from typing import Any

import pytest

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.table.data_file import EMPTY_ROW, EMPTY_STATS, DataFile
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, ManifestFile, summarize_manifest
from lakehouse_core.table.stats import decode_stats


def entry(
    kind: EntryKind = EntryKind.ADD, *, partition: bytes = EMPTY_ROW, bucket: int = 0, **fields: Any
) -> ManifestEntry:
    given = {"file_size": 1, "row_count": 10, "min_sequence_number": 0, "max_sequence_number": 9, "schema_id": 0}
    file = DataFile(file_name="data-1", **{**given, **fields})
    return ManifestEntry(kind=kind, partition=partition, bucket=bucket, total_buckets=1, file=file)


def summary(entries: list[ManifestEntry], *types: str) -> ManifestFile:
    return summarize_manifest(entries, [parse_type(text) for text in types], file_name="manifest-1", file_size=100)


def bounds(values: list[Any], type_: str) -> Any:
    types = [parse_type(type_)]
    found = summary([entry(partition=serialize_row([value], types)) for value in values], type_)
    return decode_stats(found.partition_stats, types)


def test_counts_and_ranges_cover_adds_and_deletes() -> None:
    found = summary([entry(bucket=3, level=5, schema_id=2), entry(EntryKind.DELETE, bucket=1), entry(schema_id=1)])

    assert (found.file_name, found.file_size) == ("manifest-1", 100)
    assert (found.num_added_files, found.num_deleted_files, found.schema_id) == (2, 1, 2)
    assert (found.min_bucket, found.max_bucket, found.min_level, found.max_level) == (0, 3, 0, 5)
    assert found.partition_stats == EMPTY_STATS


def test_row_ids_are_recorded_only_when_every_file_has_them() -> None:
    all_known = summary([entry(first_row_id=100), entry(first_row_id=20)])
    one_unknown = summary([entry(first_row_id=100), entry()])

    assert (all_known.min_row_id, all_known.max_row_id) == (20, 109)
    assert (one_unknown.min_row_id, one_unknown.max_row_id) == (None, None)


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        (["b", None, "a", "b"], "STRING", (("a",), ("b",), (1,))),
        ([None, None], "STRING", ((None,), (None,), (2,))),
        ([3, -(2**31)], "INT", ((-(2**31),), (3,), (0,))),
        (["x" * 300, "y" * 300], "STRING", (("x" * 300,), ("y" * 300,), (0,))),
        ([1.5, float("nan"), -1.0], "DOUBLE", ((None,), (None,), (0,))),
        ([float("nan"), 1.5, None], "DOUBLE", ((None,), (None,), (1,))),
    ],
    ids=["nulls are counted by entry", "all null", "negative", "untruncated", "NaN", "NaN first"],
)
def test_partition_bounds_are_exact_or_absent(values: list[Any], type_: str, expected: Any) -> None:
    assert bounds(values, type_) == expected
