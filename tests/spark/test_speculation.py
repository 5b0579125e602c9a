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
table = catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": "3"})
whole = write._write


def slow(task, batches):
    from pyspark import TaskContext

    texts = whole(task, batches)
    # All that is left is to answer. The second attempt starts, writes the same rows, and answers first.
    if TaskContext.get().partitionId() == 0 and TaskContext.get().attemptNumber() == 0:
        time.sleep(120)
    return texts


write._write = slow
report = table.write(spark.range(3000).selectExpr("id", "cast(id as int) as v"))
print(report.rows_added, len(table.files()), table.scan().count(), len(table.verify().findings))
"""


def test_two_attempts_that_both_wrote_their_files_double_nothing(tmp_path):
    with cluster(tmp_path, workers=2, cores=2, memory="600m") as master:
        done = subprocess.run(
            [sys.executable, "-c", JOB, str(tmp_path / "warehouse"), master],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_SECONDS,
        )

    written = sorted(file.parent.name for file in (tmp_path / "warehouse").rglob("*.parquet"))
    assert done.stdout.split() == ["3000", "3", "3000", "0"], done.stdout + done.stderr
    # Of three buckets; on a busy machine more than one task is tried twice.
    assert len(written) > 3
    assert set(written) == {"bucket-0", "bucket-1", "bucket-2"}
