"""The pages of a table whose batches are committed together, and of a schedule, in a browser."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import dagster as dg
import pytest

from lakehouse_dagster import write_instance_settings
from tests.browser.ui import ROOT, SECONDS, Ui, browser_page
from tests.graphql import ask
from tests.lakehouse_dagster.many_batches import DAYS
from tests.lakehouse_dagster.plane import answers, free_port
from tests.limits import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.browser
ORDERS = ("lake", "sales", "orders")
INGEST = (*ORDERS, "ingest")
BY_SPARK = ("lake", "sales", "orders_by_spark")
ALL = DAYS.get_partition_keys()[:4]

EVENTS = """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
  assetMaterializations(limit: 20) { partition metadataEntries { label ... on IntMetadataEntry { intValue } } } } } }"""
SCHEDULES = """query { schedulesOrError(repositorySelector:
  {repositoryLocationName: "together", repositoryName: "__repository__"}) { ... on Schedules { results { name
  scheduleState { status ticks(limit: 9) { status } } } } } }"""
# How many pixels of the largest plot are drawn in colours, not in grey.
COLOURED = """() => Math.max(0, ...[...document.querySelectorAll("canvas")].map(canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] > 100 && Math.max(data[i], data[i+1], data[i+2]) - Math.min(data[i], data[i+1], data[i+2]) > 60)
      count += 1;
  return count;
}))"""


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    root = tmp_path_factory.mktemp("together")
    (root / "in").mkdir()
    (root / "in" / "a.csv").write_text("id,day\n1,2013-01-01\n")
    (root / "home").mkdir()
    settings = write_instance_settings(root / "home")
    # Here a worker that is slow to start is no dead one.
    settings.write_text(re.sub(r"start_timeout_seconds: \d+", "start_timeout_seconds: 300", settings.read_text()))
    with dg.DagsterInstance.from_config(str(root / "home")) as instance:
        instance.add_dynamic_partitions("many_batches", ALL)
    environ = os.environ | {
        "TOGETHER_ROOT": str(root),
        "DAGSTER_HOME": str(root / "home"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "PYTHONPATH": str(ROOT),
    }
    (root / "workspace.yaml").write_text(
        "load_from: [{python_module: {module_name: tests.browser.together_location, location_name: together, "
        f"working_directory: {ROOT}}}}}]\n"
    )
    port = free_port()
    command = ["dagster", "dev", "-w", str(root / "workspace.yaml"), "-h", "127.0.0.1", "-p", str(port)]
    with (root / "ui.log").open("wb") as log:
        served = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", *command], env=environ, cwd=root, stdout=log, stderr=log
        )
        try:
            deadline = time.monotonic() + SECONDS
            while not answers(port):
                assert served.poll() is None, (root / "ui.log").read_text()[-4000:]
                assert time.monotonic() < deadline
                time.sleep(0.5)
            with browser_page() as page:
                yield Ui(f"http://127.0.0.1:{port}", root / "warehouse", page, "together")
        finally:
            served.send_signal(signal.SIGINT)
            served.wait(timeout=HANGS_AFTER_SECONDS)


@pytest.fixture(autouse=True)
def no_errors(ui: Ui) -> Iterator[None]:
    yield
    assert ui.errors == []


def plotted(ui: Ui, label: str) -> list[int]:
    """Return the figures of a table's events that its page plots, the newest first."""
    found = ask(ui.web, EVENTS, key={"path": list(ORDERS)})["assetNodeOrError"]["assetMaterializations"]
    return [each["intValue"] for one in found for each in one["metadataEntries"] if each["label"] == label]


def test_one_click_commits_what_other_runs_have_staged_and_the_plots_open_with_figures(ui: Ui):
    for key, day in ((INGEST, ALL[0]), (ORDERS, ALL[1])):
        _, status = ui.run("__ASSET_JOB", [key], {}, dagster__partition=day)
        assert status == "SUCCESS"

    (snapshot,) = ui.table("sales.orders").snapshots()
    assert snapshot.properties["lakehouse.batches"].count("2013") == 2
    ui.open(f"/assets/{'/'.join(ORDERS)}?view=events")
    ui.sees(ALL[0], ALL[1], "paimon/snapshot_id", "2 batches")
    ui.keep("together-events")

    for day in ALL[2:]:
        before = len(plotted(ui, "dagster/row_count"))
        _, status = ui.run("__ASSET_JOB", [ORDERS], {}, dagster__partition=day)
        assert status == "SUCCESS"
        assert len(plotted(ui, "dagster/row_count")) > before
        ui.open(f"/assets/{'/'.join(ORDERS)}?view=overview")
        ui.sees("Plots")
        ui.page.get_by_text("Plots").first.click()
        ui.sees("paimon/files_total")
        ui.page.wait_for_function(f"({COLOURED})() > 20", timeout=60_000)
        ui.keep(f"plots-after-{ALL.index(day)}-runs")
    assert plotted(ui, "dagster/row_count")[0] == 5


def test_a_joint_commit_by_spark_is_shown_with_its_batches_and_its_session(ui: Ui):
    for key, day in (((*BY_SPARK, "ingest"), ALL[0]), (BY_SPARK, ALL[1])):
        _, status = ui.run("__ASSET_JOB", [key], {}, dagster__partition=day)
        assert status == "SUCCESS"

    (snapshot,) = ui.table("sales.orders_by_spark").snapshots()
    assert snapshot.properties["lakehouse.batches"].count("2013") == 2
    ui.open(f"/assets/{'/'.join(BY_SPARK)}?view=events")
    ui.sees(ALL[0], ALL[1], f"{ALL[0]} to {ALL[1]}, 2 batches", "paimon/spark_app_id", "local-")
    ui.keep("together-by-spark")


def test_the_ticks_of_a_schedule_are_shown_with_what_they_started(ui: Ui):
    deadline = time.monotonic() + SECONDS
    while True:
        (schedule,) = (one for one in ask(ui.web, SCHEDULES)["schedulesOrError"]["results"] if "ingest" in one["name"])
        if any(tick["status"] == "SUCCESS" for tick in schedule["scheduleState"]["ticks"]):
            break
        assert time.monotonic() < deadline, schedule
        time.sleep(2)

    ui.open(f"/locations/together/schedules/{schedule['name']}")
    ui.sees(schedule["name"], "Every minute", "1 run requested")
    ui.keep("schedule")
