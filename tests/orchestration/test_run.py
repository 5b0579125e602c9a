"""`make run`: loads the next batches, maintains, says what came of it, and goes on the next time."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from assets.flights.feed import FlightsFeed
from orchestration import run
from orchestration.figures import Answer, interesting_evening
from orchestration.run import Plan, _parse, plan_run
from orchestration.summary import Summary, summary_text
from tests.lakehouse_dagster.table_states import STATE
from tests.limits import HANGS_AFTER_SECONDS
from tests.orchestration.pipeline import EXTRACT


def feed(start: str, cache: Path) -> FlightsFeed:
    return FlightsFeed(start=start, folder=str(EXTRACT), cache=str(cache))


def test_the_first_run_begins_the_day_before_its_start(tmp_path: Path):
    plan = plan_run(lc.connect(str(tmp_path)), feed("2013-02-01", tmp_path), 3)

    assert plan == Plan(
        start=date(2013, 2, 1),
        done_through=None,
        batches=(date(2013, 1, 31), date(2013, 2, 1), date(2013, 2, 2)),
    )


@pytest.mark.parametrize("start", ["2012-12-31", "2014-01-01"])
def test_a_start_without_flights_is_refused_with_the_days_that_have_some(tmp_path: Path, start: str):
    with pytest.raises(lc.InvalidRequest, match=f"START={start}: the flights are of 2013-01-01 to 2013-12-31"):
        plan_run(lc.connect(str(tmp_path)), feed(start, tmp_path), 1)


def test_a_warehouse_that_cannot_be_made_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "file"
    file.write_text("")

    assert run.main(["--warehouse", str(file)]) == 2

    errors = capsys.readouterr().err
    assert errors.startswith(f"WAREHOUSE={file}: no folder can be made there")
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("warehouse", "told"),
    [
        ("gs://lake/w", "Warehouse 'gs://lake/w': "),
        ("s3://L", "Warehouse s3://L: 'L' is not the name of a bucket."),
    ],
)
def test_a_wrong_address_is_one_line_and_makes_nothing(
    warehouse: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))

    assert run.main(["--warehouse", warehouse]) == 2

    errors = capsys.readouterr().err
    assert errors.startswith(told)
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_settings_come_from_the_environment_and_arguments_win(monkeypatch: pytest.MonkeyPatch):
    for name, value in (("START", "2013-01-01"), ("BATCHES", "3"), ("WAREHOUSE", "/data/w")):
        monkeypatch.setenv(name, value)

    assert (_parse([]).start, _parse([]).batches, _parse([]).warehouse) == (date(2013, 1, 1), 3, "/data/w")
    assert _parse(["--batches", "5"]).batches == 5


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--start", "yesterday"], "'yesterday': expected a day such as 2013-"),
        (["--batches", "0"], "'0': expected a number of batches, 1 at least"),
        (["--batches", "many"], "'many': expected a number of batches, 1 at least"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as refused:
        _parse(arguments)

    assert refused.value.code == 2
    told = capsys.readouterr().err
    assert arguments[0] in told
    assert expected in told


@pytest.mark.parametrize(
    ("through", "evening"),
    [
        (date(2013, 2, 15), date(2013, 2, 8)),
        (date(2013, 2, 8), date(2013, 2, 8)),
        (date(2013, 2, 3), date(2013, 2, 2)),
        (date(2013, 1, 31), None),
    ],
)
def test_questions_ask_about_the_blizzard_where_it_is_loaded(through: date, evening: date | None):
    assert interesting_evening(date(2013, 2, 1), through) == evening


def summary(warehouse: Path, **given: Any) -> Summary:
    nothing: dict[str, Any] = {"runs": {}, "rows": {}, "before": {}, "loaded": {}, "after": {}, "answers": []}
    return Summary(warehouse=str(warehouse), plan_text="all", seconds=1.0, **nothing | given)


def test_the_summary_says_which_snapshots_each_run_made_and_which_are_left(tmp_path: Path):
    before = replace(STATE, snapshot_id=18, earliest_snapshot_id=16, snapshots_retained=3)
    loaded = replace(before, snapshot_id=34, snapshots_retained=19, files_total=34, manifests_total=17)
    after = replace(
        loaded, snapshot_id=36, earliest_snapshot_id=34, snapshots_retained=3, files_total=2, manifests_total=1
    )
    new = replace(STATE, snapshot_id=1, earliest_snapshot_id=1, snapshots_retained=1)

    text = summary_text(
        summary(
            tmp_path,
            rows={"ops.orders": 1364, "ops.new": 5},
            before={"ops.orders": before},
            loaded={"ops.orders": loaded, "ops.new": new},
            after={"ops.orders": after, "ops.new": new},
        )
    )

    head, orders, added = (line.split("  ") for line in text.splitlines()[3:6])
    columns = [[part.strip() for part in line if part] for line in (head, orders, added)]
    assert [dict(zip(columns[0], row, strict=True)) for row in columns[1:]] == [
        {
            "table": "ops.orders",
            "rows": "1,364",
            "files": "34 -> 2",
            "manifests": "17 -> 1",
            "by ingest": "19 - 34",
            "by maintain": "35 - 36",
            "expired": "18",
            "kept": "34 - 36",
            "changelogs": "0",
            "tags": "0",
        },
        {
            "table": "ops.new",
            "rows": "5",
            "files": "20 -> 20",
            "manifests": "3 -> 3",
            "by ingest": "1",
            "by maintain": "none",
            "expired": "0",
            "kept": "1",
            "changelogs": "0",
            "tags": "0",
        },
    ]


def test_a_difference_to_the_source_is_not_hidden(tmp_path: Path):
    wrong = Answer(question="1. How many?", lines=("2",), found=2, expected=3)
    text = summary_text(summary(tmp_path, answers=[wrong]))

    assert "DIFFERS: the source says 3" in text
    assert "0 of 1 answers agree with the source" in text


def interrupted(command: list[str], environ: Mapping[str, str], *, at: str) -> tuple[int, str]:
    """Start the command, press Ctrl-C when it prints `at`; return its exit code and its last word."""
    # A shell that starts tests in the background lets its children ignore Ctrl-C, and theirs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    child = subprocess.Popen(
        command, env={**environ, "PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert any(at in line for line in child.stdout)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=HANGS_AFTER_SECONDS)
    return child.returncode, errors.splitlines()[-1]


@pytest.mark.dagster
@pytest.mark.spark
@pytest.mark.own_session
@pytest.mark.slow
@pytest.mark.long
def test_runs_of_the_main_job_go_on_also_after_an_interrupt_and_agree_with_the_source(tmp_path: Path):
    environ = os.environ | {
        "DAGSTER_HOME": str(tmp_path / "home"),
        "LAKEHOUSE_FEED_CACHE": str(tmp_path / "cache"),
        "WAREHOUSE": str(tmp_path / "warehouse"),
        "BATCHES": "2",
    }
    command = [sys.executable, "-m", "orchestration.run", "--source", str(EXTRACT)]
    assert interrupted(command, environ, at="ops.flight_board: staged") == (
        130,
        "Interrupted. What is committed stays; the same command goes on from there.",
    )
    with dg.DagsterInstance.from_config(environ["DAGSTER_HOME"]) as instance:
        (stopped,) = instance.get_runs(dg.RunsFilter(job_name="lake_ingest"))
        assert stopped.status == dg.DagsterRunStatus.FAILURE
    assert lc.connect(environ["WAREHOUSE"]).table("ref.airlines").snapshot() is None

    first, second = (
        subprocess.run(command, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        for _ in range(2)
    )

    assert (first.returncode, second.returncode) == (0, 0), first.stdout + first.stderr + second.stdout + second.stderr
    assert "batches through 2013-02-01" in first.stdout
    assert "batches through 2013-02-03" in second.stdout
    assert "5 of 5 answers agree with the source" in first.stdout
    assert "7 of 7 answers agree with the source" in second.stdout

    elsewhere = subprocess.run(
        [*command, "--start", "2013-02-05"], env=environ, capture_output=True, text=True, check=False
    )
    assert elsewhere.returncode == 2
    assert "was begun with START=2013-02-01, and now START=2013-02-05 was asked for" in elsewhere.stderr
