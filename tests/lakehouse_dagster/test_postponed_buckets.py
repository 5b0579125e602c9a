"""Tables with postponed buckets: few rows that wait are moved by a compaction that rewrites nothing else."""

from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg
import pytest

from lakehouse_dagster.automation.sensors import look_at, run_requests
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake

pytestmark = pytest.mark.dagster
TABLE = "sales.orders"


@pytest.fixture
def ready() -> Iterator[ReadyLake]:
    with ready_lake(shop_lake(orders(options={"bucket": "-2"})), resources={"shop": ShopFeed()}) as lake:
        yield lake


def requested(ready: ReadyLake) -> dg.RunRequest:
    look = look_at(ready.catalog, ready.lake.table(TABLE))
    (request,) = run_requests(ready.lake, [look], now=datetime(2026, 11, 21, tzinfo=UTC))
    return request


def test_a_row_that_waits_is_moved_and_nothing_else_is_rewritten(ready: ReadyLake) -> None:
    ready.ingest("2013-01-01", "2013-01-03")
    assert ready.maintain().success
    there = {file.file_name for file in ready.table(TABLE).files()}
    ready.ingest("2013-01-04")
    request = requested(ready)

    run = ready.definitions.resolve_job_def("mine_maintain").execute_in_process(
        instance=ready.instance,
        asset_selection=list(request.asset_selection or []),
        run_config=request.run_config,
        tags=request.tags,
    )

    assert run.success
    assert request.tags["lakehouse/reason"] == "2 waiting rows > 0"
    assert request.run_config == {"ops": {"mine__sales__orders__compact_full": {"config": {"full": False}}}}
    table = ready.table(TABLE)
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [0, 1, 2, 3, 4]
    assert there < {file.file_name for file in table.files()}
