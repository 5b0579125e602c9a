"""Reads through Spark: which files Spark reads itself, which go through tasks, and that nobody can tell by the rows."""

import contextlib
import datetime
import io
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import functions as sf

import lakehouse_core as lc
from tests.golden.sets import unpack
from tests.pairs import each_with_one

pytestmark = pytest.mark.spark


@pytest.fixture
def catalog(tmp_path):
    """Written in this process: only reading is at stake here."""
    found = lc.connect(str(tmp_path / "a warehouse, 100%"))
    found.create_database("db")
    return found


def plan_of(frame):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain("formatted")
    return text.getvalue()


def both(scan, spark):
    """The rows as Spark and as this process give them, each sorted."""
    by_spark = [tuple(row) for row in scan.to_spark(spark).collect()]
    here = [tuple(row.values()) for row in scan.to_arrow().to_pylist()]
    return sorted(by_spark, key=repr), sorted(here, key=repr)


def half_merged(catalog):
    """A key table of three partitions: a full bucket in the first two, overlapping files and a delete in the third."""
    table = catalog.create_table(
        "db.t",
        {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "v": "INT", "s": "STRING"},
        partition_keys=["dt"],
        primary_keys=["dt", "id"],
        options={"bucket": "1"},
    )
    days = [datetime.date(2013, 1, day) for day in (1, 2, 3)]
    table.write([{"dt": day, "id": id_, "v": id_, "s": f"é{id_}"} for day in days for id_ in range(20)])
    changed = [{"dt": days[2], "id": id_, "v": id_ + 100, "s": None, "op": "+I"} for id_ in range(10, 25)]
    table.write([*changed, {"dt": days[2], "id": 0, "v": 0, "s": None, "op": "-D"}], rowkind_column="op")
    return table


def test_files_with_rows_marked_as_deleted_are_not_left_to_sparks_own_reader(spark, tmp_path_factory):
    table = lc.connect(str(unpack("java-2.0.0", tmp_path_factory.mktemp("golden")))).table("db.append_dv")
    marked = table.scan(at=lc.AtSnapshot(5))

    assert any(split.deletions for split in marked.plan().splits)
    by_spark, here = both(marked, spark)
    assert by_spark == here
    assert marked.to_spark(spark).where("k < 10").count() == len([row for row in here if row[0] < 10])


def test_files_that_need_no_merge_are_read_by_spark_itself_with_filters_pushed_down(spark, catalog):
    table = half_merged(catalog)

    frame = table.scan(columns=["id", "s"], where="v > 12").to_spark(spark)
    plan = plan_of(frame.where("id < 1000"))

    assert "Union" in plan
    assert "MapInArrow" in plan
    assert "GreaterThan(v,12)" in plan
    assert "LessThan(id,1000)" in plan
    assert "ReadSchema: struct<id:bigint,s:string,v:int,_VALUE_KIND:tinyint>" in plan
    assert "Exchange" not in plan
    assert [tuple(row) for row in frame.orderBy("id", "s").limit(1).collect()] == [(10, None)]


WHERES = [None, "v > 12", "dt = DATE '2013-01-03' AND v < 5", "s IS NULL OR id = 3", "v = -1"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("where", "columns"), each_with_one(WHERES, [None, ["v", "dt"]]))
def test_a_scan_has_the_same_rows_on_spark_as_here(spark, catalog, where, columns):
    scan = half_merged(catalog).scan(columns=columns, where=where)

    by_spark, here = both(scan, spark)

    assert by_spark == here
    assert scan.to_spark(spark).columns == (columns or ["dt", "id", "v", "s"])


def test_a_frame_stays_with_its_snapshot(spark, catalog):
    table = half_merged(catalog)
    frame = table.scan().to_spark(spark)
    before = frame.count()

    table.write([{"dt": datetime.date(2013, 1, 1), "id": 999, "v": 1}])

    assert frame.count() == before
    assert table.scan().to_spark(spark).count() == before + 1


def test_an_empty_table_is_an_empty_frame_of_its_columns(spark, catalog):
    table = catalog.create_table("db.empty", {"id": "BIGINT", "d": "DECIMAL(5, 2)"}, options={"bucket": "-1"})

    frame = table.scan().to_spark(spark)

    assert frame.collect() == []
    assert frame.schema.simpleString() == "struct<id:bigint,d:decimal(5,2)>"


