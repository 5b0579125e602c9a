"""The contract with Dagster's private parts: a release that changes one of them fails here first."""

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.launcher.base import RunLauncher
from dagster._daemon.monitoring import run_monitoring

from lakehouse_dagster import ProcessRunLauncher, TableRunCoordinator, write_instance_settings
from lakehouse_dagster.instance import dagster_internals
from lakehouse_dagster.instance.dagster_internals import CheckRunHealthResult, WorkerStatus, most_retries
from lakehouse_dagster.instance.heartbeats import read_heartbeat
from lakehouse_dagster.instance.launcher import WORKER_TAG
from lakehouse_dagster.instance.workers import this_process, write_record


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    write_instance_settings(tmp_path)
    return dg.DagsterInstance.from_config(str(tmp_path))


def launcher(instance: dg.DagsterInstance) -> ProcessRunLauncher:
    made = instance.run_launcher
    assert isinstance(made, ProcessRunLauncher)
    return made


def run(**tags: str) -> dg.DagsterRun:
    return dg.DagsterRun(job_name="job", run_id="run", status=dg.DagsterRunStatus.STARTED, tags=tags)


def test_the_settings_make_the_launcher_and_the_queue_with_their_limits(instance: dg.DagsterInstance):
    assert instance.run_launcher.supports_check_run_worker_health
    assert isinstance(instance.run_coordinator, TableRunCoordinator)
    assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 2
    assert instance.run_monitoring_poll_interval_seconds == 15
    assert instance.run_monitoring_start_timeout_seconds == 60
    assert most_retries(instance) == 1


def test_without_retries_of_the_instance_the_sensor_still_has_one(tmp_path: Path):
    (tmp_path / "dagster.yaml").write_text("run_retries: {enabled: false}\n")

    assert most_retries(dg.DagsterInstance.from_config(str(tmp_path))) == 1


def private_names(source: str) -> Iterator[str]:
    """Yield the names from below a module `dagster…` that begin with an underscore."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found = [f"{module}.{alias.name}" for alias in names]
            case ast.Attribute(value=ast.Name(id="dg" | "dagster"), attr=attribute):
                found = [f"dagster.{attribute}"]
            case _:
                continue
        for name in found:
            first, *below = name.split(".")
            if first.startswith("dagster") and any(part.startswith("_") for part in below):
                yield name


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import dagster._check", ["dagster._check"]),
        ("from dagster._check import CheckError", ["dagster._check.CheckError"]),
        ("from dagster import _core, asset", ["dagster._core"]),
        ("from dagster_graphql._schema import x", ["dagster_graphql._schema.x"]),
        ("import dagster as dg\ndg._check.str_param", ["dagster._check"]),
        ("import dagster as dg\nfrom dagster import asset\ndg.op\nimport lakehouse_dagster._x", []),
    ],
)
def test_a_private_name_is_found_however_it_is_imported(source: str, found: list[str]):
    assert list(private_names(source)) == found


def test_no_other_module_imports_private_names_of_dagster():
    root = Path(__file__).parent.parent.parent.parent
    files = [
        file
        for package in ("lakehouse_core", "lakehouse_dagster", "resources", "assets", "orchestration")
        for file in (root / package).rglob("*.py")
    ]
    # Most modules do not even contain the word: they need not be parsed.
    sources = {str(file.relative_to(root)): text for file in files if "dagster" in (text := file.read_text())}
    found = {file: names for file, text in sources.items() if (names := [*private_names(text)])}

    assert found.keys() == {"lakehouse_dagster/instance/dagster_internals.py"}


def test_every_private_name_that_we_use_is_still_there():
    assert all(getattr(dagster_internals, name) is not None for name in dagster_internals.__all__)


def test_a_result_without_an_event_is_no_materialization_and_skips_no_later_step():
    @dg.asset
    def table() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(metadata=dict(dagster_internals.NO_EVENT))

    @dg.asset(deps=[table])
    def follower() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([table, follower], instance=instance)

        known = [instance.get_latest_materialization_event(key) for key in (table.key, follower.key)]
    assert [event is None for event in known] == [True, False]


def test_monitoring_fails_a_run_for_any_answer_but_two_and_then_asks_what_the_worker_wrote():
    source = inspect.getsource(run_monitoring.monitor_started_run)

    assert "not in [WorkerStatus.RUNNING, WorkerStatus.SUCCESS]" in source
    assert "check_health_result.status == WorkerStatus.FAILED" in source
    for method in ("launch_run", "terminate", "check_run_worker_health", "get_run_worker_debug_info"):
        theirs, ours = (inspect.signature(getattr(kind, method)) for kind in (RunLauncher, ProcessRunLauncher))
        assert list(theirs.parameters) == list(ours.parameters), method


def health(instance: dg.DagsterInstance, dagster_run: dg.DagsterRun) -> CheckRunHealthResult:
    return launcher(instance).check_run_worker_health(dagster_run)


def test_a_run_of_another_process_is_left_alone(instance: dg.DagsterInstance):
    """`make run` executes runs of its own while the daemon of `make ui` looks at all of them."""
    assert health(instance, run()).status is WorkerStatus.RUNNING


@pytest.mark.program
def test_a_process_that_executes_a_run_by_itself_is_found_dead_too(instance: dg.DagsterInstance, tmp_path: Path):
    script = f"""
import json, time
import dagster as dg
from lakehouse_dagster import executed_here
with dg.DagsterInstance.from_config({str(tmp_path)!r}) as instance:
    print(json.dumps(executed_here(instance)), flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        run_id, tags = json.loads(process.stdout.readline())
        own = dg.DagsterRun(job_name="job", run_id=run_id, status=dg.DagsterRunStatus.STARTED, tags=tags)
        alive = health(instance, own)
        process.kill()
    dead = health(instance, own)

    heartbeat = read_heartbeat(instance, run_id)
    assert heartbeat is not None, "for a daemon of another machine"
    assert heartbeat.worker.pid == process.pid
    assert alive.status is WorkerStatus.RUNNING
    assert dead.status is WorkerStatus.FAILED
    assert str(dead) == f"FAILED: 'process {process.pid} on {tags[WORKER_TAG]} is gone'"


def test_a_run_without_a_record_or_a_living_worker_is_dead(instance: dg.DagsterInstance, tmp_path: Path):
    ours = run(**{WORKER_TAG: "here"})
    missing = health(instance, ours)
    (tmp_path / "workers").mkdir()
    write_record(tmp_path / "workers", this_process("run"))
    alive = health(instance, ours)

    assert missing.status is WorkerStatus.FAILED
    assert "there is no worker record in" in str(missing)
    assert alive.status is WorkerStatus.RUNNING
