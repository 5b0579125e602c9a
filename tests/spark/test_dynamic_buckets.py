"""Dynamic buckets on Spark: each key is in one bucket, whichever engine wrote it; several tasks share the new keys."""

from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc

pytestmark = pytest.mark.spark


def table_of(folder: Path, spark: Any, columns: dict[str, str], keys: list[str], **options: str) -> lc.Table:
    catalog = lc.connect(str(folder), spark=spark)
    catalog.create_database("db", exist_ok=True)
    partitions = ["p"] if "p" in keys else []
    named = {name.replace("__", "-"): value for name, value in options.items()}
    named = {"dynamic-bucket.target-row-num": "40", **named}
    return catalog.create_table("db.t", columns, primary_keys=keys, partition_keys=partitions, options=named)


def values(table: lc.Table, *keys: str) -> dict[Any, Any]:
    found = table.scan().to_arrow().to_pylist()
    of_key = {tuple(row[key] for key in keys): row["v"] for row in found}
    assert len(of_key) == len(found)
    return of_key


@pytest.mark.parametrize(
    ("key", "expression"),
    [
        pytest.param("BIGINT NOT NULL", "id", marks=pytest.mark.long),
        # Keys whose hash SQL does not compute.
        ("DECIMAL(25, 2) NOT NULL", "cast(id as decimal(25, 2))"),
        pytest.param("TIMESTAMP(6) NOT NULL", "cast(timestamp_seconds(id) as timestamp_ntz)", marks=pytest.mark.long),
    ],
)
def test_both_engines_write_one_table_in_turn(spark: Any, tmp_path: Path, key: str, expression: str) -> None:
    table = table_of(tmp_path, spark, {"k": key, "v": "BIGINT"}, ["k"])

    def rows(first: int, end: int, v: int) -> Any:
        return spark.range(first, end).selectExpr(f"{expression} as k", f"cast({v} as bigint) as v").repartition(3)

    table.write(rows(0, 100, 0))
    spread = {bucket.bucket for bucket in table.buckets()}
    table.write(rows(50, 150, 1).toArrow())
    table.write(rows(120, 260, 2))

    assert len(spread) > 1
    assert sorted(values(table, "k").values()) == [0] * 50 + [1] * 70 + [2] * 140
    assert table.verify(data=True).findings == ()


@pytest.mark.parametrize("assigners", ["3", pytest.param(None, marks=pytest.mark.long)])
def test_each_partition_has_its_own_buckets_on_spark_too(spark: Any, tmp_path: Path, assigners: str | None) -> None:
    options = {} if assigners is None else {"dynamic-bucket.initial-buckets": assigners}
    table = table_of(tmp_path, spark, {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "BIGINT"}, ["p", "k"], **options)
    frame = spark.range(200).selectExpr("cast(id % 2 as int) as p", "cast(id as int) as k", "id as v")

    table.write(frame)
    table.write(frame.selectExpr("p", "k", "v + 1 as v"))

    assert sorted(values(table, "p", "k").values()) == list(range(1, 201))
    assert table.verify(data=True).findings == ()


def test_an_overwrite_on_spark_gives_new_buckets(spark: Any, tmp_path: Path) -> None:
    table = table_of(tmp_path, spark, {"k": "BIGINT NOT NULL", "v": "BIGINT"}, ["k"])
    table.write(spark.range(300).selectExpr("id as k", "id as v"))

    table.overwrite(spark.range(10).selectExpr("id as k", "id + 1 as v"))
    table.write([{"k": 3, "v": 0}, {"k": 99, "v": 99}])

    assert values(table, "k") == {(key,): key + 1 for key in range(10)} | {(3,): 0, (99,): 99}
    assert table.verify(data=True).findings == ()


def test_two_writes_on_spark_at_once_unite_their_keys(spark: Any, tmp_path: Path) -> None:
    table = table_of(tmp_path, spark, {"k": "BIGINT NOT NULL", "v": "BIGINT"}, ["k"])
    first = table.stage(spark.range(20).selectExpr("id as k", "0L as v"), commit_user="first", commit_identifier=1)
    table.write(spark.range(20, 40).selectExpr("id as k", "1L as v"))

    table.commit(first)

    assert values(table, "k") == {(key,): key // 20 for key in range(40)}
    assert table.verify(data=True).findings == ()
