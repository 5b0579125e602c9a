"""Names of changelog files that share an object: they say where its bytes lie, and any other name says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.joined_changelog import (
    Segment,
    first_segment_name,
    object_name,
    segment_format,
    segment_names,
    segment_of,
)

UUID = "2377de47-307c-455f-8df3-34b515ce3d94"
# As the Flink jar of Java 2.0.0 names them, for files of 1373, 1202 and 1206 bytes in buckets 0, 1 and 2.
FIRST = f"compacted-changelog-{UUID}$0-1373.cc-parquet"
SECOND = f"compacted-changelog-{UUID}$0-1373-1373-1202.cc-parquet"
THIRD = f"compacted-changelog-{UUID}$0-1373-2575-1206.cc-parquet"


@pytest.mark.parametrize(
    ("key", "segment"),
    [
        (f"p=0/bucket-0/{FIRST}", Segment(key=f"p=0/bucket-0/{FIRST}", offset=0, length=1373)),
        (f"p=0/bucket-1/{SECOND}", Segment(key=f"p=0/bucket-0/{FIRST}", offset=1373, length=1202)),
        (f"data/p=0/q=1/bucket-2/{THIRD}", Segment(key=f"data/p=0/q=1/bucket-0/{FIRST}", offset=2575, length=1206)),
        # Two files of the first bucket, and a table without partitions.
        (f"bucket-0/{SECOND}", Segment(key=f"bucket-0/{FIRST}", offset=1373, length=1202)),
    ],
)
def test_a_segment_lies_in_the_bucket_of_the_first(key: str, segment: Segment) -> None:
    assert segment_of(key) == segment


@pytest.mark.parametrize(
    "name",
    [
        "changelog-1.parquet",
        "data-1.cc-parquet",
        f"compacted-changelog-{UUID}$0-1373.parquet",
        f"compacted-changelog-{UUID}$0-1373-5.cc-parquet",
        f"compacted-changelog-{UUID}$-2-1373.cc-parquet",
        f"compacted-changelog-{UUID}$0-1373-1-2-3.cc-parquet",
        f"compacted-changelog-{UUID}$../0-1373-1-2.cc-parquet",
        f"compacted-changelog-{UUID}$0-1373.cc-",
        f"compacted-changelog-{UUID}$0-1373.cc-parquet.index",
        "compacted-changelog-",
    ],
)
def test_any_other_name_is_that_of_an_object_of_its_own(name: str) -> None:
    assert segment_of(f"bucket-0/{name}") is None
    assert segment_format(name) is None
    assert object_name(name) == name


def test_a_segment_has_the_format_of_the_file_that_it_was() -> None:
    file = DataFile(
        file_name=SECOND, file_size=1202, row_count=1, min_sequence_number=0, max_sequence_number=0, schema_id=0
    )

    assert (file.format, segment_format(FIRST), object_name(SECOND)) == ("parquet", "parquet", FIRST)


def test_names_are_those_that_java_gives() -> None:
    first = first_segment_name(UUID, bucket=0, length=1373, file_format="parquet")

    assert list(segment_names(first, [1373, 1202, 1206])) == [FIRST, SECOND, THIRD]


@given(
    lengths=st.lists(st.integers(1, 2**40), min_size=1, max_size=5),
    bucket=st.integers(0, 2**31 - 1),
    file_format=st.sampled_from(["parquet", "orc", "avro"]),
)
def test_segments_follow_each_other_without_a_gap(lengths: list[int], bucket: int, file_format: str) -> None:
    first = first_segment_name(UUID, bucket=bucket, length=lengths[0], file_format=file_format)
    found = [segment_of(f"bucket-{bucket}/{name}") for name in segment_names(first, lengths)]

    assert [segment.length for segment in found if segment] == lengths
    assert [segment.end for segment in found if segment] == [sum(lengths[: n + 1]) for n in range(len(lengths))]
    assert {segment.key for segment in found if segment} == {f"bucket-{bucket}/{first}"}
