"""A table that is filled by the value of an asset, whatever kind of frame it is."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakehouse_dagster import Lake, LakehouseResource, SparkRuntime, TableSpec, lake_definitions
from lakehouse_dagster.testing import ReadyLake

T = "sales.sums"
REGIONS = dg.StaticPartitionsDefinition(["north", "south"])
FRAME = pd.DataFrame({"region": ["north", "south"], "v": [1, 2]})


def spec(**change: Any) -> TableSpec:
    fields = {
        "database": "sales",
        "name": "sums",
        "comment": "Sums.",
        "columns": {"region": "STRING NOT NULL", "v": "BIGINT"},
        "options": {"bucket": "-1"},
        "write_mode": "overwrite",
        "runs_on": "process",
        "asset": {"key": "raw/sums"},
        **change,
    }
    return TableSpec.model_validate(fields)


class Loaded:
    """A lake beside an asset that returns what a test gives it."""

    def __init__(self, folder: Any, value: Callable[[Any], object], table: TableSpec, **asset: Any) -> None:
        @dg.asset(key=["raw", "sums"], **asset)
        def sums(context: dg.AssetExecutionContext) -> Any:
            return value(context)

        self.instance = dg.DagsterInstance.ephemeral()
        lake = Lake(name="lake", tables=[table])
        resource = LakehouseResource(warehouse=str(folder / "warehouse"), spark=SparkRuntime())
        resources: dict[str, Any] = {
            "lakehouse": resource,
            "io_manager": dg.FilesystemIOManager(base_dir=str(folder / "values")),
        }
        resources["memory"] = dg.InMemoryIOManager()
        defs = dg.Definitions.merge(lake_definitions(lake, resources=resources), dg.Definitions(assets=[sums]))
        self.ready = ReadyLake(lake=lake, definitions=defs, instance=self.instance, warehouse=folder / "warehouse")

    def run(self, *keys: str, only_table: bool = False, **settings: Any) -> dg.ExecuteInProcessResult:
        spec = self.ready.lake.tables[0]
        own = [self.ready.lake.operation_key(spec, "ingest"), self.ready.lake.table_key(spec)]
        ends = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
        return self.ready.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            asset_selection=own if only_table else [dg.AssetKey(["raw", "sums"]), *own],
            tags=dict(zip(ends, (keys[0], keys[-1]), strict=True)) if keys else {},
            **settings,
        )

    def rows(self) -> list[tuple[str, int]]:
        found = self.ready.table(T).scan().to_arrow().to_pylist()
        return sorted((row["region"], row["v"]) for row in found)


@pytest.mark.one_in(2)
@pytest.mark.dagster
@pytest.mark.parametrize(
    "made", [lambda f: f, pa.Table.from_pandas, pl.from_pandas, lambda f: pl.from_pandas(f).lazy()]
)
def test_the_value_of_an_asset_becomes_the_table_in_each_run(tmp_path: Any, made: Callable[[Any], Any]):
    frames = [FRAME, FRAME.tail(1)]
    loaded = Loaded(tmp_path, lambda _: made(frames.pop(0)), spec())

    loaded.run()
    assert loaded.rows() == [("north", 1), ("south", 2)]
    loaded.run(only_table=True)
    assert loaded.rows() == [("north", 1), ("south", 2)]
    loaded.run()

    assert loaded.rows() == [("south", 2)]
    table = loaded.ready.definitions.resolve_asset_graph().get(dg.AssetKey(["lake", "sales", "sums", "ingest"]))
    assert table.parent_keys == {dg.AssetKey(["raw", "sums"])}
    assert all(loaded.ready.checks(T).values())


@pytest.mark.dagster
def test_partitions_of_an_asset_are_partitions_of_the_table(tmp_path: Any):
    version = [10]
    table = spec(partition_by=["region"], partitions={"static": {"keys": ["north", "south"], "column": "region"}})
    loaded = Loaded(
        tmp_path,
        lambda context: (
            {key: FRAME[FRAME.region == key].assign(v=version[0]) for key in context.partition_keys}
            if len(context.partition_keys) > 1
            else FRAME[FRAME.region == context.partition_key].assign(v=version[0])
        ),
        table,
        partitions_def=REGIONS,
        backfill_policy=dg.BackfillPolicy.multi_run(),
    )
    for key in ("north", "south"):
        loaded.run(key)
    version[0] = 20
    loaded.run("north")
    assert loaded.rows() == [("north", 20), ("south", 10)]

    loaded.run("north", "south", only_table=True)
    assert loaded.rows() == [("north", 20), ("south", 10)]
    assert len(loaded.ready.table(T).snapshots()) == 5


@pytest.mark.dagster
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": 1}, "the asset returned an object of <class 'dict'>, expected an Arrow table, a pandas, polars or"),
        (FRAME.rename(columns={"v": "w"}), "column 'w'"),
    ],
)
def test_a_value_that_is_not_rows_of_the_table_is_told(tmp_path: Any, value: object, told: str):
    loaded = Loaded(tmp_path, lambda _: value, spec())

    result = loaded.run(raise_on_error=False)

    assert not result.success
    assert told in "\n".join(str(entry) for entry in loaded.instance.all_logs(result.run_id))


@pytest.mark.spark
@pytest.mark.dagster
@pytest.mark.parametrize("runs_on", ["spark", "process"])
def test_a_spark_frame_is_written_by_spark_alone(tmp_path: Any, spark: Any, runs_on: str):
    frame = spark.createDataFrame(FRAME)
    change = {
        "runs_on": runs_on,
        "asset": {"key": "raw/sums", "io_manager": "memory"},
        "partition_by": ["region"],
        "partitions": {"static": {"keys": ["north", "south"], "column": "region"}},
    }
    loaded = Loaded(
        tmp_path,
        lambda context: frame.filter(frame.region == context.partition_key),
        spec(**change),
        partitions_def=REGIONS,
        io_manager_key="memory",
    )

    result = loaded.run("south", raise_on_error=False)

    if runs_on == "spark":
        assert result.success
        assert loaded.rows() == [("south", 2)]
    else:
        told = "\n".join(str(entry) for entry in loaded.instance.all_logs(result.run_id))
        assert "the asset raw/sums gives a Spark frame, but the table is written without Spark. Set runs_on" in told


def test_an_asset_that_would_be_added_again_in_each_run_is_refused():
    with pytest.raises(ValueError, match="each run would add all rows of the asset again"):
        spec(write_mode="append")
