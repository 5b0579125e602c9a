"""The shared instance, started as the compose file says, with PostgreSQL: it serves, runs die and are carried on."""

import os
import signal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_graphql.client.query import LAUNCH_PARTITION_BACKFILL_MUTATION

from tests.deploy.shared_instance import SharedPlane, shared_instance
from tests.lakehouse_dagster.plane import ORDERS

pytestmark = pytest.mark.postgres

DIED, DONE = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS
ORDERS_LOCATION = "tests.lakehouse_dagster.dying_location"

SERVED = """
query {
  workspaceOrError { ... on Workspace { locationEntries {
    name loadStatus locationOrLoadError { ... on PythonError { message } }
  } } }
  assetNodes { id }
  sensorsOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "lakehouse"}) {
    ... on Sensors { results { name sensorState { status } } }
  }
  instance {
    info
    runLauncher { name }
    daemonHealth { allDaemonStatuses { daemonType required healthy } }
  }
}
"""
BACKFILL = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }
"""


def test_the_platform_is_served_from_postgres_and_every_daemon_is_healthy(tmp_path: Path):
    with shared_instance(tmp_path, module="orchestration.definitions") as dagster:
        dagster.wait_for("every daemon has reported", lambda: unhealthy(dagster) == [])
        served = dagster.graphql(SERVED)

        assert served["workspaceOrError"]["locationEntries"] == [
            {"name": "lakehouse", "loadStatus": "LOADED", "locationOrLoadError": {}}
        ]
        assert len(served["assetNodes"]) > 30
        states = {one["name"]: one["sensorState"]["status"] for one in served["sensorsOrError"]["results"]}
        assert {name for name, status in states.items() if status == "RUNNING"} >= {"carry_on", "log_failed_run"}
        assert served["instance"]["runLauncher"]["name"] == "ProcessRunLauncher"
        assert "event_log_storage: PostgresEventLogStorage" in served["instance"]["info"]
        assert os.environ["DAGSTER_POSTGRES_PASSWORD"] not in served["instance"]["info"]


def test_a_killed_worker_is_carried_on_and_a_killed_code_server_and_web_server_end_no_run(tmp_path: Path):
    with shared_instance(tmp_path, module=ORDERS_LOCATION) as dagster:
        dagster.hold()
        killed = dagster.launch("2013-01-01")
        os.kill(dagster.waits("2013-01-01"), signal.SIGKILL)
        dagster.release()
        dagster.ends(killed, DIED)
        dagster.ends(dagster.child(killed).run_id, DONE)

        dagster.hold()
        goes_on = dagster.launch("2013-01-02")
        worker = dagster.waits("2013-01-02")
        for name in ("code", "webserver"):
            dagster.kill(name)
        assert dagster.workers(goes_on) == [worker]
        dagster.release()
        dagster.ends(goes_on, DONE)
        assert dagster.children(goes_on) == []
        assert dagster.ids() == [0, 0, 1, 2]


def test_an_upgrade_in_the_middle_of_a_backfill_loses_and_doubles_nothing(tmp_path: Path):
    with shared_instance(tmp_path, module=ORDERS_LOCATION) as dagster:
        days = [f"2013-01-0{day}" for day in (1, 2, 3)]
        dagster.hold()
        backfill = launched(dagster, days)
        dagster.waits("2013-01-01")
        dagster.stop_all()
        dagster.release()
        dagster.migrate()
        dagster.start_all()
        dagster.wait_for("all rows are there", lambda: dagster.ids() == [0, 0, 0, 1, 2, 3])
        dagster.wait_for("the backfill ends", lambda: status(dagster, backfill).startswith("COMPLETED"))
        dagster.wait_for("every run ends", lambda: all(run.is_finished for run in dagster.instance.get_runs()))

        print(f"the backfill is {status(dagster, backfill)}")
        assert dagster.ids() == [0, 0, 0, 1, 2, 3]
        assert [run.status for run in dagster.instance.get_runs()] == [DONE, DIED]


def unhealthy(dagster: SharedPlane) -> list[Any]:
    found = dagster.graphql(SERVED)["instance"]["daemonHealth"]["allDaemonStatuses"]
    return [one["daemonType"] for one in found if one["required"] and not one["healthy"]]


def launched(dagster: SharedPlane, days: list[str]) -> str:
    """Start a backfill of the table and its files; return its identifier."""
    parameters = {"partitionNames": days, "assetSelection": [{"path": list(key)} for key in ORDERS]}
    answer = dagster.graphql(LAUNCH_PARTITION_BACKFILL_MUTATION, backfillParams=parameters)["launchPartitionBackfill"]
    assert answer["__typename"] == "LaunchBackfillSuccess", answer
    backfill: str = answer["backfillId"]
    return backfill


def status(dagster: SharedPlane, backfill: str) -> str:
    found: str = dagster.graphql(BACKFILL, id=backfill)["partitionBackfillOrError"]["status"]
    return found
