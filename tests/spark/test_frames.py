"""Frames in queries of Spark: what a filter on a frame does not open, and what Spark knows of a frame's size."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError

import lakehouse_core as lc
from lakehouse_core.execution.engines.spark.scan import frame as frames
from lakehouse_core.execution.engines.spark.scan import native, partitioned
from tests.spark.test_read import both, plan_of

pytestmark = pytest.mark.spark

DAYS = [datetime.date(2013, 1, day) for day in (1, 2, 3)]
# Each partition fills a task by itself.
SMALL_TASKS = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}


@pytest.fixture
def catalog(tmp_path):
    """Written in this process: only reading is at stake here."""
    found = lc.connect(str(tmp_path / "a warehouse, 100%"))
    found.create_database("db")
    return found


def daily(catalog, *, merged=(), **options):
    """A key table with two rows in each of three days; those of the days `merged` are in two files that overlap."""
    table = catalog.create_table(
        "db.t",
        {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "v": "INT"},
        partition_keys=["dt"],
        primary_keys=["dt", "id"],
        options={"bucket": "1", "write-only": "true", **SMALL_TASKS, **options},
    )
    table.write([{"dt": day, "id": id_, "v": 0} for day in DAYS for id_ in (1, 2)])
    table.compact(full=True)
    if merged:
        table.write([{"dt": day, "id": 2, "v": 1} for day in merged])
    return table


FILTERS = [
    "dt = DATE '2013-01-02'",
    "dt > DATE '2013-01-01' AND dt < DATE '2013-01-03'",
    "dt IN (DATE '2013-01-02', DATE '2014-01-01') AND v >= 0",
    "day(dt) % 2 = 0",
]


@pytest.mark.parametrize("merged", [(), DAYS[:2]], ids=["Spark's reader", "tasks, too"])
def test_a_filter_on_partitions_of_a_frame_opens_no_other_files(spark, catalog, tmp_path, merged):
    table = daily(catalog, merged=merged)
    frame = table.scan().to_spark(spark)
    frame.createOrReplaceTempView("daily")
    kept = [(DAYS[1], 1, 0), (DAYS[1], 2, int(DAYS[1] in merged))]
    folders = {day: next(tmp_path.rglob(f"dt={(day - datetime.date(1970, 1, 1)).days}")) for day in DAYS}

    aside = [folders[day].rename(folders[day].with_name(f"aside-{day}")) for day in (DAYS[0], DAYS[2])]
    try:
        found = spark.sql(
            " UNION ALL ".join(f"SELECT {number}, * FROM daily WHERE {one}" for number, one in enumerate(FILTERS))
        ).collect()
    finally:
        for folder, day in zip(aside, (DAYS[0], DAYS[2]), strict=True):
            folder.rename(folders[day])
        spark.catalog.dropTempView("daily")

    assert sorted(map(tuple, found)) == [(number, *row) for number in range(len(FILTERS)) for row in kept]
    assert frame.count() == 6
    assert all(field.nullable for field in frame.schema)


def test_a_join_on_partitions_opens_no_files_of_partitions_that_the_other_side_lacks(spark, catalog):
    frame = daily(catalog).scan().to_spark(spark)
    days = spark.range(3).selectExpr("date_add(DATE'2013-01-01', CAST(id AS INT)) AS dt", "id AS number")

    joined = frame.join(days.where("number % 3 = 1"), "dt").select("dt", "id")

    assert "dynamicpruningexpression" in plan_of(joined)
    assert sorted(map(tuple, joined.collect())) == [(DAYS[1], 1), (DAYS[1], 2)]


KEYS = {
    "b": ("BOOLEAN", [True, False]),
    "i1": ("TINYINT", [-128, 127]),
    "i2": ("SMALLINT", [-32768, 7]),
    "i4": ("INT", [0, -(2**31)]),
    "i8": ("BIGINT", [5, 2**40]),
    "x": ("DOUBLE", [-0.0, 1.5]),
    "p": ("DECIMAL(9, 2)", [Decimal("-3.25"), Decimal("1.50")]),
    "w": ("DECIMAL(30, 3)", [Decimal("12345678901234567890.125"), Decimal("0.000")]),
    "s": ("STRING", ["é/=% b", "__DEFAULT_PARTITION_"]),
    "d": ("DATE", [datetime.date(1, 1, 1), datetime.date(2013, 1, 5)]),
    "t": ("TIMESTAMP(6)", [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2013, 1, 1, 5)]),
    "z": ("TIMESTAMP_LTZ(3)", [datetime.datetime(2013, 7, 1, tzinfo=datetime.UTC)] * 2),
}


@pytest.mark.parametrize(
    "is_merged", [False, pytest.param(True, marks=pytest.mark.long)], ids=["Spark's reader", "tasks"]
)
def test_partitions_of_each_type_have_the_same_values_on_spark(spark, catalog, is_merged):
    table = catalog.create_table(
        "db.t",
        {"id": "INT NOT NULL", **{name: sql for name, (sql, _) in KEYS.items()}},
        partition_keys=list(KEYS),
        options={"bucket": "-1", "partition.legacy-name": "false", **SMALL_TASKS},
    )
    table.write(
        [{"id": at, **{name: values[at] for name, (_, values) in KEYS.items()}} for at in (0, 1)]
        + [{"id": 2, **dict.fromkeys(KEYS)}]
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = frame_of_tasks(table.scan(), spark) if is_merged else table.scan().to_spark(spark)
        stored = frame_of_tasks(table.scan(), spark, constants=False)
        by_spark, expected = sorted(frame.collect()), sorted(stored.collect())
        found = frame.where(" AND ".join(f"{name} IS NULL" for name in KEYS)).select("id").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    assert ("PartitionFilters" in plan_of(frame.where("i4 = 0"))) is not is_merged
    assert by_spark == expected
    assert found == [(2,)]
    assert frame.schema == stored.schema


def frame_of_tasks(scan, spark, *, constants=True):
    """The rows as Python tasks give them, though Spark could read the files."""
    patch = pytest.MonkeyPatch()
    with patch.context() as changed:
        changed.setattr(frames, "native_tasks", lambda *_: [])
        if not constants:
            changed.setattr(frames, "_MOST_FRAMES", 0)
        return scan.to_spark(spark)


@pytest.mark.long
def test_partitions_that_share_a_folder_are_not_taken_for_each_other(spark, catalog):
    table = catalog.create_table("db.t", {"k": "STRING", "id": "INT"}, partition_keys=["k"], options={"bucket": "-1"})
    table.write([{"k": None, "id": 1}, {"k": "", "id": 2}, {"k": " ", "id": 3}, {"k": "x", "id": 4}])

    by_spark, here = both(table.scan(), spark)

    assert by_spark == here
    assert len(here) == 4
    assert [tuple(row) for row in table.scan().to_spark(spark).where("k IS NULL").collect()] == [(None, 1)]


@pytest.mark.damage
def test_a_file_that_goes_before_spark_lists_it_fails_the_read(spark, catalog, tmp_path, monkeypatch):
    """Spark's index leaves out a file that it does not find; over object stores no footer was read before."""
    table = daily(catalog)
    file = next(tmp_path.rglob("dt=15707/*/data-*.parquet"))
    found = native._files

    def gone(tasks):
        yield from found(tasks)
        file.unlink(missing_ok=True)

    monkeypatch.setattr(native, "_files", gone)

    with pytest.raises(lc.TaskFailed, match=rf"PATH_NOT_FOUND(.|\n)*{file.name}"):
        table.scan().to_spark(spark)


