"""Assets that take tables as inputs and return rows for tables, by real runs of Dagster."""

import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_dagster import (
    Dimensions,
    KeyColumn,
    LakehouseIOManager,
    LakehouseResource,
    SparkRuntime,
    TimeColumns,
    table_metadata,
)
from tests.lakehouse_dagster import io_location

pytestmark = pytest.mark.dagster

DAYS = dg.DailyPartitionsDefinition(start_date="2013-01-01", end_date="2013-01-06", timezone="UTC")
BY_DAY = TimeColumns(columns={"dt": "%Y-%m-%d"})
ORDERS = dg.AssetKey(["lake", "sales", "orders"])
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    catalog = lc.connect(tmp_path / "warehouse")
    catalog.create_database("sales")
    return catalog


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def orders(catalog: lc.Catalog) -> lc.Table:
    """Ten orders in two partitions, in one snapshot."""
    table = catalog.create_table(
        "sales.orders",
        {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "status": "STRING"},
        partition_keys=["dt"],
        options={"bucket": "-1"},
    )
    table.write([order(day, number) for day in (1, 2) for number in range(5)])
    return table


def order(day: int, number: int) -> dict[str, Any]:
    return {"dt": dt.date(2013, 1, day), "id": number, "status": "new"}


def lake_io(catalog_or_path: Path, name: str = "lake") -> LakehouseIOManager:
    return LakehouseIOManager(
        lakehouse=LakehouseResource(name=name, warehouse=str(catalog_or_path), spark=SparkRuntime())
    )


def run(
    tmp_path: Path,
    *assets: Any,
    instance: dg.DagsterInstance,
    partition: str | None = None,
    days: tuple[str, str] | None = None,
    raises: bool = True,
) -> dg.ExecuteInProcessResult:
    """Materialize assets whose inputs and outputs are tables of the warehouse."""
    tags = (
        {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[1]} if days else {}
    )
    defs = dg.Definitions(assets=assets, resources={"io_manager": lake_io(tmp_path / "warehouse")})
    job = defs.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=instance,
        partition_key=partition,
        tags=tags,
        raise_on_error=raises,
    )


def failure(result: dg.ExecuteInProcessResult) -> str:
    """The description of the one step that failed, which is a refusal and no error of Dagster."""
    (event,) = (event for event in result.all_events if event.is_step_failure)
    user = event.step_failure_data.user_failure_data
    assert user is not None, event.step_failure_data.error
    return user.description or ""


def inputs_read(result: dg.ExecuteInProcessResult) -> list[Mapping[str, Any]]:
    """What the events say of each input that was loaded."""
    loaded = [e for e in result.all_events if e.event_type is dg.DagsterEventType.LOADED_INPUT]
    return [{key: value.value for key, value in e.event_specific_data.metadata.items()} for e in loaded]


def reader(annotation: Any, **arguments: Any) -> dg.AssetsDefinition:
    """An asset that keeps what it is given for the table sales.orders."""

    def report(orders):
        SEEN.append(orders)

    report.__annotations__ = {"orders": annotation, "return": None}
    ins = {"orders": dg.AssetIn(key=ORDERS, metadata=arguments.pop("read", None))}
    return dg.asset(ins=ins, **arguments)(report)


