"""The time of a partition, told by its values and the options of the table."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import days_of
from lakehouse_core.table.partition_time import check_partition_time, partition_times, skipped_by_compaction
from lakehouse_core.table.schema import TableSchema, new_schema

DAY_MILLIS = 86_400_000
FORMATTER = "partition.timestamp-formatter"
PATTERN = "partition.timestamp-pattern"


def schema_of(columns: dict[str, str], **options: str) -> TableSchema:
    """Return the schema of a table with these partition keys; `__` in options means `.`, `_` means `-`."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return new_schema({**columns, "v": "INT"}, partition_keys=list(columns), options=named, now_millis=0)


def nanos(text: str) -> int:
    time = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return int(time.timestamp()) * 10**9


@pytest.mark.parametrize(
    ("columns", "options", "values", "time"),
    [
        ({"dt": "STRING"}, {}, ("2024-01-31",), "2024-01-31"),
        ({"dt": "STRING", "h": "INT"}, {}, ("2024-01-31", 7), "2024-01-31"),
        ({"dt": "STRING", "h": "INT"}, {PATTERN: "$dt $h:00:00"}, ("2024-01-31", 7), "2024-01-31T07:00:00"),
        ({"dt": "INT"}, {FORMATTER: "yyyyMMdd"}, (20240131,), "2024-01-31"),
        ({"y": "INT", "m": "INT", "d": "INT"}, {PATTERN: "$y-$m-$d"}, (2024, 1, 31), "2024-01-31"),
        # Of names that begin alike the longest is meant; a dollar before another word is one.
        (
            {"d": "STRING", "dt": "STRING"},
            {PATTERN: "$dt$x $d", FORMATTER: "yyyyMMdd'$x' HH"},
            ("07", "20240131"),
            "2024-01-31T07:00:00",
        ),
        ({"dt": "TIMESTAMP(3)"}, {FORMATTER: "yyyy-MM-dd'T'HH:mm"}, ((DAY_MILLIS + 60_000, 0),), "1970-01-02T00:01:00"),
        # No times: another text, the number of a date's day, nothing.
        ({"dt": "STRING"}, {}, ("yesterday",), None),
        ({"dt": "DATE"}, {}, (days_of(2024, 1, 31),), None),
        ({"dt": "STRING"}, {}, (None,), None),
        ({"dt": "STRING", "h": "INT"}, {PATTERN: "$dt"}, ("2024-01-31", None), None),
    ],
)
def test_the_time_of_a_partition_is_in_its_values(
    columns: dict[str, str], options: dict[str, str], values: tuple[Any, ...], time: str | None
) -> None:
    times = partition_times(schema_of(columns, **options))

    assert times is not None
    assert times.time_nanos(values) == (None if time is None else nanos(time))


SKIPPING = {"partition.expiration-time": "7 d", "compaction.skip-expired-partitions": "true"}


@pytest.mark.parametrize(
    ("dt", "over"), [("2024-01-30", True), ("2024-01-31", False), ("2024-02-07", False), ("old", False), (None, False)]
)
def test_a_partition_is_over_when_its_time_is_longer_ago_than_the_table_says(dt: str | None, over: bool) -> None:
    now = nanos("2024-02-07") // 10**6

    expiry = skipped_by_compaction(schema_of({"dt": "STRING"}, **SKIPPING), local_now_millis=now)

    assert expiry is not None
    assert expiry.is_expired((dt,)) is over


@pytest.mark.parametrize("missing", SKIPPING)
def test_none_is_over_unless_the_table_says_when_and_that_compactions_care(missing: str) -> None:
    schema = schema_of({"dt": "STRING"}, **SKIPPING)
    options = {key: value for key, value in SKIPPING.items() if key != missing}

    assert skipped_by_compaction(replace(schema, options=options), local_now_millis=0) is None
    assert skipped_by_compaction(schema_of({}, **SKIPPING), local_now_millis=0) is None


def test_a_formatter_that_cannot_be_read_is_refused_with_the_schema() -> None:
    with pytest.raises(
        InvalidRequest, match=r"Option partition\.timestamp-formatter: 'yyyy-MMM': found MMM, expected a supported"
    ):
        schema_of({"dt": "STRING"}, **{FORMATTER: "yyyy-MMM"})


STRICT = {"partition.timestamp-format.strict": "true"}


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({FORMATTER: "yyyyMMdd"}, False),
        (STRICT, False),
        ({**STRICT, FORMATTER: "yyyyMMdd"}, True),
        ({**STRICT, PATTERN: "$dt"}, True),
    ],
)
def test_strict_tables_take_only_partitions_that_are_the_times_they_describe(
    options: dict[str, str], refused: bool
) -> None:
    schema = schema_of({"dt": "STRING"}, **options)
    if not refused:
        check_partition_time(("soon",), schema)
        return
    for value in ("soon", None):
        with pytest.raises(
            InvalidRequest, match=rf"Partition dt={value!r} is not a time as partition.timestamp-pattern"
        ):
            check_partition_time((value,), schema)
