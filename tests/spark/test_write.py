"""Writes through Spark: what a DataFrame may hold, what becomes of attempts that fail, what a session keeps."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import lakehouse_core as lc
from tests.limits import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.spark


@pytest.fixture
def catalog(spark, tmp_path):
    found = lc.connect(str(tmp_path), spark=lambda: spark)
    found.create_database("db")
    return found


def key_table(catalog, name="db.t", **options):
    columns = {"id": "BIGINT NOT NULL", "v": "INT", "s": "STRING"}
    return catalog.create_table(name, columns, primary_keys=["id"], options={"bucket": "3", **options})


def rows(table):
    return sorted(map(tuple, (row.values() for row in table.scan().to_arrow().to_pylist())), key=repr)


def test_columns_are_matched_by_name_widened_and_filled_with_nulls(spark, catalog):
    table = key_table(catalog)
    frame = spark.range(4).selectExpr("null as s", "cast(id as smallint) as id")

    report = table.write(frame)

    assert rows(table) == [(0, None, None), (1, None, None), (2, None, None), (3, None, None)]
    assert report.rows_added == 4
    assert {file.bucket for file in table.files()} <= {0, 1, 2}


def test_each_bucket_gets_one_file_however_many_partitions_the_frame_has(spark, catalog):
    table = key_table(catalog)

    table.write(spark.range(0, 1000, 1, 7).selectExpr("id", "1 as v", "'x' as s"))

    assert sorted(file.bucket for file in table.files()) == [0, 1, 2]


def test_small_files_of_all_tasks_become_one_before_the_commit(spark, catalog):
    options = {"precommit-compact": "true"}
    columns = {"id": "BIGINT NOT NULL", "v": "INT", "s": "STRING"}
    append = catalog.create_table("db.a", columns, options=options)
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "1 as v", "'x' as s")
    append.write(frame)
    joined = key_table(catalog, **options, **{"changelog-producer": "input"})
    joined.write(frame)

    assert [file.row_count for file in append.files()] == [1000]
    assert rows(append) == rows(joined)
    names = [path.name for path in Path(joined.uri.removeprefix("file://")).glob("bucket-*/*changelog-*")]
    assert len(names) == 1
    assert joined.changes(after=0).to_arrow().num_rows == 1000
    increment = {"incremental-between": "0,1", "incremental-between-scan-mode": "changelog"}
    assert joined.scan(options=increment).to_spark(spark).count() == 1000


@pytest.mark.parametrize(("spillable", "file_count"), [("true", 1), ("false", 3)])
def test_a_tasks_full_buffer_waits_on_local_disk_where_it_may(spillable, file_count, spark, catalog):
    options = {"bucket": "1", "write-buffer-size": "1 b", "write-buffer-spillable": spillable}
    table = key_table(catalog, **options)
    batch_rows = int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch"))

    table.write(spark.range(0, 3 * batch_rows, 1, 2).selectExpr("id", "1 as v"))

    assert len(table.files()) == file_count
    assert table.scan().count() == 3 * batch_rows


def test_kinds_of_rows_come_from_the_column_that_is_named(spark, catalog):
    table = key_table(catalog)
    table.write(spark.range(3).selectExpr("id", "1 as v"))

    table.write(spark.createDataFrame([(1, "-D"), (2, "+U")], "id long, op string"), rowkind_column="op")

    assert rows(table) == [(0, 1, None), (2, None, None)]


def test_an_empty_frame_changes_nothing_and_says_so(spark, catalog):
    table = key_table(catalog)

    report = table.write(spark.createDataFrame([], "id long, v int"))

    assert report.noop_reason is not None
    assert table.snapshot() is None


REFUSED = [
    ("select 1L as id, 2 as w", "column 'w', which the table does not have"),
    ("select 'a' as id", "Column 'id' is BIGINT NOT NULL and the data has STRING: cast it to BIGINT first."),
    ("select 1 as v", "no column 'id'"),
    ("select 1L as id, 3000000000L as v", "column 'v': 3000000000 does not fit INT without loss"),
    ("select cast(null as bigint) as id, 1 as v", "'id'"),
    ("select 1L as id, interval 1 day as v", "Column 'v': Spark's interval day has no counterpart"),
]


@pytest.mark.parametrize(("query", "message"), REFUSED)
def test_rows_that_do_not_fit_are_refused_and_leave_nothing(spark, catalog, tmp_path, query, message):
    table = key_table(catalog)

    with pytest.raises(lc.InvalidRequest) as caught:
        table.write(spark.sql(query))

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert table.snapshot() is None
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_stream_is_refused_at_once_and_its_batches_are_written(spark, catalog, tmp_path):
    table = key_table(catalog)
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()

    with pytest.raises(lc.InvalidRequest, match=r"is a stream.*df.writeStream.foreachBatch\(lambda batch, number"):
        table.write(stream)

    batches = stream.selectExpr("value as id").writeStream.trigger(availableNow=True)
    batches.option("checkpointLocation", str(tmp_path / "checkpoint"))
    batches.foreachBatch(lambda batch, number: table.write(batch)).start().awaitTermination()
    assert table.scan().count() > 0


def test_a_frame_for_a_catalog_without_spark_says_how_to_connect(spark, catalog, tmp_path):
    key_table(catalog)
    table = lc.connect(tmp_path).table("db.t")

    for frame in (spark.range(1), spark.readStream.format("rate").load()):
        with pytest.raises(lc.InvalidRequest, match=r"has no Spark session: open it with connect\(…, spark=df"):
            table.write(frame)


def test_what_other_tasks_wrote_goes_when_one_refuses_its_rows(spark, catalog, tmp_path):
    table = key_table(catalog)

    with pytest.raises(lc.InvalidRequest, match=r"column 'v': 3000000000 does not fit INT.*that one Spark task"):
        table.write(spark.range(1000).selectExpr("id", "if(id = 77, 3000000000L, id) as v"))

    assert table.snapshot() is None
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_attempt_that_wrote_its_files_and_died_doubles_nothing(spark, catalog, tmp_path, monkeypatch):
    from lakehouse_core.execution.engines.spark.write import frame as write

    whole = write.written_messages

    def dying(task, batches):
        from pyspark import TaskContext

        texts = whole(task, batches)
        if TaskContext.get().attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return texts

    monkeypatch.setattr(write, "written_messages", dying)
    table = key_table(catalog)

    report = table.write(spark.range(1000).selectExpr("id", "cast(id as int) as v"))

    assert report.rows_added == 1000
    assert sorted(row[:2] for row in rows(table)) == [(number, number) for number in range(1000)]
    assert len(table.files()) == 3
    assert len(list(tmp_path.rglob("*.parquet"))) == 6
    assert table.verify().findings == ()


def test_a_failed_attempt_that_had_written_files_doubles_nothing(spark, catalog, tmp_path):
    columns = {"id": "BIGINT", "attempt": "INT"}
    table = catalog.create_table("db.t", columns, options={"bucket": "-1", "target-file-size": "64 kb"})

    def stumbling(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        for part in range(8):
            ids = range(part * 20_000, (part + 1) * 20_000)
            attempt = pa.array([context.attemptNumber()] * len(ids), pa.int32())
            yield pa.record_batch({"id": pa.array(ids, pa.int64()), "attempt": attempt})
        list(batches)
        if context.attemptNumber() == 0:
            raise RuntimeError("the first attempt dies late")

    report = table.write(spark.range(0, 1, 1, 1).mapInArrow(stumbling, "id long, attempt int"))

    found = table.scan().to_arrow()
    assert report.rows_added == 160_000
    assert sorted(found["id"].to_pylist()) == list(range(160_000))
    assert found["attempt"].unique().to_pylist() == [1]
    assert len(table.files()) > 1


def test_a_frame_that_fails_in_each_attempt_fails_the_write_with_its_reason(spark, catalog):
    table = key_table(catalog)

    with pytest.raises(lc.TaskFailed, match="DIVIDE_BY_ZERO"):
        table.write(spark.range(3).selectExpr("id", "cast(1 / (id - 1) as int) as v"))

    assert table.snapshot() is None


def test_a_write_and_a_read_leave_the_settings_of_the_session_alone(spark, catalog):
    spark.conf.set("spark.sql.lateralColumnAlias.enableImplicitResolution", "false")
    try:
        before = sorted(spark.conf.getAll.items())
        table = key_table(catalog)
        table.write(spark.range(10).selectExpr("id"))
        assert table.scan().to_spark(spark).count() == 10
        with pytest.raises(lc.InvalidRequest):
            table.write(spark.sql("select 1L as id, 3000000000L as v"))

        assert sorted(spark.conf.getAll.items()) == before
    finally:
        spark.conf.unset("spark.sql.lateralColumnAlias.enableImplicitResolution")


def test_rows_that_others_overtook_are_numbered_anew_where_tasks_run(spark, catalog):
    table = key_table(catalog, **{"write-only": "true"})
    late = table.stage(spark.range(50).selectExpr("id", "1 as v", "'late' as s"), commit_user="a", commit_identifier=1)
    table.write(spark.range(100).selectExpr("id", "0 as v", "'soon' as s"))

    table.commit(late)

    assert rows(table) == sorted([(id, 1, "late") if id < 50 else (id, 0, "soon") for id in range(100)], key=repr)
    staged = {file.file_name for message in late.messages for file in message.new_files}
    assert not staged & {file.file_name for file in table.files()}
    assert not [path for path in Path(catalog.uri.removeprefix("file://")).rglob("*.parquet") if path.name in staged]


def test_a_table_is_made_from_the_schema_of_a_frame(spark, catalog):
    frame = spark.range(2).select("id", sf.lit("x").alias("s"), sf.array(sf.lit(1)).alias("n"))

    table = catalog.create_table("db.made", frame.schema, primary_keys=["id"], options={"bucket": "1"})
    table.write(frame)

    assert table.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 0, "s": "x", "n": [1]},
        {"id": 1, "s": "x", "n": [1]},
    ]


def test_what_spark_infers_as_not_null_may_be_null_in_a_table_that_says_so(spark, catalog):
    frame = spark.range(1).select("id", sf.lit("x").alias("s"), sf.array(sf.lit(1)).alias("n"))
    table = catalog.create_table("db.made", frame.schema, primary_keys=["id"], options={"bucket": "1"}, nullable=True)

    table.write(spark.sql("SELECT 1L AS id, cast(NULL AS STRING) AS s, array(cast(NULL AS INT)) AS n"))

    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "s": None, "n": [None]}]
    with pytest.raises(lc.InvalidRequest, match="The data has no column 'n', and missing='error' expects all"):
        table.write(spark.sql("SELECT 1L AS id, 'a' AS s"), missing="error")


def test_data_of_this_process_is_written_here_even_with_a_session(catalog, monkeypatch):
    from lakehouse_core.execution.engines.spark import engine

    monkeypatch.setattr(engine, "write_frame", None)
    table = key_table(catalog)

    assert table.write([{"id": 1, "v": 2}]).rows_added == 1


# A session whose workers' Python has none of our packages; then it is stopped.
UNFIT = """
import sys
from pathlib import Path
import lakehouse_core as lc
from pyspark.sql import SparkSession
from lakehouse_dagster.resources.java_home import ensure_java

