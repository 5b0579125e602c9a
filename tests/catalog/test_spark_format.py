"""`format("lakehouse")` without Spark: what its processes ask for, one after the other, in this one."""

import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import lakehouse_core as lc
from lakehouse_core.catalog import spark_format
from lakehouse_core.catalog.spark_format.settings import Use, settings_of
from lakehouse_core.execution.engines.spark.shipped import data_source

COLUMNS = {"dt": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}
FRAME = StructType([StructField("dt", IntegerType()), StructField("id", LongType()), StructField("v", StringType())])


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    found = lc.connect(tmp_path)
    found.create_database("db")
    return found


@pytest.fixture
def table(catalog: lc.Catalog) -> lc.Table:
    return catalog.create_table("db.t", COLUMNS, partition_keys=["dt"], options={"write-only": "true"})


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    return {"path": "db.t", "warehouse": str(tmp_path)}


def rows(*ids: int, dt: int = 1) -> pa.RecordBatch:
    columns = {"dt": pa.array([dt] * len(ids), pa.int32()), "id": pa.array(ids, pa.int64())}
    return pa.RecordBatch.from_pydict({**columns, "v": pa.array([f"v{each}" for each in ids])})


def ids(table: lc.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def files_of(table: lc.Table) -> set[str]:
    return {path.name for path in Path(table.uri.removeprefix("file://")).rglob("data-*")}


def read(options: Mapping[str, str], cores: int = 2) -> list[tuple[object, ...]]:
    schema = spark_format.source_schema(options)
    spark_format.check_batch_read(options)
    return rows_of(spark_format.batch_partitions(options, schema, cores))


def rows_of(partitions: list[bytes]) -> list[tuple[object, ...]]:
    found = [row for each in partitions for batch in spark_format.partition_rows(each) for row in batch.to_pylist()]
    return sorted(tuple(row.values()) for row in found)


def written(opened: bytes, *batches: pa.RecordBatch) -> str:
    return spark_format.task_written(opened, iter(batches))


# Options.


@pytest.mark.parametrize(
    ("use", "given", "said"),
    [
        (
            Use.BATCH_WRITE,
            {"write.merge-schema": "true"},
            "Option write.merge-schema: only statements of SQL add columns as they write",
        ),
        (Use.BATCH_READ, {"collumns": "id"}, "Option 'collumns': there is no such option. Did you mean columns?"),
        (Use.BATCH_READ, {"consumer-id": "me"}, "Option consumer-id is for stream reads, not for batch reads"),
        (Use.STREAM_READ, {"incremental-between": "1,2"}, "incremental-between is for batch reads, not for stream"),
        (
            Use.BATCH_WRITE,
            {"where": "id = 1"},
            "Option where is for batch reads and stream reads, not for batch writes",
        ),
        (Use.STREAM_WRITE, {"partitionoverwritemode": "dynamic"}, "is for batch writes, not for stream writes"),
        (Use.BATCH_WRITE, {"partitionoverwritemode": "dinamic"}, "'dinamic': expected dynamic or static"),
        (Use.STREAM_READ, {"read.changelog": "yes"}, "Option read.changelog is 'yes': expected true or false"),
        (Use.BATCH_READ, {"table": "db.u"}, "path 'db.t' and the option table='db.u' both name a table"),
        (Use.BATCH_READ, {"path": "/lake/db.db/t"}, "path '/lake/db.db/t' and the option warehouse='/wh' both name"),
        (Use.BATCH_READ, {"columns": "id,,v"}, "Option columns is 'id,,v': expected names, as in id, amount"),
        (Use.BATCH_READ, {"secret-key": "canary"}, "Option secret-key: options end in Spark's plans and event logs"),
        (Use.BATCH_READ, {"jdbc.password": "canary"}, "Option jdbc.password: options end in Spark's plans"),
        (Use.BATCH_READ, {"metastore": "postgresql://me:canary@db/x"}, "Option metastore: found a password"),
        (Use.BATCH_WRITE, {"warehouse": "s3://key:canary@lake/wh"}, "Option warehouse: found a password"),
        (Use.BATCH_WRITE, {"warehouse": "s3://key:can/ary/canary@lake/wh"}, "Option warehouse: found a password"),
        (
            Use.BATCH_READ,
            {"warehouse": "s3://lake/wh?X-Amz-Signature=canary"},
            "set the credentials in the environment",
        ),
        (
            Use.STREAM_READ,
            {"path": "az://lake/wh/db.db/t?sv=1&sig=canary"},
            "Option path: found a password, a key",
        ),
        (Use.STREAM_WRITE, {"profile": "https://me:canary@h"}, "Option profile: found a password"),
    ],
)
def test_options_that_fit_no_use_are_refused_without_their_secrets(use: Use, given: dict[str, str], said: str) -> None:
    with pytest.raises(lc.InvalidRequest) as refused:
        settings_of({"path": "db.t", "warehouse": "/wh", **given}, use)

    assert said in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, 'No table is named. Name it as in .load("sales.orders")'),
        ({"path": "db.t"}, "'db.t': the option warehouse is missing. Give the address of the warehouse, or a profile"),
        ({"path": "/lake/t"}, "path '/lake/t' is not the folder of a table: expected WAREHOUSE/DATABASE.db/TABLE"),
        ({"path": "db.t", "warehouse": "lake"}, "Option warehouse is 'lake': Spark's processes work in other"),
        ({"path": "lake/db.db/t"}, "Option path is 'lake/db.db/t': Spark's processes work in other folders"),
        ({"path": "/lake/db.db/t/"}, None),
        ({"path": "s3://lake/wh/db.db/t"}, None),
        ({"table": "db.t", "profile": "prod"}, None),
    ],
)
def test_a_table_is_named_by_warehouse_and_name_or_by_its_folder(given: dict[str, str], said: str | None) -> None:
    if said is None:
        assert settings_of(given, Use.BATCH_READ).table == "db.t"
        return
    with pytest.raises(lc.InvalidRequest) as refused:
        settings_of(given, Use.BATCH_READ)

    assert said in str(refused.value)