def test_files_of_an_older_schema_are_read_by_field_id(spark, catalog):
    table = catalog.create_table("db.t", {"id": "BIGINT", "a": "INT", "b": "STRING"}, options={"bucket": "-1"})
    table.write([{"id": 1, "a": 10, "b": "old"}])
    table.alter(lc.AddColumn("c", "DOUBLE"))
    table.write([{"id": 2, "a": 20, "b": "mid", "c": 0.5}])
    # A file without the column is still Spark's own to read: null is right.
    assert "MapInArrow" not in plan_of(table.scan().to_spark(spark))

    # Now the name `b` means another column, and `a` has another type.
    table.alter(lc.DropColumn("b"))
    table.alter(lc.RenameColumn("c", "b"))
    table.alter(lc.UpdateColumnType("a", "BIGINT"))
    table.write([{"id": 3, "a": 2**40, "b": 1.5}])
    by_spark, here = both(table.scan(), spark)

    assert by_spark == here == [(1, 10, None), (2, 20, 0.5), (3, 2**40, 1.5)]


def test_a_large_merged_table_is_never_broadcast_by_mistake(spark, catalog):
    table = catalog.create_table(
        "db.t", {"id": "BIGINT NOT NULL", "v": "BIGINT"}, primary_keys=["id"], options={"bucket": "1"}
    )
    for _ in range(2):
        table.write([{"id": id_, "v": 1} for id_ in range(40_000)])
    frame = table.scan().to_spark(spark)

    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "512kb")
    try:
        plan = plan_of(frame.join(spark.range(10_000_000), "id"))
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)

    assert "MapInArrow" in plan
    assert "BroadcastHashJoin" not in plan


def test_the_small_one_of_two_merged_tables_is_broadcast_on_either_side(spark, catalog):
    def merged(name, count):
        columns = {"id": "BIGINT NOT NULL", "v": "BIGINT"}
        table = catalog.create_table(name, columns, primary_keys=["id"], options={"bucket": "1"})
        for _ in range(2):
            table.write(pa.table({"id": range(count), "v": range(count)}))
        return table.scan().to_spark(spark)

    large, small = merged("db.large", 40_000), merged("db.small", 20)
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "64kb")
    try:
        plans = plan_of(large.join(small, "id")), plan_of(small.join(large, "id"))
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)

    assert [re.findall(r"BroadcastHashJoin Inner (\w+)", plan) for plan in plans] == [["BuildRight"], ["BuildLeft"]]
    assert large.join(small, "id").count() == 20


@pytest.mark.damage
def test_a_changed_bit_of_a_page_fails_the_read_that_spark_does_itself(spark, catalog, tmp_path):
    table = catalog.create_table("db.t", {"id": "BIGINT", "s": "STRING"}, options={"bucket": "-1"})
    table.write([{"id": number, "s": f"text {number}"} for number in range(1000)])
    file = next(tmp_path.rglob("data-*.parquet"))
    with pq.ParquetFile(file) as parquet:
        column = parquet.metadata.row_group(0).column(1)
    data = bytearray(file.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    file.write_bytes(data)

    frame = table.scan().to_spark(spark)

    assert "MapInArrow" not in plan_of(frame)
    with pytest.raises(Py4JJavaError, match=r"FAILED_READ_FILE(.|\n)*CRC checksum verification failed"):
        frame.collect()


@pytest.mark.damage
def test_a_file_that_is_gone_or_damaged_is_told_before_spark_starts(spark, catalog, tmp_path):
    table = catalog.create_table("db.t", {"id": "BIGINT", "s": "STRING"}, options={"bucket": "-1"})
    table.write([{"id": 1, "s": "x"}])
    file = next(tmp_path.rglob("data-*.parquet"))
    whole = file.read_bytes()

    # A bit of the footer: a column would have another name, and Spark would read nulls.
    file.write_bytes(whole.replace(b"\x01s", b"\x01t"))
    with pytest.raises(lc.CorruptTable, match=file.name):
        table.scan().to_spark(spark)
    file.unlink()
    with pytest.raises(lc.CorruptTable, match=file.name):
        table.scan().to_spark(spark)


def test_a_frame_whose_snapshot_expired_says_so(spark, catalog):
    options = {"bucket": "1", "lakehouse.read.grace": "0 s"}
    table = catalog.create_table("db.t", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options=options)
    for _ in range(2):
        table.write([{"id": 1}])
    frame = table.scan().to_spark(spark)
    table.compact(full=True)

    table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.timedelta(0))

    with pytest.raises(PythonException, match=r"SnapshotExpired: Snapshot 2 is expired\. The earliest available is 3"):
        frame.collect()


