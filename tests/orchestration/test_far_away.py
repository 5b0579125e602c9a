"""The main job away from the one disk: in an object store, and on a Spark cluster that is given our package."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest

from assets.lake import LAKE
from orchestration import ui
from orchestration.definitions import defs
from tests.orchestration.pipeline import EXTRACT
from tests.spark.standalone import DRIVER, cluster, python_without_our_package, shipped_package
from tests.storage.s3_stub import ACCESS, SECRET, S3Stub

pytestmark = [
    pytest.mark.dagster,
    pytest.mark.spark,
    pytest.mark.own_session,
    pytest.mark.slow,
]

ADDRESS = "s3://lake/warehouse"


def run_of(warehouse: str, folder: Path, **environ: str) -> str:
    """Run the main job over four batches, its history and feed below `folder`; return what it printed."""
    own = {"DAGSTER_HOME": str(folder / "home"), "LAKEHOUSE_FEED_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "orchestration.run", "--warehouse", warehouse, "--batches", "4"]
    done = subprocess.run(
        [*command, "--source", str(EXTRACT)],
        env={**os.environ, **own, **environ},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def files_with(text: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.long
def test_the_main_job_in_an_object_store_answers_as_on_a_disk_and_stores_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with S3Stub() as stub:
        told = run_of(ADDRESS, tmp_path, **stub.environ)
        for name, value in {**stub.environ, "LAKEHOUSE_WAREHOUSE": ADDRESS}.items():
            monkeypatch.setenv(name, value)

        assert "7 of 7 answers agree with the source" in told
        assert f"make ui WAREHOUSE={ADDRESS}" in told
        assert ui.no_warehouse(ADDRESS) is None
        # The pages of `make ui` show what the history holds.
        assert files_with(ADDRESS, tmp_path / "home") != []
        for secret in (ACCESS, SECRET):
            assert secret not in told
            assert files_with(secret, tmp_path) == []

        # Also if none of them overlapped, and each took 20 ms, a tick would end long before Dagster ends it.
        requests = ticks(stub)
        assert max(requests.values()) * 0.02 < 20, requests
        before = len(stub.requests)
        assert all_checks() == {"verify", "inputs_current", "sorted_runs", "snapshot_count", "waiting_rows"}
        assert (len(stub.requests) - before) / len(LAKE.tables) * 0.02 < 20


def ticks(stub: S3Stub) -> Mapping[str, int]:
    """Evaluate each sensor of a warehouse that was just maintained; return its requests by name."""
    requests = {}
    repository = defs.get_repository_def()
    with dg.DagsterInstance.ephemeral() as instance:
        for sensor in repository.sensor_defs:
            given = {key: (defs.resources or {})[key] for key in sensor.required_resource_keys}
            with dg.build_sensor_context(instance=instance, repository_def=repository, resources=given) as context:
                before = len(stub.requests)
                if LAKE.resource in sensor.required_resource_keys:
                    sensor.evaluate_tick(context)
                    requests[sensor.name] = len(stub.requests) - before
    return requests


def all_checks() -> set[str]:
    """Run each check of each table; return the names of those that passed everywhere."""
    job = dg.define_asset_job("all_checks", selection=dg.AssetSelection.all_asset_checks())
    whole = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    with dg.DagsterInstance.ephemeral() as instance:
        result = whole.resolve_job_def("all_checks").execute_in_process(instance=instance)
    told = [
        event.asset_check_evaluation_data
        for event in result.all_events
        if event.event_type_value == "ASSET_CHECK_EVALUATION"
    ]
    return {each.check_name for each in told} - {each.check_name for each in told if not each.passed}


@pytest.mark.cluster
def test_the_main_job_on_a_cluster_that_is_given_our_package_answers_as_on_one_machine(tmp_path: Path) -> None:
    python = python_without_our_package(tmp_path / "python")
    settings = {"spark.submit.pyFiles": shipped_package(tmp_path), "spark.executor.memory": "600m", **DRIVER}
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
    with S3Stub() as stub:
        environ = {
            **stub.environ,
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        with cluster(tmp_path, environ=stub.environ) as master:
            told = run_of(ADDRESS, tmp_path, LAKEHOUSE_SPARK_MASTER=master, **environ)
            applications = list((tmp_path / "work").glob("app-*"))

    assert "7 of 7 answers agree with the source" in told
    # One session for all jobs, with an executor on each worker.
    assert [len(list(application.iterdir())) for application in applications] == [2]