def test_a_profile_names_the_warehouse(table: lc.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profiles.yaml").write_text(f"prod: {{warehouse: {tmp_path}}}\n")
    monkeypatch.setenv("LAKEHOUSE_PROFILES", str(tmp_path / "profiles.yaml"))
    table.write(pa.table(rows(1).to_pydict()))

    assert read({"path": "db.t", "profile": "prod"}) == [(1, 1, "v1")]
    assert read({"path": str(tmp_path / "db.db" / "t")}) == [(1, 1, "v1")]


# Batch reads.


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [(1, 1, "v1"), (1, 2, "v2"), (2, 3, "v3")]),
        ({"columns": "v, id", "where": "dt = 1 AND id > 1"}, [("v2", 2)]),
        ({"columns": "id", "scan.snapshot-id": "1"}, [(1,), (2,)]),
        ({"columns": "id", "scan.tag-name": "first"}, [(1,), (2,)]),
        ({"columns": "id", "incremental-between": "1,2"}, [(3,)]),
        ({"where": "id > 7"}, []),
    ],
)
def test_a_read_has_the_rows_of_a_scan(
    table: lc.Table, options: dict[str, str], given: dict[str, str], expected: list[tuple[object, ...]]
) -> None:
    table.write([{"dt": 1, "id": 1, "v": "v1"}, {"dt": 1, "id": 2, "v": "v2"}])
    table.create_tag("first")
    table.write([{"dt": 2, "id": 3, "v": "v3"}])

    assert read({**options, **given}) == expected


