"""Java reads what tasks of Spark wrote by `format("lakehouse")`."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.interop.engines import Java, Ours

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS = {"dt": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING", "d": "DECIMAL(12, 2)"}


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_java_reads_and_compacts_what_tasks_appended_and_overwrote(
    spark: Any, ours: Ours, java: Java, tmp_path: Path, bucket: str
) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    options = {"bucket": bucket, "write-only": "true", **({} if bucket == "-1" else {"bucket-key": "id"})}
    catalog.create_table("db.t", COLUMNS, partition_keys=["dt"], options=options)
    lc.register(spark)

    def save(first: int, last: int, mode: str) -> None:
        ids = pa.array(range(first, last), pa.int64())
        columns = (
            "CAST(id % 3 AS INT) dt",
            "id",
            "IF(id % 5 = 0, NULL, concat('é', id)) v",
            "CAST(id AS DECIMAL(12, 2)) d",
        )
        frame = spark.createDataFrame(pa.table({"id": ids})).repartition(3).selectExpr(*columns)
        mode_options = {"partitionOverwriteMode": "dynamic"} if mode == "overwrite" else {}
        frame.write.format("lakehouse").mode(mode).options(warehouse=str(tmp_path), **mode_options).save("db.t")

    for batch in range(4):
        save(batch * 50, batch * 50 + 50, "append")
    assert java.rows() == ours.rows()
    save(300, 301, "overwrite")
    assert java.rows() == ours.rows()
    java.write([{"dt": 1, "id": 1000, "v": "Java", "d": "1.00"}])
    java.compact()

    assert java.rows() == ours.rows()
    assert len(ours.rows()) == 135
    assert (java.missing_files(), ours.verify()) == ([], [])
