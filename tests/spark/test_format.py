"""`format("lakehouse")` in a real session: what Spark asks of it, and when. What it answers: tests/catalog."""

import os
import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_core as lc

pytestmark = pytest.mark.spark

COLUMNS = {"dt": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}


@pytest.fixture(scope="module")
def known(spark):
    lc.register(spark)
    return spark


@pytest.fixture
def catalog(tmp_path):
    found = lc.connect(tmp_path)
    found.create_database("db")
    return found


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", COLUMNS, partition_keys=["dt"], options={"write-only": "true"})


def rows(*ids, dt=1):
    return pa.table({"dt": pa.array([dt] * len(ids), pa.int32()), "id": ids, "v": [f"v{each}" for each in ids]})


def ids(table):
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def load(session, catalog, name="db.t", **options):
    given = {key.replace("_", "."): value for key, value in options.items()}
    return session.read.format("lakehouse").options(warehouse=catalog.uri, **given).load(name)


def files_of(table):
    return [path for path in Path(table.uri.removeprefix("file://")).rglob("data-*")]


def test_frames_and_views_have_the_rows_of_one_snapshot(known, catalog, table):
    table.write(rows(1, 2))
    table.write(rows(3, dt=2))
    frame = load(known, catalog)
    options = f"path 'db.t', warehouse '{catalog.uri}', columns 'id, v', where 'dt = 1'"
    known.sql(f"CREATE OR REPLACE TEMPORARY VIEW old USING lakehouse OPTIONS ({options})")

    assert sorted(map(tuple, frame.collect())) == [(1, 1, "v1"), (1, 2, "v2"), (2, 3, "v3")]
    assert known.sql("SELECT id FROM old WHERE v = 'v2'").collect() == [(2,)]
    table.write(rows(4))
    # Spark keeps the partitions of a frame, whatever its first query filters.
    assert (frame.where("id > 2").count(), frame.count(), frame.where("id > 2").union(frame).count()) == (1, 3, 4)
    assert known.sql("SELECT count(*) FROM old").first()[0] == 2
    assert load(known, catalog).count() == 4
    known.catalog.dropTempView("old")


@pytest.mark.long
def test_a_table_with_a_key_is_merged_and_joined(known, catalog):
    table = catalog.create_table("db.k", COLUMNS, primary_keys=["id"], options={"bucket": "3"})
    table.write(rows(*range(30)))
    table.write(rows(*range(20), dt=2))

    frame = load(known, catalog, "db.k", columns="id, dt", where="id >= 10")

    assert frame.rdd.getNumPartitions() == 3
    assert sorted(map(tuple, frame.groupBy("dt").count().collect())) == [(1, 10), (2, 10)]
    with pytest.raises(Exception, match=r"has|writes no table with a primary key.*Write: lakehouse_core\.connect"):
        known.range(1).selectExpr("1 dt", "id", "'x' v").write.format("lakehouse").mode("append").options(
            warehouse=catalog.uri
        ).save("db.k")


def test_an_error_ends_with_our_line_and_the_state_of_sql(known, catalog, table):
    with pytest.raises(
        Exception, match=r"InvalidRequest: Option 'collumns': .* Did you mean columns\?\n SQLSTATE: \w+$"
    ):
        load(known, catalog, collumns="id")
    with pytest.raises(
        Exception, match=r"NotFound: Table 'db.tt' does not exist\. Did you mean t\?\n SQLSTATE: \w+$"
    ) as refused:
        load(known, catalog, "db.tt")
    # Two places in the code, with at most one line of marks each.
    assert len(str(refused.value).splitlines()) <= 9
    with pytest.raises(Exception, match=r"InvalidRequest: db\.t: The data has a column 'ids', .* Did you mean id\?"):
        save(known.range(1).selectExpr("1 dt", "id", "'x' v", "1 ids"), catalog)


@pytest.mark.long
def test_a_setting_of_spark_leaves_our_line_alone(known, catalog, table):
    setting = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"
    known.conf.set(setting, "true")
    try:
        with pytest.raises(
            Exception, match=r"^\[PYTHON_DATA_SOURCE_ERROR\] [^\n]*: lakehouse_core\.errors\.NotFound: Table"
        ):
            load(known, catalog, "db.tt")
    finally:
        known.conf.unset(setting)


def save(frame, catalog, mode="append", **options):
    frame.write.format("lakehouse").mode(mode).options(warehouse=catalog.uri, **options).save("db.t")


