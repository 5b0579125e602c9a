"""Two attempts of one task at the same time, which Spark makes only of tasks on different hosts: a cluster of two."""

import subprocess
import sys

import pytest

import lakehouse_core as lc
from tests.limits import HANGS_AFTER_SECONDS
from tests.spark.left_behind import removed_orphans
from tests.spark.standalone import cluster
from tests.storage.s3_stub import S3Stub

pytestmark = [
    pytest.mark.spark,
    pytest.mark.own_session,
    pytest.mark.slow,
    pytest.mark.cluster,
]

JOB = """
import os
import sys
import time
import lakehouse_core as lc
from lakehouse_core.execution.engines.spark import run
from lakehouse_core.execution.engines.spark.write import frame as write
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
settings = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
}
spark = SparkSession.builder.master(sys.argv[2]).config(map=settings).getOrCreate()
catalog = lc.connect(sys.argv[1], spark=spark)
catalog.create_database("db")
columns = {"id": "BIGINT NOT NULL", "v": "INT"}
options = {"bucket": "3", "write-only": "true"}
table = catalog.create_table("db.t", columns, primary_keys=["id"], options=options)


def slow(whole):
    # All that is left of the first attempt of a task is to answer. The second starts, does the same, and answers.

    def done(*arguments):
        from pyspark import TaskContext

        texts = whole(*arguments)
        if TaskContext.get().partitionId() == 0 and TaskContext.get().attemptNumber() == 0:
            time.sleep(120)
        return texts

    return done


def slow_source():
    from lakehouse_core.execution.engines.spark.shipped import data_source

    class Slow(data_source("lakehouse", "lakehouse_core.catalog.spark_format", 4)):
        def writer(self, schema, overwrite):
            found = super().writer(schema, overwrite)
            found.write = slow(found.write)
            return found

    return Slow


rows = spark.range(3000).selectExpr("id", "cast(id as int) as v")
if sys.argv[3] == "format":
    spark.dataSource.register(slow_source())
    table = catalog.create_table("db.f", columns, options={"write-only": "true"})
    rows.repartition(3).write.format("lakehouse").mode("append").options(warehouse=sys.argv[1]).save("db.f")
    done = len(table.snapshots())
elif sys.argv[3] == "write":
    write.written_messages = slow(write.written_messages)
    done = table.write(rows).rows_added
else:
    for _ in range(2):
        table.write(rows)
    run._one_result = slow(run._one_result)
    done = table.compact(full=True).buckets_rewritten
print(done, len(table.files()), table.scan().count(), len(table.verify().findings))
"""


@pytest.fixture(params=["disk", "bucket"])
def warehouse(request, tmp_path, monkeypatch):
    if request.param == "disk":
        yield str(tmp_path / "warehouse")
        return
    with S3Stub() as stub:
        for name, value in stub.environ.items():
            monkeypatch.setenv(name, value)
        yield "s3://lake/warehouse"


@pytest.mark.parametrize(("verb", "done", "files"), [("write", "3000", 3), ("compact", "3", 9), ("format", "1", 3)])
def test_two_attempts_that_both_wrote_their_files_double_nothing(tmp_path, warehouse, verb, done, files):
    with cluster(tmp_path, workers=2, cores=2, memory="600m") as master:
        ended = subprocess.run(
            [sys.executable, "-c", JOB, warehouse, master, verb],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_SECONDS,
        )

    assert ended.stdout.split() == [done, "3", "3000", "0"], ended.stdout + ended.stderr
    table = lc.connect(warehouse).table("db.f" if verb == "format" else "db.t")
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == list(range(3000))
    # Those of the second attempt; on a busy machine more than one task is tried twice.
    orphans, needed = removed_orphans(table)
    assert orphans
    assert len(needed) == files
    buckets = {0} if verb == "format" else {0, 1, 2}
    assert {key.split("/")[0] for key in needed} == {f"bucket-{each}" for each in buckets}
