"""Two attempts of one task at the same time, which Spark makes only of tasks on different hosts: a cluster of two."""

import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from lakehouse_dagster.resources.java_home import ensure_java

pytestmark = [pytest.mark.spark, pytest.mark.own_session, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

HOME = Path(pyspark.__file__).parent

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


@contextmanager
def daemon(name, *arguments):
    """Run a process of a Spark cluster, and wait until it says where it is found."""
    process = subprocess.Popen(
        [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
        env={**os.environ, "SPARK_HOME": str(HOME), "SPARK_DAEMON_MEMORY": "256m"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = []
    # A full pipe would stop the process.
    rest = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        for line in process.stderr:
            told.append(line)
            if found := re.search(r"Starting Spark master at (spark://\S+)|Successfully registered with master", line):
                rest.start()
                yield found[1]
                return
        raise AssertionError(f"{name} ended: {''.join(told)}")
    finally:
        process.terminate()
        process.wait()
        if rest.ident is not None:
            rest.join()
        process.stderr.close()


def test_two_attempts_that_both_wrote_their_files_double_nothing(tmp_path):
    ensure_java()
    settings = ("--webui-port", "0")
    worker = ("--cores", "2", "--memory", "600m", "--work-dir", str(tmp_path / "work"), *settings)
    with (
        daemon("master.Master", "--host", "127.0.0.1", "--port", "0", *settings) as master,
        daemon("worker.Worker", "--host", "127.0.0.1", *worker, master),
        daemon("worker.Worker", "--host", "127.0.0.2", *worker, master),
    ):
        done = subprocess.run(
            [sys.executable, "-c", JOB, str(tmp_path / "warehouse"), master],
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )

    written = sorted(file.parent.name for file in (tmp_path / "warehouse").rglob("*.parquet"))
    assert done.stdout.split() == ["3000", "3", "3000", "0"], done.stdout + done.stderr
    # Of three buckets; on a busy machine more than one task is tried twice.
    assert len(written) > 3
    assert set(written) == {"bucket-0", "bucket-1", "bucket-2"}