def test_a_table_with_a_key_is_read_merged_and_partitions_are_splits(
    catalog: lc.Catalog, options: dict[str, str]
) -> None:
    table = catalog.create_table("db.k", COLUMNS, primary_keys=["id"], options={"bucket": "3"})
    table.write([{"dt": 1, "id": each, "v": "old"} for each in range(30)])
    table.write([{"dt": 1, "id": each, "v": "new"} for each in range(20)])
    given = {**options, "path": "db.k"}

    found = read(given)

    assert found == [(1, each, "new" if each < 20 else "old") for each in range(30)]
    whole = StructType(FRAME.fields)
    assert [len(spark_format.batch_partitions(given, whole, cores)) for cores in (1, 8)] == [1, 3]


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"path": "db.tt"}, lc.NotFound, "Did you mean t?"),
        ({"columns": "idd"}, lc.InvalidRequest, "there is no column 'idd'. Did you mean id?"),
        ({"where": "idd = 1"}, lc.InvalidRequest, "idd"),
        ({"scan.snapshot-id": "1", "scan.tag-name": "a"}, lc.InvalidRequest, "expected exactly one of"),
        ({"scan.snapshot-id": "9"}, lc.NotFound, "Snapshot 9"),
        ({"scan.mode": "latest", "scan.snapshot-id": "1"}, lc.InvalidRequest, "remove one of the two"),
    ],
)
def test_what_does_not_fit_the_table_is_told_as_by_a_scan(
    table: lc.Table, options: dict[str, str], given: dict[str, str], error: type[lc.LakehouseError], said: str
) -> None:
    table.write([{"dt": 1, "id": 1, "v": "v1"}])

    with pytest.raises(error) as refused:
        read({**options, **given})

    assert said in str(refused.value)


def test_a_schema_of_the_user_chooses_columns_and_must_have_their_types(
    table: lc.Table, options: dict[str, str]
) -> None:
    table.write([{"dt": 1, "id": 1, "v": "v1"}])
    narrow = StructType([StructField("v", StringType()), StructField("id", LongType())])

    assert rows_of(spark_format.batch_partitions(options, narrow, 2)) == [("v1", 1)]
    wrong = StructType([StructField("id", IntegerType())])
    with pytest.raises(lc.InvalidRequest, match="column 'id' is bigint, found int in the schema of the frame"):
        spark_format.batch_partitions(options, wrong, 2)
    with pytest.raises(lc.InvalidRequest, match=r"the option columns names dt\. Give one of them"):
        spark_format.batch_partitions({**options, "columns": "dt"}, narrow, 2)


def test_rows_whose_snapshot_expired_meanwhile_are_told_as_that(table: lc.Table, options: dict[str, str]) -> None:
    table.write([{"dt": 1, "id": 1, "v": "v1"}])
    table.alter(lc.SetOption("lakehouse.read.grace", "0 s"))
    partitions = spark_format.batch_partitions(options, FRAME, 2)
    table.overwrite([{"dt": 1, "id": 2, "v": "v2"}])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))

    with pytest.raises(lc.SnapshotExpired, match="Snapshot 1"):
        rows_of(partitions)


# Batch writes.


def test_the_tasks_that_won_are_committed_once(table: lc.Table, options: dict[str, str]) -> None:
    opened = spark_format.open_batch(options, FRAME, False)
    lost = written(opened, rows(1, 2))

    spark_format.batch_commit(options, opened, [written(opened, rows(1, 2)), written(opened, rows(3)), written(opened)])

    assert ids(table) == [1, 2, 3]
    assert "data-" in lost
    assert len(table.snapshots()) == 1
    # The files of the lost attempt, and those of the two that count.
    assert len(files_of(table)) == 3


@pytest.mark.parametrize(
    ("mode", "expected"),
    [({}, [9]), ({"partitionoverwritemode": "static"}, [9]), ({"partitionoverwritemode": "DYNAMIC"}, [3, 9])],
)
def test_an_overwrite_replaces_the_table_or_the_partitions_that_have_rows(
    table: lc.Table, options: dict[str, str], mode: dict[str, str], expected: list[int]
) -> None:
    table.write(pa.Table.from_batches([rows(1, 2), rows(3, dt=2)]))
    given = {**options, **mode}
    opened = spark_format.open_batch(given, FRAME, True)

    spark_format.batch_commit(given, opened, [written(opened, rows(9))])

    assert ids(table) == expected


def test_an_append_has_no_mode_of_an_overwrite(table: lc.Table, options: dict[str, str]) -> None:
    with pytest.raises(
        lc.InvalidRequest, match=r'partitionOverwriteMode is for mode\("overwrite"\), and this is an append'
    ):
        spark_format.open_batch({**options, "partitionoverwritemode": "static"}, FRAME, False)

    assert table.snapshot() is None