@pytest.mark.long
def test_a_partition_column_with_nanoseconds_is_not_cut_to_a_constant(spark, catalog):
    table = catalog.create_table(
        "db.t",
        {"t": "TIMESTAMP(9)", "h": "INT", "id": "INT"},
        partition_keys=["t", "h"],
        options={"bucket": "-1", "partition.legacy-name": "false", **SMALL_TASKS},
    )
    times = pa.array([1_000, 1_001], pa.timestamp("ns"))
    table.write(pa.table({"t": times, "h": pa.array([1, 2], pa.int32()), "id": pa.array([1, 2], pa.int32())}))

    plan = plan_of(table.scan().to_spark(spark))

    # A task reads the column, and refuses what Spark cannot hold.
    assert "2 AS h#" in plan
    assert "AS t#" not in plan


@pytest.mark.long
def test_a_time_that_is_left_out_hinders_no_partition(spark, catalog):
    """Spark has no TIME."""
    table = catalog.create_table(
        "db.t",
        {"t": "TIME(3)", "h": "INT", "id": "INT NOT NULL"},
        partition_keys=["t", "h"],
        options={"bucket": "-1", **SMALL_TASKS},
    )
    table.write([{"t": datetime.time(hour), "h": hour, "id": hour} for hour in (1, 2)])

    frame = frame_of_tasks(table.scan(columns=["id", "h"]), spark)

    assert sorted(map(tuple, frame.where("h = 2").collect())) == [(2, 2)]