def test_a_frame_is_read_whole_while_its_snapshot_expires_within_the_grace(spark, catalog):
    table = catalog.create_table(
        "db.t", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1", "lakehouse.read.grace": "1 h"}
    )
    for id_ in range(2):
        table.write([{"id": id_}])
    frame = table.scan().to_spark(spark)
    table.compact(full=True)

    report = table.expire_snapshots(retain_max=1, retain_min=1, older_than=datetime.timedelta(0))

    assert report.snapshots_expired == 2
    assert sorted(row.id for row in frame.collect()) == [0, 1]


VALUES = {
    "b": ("BOOLEAN", [True, False, None]),
    "n": ("INT", [-1, 0, 1, 7, None]),
    "x": ("DOUBLE", [-1.5, 0.0, -0.0, float("nan"), float("inf"), None]),
    "d": ("DATE", [datetime.date(1, 1, 1), datetime.date(2013, 1, 1), None]),
    "t": ("TIMESTAMP(6)", [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2013, 1, 1), None]),
    "z": ("TIMESTAMP_LTZ(3)", [datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC), None]),
    "s": ("STRING", ["", "a", "ab", "b'c", "é", None]),
    "r": ("BYTES", [b"", b"\x00", b"ab", None]),
    "p": ("DECIMAL(9, 2)", ["0.00", "1.50", "-3.25", None]),
}


def a_condition(chance, depth=2):
    if depth and chance.random() < 0.6:
        parts = [a_condition(chance, depth - 1) for _ in range(2)]
        return chance.choice([lambda: parts[0] & parts[1], lambda: parts[0] | parts[1], lambda: ~parts[0]])()
    name = chance.choice(list(VALUES))
    values = [value for value in VALUES[name][1] if value is not None]
    value, column = chance.choice(values), lc.col(name)
    tests = [
        lambda: column == value,
        lambda: column != value,
        lambda: column < value,
        lambda: column >= value,
        lambda: column > value,
        lambda: column.isin(values[:2]),
        lambda: column.isin([]),
        column.is_null,
        lambda: column.startswith(value) if name == "s" else column <= value,
    ]
    return chance.choice(tests)()


def test_every_condition_means_the_same_to_spark_as_here(spark, catalog):
    chance = random.Random(7)
    columns = {name: sql for name, (sql, _) in VALUES.items()}
    table = catalog.create_table("db.t", {"id": "INT", **columns}, options={"bucket": "-1"})
    rows = [{name: chance.choice(values) for name, (_, values) in VALUES.items()} for _ in range(60)]
    table.write([{"id": index, **row} for index, row in enumerate(rows)])
    conditions = [a_condition(chance) for _ in range(40)]

    frames = [
        table.scan(columns=["id"], where=one).to_spark(spark).select(sf.lit(index).alias("condition"), "id")
        for index, one in enumerate(conditions)
    ]
    merged = frames[0]
    for frame in frames[1:]:
        merged = merged.union(frame)
    kept = {index: set() for index in range(len(conditions))}
    for index, id_ in merged.collect():
        kept[index].add(id_)

    expected = {
        index: set(table.scan(columns=["id"], where=one).to_arrow()["id"].to_pylist())
        for index, one in enumerate(conditions)
    }
    assert "MapInArrow" not in plan_of(frames[0])
    assert [conditions[index] for index in kept if kept[index] != expected[index]] == []


def test_a_condition_keeps_what_sparks_own_filter_keeps(spark, catalog):
    table = catalog.create_table("db.t", {"id": "INT", "x": "DOUBLE"}, options={"bucket": "-1"})
    numbers = [-1.5, 0.0, -0.0, 2.0, float("inf"), float("nan"), None]
    table.write([{"id": index, "x": number} for index, number in enumerate(numbers)])
    operators = ["=", "<>", "<", "<=", ">", ">="]
    wheres = [f"x {operator} {value}" for operator in operators for value in ("0.0", "2.0", "'Infinity'", "'NaN'")]
    wheres += [f"NOT ({where})" for where in wheres]
    wheres += ["x IN ('NaN', 2.0)", "x BETWEEN 1.0 AND 'NaN'", "x BETWEEN 1.0 AND 3.0", "x IS NULL"]
    in_spark = [
        sf.expr(one.replace("'NaN'", "double('NaN')").replace("'Infinity'", "double('Infinity')")) for one in wheres
    ]

    frame = table.scan().to_spark(spark)
    rows = frame.select("id", *(one.alias(str(number)) for number, one in enumerate(in_spark))).collect()

    by_spark = [sorted(row.id for row in rows if row[str(number)]) for number in range(len(wheres))]
    here = [sorted(table.scan(where=one).to_arrow()["id"].to_pylist()) for one in wheres]
    assert dict(zip(wheres, here, strict=True)) == dict(zip(wheres, by_spark, strict=True))


