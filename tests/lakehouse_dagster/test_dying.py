"""Runs that die, with real daemons and real SIGKILL.

A dead run is noticed and carried on, once, and no row is doubled or lost.
"""

import os
import signal
import time
from pathlib import Path

import dagster as dg
import pytest

from lakehouse_dagster.automation.dead_runs import INTERVAL_SECONDS
from tests.lakehouse_dagster.plane import plane
from tests.lakehouse_dagster.web_address import address

pytestmark = [pytest.mark.dagster, pytest.mark.own_session, pytest.mark.slow]

DIED, DONE = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS
CANCELING, CANCELED = dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.CANCELED
# Two minutes are promised, and printed is what it took. A busy machine takes longer for everything but the waiting.
MOST_SECONDS = 3 * 120


@pytest.mark.long
def test_a_killed_worker_is_noticed_and_its_run_and_the_one_behind_it_are_done_once(tmp_path: Path):
    with address() as alerts, plane(tmp_path, alerts=alerts.url) as dagster:
        dagster.hold()
        first = dagster.launch("2013-01-01", "2013-01-03")
        worker = dagster.waits("2013-01-01")
        second = dagster.launch_job("mine_maintain")
        waiting = dagster.instance.get_run_by_id(second)
        dagster.release()
        killed = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        dead = dagster.ends(first, DIED)
        noticed = time.monotonic() - killed
        again = dagster.child(first)
        dagster.ends(again.run_id, DONE)
        carried_on = time.monotonic() - killed
        dagster.ends(second, DONE)
        dagster.wait_for("an alert", lambda: alerts.taken)

        print(f"noticed after {noticed:.0f} s, done again after {carried_on:.0f} s")
        assert carried_on < MOST_SECONDS
        assert [run.run_id for run in dagster.children(first)] == [again.run_id]
        assert dagster.ids() == [0, 0, 0, 1, 2, 3]
        (alert,) = alerts.taken
        assert (alert["run_id"], alert["table"], alert["will_retry"]) == (first, "sales.orders", True)
        assert "is gone" in alert["message"]
        assert waiting is not None
        assert (waiting.tags["lakehouse/table"], waiting.tags["lakehouse/operation"]) == ("sales.orders", "maintain")
        for run in (dead, again):
            assert (run.tags["lakehouse/table"], run.tags["lakehouse/operation"]) == ("sales.orders", "commit+ingest")


@pytest.mark.long
def test_a_run_that_dagster_does_not_retry_is_carried_on_once_after_the_code_server_died_with_it(tmp_path: Path):
    with plane(tmp_path, run_retries={"enabled": False}) as dagster:
        dagster.hold()
        first = dagster.launch("2013-01-01")
        worker = dagster.waits("2013-01-01")
        dagster.release()
        killed = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        dagster.kill("code")
        dagster.ends(first, DIED)
        noticed = time.monotonic() - killed
        dagster.start("code")
        again = dagster.child(first)
        carried = dagster.ends(again.run_id, DONE)
        carried_on = time.monotonic() - killed
        # Two more ticks of the sensor: it does not do it a second time.
        time.sleep(2 * INTERVAL_SECONDS + 5)

        print(f"noticed after {noticed:.0f} s, done again after {carried_on:.0f} s")
        assert carried_on < MOST_SECONDS
        assert [run.run_id for run in dagster.children(first)] == [again.run_id]
        assert carried.tags["dagster/root_run_id"] == first
        assert carried.tags["lakehouse/table"] == "sales.orders"
        assert carried.tags["dagster/partition"] == "2013-01-01"
        assert dagster.ids() == [0, 1]


@pytest.mark.long
def test_a_run_goes_on_without_the_code_server_and_the_daemon_and_ends_when_it_is_told(tmp_path: Path):
    with plane(tmp_path) as dagster:
        dagster.hold()
        run_id = dagster.launch("2013-01-01")
        worker = dagster.waits("2013-01-01")
        for name in ("code", "daemon"):
            dagster.kill(name)
        dagster.start("code")
        dagster.start("daemon")
        # Long enough for the new daemon to look at the run twice.
        time.sleep(35)
        assert dagster.workers(run_id) == [worker]
        dagster.release()
        dagster.ends(run_id, DONE)
        assert dagster.children(run_id) == []

        dagster.hold()
        unwanted = dagster.launch("2013-01-02")
        dagster.waits("2013-01-02")
        told = time.monotonic()
        assert dagster.instance.run_launcher.terminate(unwanted)
        dagster.ends(unwanted, CANCELED)
        canceled = time.monotonic() - told
        dagster.wait_for("the worker has gone", lambda: not dagster.workers(unwanted))

        print(f"canceled after {canceled:.0f} s")
        assert canceled < 60

        (tmp_path / "waits-2013-01-02").unlink()
        (tmp_path / "deaf").touch()
        deaf = dagster.launch("2013-01-02")
        dagster.waits("2013-01-02")
        assert dagster.instance.run_launcher.terminate(deaf)
        dagster.wait_for("a worker that does not react is killed", lambda: not dagster.workers(deaf))
        assert dagster.instance.get_run_by_id(deaf).status == CANCELING, "no run is over before its worker"
        dagster.ends(deaf, CANCELED)
        assert dagster.ids() == [0, 1]


@pytest.mark.long
def test_a_worker_that_dies_before_its_run_has_started_is_noticed_too(tmp_path: Path):
    with plane(tmp_path) as dagster:
        (tmp_path / "dies-at-start").touch()
        first = dagster.launch("2013-01-01")
        dagster.wait_for("the worker has died", lambda: not (tmp_path / "dies-at-start").exists())
        died = time.monotonic()
        dead = dagster.ends(first, DIED)
        noticed = time.monotonic() - died
        again = dagster.child(first)
        dagster.ends(again.run_id, DONE)
        carried_on = time.monotonic() - died

        print(f"noticed after {noticed:.0f} s, done again after {carried_on:.0f} s")
        assert dead.tags["dagster/failure_reason"] == "START_TIMEOUT"
        assert carried_on < MOST_SECONDS
        assert dagster.ids() == [0, 1]
        (failure,) = dagster.instance.all_logs(first, of_type=dg.DagsterEventType.RUN_FAILURE)
        assert "there is no such module" in failure.get_dagster_event().message