def frame_of(session, *ids, dt=1, partitions=2):
    return session.createDataFrame(rows(*ids, dt=dt)).repartition(partitions)


def test_tasks_append_and_overwrite_in_one_commit_each(known, catalog, table):
    # Two of the partitions are empty.
    save(frame_of(known, 1, 2, 3, partitions=5), catalog)
    table.write(rows(4, dt=2))
    save(frame_of(known, 5, dt=2), catalog, "overwrite", partitionOverwriteMode="dynamic")

    assert ids(table) == [1, 2, 3, 5]
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND", "APPEND", "OVERWRITE"]


@pytest.mark.long
def test_the_whole_table_is_overwritten_and_views_take_rows(known, catalog, table):
    table.write(rows(1, 2))
    save(frame_of(known, 6, dt=3), catalog, "overwrite")
    options = f"path 'db.t', warehouse '{catalog.uri}'"
    known.sql(f"CREATE OR REPLACE TEMPORARY VIEW target USING lakehouse OPTIONS ({options})")
    known.sql("INSERT INTO target SELECT dt, id + 1, v FROM target")
    known.catalog.dropTempView("target")

    assert ids(table) == [6, 7]
    assert [snapshot.commit_kind for snapshot in table.snapshots()] == ["APPEND", "OVERWRITE", "APPEND"]


def dying(attempts, partition):
    """A function of a column that kills the process of a partition's first attempts, or fails in it for good."""
    from pyspark.sql import functions as sf

    @sf.udf("long")
    def same(id_):
        from pyspark import TaskContext

        context = TaskContext.get()
        if id_ == partition and context.attemptNumber() < attempts:
            os.kill(os.getpid(), signal.SIGKILL)
        return id_

    return same


@pytest.mark.long
def test_a_task_that_is_killed_doubles_nothing_and_a_write_that_fails_leaves_nothing(known, catalog, table):
    frame = frame_of(known, *range(8), partitions=2)

    save(frame.withColumn("id", dying(1, 5)("id")), catalog)

    assert ids(table) == list(range(8))
    before = files_of(table)
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        save(frame.withColumn("id", dying(9, 5)("id")), catalog)
    assert (ids(table), files_of(table)) == (list(range(8)), before)


# Streams.


def run(session, catalog, checkpoint, source="db.t", sink="db.sink", **options):
    """Let a stream copy what has come, and end."""
    stream = session.readStream.format("lakehouse").options(warehouse=catalog.uri, **options).load(source)
    writer = stream.writeStream.format("lakehouse").options(warehouse=catalog.uri, checkpointLocation=str(checkpoint))
    writer.trigger(availableNow=True).start(sink).awaitTermination()


def forget_commit(checkpoint, number):
    """Bring a checkpoint to where it is if Spark dies after the commit of a batch to the table."""
    for path in (checkpoint / "commits").iterdir():
        if path.name.strip(".") in (str(number), f"{number}.crc"):
            path.unlink()


@pytest.mark.long
def test_a_stream_from_table_to_table_is_exact_over_restarts(known, catalog, table, tmp_path):
    sink = catalog.create_table("db.sink", COLUMNS, options={"write-only": "true"})
    checkpoint = tmp_path / "checkpoint"
    table.write(rows(1, 2))
    run(known, catalog, checkpoint)
    assert ids(sink) == [1, 2]
    # Spark died before it knew that the batch is done: it repeats the batch, and the sink has it.
    forget_commit(checkpoint, 0)
    table.write(rows(3))
    run(known, catalog, checkpoint)
    assert ids(sink) == [1, 2]
    # After a repeated batch Spark reads no further in that run.
    run(known, catalog, checkpoint)

    assert ids(sink) == [1, 2, 3]
    assert [each.commit_identifier for each in sink.snapshots()] == [0, 1]
    # A new checkpoint is a new query: it reads the table from the start, and writes all.
    shutil.rmtree(checkpoint)
    run(known, catalog, checkpoint)
    assert ids(sink) == [1, 1, 2, 2, 3, 3]
    assert len({each.commit_user for each in sink.snapshots()}) == 2


