"""What the maintenance sensor asks for: which runs, why, and how often."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lakehouse_dagster.automation.requests import MOST_REQUESTS, first_requests
from lakehouse_dagster.automation.sensors import TableLook, run_requests
from lakehouse_dagster.pipeline.maintenance import Figure
from tests.lakehouse_dagster.shop import orders, shop_lake

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
NAMES = ("orders", *(f"t{n}" for n in range(30)))
LAKE = shop_lake(*(orders(database="ops", name=name) for name in NAMES))


def look(name: str, *found: Figure) -> TableLook:
    return TableLook(spec=LAKE.table(f"ops.{name}"), snapshot_id=7, figures=found)


def small_files(found: int) -> Figure:
    return Figure(operation="compact_full", what="small files", found=found, limit=16)


def test_the_reason_has_figures_whether_something_is_due_or_not():
    assert str(look("orders", small_files(4))) == "ops.orders: 4 small files <= 16"
    assert str(look("orders", small_files(40))) == "ops.orders: 40 small files > 16"
    assert str(look("orders")) == "ops.orders: not created yet"


def test_one_run_a_table_does_all_that_is_due_in_the_order_of_maintenance():
    snapshots = Figure(operation="expire", what="snapshots", found=40, limit=30)

    (request,) = run_requests(LAKE, [look("orders", snapshots, small_files(40))], now=NOW)

    assert [key.path[-1] for key in request.asset_selection] == ["compact_full", "expire"]
    assert request.tags["lakehouse/table"] == "ops.orders"
    assert request.tags["lakehouse/reason"] == "40 snapshots > 30; 40 small files > 16"


def test_rows_that_wait_are_moved_without_a_full_compaction_where_nothing_else_is_due():
    waiting = Figure(operation="compact_full", what="waiting rows", found=1, limit=0, needs_full=False)
    moved = {"ops": {"mine__ops__orders__compact_full": {"config": {"full": False}}}}

    for found, expected in (
        ([waiting], moved),
        ([waiting, small_files(4)], moved),
        ([waiting, small_files(40)], {}),
        ([small_files(40)], {}),
    ):
        (request,) = run_requests(LAKE, [look("orders", *found)], now=NOW)
        assert [key.path[-1] for key in request.asset_selection] == ["compact_full"]
        assert request.run_config == expected


def test_the_same_need_is_asked_for_once_an_hour():
    """A key is used once for ever, also when its run failed: without the hour nothing would ever run again."""
    first, second, later = (
        run_requests(LAKE, [look("orders", small_files(40))], now=NOW.replace(hour=hour, minute=minute))[0].run_key
        for hour, minute in ((10, 0), (10, 59), (11, 0))
    )

    assert first == second == "compact_full:ops.orders@s7#h2026112110"
    assert later != first


def test_the_worst_of_a_neglected_warehouse_come_first_and_few_enough_for_the_queue():
    looks = [look(f"t{n}", small_files(17 + n)) for n in range(30)]
    requests = run_requests(LAKE, looks, now=NOW)

    with dg.DagsterInstance.ephemeral() as instance:
        first = first_requests(instance, "mine_maintenance", requests)

    assert [request.tags["lakehouse/table"] for request in first] == [f"ops.t{n}" for n in range(29, 19, -1)]


# Status of the run with the key of the first request, sensor that requested it → whether it is requested.
REQUESTED = """
FAILURE      mine_news         no
STARTED      mine_news         no
CANCELED     mine_news         no
NOT_STARTED  mine_news         yes
FAILURE      theirs_news       yes
"""


@pytest.mark.parametrize("case", REQUESTED.strip().splitlines())
def test_a_request_is_left_out_when_its_sensor_has_a_run_with_its_key(case: str):
    status, sensor, is_requested = case.split()
    requests = [dg.RunRequest(run_key=str(n)) for n in range(MOST_REQUESTS + 1)]
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_run(
            dg.DagsterRun(
                job_name="load",
                status=dg.DagsterRunStatus[status],
                tags={"dagster/run_key": "0", "dagster/sensor_name": sensor},
            )
        )
        found = [request.run_key for request in first_requests(instance, "mine_news", requests)]

    first = 0 if is_requested == "yes" else 1
    assert found == [str(n) for n in range(first, first + MOST_REQUESTS)]
