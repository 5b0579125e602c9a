"""Tables with dynamic buckets, which a primary key has without the option `bucket`: loaded, committed, compacted and
checked as others are, and inputs and outputs of other assets.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster import LakehouseIOManager, LakehouseResource, SparkRuntime, table_metadata
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake

pytestmark = pytest.mark.dagster
# Two keys fill a bucket.
OPTIONS = {"dynamic-bucket.target-row-num": "2"}
KEY = dg.AssetKey(["mine", "sales", "orders"])


@pytest.fixture
def ready() -> Iterator[ReadyLake]:
    with ready_lake(shop_lake(orders(options=OPTIONS)), resources={"shop": ShopFeed()}) as lake:
        yield lake


def ids(table: lc.Table) -> list[int]:
    return sorted(row["id"] for row in table.scan().to_arrow().to_pylist())


def test_a_range_of_batches_is_staged_and_committed_compacted_and_checked(ready: ReadyLake) -> None:
    assert ready.ingest("2013-01-01", "2013-01-03").success
    assert ready.ingest("2013-01-04").success
    table = ready.table("sales.orders")

    assert ids(table) == [0, 1, 2, 3, 4]
    assert len(table.snapshots()) == 4
    assert len({one.bucket for one in table.buckets()}) == 3
    assert ready.maintain().success
    assert ids(table) == [0, 1, 2, 3, 4]
    assert max(one.sorted_run_count for one in table.buckets()) == 1
    assert table.verify(data=True).findings == ()
    checks = ready.checks("sales.orders")
    assert {"verify", "source_row_count", "sorted_runs"} <= checks.keys()
    assert all(checks.values()), checks


def test_a_table_with_dynamic_buckets_is_an_input_and_an_output(ready: ReadyLake) -> None:
    assert ready.ingest("2013-01-01", "2013-01-03").success
    seen: list[list[int]] = []

    @dg.asset(
        key=["mine", "sales", "late_orders"],
        ins={"found": dg.AssetIn(KEY)},
        metadata=table_metadata(write_mode="upsert"),
    )
    def late_orders(found: Any) -> Any:
        seen.append(sorted(found.to_arrow()["id"].to_pylist()))
        return found.to_arrow()

    ready.catalog.create_table("sales.late_orders", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options=OPTIONS)
    manager = LakehouseIOManager(
        lakehouse=LakehouseResource(name="mine", warehouse=str(ready.warehouse), spark=SparkRuntime())
    )
    defs = dg.Definitions(assets=[late_orders, dg.AssetSpec(KEY)], resources={"io_manager": manager})
    for _ in range(2):
        assert defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=ready.instance).success

    assert seen == [[0, 1, 2, 3]] * 2
    assert ids(ready.table("sales.late_orders")) == [0, 1, 2, 3]
    assert ready.table("sales.late_orders").verify(data=True).findings == ()


def test_a_batch_whose_keys_another_writer_put_into_other_buckets_is_staged_anew_by_its_next_run(
    ready: ReadyLake,
) -> None:
    job = ready.definitions.resolve_implicit_global_asset_job_def()

    def run(*keys: dg.AssetKey) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(
            instance=ready.instance, partition_key="2013-01-02", asset_selection=[*keys], raise_on_error=False
        )

    assert ready.ingest("2013-01-01").success
    # Key 2 is the first of bucket 1; another writer fills that with others and opens bucket 2 for it.
    assert run(dg.AssetKey([*KEY.path, "ingest"])).success
    ready.table("sales.orders").write([{"id": 8}, {"id": 9}])
    ready.table("sales.orders").write([{"id": 2}])
    assert run(KEY).success

    assert ids(ready.table("sales.orders")) == [0, 1, 2, 8, 9]
    assert ready.table("sales.orders").verify(data=True).findings == ()


def test_batches_of_a_table_with_dynamic_buckets_are_not_staged_at_the_same_time() -> None:
    # Its specification leaves the buckets to the defaults of the lake.
    lake = shop_lake(orders(options={}, commit="together"))
    with ready_lake(lake, resources={"shop": ShopFeed()}) as ready:
        result = ready.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=ready.instance, partition_key="2013-01-01", asset_selection=[KEY], raise_on_error=False
        )

    (failure,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    assert "sales.orders: commit is 'together', but the table has dynamic buckets" in str(failure.step_failure_data)
