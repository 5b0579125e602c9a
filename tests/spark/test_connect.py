"""Spark Connect: the verbs of tables need no handle of the JVM, so they work in a session without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakehouse_core as lc
from tests.limits import HANGS_AFTER_SECONDS

pytestmark = [pytest.mark.spark, pytest.mark.own_session, pytest.mark.slow, pytest.mark.long]

COLUMNS = {"k": "BIGINT NOT NULL", "v": "STRING NOT NULL"}
KINDS = {
    "key": {"primary_keys": ["k"], "options": {"bucket": "2"}},
    "lookup": {"primary_keys": ["k"], "options": {"bucket": "2", "changelog-producer": "lookup"}},
    "vectors": {"primary_keys": ["k"], "options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
    "parts": {"primary_keys": ["k", "v"], "partition_keys": ["v"], "options": {"bucket": "1"}},
    "text": {"primary_keys": ["v"], "options": {"bucket": "2"}},
    "append": {"options": {"bucket": "-1"}},
}

SCRIPT = """
import json
import sys
import tempfile
from pathlib import Path

import lakehouse_core as lc
from lakehouse_dagster import SparkRuntime

folder, kinds, columns = sys.argv[1], *map(json.loads, sys.argv[2:])
runtime = SparkRuntime(remote="local[2]", conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
spark = runtime.spark_session
assert runtime.spark_session is spark and not hasattr(spark, "_jvm")
catalog = lc.connect(folder, spark=spark)
catalog.create_database("db")
for name, kind in kinds.items():
    table = catalog.create_table(f"db.{name}", columns, **kind)
    table.write(spark.range(100).selectExpr("id k", "concat('a', id % 3) v"))
    table.write(spark.range(50).selectExpr("id k", "concat('b', id % 3) v"))
    merged = table.scan(where="k > 3 AND v <> 'a0'").to_spark(spark).count()
    table.compact(full=True)
    whole = table.scan(where="k > 3 AND v <> 'a0'").to_spark(spark).count()
    print(json.dumps([name, merged, whole, table.changes(after=0).to_spark(spark).count()]))

def commit(batch, number):
    # Runs beside the server: the table is opened there.
    table = lc.connect(folder, spark=batch.sparkSession).table("db.streamed")
    table.commit(table.stage(batch, commit_user="query", commit_identifier=number))

streamed = catalog.create_table("db.streamed", columns, primary_keys=["k"], options={"bucket": "1"})
incoming = tempfile.mkdtemp()
Path(incoming, "1.json").write_text(json.dumps({"k": 1, "v": "new"}))
reader = spark.readStream.schema("k long, v string").json(incoming)
writer = reader.writeStream.foreachBatch(commit).trigger(availableNow=True)
writer.start(checkpointLocation=tempfile.mkdtemp()).awaitTermination()
print(json.dumps(streamed.scan().to_arrow().to_pylist()))

lc.register(spark)
catalog.create_table("db.formatted", columns)
five = spark.range(5).selectExpr("id k", "'x' v").write.format("lakehouse").mode("append")
five.options(warehouse=folder).save("db.formatted")
print(spark.read.format("lakehouse").options(warehouse=folder, where="k > 1").load("db.formatted").count())

def refused(data):
    try:
        streamed.write(data)
    except lc.LakehouseError as error:
        print(f"{type(error).__name__}: {error}")

refused(spark.range(3).selectExpr("id k", "cast(null as string) v"))
refused(reader)
frame = spark.range(3).selectExpr("id k", "'x' v")
runtime.stop()
refused(frame)
"""


def test_verbs_work_over_connect_as_in_one_process(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "there"), json.dumps(KINDS), json.dumps(COLUMNS)],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    *told, streamed, formatted, null, stream, stopped = ended.stdout.splitlines()

    here = lc.connect(tmp_path / "here")
    here.create_database("db")
    for line in told:
        name, merged, whole, changes = json.loads(line)
        table = here.create_table(f"db.{name}", COLUMNS, **KINDS[name])
        table.write([{"k": k, "v": f"a{k % 3}"} for k in range(100)])
        table.write([{"k": k, "v": f"b{k % 3}"} for k in range(50)])
        table.compact(full=True)
        found = table.scan(where="k > 3 AND v <> 'a0'").count()
        assert (merged, whole) == (found, found), name
        assert changes == table.changes(after=0).to_arrow().num_rows, name
    assert len(told) == len(KINDS)
    assert json.loads(streamed) == [{"k": 1, "v": "new"}]
    assert formatted == "3"
    assert null.startswith("InvalidRequest: db.streamed: Column 'v' is STRING NOT NULL and row 0 holds null")
    assert stream.startswith("InvalidRequest: db.streamed: The DataFrame is a stream, which has no end")
    assert stopped == (
        "InvalidRequest: db.streamed: Writing a DataFrame on Spark: the Spark session is stopped. Connect again with a "
        "running session, or with a function that makes one."
    )
