"""What part of a table a partition key of Dagster means, and the keys that mean none."""

import datetime as dt
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse_core as lc
from lakehouse_dagster import Dimensions, KeyColumn, TimeColumns
from lakehouse_dagster.partition_maps import any_of, parse_partition_map, partition_condition, partition_values

DAYS = dg.DailyPartitionsDefinition(start_date="2013-01-01", end_date="2013-03-01", timezone="UTC")
HOURS = dg.HourlyPartitionsDefinition(start_date="2013-01-01-00:00", timezone="UTC")
# The night in which an hour came twice.
AUTUMN = dg.HourlyPartitionsDefinition(start_date="2013-11-03-00:00", timezone="America/New_York")
MONTHS = dg.MonthlyPartitionsDefinition(start_date="2013-01-01", timezone="UTC")
REGIONS = dg.StaticPartitionsDefinition(["north", "south", "7", "07"])
DYNAMIC = dg.DynamicPartitionsDefinition(name="batches")
BOTH = dg.MultiPartitionsDefinition({"day": DAYS, "region": REGIONS})
DT = TimeColumns(columns={"dt": "%Y-%m-%d"})
HOURLY = TimeColumns(columns={"dt": "%Y-%m-%d", "hour": "%H"})


@pytest.fixture
def table(tmp_path: Path) -> lc.Table:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    types = {"dt": "DATE", "hour": "INT", "region": "STRING", "ok": "BOOLEAN", "n": "INT"}
    return catalog.create_table("db.t", types, partition_keys=["dt", "hour", "region", "ok"], options={"bucket": "-1"})


@pytest.mark.parametrize(
    ("mapped", "partitions", "key", "part"),
    [
        (DT, DAYS, "2013-01-31", {"dt": dt.date(2013, 1, 31)}),
        (KeyColumn(column="dt"), DAYS, "2013-01-31", {"dt": dt.date(2013, 1, 31)}),
        (HOURLY, HOURS, "2013-01-02-05:00", {"dt": dt.date(2013, 1, 2), "hour": 5}),
        (TimeColumns(columns={"region": "%Y-%m"}), MONTHS, "2013-02-01", {"region": "2013-02"}),
        (KeyColumn(column="region"), REGIONS, "07", {"region": "07"}),
        (KeyColumn(column="region"), DYNAMIC, "any", {"region": "any"}),
        (KeyColumn(column="hour"), REGIONS, "7", {"hour": 7}),
        (KeyColumn(column="region", values={"north": "N"}), REGIONS, "north", {"region": "N"}),
        (
            Dimensions(maps={"day": DT, "region": KeyColumn(column="region")}),
            BOTH,
            "2013-01-02|south",
            {"dt": dt.date(2013, 1, 2), "region": "south"},
        ),
        (HOURLY, AUTUMN, "2013-11-03-00:00", {"dt": dt.date(2013, 11, 3), "hour": 0}),
    ],
)
def test_a_partition_key_means_a_part_of_the_table_also_once_its_map_was_metadata(
    mapped: Any, partitions: Any, key: str, part: dict[str, Any], table: lc.Table
):
    stored = parse_partition_map(mapped.model_dump(mode="json"))

    assert stored == mapped
    assert partition_values(table, stored, key, partitions) == part


@pytest.mark.parametrize(
    ("mapped", "partitions", "key", "told"),
    [
        (None, DAYS, "2013-01-31", "db.t: found partition key '2013-01-31', but the asset has no partition_map."),
        (DT, REGIONS, "north", "partition map of dt: found StaticPartitionsDefinition, expected time windows. Map the"),
        (DT, HOURS, "2013-01-02-05:00", "of the table is not that of key '2013-01-02-05:00' alone. Use a pattern as"),
        (TimeColumns(columns={"hour": "%H"}), HOURS, "2013-01-02-05:00", "with all parts of the date."),
        (TimeColumns(columns={"region": "%d"}), DAYS, "2013-01-02", "with all parts of the date."),
        (HOURLY, AUTUMN, "2013-11-03-01:00", "of the table is not that of key '2013-11-03-01:00' alone."),
        (TimeColumns(columns={"dt": "%Y%m%d"}), DAYS, "2013-01-02", "db.t: found partition dt=20130102, expected a"),
        (KeyColumn(column="hour"), REGIONS, "07", "db.t: found partition hour=07, expected a value of int32 as the"),
        (KeyColumn(column="hour"), REGIONS, "north", "db.t: found partition hour=north, expected a value of int32 as"),
        (KeyColumn(column="dt"), DYNAMIC, "2013-W01-1", "db.t: found partition dt=2013-W01-1, expected a value of"),
        (KeyColumn(column="dt"), DYNAMIC, "2013-02-30", "db.t: found partition dt=2013-02-30, expected a value of"),
        (KeyColumn(column="ok"), REGIONS, "north", "db.t: partition column ok has the type bool; a partition_map can"),
        (KeyColumn(column="n"), REGIONS, "7", "has column 'n', but the table is partitioned by dt, hour, region, ok."),
        (
            KeyColumn(column="region", values={"north": "N"}),
            REGIONS,
            "south",
            "partition map of region: found key 'south', expected one of north. Add the key to the map.",
        ),
        (KeyColumn(column="region", values={"north": "N", "south": "N"}), REGIONS, "south", "two keys have one value"),
        (Dimensions(maps={"day": DT}), DAYS, "2013-01-02", "found DailyPartitionsDefinition, expected Multi"),
        (Dimensions(maps={"day": DT}), BOTH, "2013-01-02|south", "found the dimensions day, region. Map each"),
        (
            Dimensions(maps={"day": DT, "region": KeyColumn(column="dt")}),
            BOTH,
            "2013-01-02|south",
            "partition map of dimensions: two of them map dt. Leave one out.",
        ),
    ],
)
def test_a_key_that_does_not_mean_a_part_of_its_own_is_refused(
    mapped: Any, partitions: Any, key: str, told: str, table: lc.Table
):
    with pytest.raises(lc.InvalidRequest) as refused:
        partition_values(table, mapped, key, partitions)

    assert told in str(refused.value)


@pytest.mark.parametrize(
    "found",
    [None, "dt", {}, {"kind": "key"}, {"kind": "key", "column": "dt", "colum": 1}, {"kind": "time", "columns": {}}],
)
def test_metadata_that_are_not_a_map_are_refused(found: object):
    with pytest.raises(lc.InvalidRequest, match=r"partition_map: found .*, expected KeyColumn, TimeColumns or Dimen"):
        parse_partition_map(found)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30))
def test_the_condition_of_many_parts_keeps_the_rows_of_each_and_no_others(hours: list[int]):
    condition = any_of([partition_condition({"hour": hour}) for hour in hours])

    assert {hour for hour in range(41) if holds(condition, hour)} == set(hours)


def test_the_condition_of_thousands_of_parts_can_be_used(table: lc.Table):
    parts = [partition_condition({"hour": hour, "region": "n"}) for hour in range(5000)]

    assert table.scan(where=any_of(parts)).count() == 0


def holds(condition: Any, hour: int) -> bool:
    if hasattr(condition, "comparison"):
        return bool(condition.value == hour)
    return any(holds(part, hour) for part in condition.parts)
