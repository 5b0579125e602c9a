"""Times in text are read as Java reads them: 4,000 texts by chance with Java's answers, and the rules by name."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import date_of
from lakehouse_core.format.java_time import parse_time_pattern, read_time

# How it was made is told in the program beside it.
TABLE = Path(__file__).parent / "java_times" / "times-2.0.0.txt.gz"
DAY_NANOS = 86_400 * 10**9

# The formatter ("-" for none), the text, and the time in it or none.
CASES = """
# Without a formatter what is too much is carried on.
-                       | 2024-01-31              | 2024-01-31T00:00
-                       | 2024-1-5 3:04:5         | 2024-01-05T03:04:05
-                       | 2024-01-31 12:30:00.25  | 2024-01-31T12:30:00.250
-                       | 2024-02-31              | 2024-03-02T00:00
-                       | 2024-13-01 25:61:00     | 2025-01-02T02:01
-                       | 2024-00-00              | 2023-11-30T00:00
-                       | 2024--1-01              | 2023-11-01T00:00
-                       | 20240131                | none
-                       | 2024-01-31 12:30        | none
-                       | 2024-01-31T12:30:00     | none
-                       | 2024-01--0              | none

# With one, a month's last day stands for those that it lacks; other values must fit.
yyyyMMdd                | 20240131                | 2024-01-31T00:00
yyyyMMdd                | 20230231                | 2023-02-28T00:00
yyyyMMdd                | 20240132                | none
yyyyMMdd                | 20241301                | none
yyyyMMdd                | 2024013                 | none
yyyyMMdd                | 120240131               | none
yyyyMMdd                | +120240131              | +12024-01-31T00:00
yyyy-M-d                | 2024-1-31               | 2024-01-31T00:00
yyMMdd                  | 240131                  | 2024-01-31T00:00
uuuu-MM-dd              | -0044-03-15             | -0044-03-15T00:00
yyyy-MM-dd              | -0044-03-15             | none
yyyyMMddHHmmssSSS       | 20240131235959123       | 2024-01-31T23:59:59.123
yyyy-MM-dd'T'HH         | 2024-01-31T24           | 2024-02-01T00:00
yyyy-MM-dd'T'HH:mm      | 2024-01-31T24:01        | none
o''clock: yyyyMMdd      | -                       | refused
'o''clock: 'yyyyMMdd    | o'clock: 20240131       | 2024-01-31T00:00

# A date without a time is its midnight; a part of a date is none.
yyyy-MM-dd mm           | 2024-01-31 30           | 2024-01-31T00:00
yyyyMM                  | 202401                  | none
HH:mm                   | 12:30                   | none
yyyy-MM-dd yyyy         | 2024-01-31 2025         | none

# What Java has beyond digits is refused.
yyyy-MMM-dd             | -                       | refused
hh:mm a                 | -                       | refused
yyyy-MM-dd[ HH]         | -                       | refused
yyyyMMddSSSSSSSSSS      | -                       | refused
yyyy-DDD                | -                       | refused
yyyy'MM                 | -                       | refused
"""
LINES = [line for line in CASES.splitlines() if line and not line.startswith("#")]


def shown(nanos: int | None) -> str:
    """Return the time as Java's LocalDateTime does."""
    if nanos is None:
        return "none"
    days, rest = divmod(nanos, DAY_NANOS)
    year, month, day = date_of(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if seconds % 60 or fraction:
        clock += f":{seconds % 60:02}"
    digits = f"{fraction:09}"
    while fraction and digits.endswith("000"):
        digits = digits[:-3]
    return f"{sign}{abs(year):04}-{month:02}-{day:02}T{clock}" + (f".{digits}" if fraction else "")


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line.split()))
def test_a_text_is_the_time_that_the_pattern_says(line: str) -> None:
    pattern, text, expected = (part.strip() for part in line.split("|"))
    if expected == "refused":
        with pytest.raises(InvalidRequest, match=r"expected a (supported )?time pattern"):
            parse_time_pattern(pattern)
    else:
        assert shown(read_time(text, None if pattern == "-" else parse_time_pattern(pattern))) == expected


def test_java_reads_the_same_times_in_texts_by_chance() -> None:
    lines = gzip.decompress(TABLE.read_bytes()).decode().splitlines()
    differing = []
    for line in lines:
        pattern, text, answer = line.split("\t")
        found = shown(read_time(text, parse_time_pattern(pattern) if pattern else None))
        if found != answer.replace("-", "none" if answer == "-" else "-"):
            differing.append((line, found))

    assert differing == []
    assert len(lines) == 4000


@pytest.mark.parametrize(
    ("pattern", "python", "step"),
    [
        (None, "%Y-%m-%d %H:%M:%S.%f", timedelta(microseconds=1)),
        ("yyyyMMddHHmmss", "%Y%m%d%H%M%S", timedelta(seconds=1)),
        ("dd.MM.yyyy HH:mm", "%d.%m.%Y %H:%M", timedelta(minutes=1)),
    ],
)
@given(time=st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31)))
def test_a_time_that_was_written_is_read_back(
    pattern: str | None, python: str, step: timedelta, time: datetime
) -> None:
    since = time.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    whole = since // step * (step // timedelta(microseconds=1)) * 1000

    assert read_time(time.strftime(python), None if pattern is None else parse_time_pattern(pattern)) == whole
