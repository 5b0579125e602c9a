"""Loading of a code location with many tables, and a small step in a process that runs.

Every run of Dagster loads its code location again. The floor is Dagster itself: as many assets and checks, with as many
jobs, schedules and sensors, that do nothing.
"""

import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks import _measure as measure
from lakehouse_dagster import Lake, LakehouseResource, SparkRuntime, TableSpec, lake_definitions
from lakehouse_dagster.testing import ReadyLake, ready_lake

TABLES = 300
# Small steps of one measurement.
_STEPS = 10
_OPERATIONS = ("ingest", "", "compact_manifests", "compact_full", "expire")
_CHECKS = ("verify", "source_row_count", "inputs_current", "sorted_runs", "snapshot_count")


def main() -> None:
    parsed = measure.arguments(__doc__)
    tables = measure.scaled(TABLES, parsed)
    measure.print_header("Loading of many tables", data=f"{tables} tables of files, keys and days in turn")
    logging.disable(logging.CRITICAL)
    specs = [spec(number) for number in range(tables)]
    alternatives: dict[str, Callable[[], Any]] = {
        "ours": lambda: defined(specs).get_repository_def(),
        "Dagster alone": lambda: bare(tables).get_repository_def(),
    }
    series = measure.interleave(alternatives, rounds=parsed.rounds)
    measure.print_table(f"Definitions of {tables} tables", series, against="Dagster alone")
    with tempfile.TemporaryDirectory() as folder, ready_lake(small_lake(Path(folder)), resources={}) as ready:
        step = loaded(ready)
        steps = measure.interleave({"compact_manifests": step}, rounds=parsed.rounds)
    a_step = steps["compact_manifests"].cpu_seconds / _STEPS
    measure.print_rows(
        "A maintenance run of one small step, in a process that runs", ["", "CPU s"], [["run", f"{a_step:.3f}"]]
    )
    over = series["ours"].cpu_seconds - series["Dagster alone"].cpu_seconds
    bars = [
        measure.Bar(f"definitions of {TABLES} tables over Dagster", over / tables * TABLES, 2, 1, "s CPU"),
        measure.Bar("small maintenance step", a_step, 1.5, 0.7, "s CPU"),
    ]
    measure.print_bars(bars)


def spec(number: int) -> TableSpec:
    """Return the specification of a table: of files, of a keyed query, or of a function by the day."""
    days = {"time": {"every": "day", "start": "2013-01-01", "columns": {"dt": "%Y-%m-%d"}}}
    kinds: list[dict[str, Any]] = [
        {"write_mode": "append", "files": {"path": f"/data/{number}/*.csv"}},
        {
            "write_mode": "upsert",
            "primary_key": ["id"],
            "options": {"bucket": "1"},
            "sql": {"connection": "SHOP", "query": f"SELECT * FROM t{number}", "cursor": "id"},
        },
        {
            "write_mode": "overwrite",
            "partition_by": ["dt"],
            "function": {"call": "shop.rows"},
            "partitions": days,
        },
    ]
    return TableSpec.model_validate(
        {
            "database": "sales",
            "name": f"t{number}",
            "comment": f"Table {number}.",
            "columns": {"id": "BIGINT NOT NULL", "dt": "DATE NOT NULL", "value": "STRING"},
            "owners": ["team:shop"],
            "tags": {"tier": "gold"},
            **kinds[number % len(kinds)],
        }
    )


def defined(specs: list[TableSpec]) -> dg.Definitions:
    resource = LakehouseResource(warehouse="/data/warehouse", spark=SparkRuntime())
    return lake_definitions(Lake(name="lake", tables=specs), resources={"lakehouse": resource})


def bare(tables: int) -> dg.Definitions:
    """Return as many definitions that do nothing."""
    days = dg.DailyPartitionsDefinition(start_date="2013-01-01")
    assets, checks = [], []
    for number in range(tables):
        key = ["lake", "sales", f"t{number}"]
        for operation in _OPERATIONS:
            is_daily = number % 3 == 2 and operation in ("ingest", "")
            assets.append(_asset([*key, operation] if operation else key, days if is_daily else None))
        checks.append(_check(key))
    selection = dg.AssetSelection.all()
    jobs = [
        dg.define_asset_job("ingest", selection=dg.AssetSelection.key_substring("ingest")),
        dg.define_asset_job("maintain", selection=dg.AssetSelection.key_substring("expire")),
    ]
    sensor = dg.AutomationConditionSensorDefinition("conditions", target=selection)
    resource = LakehouseResource(warehouse="/data/warehouse", spark=SparkRuntime())
    return dg.Definitions(
        assets=assets,
        asset_checks=checks,
        jobs=jobs,
        sensors=[sensor],
        resources={"lakehouse": resource},
        executor=dg.in_process_executor,
    )


def _asset(key: list[str], partitions: dg.PartitionsDefinition | None) -> dg.AssetsDefinition:
    table = "/".join(key[:3])

    @dg.asset(
        key=key,
        deps=[key[:3]] if len(key) > 3 and key[3] != "ingest" else [],
        group_name="__".join(key[:3]),
        kinds={"paimon", "spark"},
        owners=["team:shop"],
        tags={"lakehouse/table": ".".join(key[1:3])},
        op_tags={"lakehouse/table": table},
        pool=table,
        code_version="1",
        required_resource_keys={"lakehouse"},
        description=f"An asset of {table}.",
        partitions_def=partitions,
    )
    def made(context: dg.AssetExecutionContext) -> None:
        raise NotImplementedError

    return made


def _check(key: list[str]) -> dg.AssetChecksDefinition:
    specs = [dg.AssetCheckSpec(name, asset=key, description="A check.") for name in _CHECKS]

    @dg.multi_asset_check(
        name=f"{'__'.join(key)}__checks", specs=specs, can_subset=True, required_resource_keys={"lakehouse"}
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        yield from ()

    return checks


def small_lake(folder: Path) -> Lake:
    fields = {
        "database": "d",
        "name": "t",
        "comment": "T.",
        "columns": {"id": "BIGINT NOT NULL"},
        "write_mode": "append",
        "runs_on": "process",
        "files": {"path": str(folder / "*.csv")},
    }
    (folder / "1.csv").write_text("id\n1\n")
    return Lake(name="lake", tables=[TableSpec.model_validate(fields)])


def loaded(ready: ReadyLake) -> Callable[[], None]:
    """Load the table, and return a function that makes runs of one small step."""
    (table,) = ready.lake.tables
    keys = [ready.lake.operation_key(table, "ingest"), ready.lake.table_key(table)]
    ingest, maintain = (ready.definitions.resolve_job_def(f"lake_{name}") for name in ("ingest", "maintain"))
    assert ingest.execute_in_process(instance=ready.instance, asset_selection=keys).success

    def steps() -> None:
        for _ in range(_STEPS):
            selection = [ready.lake.operation_key(table, "compact_manifests")]
            assert maintain.execute_in_process(instance=ready.instance, asset_selection=selection).success

    return steps


if __name__ == "__main__":
    main()
