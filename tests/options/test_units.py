"""Sizes count in 1024s, durations are milliseconds, levels have values: as Java reads them."""

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.options import parse_duration, parse_levels, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("5", 5), ("128 mb", 128 << 20), ("128MB", 128 << 20), ("1k", 1024), ("2 kibibytes", 2048), (" 1 g ", 1 << 30)],
)
def test_sizes_count_in_1024s_with_or_without_a_unit(text: str, size_bytes: int) -> None:
    assert parse_size("write-buffer-size", text) == size_bytes


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("5", 5),
        ("1 h", 3_600_000),
        ("1H", 3_600_000),
        ("2 days", 172_800_000),
        ("7 m", 420_000),
        ("9 secs", 9_000),
        ("1 micro", 0),
        ("1500 µs", 1),
    ],
)
def test_durations_are_milliseconds_without_a_unit(text: str, millis: int) -> None:
    assert parse_duration("snapshot.time-retained", text) == millis


@pytest.mark.parametrize("text", ["", "mb", "-1 mb", "1.5 gb", "1 mib", "1 hour", "9999999999999999999 tb"])
def test_what_java_takes_for_no_size_is_none(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"Option write-buffer-size is .*a size"):
        parse_size("write-buffer-size", text)


@pytest.mark.parametrize("text", ["", "PT1H", "-1 h", "1.5 h", "1 us", "1 mb"])
def test_what_java_takes_for_no_duration_is_none(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"Option snapshot.time-retained is .*a duration"):
        parse_duration("snapshot.time-retained", text)


def test_levels_have_values_of_their_own() -> None:
    assert parse_levels("file.format.per.level", "0:avro, 5:parquet") == {0: "avro", 5: "parquet"}
    with pytest.raises(InvalidRequest, match="pairs of a level and a value"):
        parse_levels("file.format.per.level", "avro")