# Reading


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("annotation", "ids_of"),
    [
        (pa.Table, lambda rows: rows["id"].to_pylist()),
        (pa.RecordBatchReader, lambda rows: rows.read_all()["id"].to_pylist()),
        (pd.DataFrame, lambda rows: rows["id"].tolist()),
        (pl.DataFrame, lambda rows: rows["id"].to_list()),
        (pl.LazyFrame, lambda rows: rows.collect()["id"].to_list()),
        (lc.Scan, lambda rows: rows.to_arrow()["id"].to_pylist()),
        (Any, lambda rows: rows.to_arrow()["id"].to_pylist()),
    ],
)
def test_an_input_becomes_what_its_annotation_names_of_the_columns_and_rows_asked_for(
    annotation: Any, ids_of: Any, orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    read = {"columns": ["id"], "where": "id >= 3 AND dt = DATE '2013-01-02'"}

    result = run(tmp_path, reader(annotation, read=read), dg.AssetSpec(ORDERS), instance=instance)

    (rows,) = SEEN
    assert annotation is Any or isinstance(rows, annotation)
    assert sorted(ids_of(rows)) == [3, 4]
    (read_of,) = inputs_read(result)
    assert {key: value for key, value in read_of.items() if key.startswith("paimon/")} == {
        "paimon/lake": "lake",
        "paimon/table": "sales.orders",
        "paimon/snapshot_id": 1,
        "paimon/columns": "id",
        "paimon/where": "id >= 3 AND dt = DATE '2013-01-02'",
        "paimon/partitions_read": 0,
        "paimon/files_read": 1,
        "paimon/snapshot_read": "1",
    }


def test_a_lazy_frame_reads_only_what_its_query_needs(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    run(tmp_path, reader(pl.LazyFrame), dg.AssetSpec(ORDERS), instance=instance)
    (lazy,) = SEEN
    asked = []
    scan = lc.Table.scan
    monkeypatch.setattr(
        lc.Table, "scan", lambda table, *a, **k: asked.append((a[0], k["limit"])) or scan(table, *a, **k)
    )

    assert lazy.select("id").head(3).collect().height == 3
    assert lazy.filter(pl.col("id") > 3).select("status").collect().height == 2
    assert lazy.filter(pl.col("id") > 3).head(1).collect().height == 1
    assert lazy.select(pl.len()).collect().item() == 10
    assert asked[0] == (["id"], 3)
    assert set(asked[1][0]) == {"id", "status"}
    assert asked[2][1] is None


def test_what_was_read_stays_as_it_was_when_others_write_meanwhile(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    run(tmp_path, reader(pl.LazyFrame), dg.AssetSpec(ORDERS), instance=instance)
    orders.write([order(3, 9)])

    assert SEEN[0].collect().height == 10


def test_all_inputs_of_a_run_see_one_snapshot_and_the_next_run_a_newer_one(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    @dg.asset(ins={"orders": dg.AssetIn(key=ORDERS)})
    def first(orders: pa.Table) -> int:
        table = lc.connect(tmp_path / "warehouse").table("sales.orders")
        table.write([order(3, 9)])
        return orders.num_rows

    @dg.asset(ins={"orders": dg.AssetIn(key=ORDERS)}, deps=[first])
    def second(orders: pa.Table) -> None:
        SEEN.append(orders.num_rows)

    specs = [first, second, dg.AssetSpec(ORDERS).with_io_manager_key("lake_io")]
    resources = {"lake_io": lake_io(tmp_path / "warehouse"), "io_manager": dg.mem_io_manager}
    job = dg.Definitions(assets=specs, resources=resources).resolve_implicit_global_asset_job_def()

    results = [job.execute_in_process(instance=instance) for _ in range(2)]

    assert SEEN == [10, 11]
    assert [[read["paimon/snapshot_id"] for read in inputs_read(each)] for each in results] == [[1, 1], [2, 2]]


def test_a_run_that_found_no_snapshot_reads_none_later(
    catalog: lc.Catalog, tmp_path: Path, instance: dg.DagsterInstance
):
    table = catalog.create_table("sales.orders", {"id": "BIGINT"}, options={"bucket": "-1"})

    @dg.asset(ins={"orders": dg.AssetIn(key=ORDERS)})
    def first(orders: pa.Table) -> None:
        table.write([{"id": 1}])
        SEEN.append(orders.num_rows)

    @dg.asset(ins={"orders": dg.AssetIn(key=ORDERS)}, deps=[first])
    def second(orders: pa.Table) -> None:
        SEEN.append(orders.num_rows)

    run(tmp_path, first, second, dg.AssetSpec(ORDERS), instance=instance)

    assert SEEN == [0, 0]


def test_an_input_sees_what_an_asset_of_its_own_run_wrote(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    @dg.asset(
        ins={"orders": dg.AssetIn(key=ORDERS)},
        key=["lake", "sales", "copy"],
        metadata=table_metadata(write_mode="append"),
    )
    def copy(orders: pa.Table) -> pa.Table:
        return orders

    @dg.asset(ins={"copied": dg.AssetIn(key=["lake", "sales", "copy"])})
    def report(copied: pa.Table) -> None:
        SEEN.append(copied.num_rows)

    lc.connect(tmp_path / "warehouse").create_table(
        "sales.copy", {"dt": "DATE", "id": "BIGINT", "status": "STRING"}, options={"bucket": "-1"}
    )
    run(tmp_path, copy, report, dg.AssetSpec(ORDERS), instance=instance)

    assert SEEN == [10]


def test_a_partition_of_the_run_is_the_part_of_the_table_that_the_map_names(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    external = dg.AssetSpec(ORDERS, partitions_def=DAYS, metadata=table_metadata(partition_map=BY_DAY))
    read = {"where": "id > 2"}
    report = reader(pa.Table, partitions_def=DAYS, read=read)

    one = run(tmp_path, report, external, instance=instance, partition="2013-01-02")
    assert [(row["dt"].day, row["id"]) for row in SEEN[0].to_pylist()] == [(2, 3), (2, 4)]
    none = run(tmp_path, report, external, instance=instance, partition="2013-01-05")
    assert SEEN[1].num_rows == 0
    assert [inputs_read(each)[0]["paimon/partitions_read"] for each in (one, none)] == [1, 1]


def test_a_run_over_a_range_reads_all_its_partitions_and_says_so(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    external = dg.AssetSpec(ORDERS, partitions_def=DAYS, metadata=table_metadata(partition_map=BY_DAY))
    report = reader(pa.Table, partitions_def=DAYS, backfill_policy=dg.BackfillPolicy.single_run())

    result = run(tmp_path, report, external, instance=instance, days=("2013-01-02", "2013-01-04"))

    assert {row["dt"].day for row in SEEN[0].to_pylist()} == {2}
    assert inputs_read(result)[0]["paimon/partitions_read"] == 3
    assert inputs_read(result)[0]["paimon/snapshot_id"] == 1


def test_an_asset_without_partitions_reads_all_partitions_of_its_input_and_no_others(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    orders.write([order(9, 1)])
    external = dg.AssetSpec(ORDERS, partitions_def=DAYS, metadata=table_metadata(partition_map=BY_DAY))

    result = run(tmp_path, reader(pa.Table), external, instance=instance)

    assert sorted({row["dt"].day for row in SEEN[0].to_pylist()}) == [1, 2]
    assert inputs_read(result)[0]["paimon/partitions_read"] == 5


def test_partitions_of_several_dimensions_and_dynamic_ones_are_read_and_written(
    catalog: lc.Catalog, tmp_path: Path, instance: dg.DagsterInstance
):
    regions = dg.DynamicPartitionsDefinition(name="regions")
    both = dg.MultiPartitionsDefinition({"day": DAYS, "region": regions})
    mapped = Dimensions(maps={"day": BY_DAY, "region": KeyColumn(column="region")})
    types = {"dt": "DATE", "region": "STRING", "id": "BIGINT"}
    table = catalog.create_table("sales.orders", types, partition_keys=["dt", "region"], options={"bucket": "-1"})
    place = {"dt": dt.date(2013, 1, 2), "region": "it's"}
    table.write([{**place, "id": 1}, {**place, "region": "north", "id": 2}])
    asset = writer(
        lambda _: pa.Table.from_pylist([{**place, "id": 3}]),
        metadata=table_metadata(write_mode="overwrite", partition_map=mapped),
        partitions_def=both,
    )
    key = dg.MultiPartitionKey({"day": "2013-01-02", "region": "it's"})
    instance.add_dynamic_partitions("regions", ["it's", "north"])

    run(tmp_path, asset, reader(pa.Table, partitions_def=both), instance=instance, partition=key)

    assert SEEN[0].to_pylist() == [{**place, "id": 3}]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3]


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("asked", "external", "told"),
    [
        (
            {"read": {"where": "nope = 1"}},
            {},
            "sales.orders: Condition on column 'nope', which the table does not have",
        ),
        ({"read": {"where": "id = 1) OR (id = 2"}}, {}, "Condition 'id = 1) OR (id = 2' is not SQL at"),
        ({"read": {"where": 5}}, {}, "where=5: expected SQL text"),
        ({"read": {"where": None}}, {}, "where: found None, expected a SQL condition. Leave it out to read all rows."),
        ({"read": {"columns": "id"}}, {}, "columns: found 'id', expected a list of names of columns. Write ['id', …]."),
        ({"read": {"columns": ["nope"]}}, {}, "nope"),
        ({"annotation": int}, {}, "found an input of the type <class 'int'>, expected one of lakehouse_core.Scan, "),
        (
            {"partitions_def": DAYS},
            {"partitions_def": DAYS},
            "sales.orders: found partition key '2013-01-02', but the asset has no partition_map. Add one",
        ),
        (
            {"partitions_def": DAYS},
            {"partitions_def": DAYS, "metadata": {"partition_map": "dt"}},
            "partition_map: found 'dt', expected KeyColumn, TimeColumns or Dimensions.",
        ),
        (
            {"partitions_def": DAYS},
            {"partitions_def": DAYS, "metadata": table_metadata(partition_map=KeyColumn(column="id"))},
            "sales.orders: the partition_map has column 'id', but the table is partitioned by dt. Map these columns.",
        ),
        (
            {"partitions_def": DAYS},
            {"partitions_def": DAYS, "metadata": table_metadata(partition_map=TimeColumns(columns={"dt": "%Y-%m"}))},
            "partition map {'dt': '%Y-%m'}: partition {'dt': '2013-01'} of the table is not that of key '2013-01-02' ",
        ),
        (
            {},
            {"metadata": table_metadata(lake="other", table="sales.orders")},
            "lake/sales/orders: found an asset that is not known as a table of the lake lake",
        ),
        ({}, {"metadata": table_metadata(lake="lake", table="sales.order")}, "sales.order"),
    ],
)
def test_a_read_that_cannot_be_narrowed_as_asked_fails_with_a_sentence(
    asked: dict[str, Any], external: dict[str, Any], told: str, tmp_path: Path, instance: dg.DagsterInstance
):
    asked = dict(asked)
    report = reader(asked.pop("annotation", pa.Table), **asked)
    partition = "2013-01-02" if "partitions_def" in asked else None

    result = run(
        tmp_path, report, dg.AssetSpec(ORDERS, **external), instance=instance, partition=partition, raises=False
    )

    assert told in failure(result)
    assert SEEN == []


# Writing


def writer(returned: Any, annotation: Any = Any, **arguments: Any) -> dg.AssetsDefinition:
    """An asset that is the table sales.orders; `returned` makes its rows."""

    def orders(context):
        return returned(context)

    orders.__annotations__ = {"context": dg.AssetExecutionContext, "return": annotation}
    return dg.asset(key=ORDERS, **arguments)(orders)


def found(orders: lc.Table) -> list[tuple[int, int]]:
    return sorted((row["dt"].day, row["id"]) for row in orders.scan().to_arrow().to_pylist())


ROWS = [order(3, 1), order(3, 2)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "made",
    [
        pa.Table.from_pylist(ROWS),
        pa.RecordBatch.from_pylist(ROWS),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
    ],
    ids=lambda made: f"{type(made).__module__}.{type(made).__name__}",
)
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_rows_that_an_asset_returns_are_added_to_its_table(
    made: Any, is_partitioned: bool, orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    partitions = {"partitions_def": DAYS} if is_partitioned else {}
    metadata = table_metadata(write_mode="append", partition_map=BY_DAY if is_partitioned else None)
    asset = writer(lambda _: made, metadata=metadata, **partitions)

    run(tmp_path, asset, instance=instance, partition="2013-01-03" if is_partitioned else None)

    assert found(orders)[-2:] == [(3, 1), (3, 2)]
    assert len(found(orders)) == 12


def test_a_stream_is_read_once_and_checked(orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance):
    asset = writer(
        lambda _: pa.Table.from_pylist(ROWS).to_reader(),
        metadata=table_metadata(write_mode="append", partition_map=BY_DAY),
        partitions_def=DAYS,
    )

    run(tmp_path, asset, instance=instance, partition="2013-01-03")

    assert len(found(orders)) == 12


def test_the_page_of_a_written_table_has_the_figures_of_our_own_operations(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    asset = writer(lambda _: pa.Table.from_pylist(ROWS), metadata=table_metadata(write_mode="append"))

    result = run(tmp_path, asset, instance=instance)

    (event,) = result.asset_materializations_for_node("lake__sales__orders")
    shown = {key: value.value for key, value in event.metadata.items()}
    assert {key: shown[key] for key in ("paimon/snapshot_id", "paimon/snapshot_id_before", "paimon/rows_added")} == {
        "paimon/snapshot_id": 2,
        "paimon/snapshot_id_before": "1",
        "paimon/rows_added": 2,
    }
    assert (shown["dagster/row_count"], shown["paimon/replayed"], shown["paimon/snapshots_retained"]) == (12, 0, 2)
    assert shown["dagster/uri"] == orders.uri
    assert (event.tags or {})["dagster/data_version"] == shown["paimon/content_version"]
    assert orders.snapshot(2).properties["lakehouse.run-id"] == result.run_id


@pytest.mark.long
def test_a_run_that_is_done_again_adds_its_rows_once_and_its_steps_see_one_snapshot_in_all_processes(
    catalog: lc.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LAKEHOUSE_TEST_FOLDER", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_TEST_WAREHOUSE", str(tmp_path / "warehouse"))
    catalog.create_table("sales.orders", {"id": "BIGINT"}, options={"bucket": "-1"}).write([{"id": 1}])
    copied = catalog.create_table("sales.copy", {"id": "BIGINT"}, options={"bucket": "-1"})
    job = dg.reconstructable(io_location.job)
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        failed = dg.execute_job(job, instance)
        first = (failed.success, (tmp_path / "seen").read_text(), copied.scan().count())
        (tmp_path / "mended").touch()

        again = dg.execute_job(job, instance, reexecution_options=dg.ReexecutionOptions(parent_run_id=failed.run_id))
        (event,) = again.asset_materializations_for_node("lake__sales__copy")
        fresh = dg.execute_job(job, instance)

    assert first == (False, "1 1", 1)
    assert (again.success, event.metadata["paimon/replayed"].value) == (True, 1)
    assert event.metadata["paimon/snapshot_id"].value == 1
    assert event.metadata["paimon/noop_reason"].value == f"committed before by run {failed.run_id[:8]} as snapshot 1"
    # Two orders that others wrote meanwhile, and the copies of the first run and of the new one.
    assert fresh.success
    assert copied.scan().count() == 1 + 3


def test_an_upsert_merges_the_rows_by_key(catalog: lc.Catalog, tmp_path: Path, instance: dg.DagsterInstance):
    table = catalog.create_table(
        "sales.orders", {"id": "BIGINT NOT NULL", "n": "INT"}, primary_keys=["id"], options={"bucket": "1"}
    )
    table.write([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    rows = pa.Table.from_pylist([{"id": 2, "n": 5, "op": "+U"}, {"id": 1, "n": 1, "op": "-D"}])
    asset = writer(lambda _: rows, metadata=table_metadata(write_mode="upsert", rowkind_column="op"))

    run(tmp_path, asset, instance=instance)

    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "n": 5}]


def test_an_overwrite_replaces_the_partition_of_the_run_also_by_nothing(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    rows = [order(2, 7)]
    metadata = table_metadata(write_mode="overwrite", partition_map=BY_DAY)
    asset = writer(lambda _: pa.Table.from_pylist(rows, orders.scan().schema()), metadata=metadata, partitions_def=DAYS)

    run(tmp_path, asset, instance=instance, partition="2013-01-02")
    assert found(orders) == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 7)]
    rows.clear()
    run(tmp_path, asset, instance=instance, partition="2013-01-02")
    assert found(orders) == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", [pa.Table.from_pylist, pd.DataFrame, pl.DataFrame])
def test_an_overwrite_of_a_range_replaces_each_partition_in_a_commit_of_its_own(
    make: Any, orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    rows = [order(2, 7), order(4, 8), order(2, 9)]
    metadata = table_metadata(write_mode="overwrite", partition_map=BY_DAY)
    single = dg.BackfillPolicy.single_run()
    asset = writer(lambda _: make(rows), metadata=metadata, partitions_def=DAYS, backfill_policy=single)

    result = run(tmp_path, asset, instance=instance, days=("2013-01-02", "2013-01-04"))

    assert [each for each in found(orders) if each[0] > 1] == [(2, 7), (2, 9), (4, 8)]
    events = result.asset_materializations_for_node("lake__sales__orders")
    assert {e.partition: e.metadata["dagster/partition_row_count"].value for e in events} == {
        "2013-01-02": 2,
        "2013-01-03": 0,
        "2013-01-04": 1,
    }


def test_an_overwrite_by_an_asset_without_partitions_replaces_the_table(
    orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    asset = writer(lambda _: pa.Table.from_pylist(ROWS), metadata=table_metadata(write_mode="overwrite"))

    run(tmp_path, asset, instance=instance)

    assert found(orders) == [(3, 1), (3, 2)]


APPEND, OVERWRITE = (table_metadata(write_mode=mode, partition_map=BY_DAY) for mode in ("append", "overwrite"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "case",
    [
        (pa.Table.from_pylist(ROWS), {}, "write_mode: found None, expected one of append, upsert, overwrite. Say it"),
        (pa.Table.from_pylist(ROWS), {"write_mode": "merge"}, "write_mode: found 'merge', expected one of append,"),
        (
            pa.Table.from_pylist(ROWS),
            {"write_mode": "upsert"},
            "sales.orders: found write_mode 'upsert', but the table has no primary key. Write 'append' or 'overwrite'.",
        ),
        (pa.Table.from_pylist(ROWS), {"write_mode": "overwrite"}, "but the asset has no partition_map"),
        (None, APPEND, "the asset returned None, expected an Arrow table, a pandas, polars or Spark frame, or a scan."),
        (ROWS, APPEND, "the asset returned an object of <class 'list'>, expected an Arrow table"),
        (
            pa.Table.from_pylist([order(3, 1), order(2, 1), order(1, 1)]),
            APPEND,
            "the asset returned 2 rows of other partitions, the first of dt=2013-01-02 in row 1; expected "
            "dt=2013-01-03. Leave other rows out.",
        ),
        (pd.DataFrame([order(2, 1)]), OVERWRITE, "1 rows of other partitions, the first of dt=2013-01-02 in row 0"),
        (pl.DataFrame([order(2, 1)]), OVERWRITE, "1 rows of other partitions, the first of dt=2013-01-02 in row 0"),
        (pl.DataFrame([{"dt": None}]), OVERWRITE, "1 rows of other partitions, the first of dt=None in row 0"),
        (pa.table({"id": [1]}), OVERWRITE, "the rows have no column 'dt', which the partition_map names. Add it."),
        (pa.table({"dt": ["x"]}), OVERWRITE, "column dt: found string, expected values of date32[day]"),
        (pa.table({"dt": [dt.date(2013, 1, 3)], "nope": [1]}), OVERWRITE, "nope"),
    ],
)
def test_what_an_asset_may_not_return_fails_with_a_sentence_and_leaves_the_table_as_it_was(
    case: tuple[Any, Any, str], orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance
):
    returned, metadata, told = case
    asset = writer(lambda _: returned, metadata=metadata, partitions_def=DAYS)

    result = run(tmp_path, asset, instance=instance, partition="2013-01-03", raises=False)

    assert told in failure(result)
    assert len(orders.snapshots()) == 1


def test_an_asset_of_another_lake_is_refused(orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance):
    @dg.asset(key=["other", "sales", "orders"], metadata=table_metadata(write_mode="append"))
    def asset() -> pa.Table:
        return pa.Table.from_pylist(ROWS)

    result = run(tmp_path, asset, instance=instance, raises=False)

    assert failure(result).startswith(
        "other/sales/orders: found an asset that is not known as a table of the lake lake, expected the key "
        "lake/<database>/<table>."
    )
    assert len(orders.snapshots()) == 1


def test_an_asset_with_a_key_of_its_own_names_its_table(orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance):
    @dg.asset(metadata=table_metadata(write_mode="append", lake="lake", table="sales.orders"))
    def bookings() -> pa.Table:
        return pa.Table.from_pylist(ROWS)

    run(tmp_path, bookings, instance=instance)

    assert len(found(orders)) == 12


@pytest.mark.spark
def test_spark_frames_are_read_and_written(spark: Any, orders: lc.Table, tmp_path: Path, instance: dg.DagsterInstance):
    from pyspark.sql import DataFrame, functions

    copy = dg.AssetKey(["lake", "sales", "copy"])
    types = {"dt": "DATE NOT NULL", "id": "BIGINT NOT NULL", "status": "STRING"}
    copied = lc.connect(tmp_path / "warehouse").create_table(
        "sales.copy", types, partition_keys=["dt"], options={"bucket": "-1"}
    )
    copied.write([order(1, 100), order(2, 100), order(4, 100)])
    adds = [0]
    single = dg.BackfillPolicy.single_run()
    metadata = table_metadata(write_mode="overwrite", partition_map=BY_DAY)
    ins = {"orders": dg.AssetIn(key=ORDERS, metadata={"where": "id > 2"})}

    @dg.asset(key=copy, ins=ins, metadata=metadata, partitions_def=DAYS, backfill_policy=single)
    def copy_orders(orders: DataFrame) -> DataFrame:
        return orders.withColumn("dt", functions.date_add("dt", adds[0]))

    external = dg.AssetSpec(ORDERS, partitions_def=DAYS, metadata=table_metadata(partition_map=BY_DAY))
    run(tmp_path, copy_orders, external, instance=instance, days=("2013-01-01", "2013-01-02"))
    assert found(copied) == [(1, 3), (1, 4), (2, 3), (2, 4), (4, 100)]
    adds[0] = 1
    result = run(tmp_path, copy_orders, external, instance=instance, days=("2013-01-01", "2013-01-02"), raises=False)
    assert "rows of other partitions; expected dt=2013-01-01 or dt=2013-01-02. Leave other rows out." in failure(result)
    assert found(copied) == [(1, 3), (1, 4), (2, 3), (2, 4), (4, 100)]
