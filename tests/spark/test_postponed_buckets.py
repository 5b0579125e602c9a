"""Postponed buckets on Spark: rows wait without a shuffle, and either engine moves them by the same tasks."""

from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc

pytestmark = pytest.mark.spark


def table_of(folder: Path, spark: Any, **options: str) -> lc.Table:
    catalog = lc.connect(str(folder), spark=spark)
    catalog.create_database("db", exist_ok=True)
    return catalog.create_table(
        "db.t",
        {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "BIGINT"},
        primary_keys=["p", "k"],
        partition_keys=["p"],
        options={"bucket": "-2", "postpone.default-bucket-num": "3", **options},
    )


@pytest.mark.long
def test_lookups_counts_and_changes_tell_of_moved_rows_as_in_process(spark: Any, tmp_path: Path) -> None:
    table = table_of(tmp_path, spark, **{"changelog-producer": "lookup"})
    local = lc.connect(str(tmp_path)).table("db.t")
    frame = spark.range(20).selectExpr("cast(id % 2 as int) as p", "cast(id as int) as k", "id as v")
    table.write(frame)
    table.compact()
    table.write(frame.where("k < 4").selectExpr("p", "k", "v + 100 as v"))
    keys = [{"p": 0, "k": 2}, {"p": 1, "k": 9}, {"p": 0, "k": 1}]

    def told(each: lc.Table) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in each.changes(0).to_arrow().to_pylist())

    for wanted, changes in (([2, 9], 20), ([9, 102], 28)):
        for each in (table, local):
            assert sorted(row["v"] for row in each.lookup(keys).to_pylist()) == wanted
            assert each.scan().count() == 20
            assert len(told(each)) == changes
        assert told(table) == told(local)
        assert table.scan().to_spark(spark).count() == 20
        table.compact()
    assert table.scan().to_spark(spark).where("v >= 100").count() == 4


@pytest.mark.parametrize("compacts_on_spark", [True, pytest.param(False, marks=pytest.mark.long)])
def test_rows_of_both_engines_wait_and_are_moved_by_either(spark: Any, tmp_path: Path, compacts_on_spark: bool) -> None:
    table = table_of(tmp_path, spark, **{"changelog-producer": "input"})
    local = lc.connect(str(tmp_path)).table("db.t")
    frame = spark.range(90).selectExpr("cast(id % 2 as int) as p", "cast(id as int) as k", "id as v").repartition(3)

    table.write(frame)
    writers = {file.file_name.split("-s-")[1].split("-w-")[0] for file in table.files()}
    local.write([{"p": 0, "k": 0, "v": 100}, {"p": 0, "k": 2, "v": 100}])
    assert table.scan().to_spark(spark).count() == 0
    (table if compacts_on_spark else local).compact(full=True)

    assert writers == {"0", "1", "2"}
    found = {(row["p"], row["k"]): row["v"] for row in table.scan().to_spark(spark).collect()}
    expected = {(key % 2, key): key for key in range(90)} | {(0, 0): 100, (0, 2): 100}
    assert found == expected
    assert len(table.changes(2).to_arrow()) == 92
    assert table.verify(data=True).findings == ()


def test_waiting_rows_are_merged_on_spark_as_in_process(spark: Any, tmp_path: Path) -> None:
    catalog = lc.connect(str(tmp_path), spark=spark)
    table = table_of(tmp_path, spark, **{"postpone.merge-on-read": "true"})
    local = lc.connect(str(tmp_path)).table("db.t")
    frame = spark.range(60).selectExpr("cast(id % 3 as int) as p", "cast(id as int) as k", "id as v")
    table.write(frame.where("p < 2"))
    table.compact(full=True)
    table.write(frame.where("p > 0 and k < 30").selectExpr("p", "k", "v + 100 as v"))

    def held(found: Any) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in found.collect())

    expected = sorted(tuple(row.values()) for row in local.scan().to_arrow().to_pylist())
    assert len(expected) == 50
    assert sum(v >= 100 for _, _, v in expected) == 20
    assert held(table.scan().to_spark(spark)) == expected
    assert held(table.scan(where=lc.col("v") >= 100).to_spark(spark)) == [row for row in expected if row[2] >= 100]
    assert held(table.scan().to_spark(spark).where("p = 2")) == [row for row in expected if row[0] == 2]
    assert catalog.sql("SELECT count(*) AS n FROM db.t WHERE k >= 0").to_arrow().to_pylist() == [{"n": 50}]
    assert table.scan().count() == 50
    assert len(table.system("binlog").to_spark(spark).collect()) == 50


@pytest.mark.parametrize("sees_waiting", [True, pytest.param(False, marks=pytest.mark.long)])
def test_row_changes_leave_the_same_rows_as_in_process(spark: Any, tmp_path: Path, sees_waiting: bool) -> None:
    options = {"postpone.merge-on-read": "true"} if sees_waiting else {}
    catalog = lc.connect(str(tmp_path), spark=spark)
    table = table_of(tmp_path, spark, **options)
    table.write(spark.range(60).selectExpr("cast(id % 3 as int) as p", "cast(id as int) as k", "id as v"))
    table.compact()
    if sees_waiting:
        table.write([{"p": 0, "k": 3, "v": 1003}, {"p": 0, "k": 60, "v": 1060}])
    source = spark.range(50, 70).selectExpr("cast(id % 3 as int) as p", "cast(id as int) as k", "id + 2000 as v")

    assert table.delete("v < 10").rows_deleted == (9 if sees_waiting else 10)
    assert table.update({"v": "v + 1"}, "p = 0 AND k >= 45").rows_updated == (6 if sees_waiting else 5)
    # ON with an expression is for Spark to join; with equal columns this process joins.
    for on in ("t.p = s.p AND t.k = s.k", "t.p = s.p AND t.k = s.k + 0"):
        table.merge(source, on, lc.WhenMatched(update={"v": "s.v"}), lc.WhenNotMatched(insert="*"))
        merged = {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
        assert [merged[key] for key in range(50, 70)] == [key + 2000 for key in range(50, 70)]
    catalog.sql("DELETE FROM db.t WHERE k % 2 = 1 AND k < 50")

    found = sorted(tuple(row) for row in table.scan().to_spark(spark).collect())
    local = lc.connect(str(tmp_path)).table("db.t")
    assert found == sorted(tuple(row.values()) for row in local.scan().to_arrow().to_pylist())
    waits = {file.partition["p"] for file in table.files() if file.bucket < 0}
    assert waits == ({"0"} if sees_waiting else set())
    table.compact(full=True)
    assert sorted(tuple(row) for row in table.scan().to_spark(spark).collect()) == found
    assert table.verify(data=True).findings == ()


def test_a_frame_is_brought_into_its_buckets_where_the_table_says_so(spark: Any, tmp_path: Path) -> None:
    table = table_of(tmp_path, spark, **{"postpone.batch-write-fixed-bucket": "true"})
    frame = spark.range(90).selectExpr("cast(id % 2 as int) as p", "cast(id as int) as k", "id as v").repartition(3)

    table.write(frame)
    table.write(frame.where("k < 10").selectExpr("p", "k", "v + 100 as v"))

    assert {file.bucket for file in table.files()} == {0, 1, 2}
    found = {row["k"]: row["v"] for row in table.scan().to_spark(spark).collect()}
    assert found == {key: key + 100 * (key < 10) for key in range(90)}
    assert table.verify(data=True).findings == ()
