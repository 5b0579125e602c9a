"""Two attempts of one task at the same time, which Spark makes only of tasks on different hosts: a cluster of two."""

import subprocess
import sys

import pytest

from tests.limits import HANGS_AFTER_SECONDS
from tests.spark.standalone import cluster

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


@pytest.mark.parametrize(
    ("verb", "done", "files", "buckets"),
    [("write", "3000", 3, {0, 1, 2}), ("compact", "3", 9, {0, 1, 2}), ("format", "1", 3, {0})],
)
def test_two_attempts_that_both_wrote_their_files_double_nothing(tmp_path, verb, done, files, buckets):
    with cluster(tmp_path, workers=2, cores=2, memory="600m") as master:
        ended = subprocess.run(
            [sys.executable, "-c", JOB, str(tmp_path / "warehouse"), master, verb],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_SECONDS,
        )

    written = sorted(file.parent.name for file in (tmp_path / "warehouse").rglob("*.parquet"))
    assert ended.stdout.split() == [done, "3", "3000", "0"], ended.stdout + ended.stderr
    # Those of three buckets or tasks, and of the second attempt; on a busy machine more than one task is tried twice.
    assert len(written) > files
    assert set(written) == {f"bucket-{each}" for each in buckets}