@pytest.mark.long
def test_columns_that_differ_by_case_alone_are_read_in_partitions_of_any_size(spark, catalog, tmp_path):
    """Our tables have none. Spark finds columns by names without case."""
    catalog.create_table(
        "db.t",
        {"k": "STRING", "id": "INT", "v": "INT"},
        partition_keys=["k"],
        options={"bucket": "-1", **SMALL_TASKS},
    )
    file = next(tmp_path.rglob("schema/schema-0"))
    document = json.loads(file.read_text().replace('"v"', '"ID"'))
    # Of the file as we wrote it.
    del document["lakehouseCrc32"]
    file.write_text(json.dumps(document))
    table = lc.connect(str(tmp_path / "a warehouse, 100%")).table("db.t")
    table.write([{"k": "a", "id": 1, "ID": 2}, {"k": "b", "id": 3, "ID": 4}])

    by_spark, here = both(table.scan(), spark)

    assert by_spark == here
    assert len(here) == 2


def test_frames_of_partitions_take_no_more_tasks_than_one_frame(spark, catalog, monkeypatch):
    monkeypatch.setattr(frames, "core_count", lambda _: 3)
    table = daily(catalog, bucket="4", **{"source.split.target-size": "1 gb"})
    table.write([{"dt": day, "id": id_, "v": 0} for day in DAYS for id_ in range(40)])
    table.compact(full=True)

    apart = frame_of_tasks(table.scan(), spark)
    together = frame_of_tasks(table.scan(), spark, constants=False)

    assert "2013-01-02 AS dt" in plan_of(apart)
    # A partition leaves at most one task half empty.
    assert apart.rdd.getNumPartitions() <= together.rdd.getNumPartitions() + len(DAYS)


def test_a_version_of_spark_with_another_index_of_files_reads_the_same_rows(spark, catalog, monkeypatch):
    def missing(*_, **__):
        raise Py4JError("Constructor InMemoryFileIndex does not exist")

    monkeypatch.setattr(partitioned, "_relation", missing)
    table = daily(catalog)
    by_spark, here = both(table.scan(), spark)

    assert by_spark == here
    assert "PartitionFilters" not in plan_of(table.scan().to_spark(spark).where("dt = DATE '2013-01-02'"))


@pytest.mark.long
def test_at_most_so_many_partitions_have_frames_of_their_own(spark, catalog, monkeypatch):
    monkeypatch.setattr(frames, "_MOST_FRAMES", 2)
    table = daily(catalog, merged=DAYS)
    table.write([{"dt": DAYS[1], "id": id_, "v": 5} for id_ in range(100)])

    by_spark, here = both(table.scan(where="v <> 1", columns=["v", "dt"]), spark)
    plan = plan_of(table.scan().to_spark(spark))

    assert by_spark == here
    assert plan.count("MapInArrow (") == 3
    assert plan_of(table.scan().to_spark(spark).where("dt = DATE '2013-01-02'")).count("MapInArrow (") == 2


def test_partitions_that_fill_no_task_share_a_frame(spark, catalog):
    table = daily(catalog, merged=DAYS, **{"source.split.open-file-cost": "4 mb", "source.split.target-size": "1 gb"})

    assert plan_of(table.scan().to_spark(spark)).count("MapInArrow (") == 1


@pytest.mark.long
def test_a_scan_of_partition_columns_alone_and_one_with_a_limit_are_the_same_on_spark(spark, catalog):
    table = daily(catalog, merged=DAYS[:2])

    by_spark, here = both(table.scan(columns=["dt"]), spark)

    assert by_spark == here == sorted([(day,) for day in DAYS for _ in range(2)], key=repr)
    assert table.scan(limit=3).to_spark(spark).count() == 3


@pytest.mark.long
def test_the_small_one_of_two_frames_is_broadcast_on_either_side(spark, catalog):
    large = catalog.create_table("db.large", {"id": "BIGINT", "v": "BIGINT"}, options={"bucket": "-1"})
    large.write(pa.table({"id": range(1_000_000), "v": range(1_000_000)}))
    small = daily(catalog, merged=DAYS)
    facts, days = large.scan().to_spark(spark), small.scan(columns=["id", "dt"]).to_spark(spark)

    plans = [plan_of(joined) for joined in (facts.join(days, "id"), days.join(facts, "id"))]

    assert ["BroadcastHashJoin Inner BuildRight" in plans[0], "BroadcastHashJoin Inner BuildLeft" in plans[1]] == [
        True
    ] * 2
    assert facts.join(days, "id").count() == 6


def test_a_frame_without_rows_is_known_to_be_small(spark, catalog):
    table = daily(catalog)
    nothing = table.scan(where="dt = DATE '2020-01-01'").to_spark(spark)

    assert nothing.columns == ["dt", "id", "v"]
    assert nothing.collect() == []
    assert nothing._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() <= 1
