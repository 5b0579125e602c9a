"""The definitions of a lake: what another team gets from one call, and that this platform is made of the same."""

import cProfile
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
import lakehouse_dagster
from assets.fleet import BUDGET
from assets.lake import LAKE
from lakehouse_dagster import Lake, LakehouseResource, SparkRuntime, TableSpec, lake_definitions
from orchestration.definitions import defs as platform
from orchestration.sensors import failed_run_webhook
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake, shop_resources

FIRST, LAST = "2013-01-01", "2013-01-03"


def facts(defs: dg.Definitions, lake: str) -> dict[str, Any]:
    """What people see of the assets, checks, jobs and sensors of a lake."""
    graph, repository = defs.resolve_asset_graph(), defs.get_repository_def()
    nodes = {key: graph.get(key) for key in graph.get_all_asset_keys() if key.path[0] == lake}
    return {
        "assets": {
            key: (n.description, n.group_name, n.tags, n.kinds, n.code_version, n.pools, n.metadata.keys())
            for key, n in nodes.items()
        },
        "deps": {key: n.parent_keys for key, n in nodes.items()},
        "checks": {key: graph.get(key).blocking for key in graph.asset_check_keys},
        "jobs": {
            job.name: (job.description, job.tags, {n.name for n in job.nodes if n.name.startswith(f"{lake}__")})
            for job in repository.get_all_jobs()
            if job.name in {f"{lake}_ingest", f"{lake}_maintain", f"{lake}_fleet"}
        },
        "schedules": {s.name: (s.cron_schedule, s.job_name) for s in repository.schedule_defs},
        "sensors": {s.name: s.description for s in repository.sensor_defs},
    }


def test_the_platform_is_what_one_call_makes_of_its_lake():
    made = lake_definitions(LAKE, resources=platform.resources, fleet=BUDGET)
    channel = dg.Definitions(sensors=[failed_run_webhook])

    assert facts(dg.Definitions.merge(made, channel), LAKE.name) == facts(platform, LAKE.name)


def calls_of_loading(tables: int) -> int:
    """Count the calls of functions that the definitions of some tables take."""
    specs = [
        TableSpec.model_validate(
            {
                "database": "sales",
                "name": f"t{number}",
                "comment": "T.",
                "columns": {"id": "BIGINT NOT NULL"},
                "write_mode": "append",
                "files": {"path": "*.csv"},
            }
        )
        for number in range(tables)
    ]
    lakehouse = LakehouseResource(warehouse="nowhere", spark=SparkRuntime())
    with cProfile.Profile() as profile:
        lake_definitions(Lake(name="lake", tables=specs), resources={"lakehouse": lakehouse}).get_repository_def()
    return sum(entry.callcount for entry in profile.getstats())


def test_what_is_the_same_for_all_tables_is_not_made_again_for_each() -> None:
    # What Dagster itself keeps of the first ones.
    calls_of_loading(1)

    each = (calls_of_loading(6) - calls_of_loading(2)) / 4

    # Seconds depend on the machine: `python -m benchmarks.loading`. Most calls are Dagster's. They are 31,000 when the
    # schema of settings is made, and signatures are found, again for each asset.
    assert each < 26_000


@pytest.mark.dagster
def test_a_lake_of_another_team_loads_maintains_and_checks_its_tables(tmp_path: Path):
    lake = shop_lake(name="mine", resource="my_lakehouse")
    defs = lake_definitions(lake, resources=shop_resources(tmp_path / "warehouse", lake))
    days = {"dagster/asset_partition_range_start": FIRST, "dagster/asset_partition_range_end": LAST}

    with dg.DagsterInstance.ephemeral() as instance:
        loaded = defs.resolve_job_def("mine_ingest").execute_in_process(instance=instance, tags=days)
        maintained = defs.resolve_job_def("mine_maintain").execute_in_process(instance=instance)

    assert {check.check_name for check in loaded.get_asset_check_evaluations() if check.passed} == {
        "verify",
        "source_row_count",
        "sorted_runs",
        "snapshot_count",
    }
    assert {m.asset_key for m in maintained.asset_materializations_for_node("mine__sales__orders__compact_full")} == {
        lake.operation_key(lake.tables[0], "compact_full")
    }
    table = lc.connect(str(tmp_path / "warehouse")).table("sales.orders")
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [0, 1, 2, 3]
    assert len(table.files()) == 1


def test_lakes_of_different_names_share_no_asset_and_no_group(tmp_path: Path):
    keys, groups = [], []
    for name in ("a", "b"):
        lake = shop_lake(name=name)
        defs = lake_definitions(lake, resources=shop_resources(tmp_path, lake))
        graph = defs.resolve_asset_graph()
        keys.append(graph.get_all_asset_keys())
        groups.append({graph.get(key).group_name for key in keys[-1] if key.path[0] == name})

    assert groups == [{"a__sales__orders"}, {"b__sales__orders"}]
    assert keys[0] & keys[1] == {dg.AssetKey("shop_feed")}
    assert {key.path[0] for key in keys[0]} == {"a", "shop_feed"}


@pytest.mark.dagster
def test_two_lakes_in_one_code_location_fill_their_own_warehouses(tmp_path: Path):
    lakes = [shop_lake(name=name, resource=f"{name}_lakehouse") for name in ("a", "b")]
    shop = ShopFeed()
    defs = dg.Definitions.merge(
        *(
            lake_definitions(lake, resources={**shop_resources(tmp_path / lake.name, lake), "shop": shop})
            for lake in lakes
        )
    )

    with dg.DagsterInstance.ephemeral() as instance:
        for name, last in (("a", "2013-01-01"), ("b", "2013-01-02")):
            days = {"dagster/asset_partition_range_start": FIRST, "dagster/asset_partition_range_end": last}
            assert defs.resolve_job_def(f"{name}_ingest").execute_in_process(instance=instance, tags=days).success

    rows = {
        name: lc.connect(str(tmp_path / name)).table("sales.orders").scan().to_arrow().column("id").to_pylist()
        for name in ("a", "b")
    }
    assert {name: sorted(ids) for name, ids in rows.items()} == {"a": [0, 1], "b": [0, 1, 2]}
    names = [s.name for s in defs.get_repository_def().sensor_defs]
    assert sorted(names) == ["a_maintenance", "a_state", "b_maintenance", "b_state", "carry_on", "log_failed_run"]


def test_a_resource_that_is_named_after_another_lake_is_refused(tmp_path: Path):
    resources = shop_resources(tmp_path, shop_lake(name="a"))

    with pytest.raises(lc.InvalidRequest, match=r"lake b: its resource 'lakehouse' is named 'a'.*name='b'"):
        lake_definitions(shop_lake(name="b"), resources=resources)


def test_making_definitions_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        lake_definitions(shop_lake(orders(), orders(name="carts")))


@pytest.mark.program
def test_importing_the_package_changes_no_setting_of_the_process():
    script = """
import os, signal, sys, threading, warnings
import dagster
from lakehouse_core import connect
before = dict(os.environ), list(warnings.filters), signal.getsignal(signal.SIGINT), threading.active_count()
import lakehouse_dagster
assert before == (dict(os.environ), list(warnings.filters), signal.getsignal(signal.SIGINT), threading.active_count())
assert not {"pyspark", "pandas", "orchestration", "assets", "resources"} & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_public_name_is_there_and_says_what_it_is():
    for name in lakehouse_dagster.__all__:
        public = getattr(lakehouse_dagster, name)
        assert getattr(public, "description", None) or getattr(public, "decorated_fn", public).__doc__, name