def test_an_overwrite_that_others_overtook_keeps_their_rows(table: lc.Table, options: dict[str, str]) -> None:
    table.write(pa.Table.from_batches([rows(1)]))
    opened = spark_format.open_batch(options, FRAME, True)
    text = written(opened, rows(9))
    table.write(pa.Table.from_batches([rows(2)]))

    with pytest.raises(lc.CommitConflict):
        spark_format.batch_commit(options, opened, [text])
    spark_format.aborted(options, [text])

    assert ids(table) == [1, 2]
    assert len(files_of(table)) == 2


def test_tasks_that_write_one_bucket_number_its_files_one_after_the_other(
    catalog: lc.Catalog, options: dict[str, str], query: list[str]
) -> None:
    table = catalog.create_table("db.b", COLUMNS, options={"bucket": "1", "bucket-key": "id", "write-only": "true"})
    batch, stream = {**options, "path": "db.b"}, {**options, "path": "db.b", "checkpointlocation": "/somewhere"}
    opened = spark_format.open_batch(batch, FRAME, False)
    spark_format.batch_commit(batch, opened, [written(opened, rows(1, 2)), written(opened, rows(3))])
    opened = spark_format.open_stream(stream, FRAME, False)
    for number in range(2):
        spark_format.stream_commit(stream, opened, [written(opened, rows(number)), written(opened, rows(9))], number)

    numbers = sorted((each.min_sequence_number, each.max_sequence_number) for each in table.files())
    assert numbers == [(0, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]


def test_a_write_that_failed_leaves_nothing(table: lc.Table, options: dict[str, str]) -> None:
    opened = spark_format.open_batch(options, FRAME, False)
    first = written(opened, rows(1))

    spark_format.aborted(options, [first, None])

    assert files_of(table) == set()
    assert table.snapshot() is None


def test_a_commit_begins_only_when_all_tasks_have_told_their_files(table: lc.Table, options: dict[str, str]) -> None:
    opened = spark_format.open_batch(options, FRAME, False)
    texts = [written(opened, rows(1)), None]

    with pytest.raises(lc.TaskFailed, match="1 of 2 tasks of Spark did not return what they wrote"):
        spark_format.batch_commit(options, opened, texts)
    spark_format.aborted(options, texts)

    assert files_of(table) == set()
    assert table.snapshot() is None


def test_an_abort_after_a_commit_deletes_nothing(table: lc.Table, options: dict[str, str]) -> None:
    opened = spark_format.open_batch(options, FRAME, False)
    texts = [written(opened, rows(1)), written(opened, rows(2))]
    spark_format.batch_commit(options, opened, texts)

    spark_format.aborted(options, texts)

    assert ids(table) == [1, 2]


def test_rows_that_a_task_refuses_are_told_by_the_commit_and_all_files_go(
    table: lc.Table, options: dict[str, str]
) -> None:
    opened = spark_format.open_batch(options, FRAME, False)
    bad = pa.RecordBatch.from_pydict({"dt": pa.array([None], pa.int32()), "id": pa.array([1], pa.int64()), "v": ["x"]})
    texts = [written(opened, rows(1)), written(opened, bad)]

    with pytest.raises(lc.InvalidRequest, match=r"^db.t: Column 'dt' is INT NOT NULL.*one Spark task"):
        spark_format.batch_commit(options, opened, texts)

    assert files_of(table) == set()
    assert table.snapshot() is None


def test_a_write_without_a_partition_makes_no_snapshot(table: lc.Table, options: dict[str, str]) -> None:
    opened = spark_format.open_batch(options, FRAME, False)

    spark_format.batch_commit(options, opened, [None])

    assert table.snapshot() is None


def test_tables_with_a_key_are_answered_with_the_line_to_write(catalog: lc.Catalog, options: dict[str, str]) -> None:
    catalog.create_table("db.k", COLUMNS, primary_keys=["id"], options={"bucket": "1"})
    given = {**options, "path": "db.k"}

    with pytest.raises(lc.InvalidRequest, match=r'Write: lakehouse_core\.connect\(…, spark=spark\)\.table\("db\.k"\)'):
        spark_format.open_batch(given, FRAME, False)
    with pytest.raises(lc.InvalidRequest, match=r"Write: df\.writeStream\.foreachBatch\(lambda batch, number: table"):
        spark_format.open_stream(given, FRAME, False)


def test_columns_of_a_frame_are_checked_before_a_task_starts(table: lc.Table, options: dict[str, str]) -> None:
    with pytest.raises(lc.InvalidRequest, match="'w'"):
        spark_format.open_batch(options, StructType([*FRAME.fields, StructField("w", LongType())]), False)

    assert files_of(table) == set()


# Streams: sink.


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The id of the query, as Spark tells it to tasks."""
    name = ["query-1"]

    class Context:
        @staticmethod
        def get() -> "Context":
            return Context()

        def getLocalProperty(self, key: str) -> str | None:
            return name[0] if key == "sql.streaming.queryId" else None

    monkeypatch.setattr("lakehouse_core.execution.engines.spark.source.TaskContext", Context)
    return name


def test_a_batch_of_a_stream_is_committed_once_for_each_query(
    table: lc.Table, options: dict[str, str], query: list[str]
) -> None:
    given = {**options, "checkpointlocation": "/somewhere"}
    opened = spark_format.open_stream(given, FRAME, False)
    for _ in range(2):
        spark_format.stream_commit(given, opened, [written(opened, rows(1)), written(opened, rows(2))], 0)
    spark_format.stream_commit(given, opened, [written(opened, rows(3))], 1)
    spark_format.stream_commit(given, opened, [written(opened, rows(1))], 0)

    assert ids(table) == [1, 2, 3]
    assert [(each.commit_user, each.commit_identifier) for each in table.snapshots()] == [
        ("query-1", 0),
        ("query-1", 1),
    ]
    # A replay deletes what it has written again.
    assert len(files_of(table)) == 3

    # A new checkpoint makes a new query, which counts from 0.
    query[0] = "query-2"
    spark_format.stream_commit(given, opened, [written(opened, rows(7))], 0)
    assert ids(table) == [1, 2, 3, 7]


def test_a_stream_that_replaces_its_result_overwrites_the_table(
    table: lc.Table, options: dict[str, str], query: list[str]
) -> None:
    given = {**options, "checkpointlocation": "/somewhere"}
    for number in range(2):
        opened = spark_format.open_stream(given, FRAME, True)
        spark_format.stream_commit(given, opened, [written(opened, rows(number))], number)
    spark_format.stream_commit(given, opened, [written(opened, rows(5))], 1)

    assert ids(table) == [1]


@pytest.mark.parametrize("texts", [[], [None]])
@pytest.mark.parametrize(("overwrite", "expected"), [(True, []), (False, [1])])
def test_a_batch_of_a_stream_without_a_task_replaces_the_rows_by_none(
    table: lc.Table, options: dict[str, str], overwrite: bool, expected: list[int], texts: list[str | None]
) -> None:
    given = {**options, "checkpointlocation": "/somewhere"}
    table.write(pa.Table.from_batches([rows(1)]))
    opened = spark_format.open_stream(given, FRAME, overwrite)

    for number in (0, 1, 1):
        spark_format.stream_commit(given, opened, texts, number)

    assert ids(table) == expected


def test_tasks_that_all_told_nothing_replace_no_rows(table: lc.Table, options: dict[str, str]) -> None:
    table.write(pa.Table.from_batches([rows(1)]))
    opened = spark_format.open_batch(options, FRAME, True)

    with pytest.raises(lc.TaskFailed, match="2 of 2 tasks of Spark did not return what they wrote"):
        spark_format.batch_commit(options, opened, [None, None])

    assert ids(table) == [1]


def test_rows_of_a_stream_keep_the_schema_of_its_start(
    table: lc.Table, options: dict[str, str], query: list[str]
) -> None:
    given = {**options, "checkpointlocation": "/somewhere"}
    opened = spark_format.open_stream(given, FRAME, False)
    text = written(opened, rows(1))
    table.alter(lc.AddColumn("w", "INT"))

    spark_format.stream_commit(given, opened, [text], 0)

    assert table.scan().to_arrow().to_pylist() == [{"dt": 1, "id": 1, "v": "v1", "w": None}]


# Streams: source.


def stream(options: Mapping[str, str]) -> spark_format.streams.StreamSource:
    spark_format.check_stream_read(options)
    return spark_format.stream_source(options, spark_format.source_schema(options), 2)


def test_a_stream_reads_the_rows_and_then_the_changes_of_each_snapshot(
    table: lc.Table, options: dict[str, str]
) -> None:
    source = stream(options)
    start = source.initial_offset()
    assert source.partitions(start, source.latest_offset()) == []
    table.write(pa.Table.from_batches([rows(1)]))
    table.write(pa.Table.from_batches([rows(2)]))
    first = source.latest_offset()
    table.write(pa.Table.from_batches([rows(3)]))
    table.compact(full=True)
    second = source.latest_offset()

    millis = {each.id: each.time_millis for each in table.snapshots()}
    assert start == {"snapshot": 0}
    assert [first, second] == [{"snapshot": each, "millis": millis[each]} for each in (2, 4)]
    assert rows_of(source.partitions(start, first)) == [(1, 1, "v1"), (1, 2, "v2")]
    assert rows_of(source.partitions(first, second)) == [(1, 3, "v3")]
    # A restart asks again, with what Spark stored.
    assert rows_of(stream(options).partitions(start, first)) == [(1, 1, "v1"), (1, 2, "v2")]
    assert rows_of(stream({**options, "where": "id = 3", "columns": "id"}).partitions(first, second)) == [(3,)]


def test_a_stream_from_the_newest_snapshot_repeats_its_first_batch_as_it_was(
    table: lc.Table, options: dict[str, str]
) -> None:
    table.write(pa.Table.from_batches([rows(1)]))
    given = {**options, "scan.mode": "latest"}
    source = stream(given)
    start = source.initial_offset()
    table.write(pa.Table.from_batches([rows(2)]))
    end = source.latest_offset()
    table.write(pa.Table.from_batches([rows(3)]))
    again = stream(given)

    assert rows_of(source.partitions(start, end)) == [(1, 2, "v2")]
    # Spark stores no start of the first batch.
    assert rows_of(again.partitions(again.initial_offset(), end)) == [(1, 2, "v2")]
    assert rows_of(again.partitions(end, again.latest_offset())) == [(1, 3, "v3")]


def test_a_stream_from_a_snapshot_on_reads_changes_alone(table: lc.Table, options: dict[str, str]) -> None:
    for each in (1, 2):
        table.write(pa.Table.from_batches([rows(each)]))
    source = stream({**options, "scan.snapshot-id": "2"})
    ahead = spark_format.stream_source({**options, "scan.snapshot-id": "4"}, FRAME, 2)

    assert rows_of(source.partitions(source.initial_offset(), source.latest_offset())) == [(1, 2, "v2")]
    waiting = ahead.latest_offset()
    assert ahead.partitions(ahead.initial_offset(), waiting) == []
    for each in (3, 4):
        table.write(pa.Table.from_batches([rows(each)]))
    assert rows_of(ahead.partitions(waiting, ahead.latest_offset())) == [(1, 4, "v4")]


@pytest.mark.parametrize("written", [0, 1])
def test_a_stream_from_a_snapshot_that_does_not_exist_yet_waits_for_it(
    table: lc.Table, options: dict[str, str], written: int
) -> None:
    for each in range(written):
        table.write(pa.Table.from_batches([rows(each)]))
    given = {**options, "scan.snapshot-id": "4"}
    source = stream(given)
    start = source.initial_offset()
    for each in range(written, 6):
        assert rows_of(source.partitions(start, source.latest_offset())) == [(1, k, f"v{k}") for k in range(3, each)]
        table.write(pa.Table.from_batches([rows(each)]))

    assert rows_of(source.partitions(start, source.latest_offset())) == [(1, k, f"v{k}") for k in (3, 4, 5)]


def test_a_batch_read_of_a_snapshot_that_does_not_exist_yet_is_refused(
    table: lc.Table, options: dict[str, str]
) -> None:
    table.write(pa.Table.from_batches([rows(1)]))
    with pytest.raises(lc.NotFound, match="4"):
        read({**options, "scan.snapshot-id": "4"})
    for other in ({"scan.tag-name": "eod"}, {"scan.snapshot-id": "4", "scan.tag-name": "eod"}):
        with pytest.raises((lc.NotFound, lc.InvalidRequest)):
            spark_format.source_schema({**options, **other})


def test_a_stream_of_changes_has_their_kinds(catalog: lc.Catalog, options: dict[str, str]) -> None:
    made = {"bucket": "1", "changelog-producer": "input"}
    table = catalog.create_table("db.k", COLUMNS, primary_keys=["id"], options=made)
    table.write([{"dt": 1, "id": 1, "v": "a"}])
    given = {**options, "path": "db.k", "read.changelog": "true", "columns": "id, v"}
    source = stream(given)
    first = source.latest_offset()
    change = [{"dt": 1, "id": 1, "v": "a", "op": "-U"}, {"dt": 1, "id": 1, "v": "b", "op": "+U"}]
    table.write(change, rowkind_column="op")
    second = source.latest_offset()
    quiet = stream({**given, "read.changelog": "false"})

    assert rows_of(source.partitions(source.initial_offset(), first)) == [("+I", 1, "a")]
    assert rows_of(source.partitions(first, second)) == [("+U", 1, "b"), ("-U", 1, "a")]
    assert rows_of(quiet.partitions(first, second)) == [(1, "b")]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({}, [1, 2, 3]),
        ({"deletion-vectors.enabled": "true"}, [1, 2, 3]),
        ({"merge-engine": "first-row"}, [1, 2, 3]),
        ({"changelog-producer": "input"}, [1, 2, 3]),
        ({"changelog-producer": "input", "deletion-vectors.enabled": "true"}, [1, 2, 3]),
        ({"changelog-producer": "lookup"}, [1, 2]),
        ({"changelog-producer": "lookup", "deletion-vectors.enabled": "true"}, [1, 2]),
        ({"changelog-producer": "lookup", "merge-engine": "first-row"}, [1, 2]),
        ({"changelog-producer": "full-compaction"}, [1, 2]),
    ],
)
def test_the_first_batch_of_a_key_table_and_the_next_have_each_row_once(
    catalog: lc.Catalog, options: dict[str, str], made: dict[str, str], expected: list[int]
) -> None:
    given = {"bucket": "1", "write-only": "true", **made}
    table = catalog.create_table("db.k", COLUMNS, primary_keys=["id"], options=given)
    source = stream({**options, "path": "db.k", "columns": "id"})
    table.write(pa.Table.from_batches([rows(1, 2)]))
    table.compact(full=True)
    table.write(pa.Table.from_batches([rows(3)]))
    first = source.latest_offset()
    begun = rows_of(source.partitions(source.initial_offset(), first))
    table.compact(full=True)
    changes = rows_of(source.partitions(first, source.latest_offset()))
    again = rows_of(source.partitions(source.initial_offset(), first))

    assert [row[0] for row in begun] == expected
    assert [row[0] for row in begun + changes] == ids(table) == [1, 2, 3]
    assert again == begun


def test_a_stream_whose_snapshots_expired_or_went_back_ends(table: lc.Table, options: dict[str, str]) -> None:
    for each in range(4):
        table.write(pa.Table.from_batches([rows(each)]))
    table.expire_snapshots(retain_max=1, retain_min=1)
    source = stream(options)

    with pytest.raises(lc.SnapshotExpired):
        source.partitions({"snapshot": 1}, source.latest_offset())
    with pytest.raises(lc.InvalidRequest, match=r"has read snapshot 9, and the newest is 4.*new checkpoint"):
        source.partitions({"snapshot": 9}, source.latest_offset())


@pytest.mark.parametrize("written", [2, 4])
def test_a_stream_ends_when_its_table_was_made_anew(
    catalog: lc.Catalog, table: lc.Table, options: dict[str, str], written: int
) -> None:
    for each in range(2):
        table.write(pa.Table.from_batches([rows(each)]))
    source = stream({**options, "consumer-id": "audit"})
    read = source.latest_offset()
    catalog.drop_table("db.t")
    anew = catalog.create_table("db.t", COLUMNS, partition_keys=["dt"])
    for each in range(written):
        anew.write(pa.Table.from_batches([rows(each)]))
    said = "has read another snapshot 2 than the one that is there.*new checkpoint"

    for run in (source, stream(options)):
        with pytest.raises(lc.InvalidRequest, match=said):
            run.partitions(read, run.latest_offset())
        with pytest.raises(lc.InvalidRequest, match=said):
            run.partitions(run.initial_offset(), read)
    assert anew.system("consumers").to_arrow().num_rows == 0


def test_a_consumer_keeps_what_the_stream_has_not_read(table: lc.Table, options: dict[str, str]) -> None:
    source = stream({**options, "consumer-id": "audit"})
    table.write(pa.Table.from_batches([rows(1)]))
    first = source.latest_offset()
    source.partitions(source.initial_offset(), first)
    held = table.system("consumers").to_arrow().to_pylist()
    source.commit(first)
    for each in (2, 3, 4):
        table.write(pa.Table.from_batches([rows(each)]))
    table.expire_snapshots(retain_max=1, retain_min=1)

    assert [row["next_snapshot_id"] for row in held] == [1]
    assert [row["next_snapshot_id"] for row in table.system("consumers").to_arrow().to_pylist()] == [2]
    assert rows_of(source.partitions(first, source.latest_offset())) == [(1, 2, "v2"), (1, 3, "v3"), (1, 4, "v4")]


@pytest.mark.parametrize(
    ("given", "written", "held"), [({"scan.mode": "latest"}, 2, [3]), ({"scan.snapshot-id": "3"}, 2, [3]), ({}, 0, [])]
)
def test_a_consumer_is_held_by_an_empty_first_batch_unless_the_rows_are_still_to_be_read(
    table: lc.Table, options: dict[str, str], given: dict[str, str], written: int, held: list[int]
) -> None:
    for each in range(written):
        table.write(pa.Table.from_batches([rows(each)]))
    source = spark_format.stream_source({**options, "consumer-id": "audit", **given}, FRAME, 2)

    assert source.partitions(source.initial_offset(), source.latest_offset()) == []
    assert [row["next_snapshot_id"] for row in table.system("consumers").to_arrow().to_pylist()] == held


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scan.mode": "compacted-full"}, "a stream begins with latest-full or latest, or with scan.snapshot-id"),
        ({"scan.mode": "latest", "scan.snapshot-id": "1"}, "name two starts. Give one"),
        ({"scan.snapshot-id": "0"}, "scan.snapshot-id is 0: expected 1 or more"),
    ],
)
def test_a_stream_with_another_start_is_refused(options: dict[str, str], given: dict[str, str], said: str) -> None:
    with pytest.raises(lc.InvalidRequest) as refused:
        spark_format.check_stream_read({**options, **given})

    assert said in str(refused.value)


# Processes without the package.


@pytest.mark.parametrize("package", ["lakehouse_core", "pyarrow"])
def test_a_worker_without_a_package_says_so_in_one_line(tmp_path: Path, package: str) -> None:
    source = data_source("lakehouse", "lakehouse_core.catalog.spark_format", 2)({"path": "db.t"})
    (tmp_path / "pickled").write_bytes(cloudpickle.dumps(source))
    program = """
import pickle, sys
sys.modules[sys.argv[2]] = None
source = pickle.loads(open(sys.argv[1], "rb").read())
source.schema()
"""

    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "pickled"), package], capture_output=True, text=True, check=False
    )

    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: the Python of Spark, {sys.executable}, has no {package}")
    assert "on a cluster install paimon-lakehouse on each worker" in last
    assert ended.stderr.count("Traceback") == 1


def test_what_a_session_registers_is_a_session() -> None:
    with pytest.raises(lc.InvalidRequest, match="is not a Spark session"):
        lc.register("session")
