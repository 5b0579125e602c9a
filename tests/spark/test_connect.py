"""Spark Connect: the verbs of tables and SQL need no handle of the JVM, so they work in a session without one."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

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

# Each may name rows of the call: `f`.
ROWS = [{"id": 2, "v": "two"}, {"id": 8, "v": "eight"}]
STATEMENTS = [
    "CREATE DATABASE s",
    "CREATE TABLE s.t (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED) TBLPROPERTIES ('bucket' = '1')",
    "CREATE TABLE s.u (id BIGINT NOT NULL, v STRING)",
    "INSERT INTO s.t VALUES (1, 'a'), (2, 'b'), (3, '{c}')",
    "INSERT INTO s.u SELECT id, concat(v, '{}') AS v FROM s.t WHERE id > 1",
    "SELECT t.id, u.v, 'lakehouse_sql_0' AS same FROM s.t JOIN s.u ON t.id = u.id ORDER BY t.id",
    "SELECT f.v, one.v AS w FROM f JOIN s.t one ON one.id = f.id JOIN s.t other ON other.id = f.id",
    "INSERT INTO s.u SELECT id + 2 AS id, v FROM f",
    "UPDATE s.t SET v = 'changed' WHERE id = 1",
    "MERGE INTO s.t USING s.u ON t.id = u.id WHEN MATCHED AND u.v <> '{c}{}' THEN UPDATE SET v = u.v WHEN NOT MATCHED "
    "THEN INSERT *",
    "MERGE INTO s.u USING f ON u.id = f.id + 1 WHEN MATCHED THEN DELETE",
    "DELETE FROM s.t WHERE id = 10",
    "SELECT count(*) AS n FROM s.`t$snapshots`",
    "CREATE TABLE s.w AS SELECT v, count(*) AS id FROM s.u GROUP BY v",
    "SELECT id, v FROM s.t UNION ALL SELECT id, v FROM s.w ORDER BY v, id",
]
REFUSED = {"SELECT 1 / 0": "DIVIDE_BY_ZERO", "SELECT id, count(*) FROM s.t": "MISSING_GROUP_BY"}

SCRIPT = """
import json
import sys
import tempfile
from pathlib import Path

import lakehouse_core as lc
from lakehouse_dagster import SparkRuntime

folder, kinds, columns, statements, refused_queries, rows = sys.argv[1], *map(json.loads, sys.argv[2:])

def tell(topic, value):
    print(json.dumps([topic, value]))

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
    tell("verbs", [name, merged, whole, table.changes(after=0).to_spark(spark).count()])

spark.range(1).createOrReplaceTempView("lakehouse_sql_0")
given = spark.createDataFrame(rows, "id long, v string")
frames = {}
for text in statements:
    answer = catalog.sql(text, tables={"f": given})
    if text.startswith("SELECT"):
        frames[text] = answer.to_spark()
    found = [catalog.table(f"s.{name}").scan().to_arrow().to_pylist() for name in catalog.tables("s")]
    tables = [sorted(map(repr, rows)) for rows in found]
    tell("sql", [text, answer.to_arrow().to_pylist(), tables])
for text, frame in frames.items():
    tell("kept", [text, *([row.asDict() for row in frame.collect()] for _ in range(2))])
    tell("nested", [text, catalog.sql("SELECT * FROM f", tables={"f": frame}).to_arrow().num_rows])
for text in refused_queries:
    try:
        catalog.sql(text).to_arrow()
    except lc.InvalidRequest as error:
        tell("refused queries", [text, str(error)])
tell("views", [[one.name, spark.table(one.name).count()] for one in spark.catalog.listTables()])
tell("files", catalog.table("s.t").system("files").to_spark().count())

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
tell("streamed", streamed.scan().to_arrow().to_pylist())

lc.register(spark)
catalog.create_table("db.formatted", columns)
five = spark.range(5).selectExpr("id k", "'x' v").write.format("lakehouse").mode("append")
five.options(warehouse=folder).save("db.formatted")
tell("formatted", spark.read.format("lakehouse").options(warehouse=folder, where="k > 1").load("db.formatted").count())

def refused(data):
    try:
        streamed.write(data)
    except lc.LakehouseError as error:
        tell("refused", f"{type(error).__name__}: {error}")

refused(spark.range(3).selectExpr("id k", "cast(null as string) v"))
refused(reader)
frame = spark.range(3).selectExpr("id k", "'x' v")
runtime.stop()
refused(frame)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[str, list[Any]]:
    """What the script tells of each topic: one session does all."""
    arguments = (KINDS, COLUMNS, STATEMENTS, list(REFUSED), ROWS)
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path_factory.mktemp("there")), *map(json.dumps, arguments)],
        # SPARK_TESTING: the server takes a free port, not the same one in each run of the tests on a machine.
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = defaultdict(list)
    for line in ended.stdout.splitlines():
        topic, value = json.loads(line)
        found[topic].append(value)
    return found


def test_verbs_work_over_connect_as_in_one_process(told, tmp_path: Path) -> None:
    here = lc.connect(tmp_path)
    here.create_database("db")
    for name, merged, whole, changes in told["verbs"]:
        table = here.create_table(f"db.{name}", COLUMNS, **KINDS[name])
        table.write([{"k": k, "v": f"a{k % 3}"} for k in range(100)])
        table.write([{"k": k, "v": f"b{k % 3}"} for k in range(50)])
        table.compact(full=True)
        found = table.scan(where="k > 3 AND v <> 'a0'").count()
        assert (merged, whole) == (found, found), name
        assert changes == table.changes(after=0).to_arrow().num_rows, name
    assert len(told["verbs"]) == len(KINDS)
    assert told["streamed"] == [[{"k": 1, "v": "new"}]]
    assert told["formatted"] == [3]


def test_sql_gives_the_same_answers_and_rows_over_connect_as_in_one_process(told, tmp_path: Path) -> None:
    here = lc.connect(tmp_path)
    assert [text for text, _, _ in told["sql"]] == STATEMENTS
    for text, answer, tables in told["sql"]:
        assert here.sql(text, tables={"f": ROWS}).to_arrow().to_pylist() == answer, text
        found = [here.table(f"s.{name}").scan().to_arrow().to_pylist() for name in here.tables("s")]
        assert [sorted(map(repr, rows)) for rows in found] == tables, text
    assert told["files"] == [here.sql("SELECT count(*) AS n FROM s.`t$files`").to_arrow().to_pylist()[0]["n"]]


def test_frames_of_queries_keep_their_rows_over_connect_and_leave_no_view(told) -> None:
    answers = {text: answer for text, answer, _ in told["sql"] if text.startswith("SELECT")}
    assert told["kept"] == [[text, answer, answer] for text, answer in answers.items()]
    assert told["nested"] == [[text, len(answer)] for text, answer in answers.items()]
    assert told["views"] == [[["lakehouse_sql_0", 1]]]


def test_errors_over_connect_are_ours(told) -> None:
    null, stream, stopped = told["refused"]
    assert null.startswith("InvalidRequest: db.streamed: Column 'v' is STRING NOT NULL and row 0 holds null")
    assert stream.startswith("InvalidRequest: db.streamed: The DataFrame is a stream, which has no end")
    assert stopped == (
        "InvalidRequest: db.streamed: Writing a DataFrame on Spark: the Spark session is stopped. Connect again with a "
        "running session, or with a function that makes one."
    )
    queries = dict(told["refused queries"])
    assert {text: sign for text, sign in REFUSED.items() if sign in queries[text]} == REFUSED
