"""Figures of a bucket count what a compaction would do, and nothing that it would leave alone."""

import pytest

from lakehouse_core.format.binary_row import serialize_row
from lakehouse_core.format.data_types import parse_type
from lakehouse_core.planning.compaction.health import BucketHealth, bucket_figures
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.schema import new_schema

KEY = [parse_type("INT NOT NULL")]
LARGE = 1 << 30


def file(number: int, level: int, low: int, high: int, size: int = 100) -> DataFile:
    return DataFile(
        file_name=f"data-{number}.parquet",
        file_size=size,
        row_count=high - low + 1,
        min_key=serialize_row((low,), KEY),
        max_key=serialize_row((high,), KEY),
        min_sequence_number=number,
        max_sequence_number=number,
        schema_id=0,
        level=level,
        delete_row_count=0,
    )


@pytest.mark.parametrize(
    ("files", "small", "runs"),
    [
        ([file(1, 5, 1, 9)], 0, 1),
        ([file(1, 0, 1, 9)], 0, 1),
        ([file(1, 0, 1, 9), file(2, 0, 5, 6)], 2, 2),
        ([file(1, 5, 1, 9), file(2, 0, 5, 6), file(3, 0, 7, 7)], 3, 3),
        ([file(1, 5, 1, 9, LARGE), file(2, 0, 5, 6)], 1, 2),
        ([file(1, 5, 1, 4), file(2, 5, 5, 9)], 0, 1),
    ],
    ids=["compacted", "lifted only", "two of level 0", "two over a top level", "one over a large file", "one run"],
)
def test_a_key_table_counts_small_files_to_rewrite_and_runs(files: list[DataFile], small: int, runs: int) -> None:
    schema = new_schema({"k": "INT NOT NULL"}, primary_keys=["k"], options={"bucket": "1"}, now_millis=0)

    assert bucket_figures(files, schema) == BucketHealth(small_file_count=small, sorted_run_count=runs)


@pytest.mark.parametrize(
    ("sizes", "small"),
    [
        ([100], 0),
        ([100, 100], 2),
        ([100, LARGE], 0),
        ([LARGE, 100, LARGE], 0),
        # Most are small: a full compaction takes the large one between them along.
        ([100, LARGE, 100], 2),
        ([100, 100, LARGE, 100], 3),
        ([LARGE, 100, 100, LARGE, LARGE], 2),
    ],
)
def test_an_ordered_append_table_counts_the_small_files_that_a_full_compaction_takes(
    sizes: list[int], small: int
) -> None:
    schema = new_schema({"k": "INT"}, options={"bucket": "1", "bucket-key": "k"}, now_millis=0)
    files = [file(number, 0, 1, 9, size) for number, size in enumerate(sizes)]

    assert bucket_figures(files, schema) == BucketHealth(small_file_count=small, sorted_run_count=0)
