"""A run killed between staging and the end of its commits, then executed again, commits each batch once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.compute as pc
import pytest

from assets.flights.answers import answers_at
from assets.flights.source import load_source
from tests.limits import HANGS_AFTER_SECONDS
from tests.orchestration.pipeline import EXTRACT, Pipeline, ingest_job

# A busy machine needs minutes until the commits; it must not fail for that.
pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

FIRST, LAST = "2013-01-31", "2013-02-02"
ROOT = Path(__file__).parent.parent.parent


def run_until_it_hangs(root: Path, *, at_commit: int, after: bool) -> None:
    """Start the ingest job in a process of its own, wait for the mark, kill it."""
    environ = os.environ | {
        "PIPELINE_ROOT": str(root),
        "FIRST_BATCH": FIRST,
        "LAST_BATCH": LAST,
        "KILL_AT_COMMIT": str(at_commit),
        "KILL_AFTER_COMMIT": "yes" if after else "no",
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "LAKEHOUSE_WAREHOUSE": str(root / "warehouse"),
        "PYTHONPATH": str(ROOT),
    }
    with (root / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.orchestration.pipeline"], env=environ, stdout=log, stderr=log, cwd=ROOT
        )
        try:
            deadline = time.monotonic() + HANGS_AFTER_SECONDS
            while not (root / "hanging").exists():
                assert child.poll() is None, (root / "log").read_text()[-4000:]
                assert time.monotonic() < deadline, "the run never came to its commits"
                time.sleep(0.1)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()


@pytest.mark.parametrize(
    ("at_commit", "after"),
    [
        pytest.param(1, False, id="before the first commit"),
        pytest.param(5, True, id="between a commit of carrier_day and its answer"),
    ],
)
def test_a_killed_run_that_is_executed_again_commits_each_batch_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_commit: int, after: bool
):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    run_until_it_hangs(tmp_path, at_commit=at_commit, after=after)
    assert list((tmp_path / "warehouse").rglob("lakehouse/pending/*")), "nothing was staged durably"
    monkeypatch.setenv("LAKEHOUSE_WAREHOUSE", str(tmp_path / "warehouse"))

    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        (dead,) = instance.get_runs()
        instance.report_run_failed(dead, "its process was killed")
        again = dg.execute_job(
            dg.reconstructable(ingest_job),
            instance=instance,
            run_config=dead.run_config,
            tags=dead.tags,
            reexecution_options=dg.ReexecutionOptions.from_failure(dead.run_id, instance),
        )
        pipeline = Pipeline(warehouse=tmp_path / "warehouse", cache=tmp_path / "cache", instance=instance)

    assert again.success
    answers = answers_at(load_source(EXTRACT), start=_day("2013-02-01"), through=_day(LAST))
    assert pipeline.table("ops.flight_events").scan().count() == answers.events
    assert pipeline.table("ops.flights").scan().count() == answers.rows
    assert pipeline.table("ops.flight_board").scan().count() == answers.open
    assert pipeline.table("serving.open_flights").scan().count() == answers.open
    counted = pipeline.table("ops.carrier_day").scan().to_arrow()
    assert pc.sum(counted["scheduled"]).as_py() == answers.rows
    assert pc.sum(counted["arr_delay"]).as_py() == answers.sum_arr_delay
    for name in ("ops.flight_events", "ops.flights", "ops.flight_board", "ops.carrier_day"):
        snapshots = pipeline.table(name).snapshots()
        assert [s.properties["lakehouse.batch"] for s in snapshots] == ["2013-01-31", "2013-02-01", "2013-02-02"]
    assert not list((tmp_path / "warehouse").rglob("lakehouse/pending/*"))


def _day(text: str) -> Any:
    from datetime import date

    return date.fromisoformat(text)