def test_incremental_reads_and_diffs_are_the_same_on_spark(spark, catalog):
    table = half_merged(catalog)

    for mode in ("delta", "diff"):
        options = {"incremental-between": "1,2", "incremental-between-scan-mode": mode}
        by_spark, here = both(table.scan(options=options, where="id > 11"), spark)
        assert by_spark == here
        assert here


def test_a_limit_holds_on_spark(spark, catalog):
    assert half_merged(catalog).scan(limit=7).to_spark(spark).count() == 7


def test_a_read_optimized_scan_is_the_same_on_spark(spark, catalog):
    table = half_merged(catalog)
    table.compact(full=True, partition={"dt": datetime.date(2013, 1, 1)})

    by_spark, here = both(table.scan(read_optimized=True), spark)

    assert by_spark == here
    assert len(here) == 20


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["snapshots", "files", "partitions", "tags", "audit_log", "binlog", "ro"])
def test_a_system_table_is_the_same_on_spark(spark, catalog, name):
    table = half_merged(catalog)
    table.create_tag("eod", retention=datetime.timedelta(days=1))
    found = table.system(name)

    by_spark, here = both(found, spark)

    assert by_spark == here
    assert found.to_spark(spark).columns == found.schema().names


def changing(catalog, **options):
    """Inserts, updates and deletes in two buckets, over five commits with their compactions."""
    table = catalog.create_table(
        "db.t",
        {"id": "BIGINT NOT NULL", "v": "INT", "s": "STRING"},
        primary_keys=["id"],
        options={"bucket": "2", **options},
    )
    for number in range(5):
        ops = {0: "-D", 1: "+I"} if number else {}
        rows = [
            {"id": k, "v": k + number, "s": f"s{k}", "op": ops.get(k % 4, "+I")} for k in range(number, number + 30)
        ]
        table.write(rows, rowkind_column="op")
    return table


@pytest.mark.one_in(2)
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_changes_are_the_same_on_spark_and_in_the_same_order(spark, catalog, producer):
    found = changing(catalog, **{"changelog-producer": producer}).changes(after=1)

    frame = found.to_spark(spark)
    by_spark = [tuple(row) for row in frame.collect()]

    assert by_spark == [tuple(row.values()) for row in found.to_arrow().to_pylist()]
    assert frame.columns == found.schema().names
    assert {row[0] for row in by_spark} >= {"+I", "-D"}


def test_a_diff_is_the_same_on_spark(spark, catalog):
    table = changing(catalog)
    table.create_tag("sod", at=1)
    table.create_tag("eod")

    for found in (table.diff(1, table.snapshot().id), table.diff("sod", "eod")):
        by_spark, here = both(found, spark)

        assert by_spark == here
        assert {row[0] for row in here} == {"+I", "-D"}


def test_no_changes_are_an_empty_frame(spark, catalog):
    table = changing(catalog)
    latest = table.snapshot().id

    for found in (table.changes(after=latest), table.diff(latest, latest)):
        frame = found.to_spark(spark)

        assert frame.columns == ["rowkind", "id", "v", "s"]
        assert frame.count() == 0


def test_changes_of_a_snapshot_that_expires_before_spark_reads_them_are_told_as_gone(spark, catalog):
    table = changing(catalog, **{"lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"})
    frame = table.changes(after=0, until=3).to_spark(spark)
    table.expire_snapshots(retain_max=1, older_than=datetime.timedelta(0))

    with pytest.raises(PythonException, match=r"Snapshot [123] expired while its changes were read"):
        frame.collect()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("producer", "name"), each_with_one(["none", "input", "lookup"], ["audit_log", "binlog"]))
def test_increments_of_system_tables_are_the_same_on_spark(spark, catalog, name, producer):
    table = changing(catalog, **{"changelog-producer": producer})
    found = table.system(name, options={"incremental-between": f"1,{table.snapshot().id}"})

    by_spark, here = both(found, spark)

    assert by_spark == here
    assert found.to_spark(spark).columns == found.schema().names
    is_packed = any(isinstance(row[1], list) and len(row[1]) == 2 for row in here)
    assert is_packed is (name == "binlog" and producer == "lookup")