ensure_java()
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
catalog = lc.connect(sys.argv[1], spark=spark)
catalog.create_database("db")
table = catalog.create_table("db.t", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})
try:
    table.write(spark.range(3))
except lc.TaskFailed as error:
    print(error)
print(len(table.snapshots()), "snapshots,", len([*Path(sys.argv[1]).rglob("*.parquet")]), "files")
table.write([{"id": 1}])
table.write([{"id": 2}])
frame = spark.range(3)
spark.stop()
for verb in (lambda: table.write(frame), lambda: table.compact(full=True), lambda: table.scan().to_spark(spark)):
    try:
        verb()
    except lc.InvalidRequest as error:
        print(error)
assert table.scan().count() == 2
assert table.snapshot().id == 2
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines that verbs on such a session are answered with."""
    folder = tmp_path_factory.mktemp("unfit")
    # -S leaves out what is installed: what a python3 of PATH is to a session started in an environment.
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", UNFIT, str(folder / "warehouse")],
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_AFTER_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
def test_workers_without_our_packages_are_named_as_the_reason(told: list[str]):
    assert f"Set PYSPARK_PYTHON to {sys.executable} before the session is made" in told[0]
    assert told[1] == "0 snapshots, 0 files"


@pytest.mark.long
def test_a_stopped_session_is_named_as_the_reason(told: list[str]):
    assert len([line for line in told if "the Spark session is stopped. Connect again" in line]) == 3, told
