"""The pages of `make ui` in a browser: what a person on call sees after each thing that happens to a table.

Each page is kept as a picture in build/screenshots, and must report no error to the console.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assets.lake import LAKE
from tests.browser.ui import ROOT, SECONDS, Ui, browser_page
from tests.lakehouse_dagster.plane import answers, free_port
from tests.limits import HANGS_AFTER_SECONDS
from tests.orchestration.pipeline import EXTRACT

pytestmark = pytest.mark.browser

BOARD, FLIGHTS = ("lake", "ops", "flight_board"), ("lake", "ops", "flights")


@contextmanager
def server(warehouse: Path) -> Iterator[str]:
    """`make run` with two batches, then `make ui`; yield its address."""
    environ = os.environ | {"LAKEHOUSE_FEED_CACHE": str(warehouse.parent / "cache")}
    environ.pop("DAGSTER_HOME", None)
    here = ["--warehouse", str(warehouse)]
    run = [sys.executable, "-m", "orchestration.run", *here, "--batches", "2", "--source", str(EXTRACT)]
    subprocess.run(run, env=environ, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = free_port()
    with (warehouse.parent / "ui.log").open("wb") as log:
        command = [sys.executable, "-m", "orchestration.ui", *here, "--port", str(port)]
        ui = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + SECONDS
            while not answers(port):
                assert ui.poll() is None, (warehouse.parent / "ui.log").read_text()[-4000:]
                assert time.monotonic() < deadline
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            ui.send_signal(signal.SIGINT)
            ui.wait(timeout=HANGS_AFTER_SECONDS)


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    warehouse = tmp_path_factory.mktemp("browser") / "warehouse"
    with server(warehouse) as web, browser_page() as page:
        yield Ui(web, warehouse, page)


@pytest.fixture(autouse=True)
def no_errors(ui: Ui) -> Iterator[None]:
    yield
    assert ui.errors == []


def test_the_lineage_shows_a_group_for_each_table(ui: Ui):
    ui.open("/asset-groups")
    # Dagster shortens the name of the group that is left out here.
    ui.sees(*("__".join(LAKE.table_key(spec).path) for spec in LAKE.tables if spec.name != "plane_first_seen"))
    ui.keep("lineage")


def test_the_page_of_a_table_shows_its_state_and_its_columns(ui: Ui):
    table = ui.table("ops.flight_board")
    newest = table.snapshot()
    assert newest is not None

    ui.open(f"/assets/{'/'.join(BOARD)}?view=events")
    ui.sees("paimon/snapshot_id", "within all limits", f"{newest.commit_kind.value} by run", "compact_full: ")
    ui.keep("table-events")
    ui.open(f"/assets/{'/'.join(BOARD)}?view=overview")
    ui.sees(f"{table.scan().count():,}", *table.schema.primary_keys)
    ui.keep("table-overview")


def test_what_another_process_does_is_shown_after_the_next_tick(ui: Ui):
    assert ui.table("ops.flight_board").expire_snapshots(retain_max=1).snapshots_expired > 0

    ui.open(f"/assets/{'/'.join(BOARD)}?view=events")
    ui.sees("found by the sensor")
    ui.keep("table-after-another-process")
    ui.open("/locations/lakehouse/sensors/lake_state")
    ui.sees("lake_state", "0 runs requested")
    ui.keep("sensor")


def test_a_dry_run_is_shown_with_its_plan_on_the_page_of_the_operation(ui: Ui):
    key = (*BOARD, "compact_full")
    before = ui.table("ops.flight_board").snapshot()
    _, status = ui.run("lake_maintain", [key], {"ops": {"__".join(key): {"config": {"dry_run": True}}}})

    assert status == "SUCCESS"
    assert ui.table("ops.flight_board").snapshot() == before
    ui.open(f"/assets/{'/'.join(key)}?view=events")
    ui.sees("dry run:")
    ui.keep("dry-run")


def test_a_replay_says_which_run_committed_before(ui: Ui):
    keys = [(*FLIGHTS, "ingest"), FLIGHTS]
    flights = {"folder": str(EXTRACT), "cache": str(ui.warehouse.parent / "cache"), "start": "2013-02-01"}
    _, status = ui.run(
        "__ASSET_JOB", keys, {"resources": {"flights": {"config": flights}}}, dagster__partition="2013-02-01"
    )

    assert status == "SUCCESS"
    ui.open(f"/assets/{'/'.join(FLIGHTS)}?view=events")
    ui.sees("nothing was committed: committed before by run")
    ui.keep("replay")


def test_a_failed_run_shows_the_sentence_of_the_core(ui: Ui):
    key = (*BOARD, "expire")
    run_id, status = ui.run("lake_maintain", [key], {"ops": {"__".join(key): {"config": {"retain_max": 0}}}})

    assert status == "FAILURE"
    ui.open(f"/runs/{run_id}")
    ui.sees("At most 0 snapshots are to be retained: retain 1 or more.")
    ui.keep("failed-run")