@pytest.mark.long
def test_a_stream_that_replaces_its_result_has_the_last_one(known, catalog, table, tmp_path):
    sink = catalog.create_table("db.sink", {"dt": "INT", "n": "BIGINT"}, options={"write-only": "true"})
    for number in (1, 2):
        table.write(rows(*range(number)))
        stream = known.readStream.format("lakehouse").options(warehouse=catalog.uri).load("db.t")
        writer = stream.groupBy("dt").count().withColumnRenamed("count", "n").writeStream.format("lakehouse")
        writer = writer.outputMode("complete").options(
            warehouse=catalog.uri, checkpointLocation=str(tmp_path / "state")
        )
        writer.trigger(availableNow=True).start("db.sink").awaitTermination()

    assert sink.scan().to_arrow().to_pylist() == [{"dt": 1, "n": 3}]
    assert [each.commit_kind for each in sink.snapshots()] == ["OVERWRITE", "OVERWRITE"]


@pytest.mark.long
def test_a_batch_that_the_table_refuses_is_written_by_a_later_run(known, catalog, table, tmp_path):
    sink = catalog.create_table("db.sink", {**COLUMNS, "v": "STRING NOT NULL"}, options={"write-only": "true"})
    table.write([{"dt": 1, "id": 1, "v": None}, {"dt": 2, "id": 2, "v": "two"}])
    with pytest.raises(Exception, match=r"InvalidRequest: db.sink: Column 'v' is STRING NOT NULL"):
        run(known, catalog, tmp_path / "checkpoint")
    assert files_of(sink) == []
    sink.alter(lc.UpdateColumnNullability("v", nullable=True))
    run(known, catalog, tmp_path / "checkpoint")

    assert ids(sink) == [1, 2]
    assert [each.commit_identifier for each in sink.snapshots()] == [0]


@pytest.mark.long
def test_foreach_batch_with_the_id_of_the_query_is_exact_for_tables_with_a_key(known, catalog, table, tmp_path):
    made = {"bucket": "2", "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    columns = {"id": "BIGINT NOT NULL", "n": "BIGINT"}
    sink = lc.connect(tmp_path, spark=known).create_table("db.sums", columns, primary_keys=["id"], options=made)
    checkpoint, dies = tmp_path / "checkpoint", []

    def commit(batch, number):
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        staged = sink.stage(batch, commit_user=query, commit_identifier=number)
        if dies:
            raise RuntimeError(dies.pop())
        sink.commit(staged)

    def ingest():
        stream = known.readStream.format("lakehouse").options(warehouse=catalog.uri).load("db.t")
        writer = stream.selectExpr("id", "1L n").writeStream.foreachBatch(commit).trigger(availableNow=True)
        writer.start(checkpointLocation=str(checkpoint)).awaitTermination()

    def sums():
        return {row["id"]: row["n"] for row in sink.scan().to_arrow().to_pylist()}

    table.write(rows(1, 2))
    dies.append("after the files are staged")
    with pytest.raises(Exception, match="after the files are staged"):
        ingest()
    ingest()
    assert sums() == {1: 1, 2: 1}
    # Spark died after the commit and before its own: the batch comes again.
    forget_commit(checkpoint, 0)
    table.write(rows(2))
    ingest()
    ingest()
    assert sums() == {1: 1, 2: 2}
    # A new checkpoint is a new user: what it reads again counts again, and nothing new is taken for a replay.
    shutil.rmtree(checkpoint)
    table.write(rows(3))
    ingest()
    assert sums() == {1: 2, 2: 4, 3: 1}


@pytest.mark.long
def test_spark_still_loses_rows_of_sources_that_take_its_filters(known):
    """Why no filter is pushed. If this fails, Spark is mended: let the source take filters."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self):
            self.least = 0

        def pushFilters(self, filters):
            for each in filters:
                if type(each).__name__ == "GreaterThan":
                    self.least = each.value + 1
                else:
                    yield each

        def partitions(self):
            return [InputPartition(self.least)]

        def read(self, partition):
            yield pa.RecordBatch.from_pydict({"a": pa.array(range(partition.value, 10), pa.int64())})

    class Source(DataSource):
        @classmethod
        def name(cls):
            return "filtered"

        def schema(self):
            return "a long"

        def reader(self, schema):
            return Reader()

    known.dataSource.register(Source)
    known.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = known.read.format("filtered").load()
        counts = frame.count(), frame.where("a > 5").count(), frame.count()
    finally:
        known.conf.unset("spark.sql.python.filterPushdown.enabled")

    assert counts == (10, 4, 4)
