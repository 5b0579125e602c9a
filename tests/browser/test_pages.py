"""The pages of `make ui` in a browser: what a person on call sees after each thing that happens to a table.

Each page is kept as a picture in build/screenshots, and must report no error to the console.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dagster_graphql.client.query import LAUNCH_PIPELINE_EXECUTION_MUTATION
from playwright.sync_api import Page, TimeoutError, sync_playwright

import lakehouse_core as lc
from assets.lake import LAKE
from tests.graphql import ask
from tests.lakehouse_dagster.plane import answers, free_port
from tests.orchestration.pipeline import EXTRACT

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parent.parent.parent
SCREENSHOTS = ROOT / "build" / "screenshots"
BOARD, FLIGHTS = ("lake", "ops", "flight_board"), ("lake", "ops", "flights")
# A page loads in some seconds; sensors look once a minute.
SECONDS = 300

RUN = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"


class Ui:
    """`make ui` on a warehouse, and one page of a browser."""

    def __init__(self, web: str, warehouse: Path, page: Page) -> None:
        self.web, self.warehouse, self.page = web, warehouse, page
        self.errors: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, path: str) -> None:
        self.page.goto(f"{self.web}{path}")

    def sees(self, *texts: str) -> None:
        """Wait until the page shows texts, and load it again meanwhile. A picture is kept of a page that lacks one."""
        deadline = time.monotonic() + SECONDS
        for text in texts:
            while True:
                try:
                    self.page.get_by_text(text).first.wait_for(timeout=20_000)
                    break
                except TimeoutError:
                    if time.monotonic() > deadline:
                        self.keep(f"without {texts.index(text)} of {os.environ['PYTEST_CURRENT_TEST'].split('::')[1]}")
                        raise
                    self.page.reload()

    def keep(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=True)

    def run(self, job: str, keys: list[tuple[str, ...]], config: dict[str, Any], **tags: str) -> tuple[str, str]:
        """Start a run of some assets as their pages do; return its identifier and how it ended."""
        parameters = {
            "selector": {
                "repositoryLocationName": "lakehouse",
                "repositoryName": "__repository__",
                "pipelineName": job,
                "assetSelection": [{"path": list(key)} for key in keys],
            },
            "runConfigData": config,
            "executionMetadata": {"tags": [{"key": key.replace("__", "/"), "value": tags[key]} for key in tags]},
        }
        answer = ask(self.web, LAUNCH_PIPELINE_EXECUTION_MUTATION, executionParams=parameters)
        run_id: str = answer["launchPipelineExecution"]["run"]["runId"]
        deadline = time.monotonic() + 2 * SECONDS
        while (status := ask(self.web, RUN, id=run_id)["runOrError"]["status"]) not in ("SUCCESS", "FAILURE"):
            assert time.monotonic() < deadline, f"run {run_id} is {status}"
            time.sleep(1)
        return run_id, status

    def table(self, name: str) -> lc.Table:
        return lc.connect(str(self.warehouse)).table(name)


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
            ui.wait(timeout=60)


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "no Chromium is found (Debian: apt-get install chromium)"
    warehouse = tmp_path_factory.mktemp("browser") / "warehouse"
    with server(warehouse) as web, sync_playwright() as playwright:
        # Chromium's own sandbox needs another user than root.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=sandbox)
        yield Ui(web, warehouse, browser.new_page(viewport={"width": 1500, "height": 1200}))
        browser.close()


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
