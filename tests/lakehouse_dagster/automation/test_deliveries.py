"""Partitions of a feed are the batches that it has delivered, so a missing one can be loaded."""

from collections.abc import Iterator
from dataclasses import replace

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.page_location import FEED, LAKE, DailyFeed
from tests.lakehouse_dagster.shop import SHOP, ShopFeed, orders, shop_lake

pytestmark = pytest.mark.dagster
KEY = dg.AssetKey(["mine", "sales", "orders"])
DAYS = ["2013-01-01", "2013-01-02", "2013-01-03"]


@pytest.fixture
def ready() -> Iterator[ReadyLake]:
    with ready_lake(LAKE, resources={"shop": DailyFeed()}) as made:
        yield made


def tick(ready: ReadyLake) -> dg.SensorResult:
    """One tick; what it requests is done, as the daemon does it."""
    resources = ready.definitions.resources or {}
    needed = {name: resources[name] for name in ("lakehouse", "shop")}
    sensor = ready.definitions.get_repository_def().get_sensor_def("mine_shop_deliveries")
    with dg.build_sensor_context(instance=ready.instance, resources=needed) as context:
        found = sensor.evaluate_tick(context)
    for request in found.dynamic_partitions_requests or []:
        ready.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
    return found


def missing(ready: ReadyLake) -> set[str]:
    offered = set(ready.instance.get_dynamic_partitions("shop_batches"))
    return offered - ready.instance.get_materialized_partitions(KEY)


def test_only_what_is_delivered_and_not_loaded_is_missing(ready: ReadyLake):
    found = []
    for day in DAYS:
        tick(ready)
        found.append(missing(ready))
        ready.ingest(day)

    assert found == [{day} for day in DAYS]
    assert missing(ready) == set()
    assert ready.table("sales.orders").scan().count() == 4


def test_a_tick_without_news_says_so(ready: ReadyLake):
    tick(ready)

    assert tick(ready).skip_message == "1 batches are delivered, none is new\nsales.orders: not created yet"


@pytest.mark.damage
def test_a_damaged_table_keeps_no_batches_from_the_others():
    tables = (LAKE.tables[0], orders(name="carts", feed={"source": "shop", "name": "carts"}))
    with ready_lake(replace(LAKE, tables=tables), resources={"shop": DailyFeed()}) as ready:
        tick(ready)
        ready.ingest(DAYS[0])
        (snapshot,) = (ready.warehouse / "sales.db" / "carts" / "snapshot").glob("snapshot-*")
        snapshot.write_text("damaged")

        assert tick(ready).dynamic_partitions_requests
        assert DAYS[1] in ready.instance.get_dynamic_partitions("shop_batches")


def test_a_range_of_delivered_batches_is_one_run_with_a_commit_for_each(ready: ReadyLake):
    ready.ingest(DAYS[0], DAYS[-1])

    snapshots = ready.table("sales.orders").snapshots()
    assert [(s.properties["lakehouse.batch"], s.commit_identifier) for s in snapshots] == [
        *zip(DAYS, range(3), strict=True)
    ]


def test_a_batch_keeps_its_commit_identity_when_partitions_are_deleted(ready: ReadyLake):
    ready.ingest(DAYS[0], DAYS[1])
    ready.instance.delete_dynamic_partition("shop_batches", DAYS[0])

    ready.ingest(DAYS[2])

    assert ready.table("sales.orders").snapshots()[-1].commit_identifier == 2


def test_batches_are_offered_in_their_order_whatever_the_order_of_the_request(ready: ReadyLake):
    FEED.offer(ready.instance, [DAYS[2], DAYS[0], DAYS[1], DAYS[0]])
    FEED.offer(ready.instance, DAYS)

    assert ready.instance.get_dynamic_partitions("shop_batches") == DAYS


def test_a_partition_that_is_not_a_batch_is_refused(ready: ReadyLake):
    ready.instance.add_dynamic_partitions("shop_batches", ["tomorrow"])
    job = ready.definitions.resolve_job_def("mine_ingest")

    result = job.execute_in_process(instance=ready.instance, partition_key="tomorrow", raise_on_error=False)

    assert not result.success
    (failure,) = (event.step_failure_data for event in result.all_events if event.is_step_failure)
    told = "feed shop_feed: found partition 'tomorrow', expected a batch from 2013-01-01 to 2013-01-10."
    assert failure.user_failure_data is not None
    assert str(failure.user_failure_data.description).startswith(told)
    assert len(ready.table("sales.orders").snapshots()) == 0


def test_a_feed_that_cannot_name_its_deliveries_is_told_of():
    with pytest.raises(lc.InvalidRequest, match=r"ShopFeed: expected a method delivered\(loaded\), which returns"):
        ShopFeed().delivered(None)


def test_a_feed_that_offers_all_batches_has_no_sensor_and_nothing_to_offer():
    with ready_lake(shop_lake(), resources={"shop": ShopFeed()}) as plain:
        SHOP.offer(plain.instance, DAYS)

        assert plain.instance.get_dynamic_partitions("shop_batches") == []
        names = {sensor.name for sensor in plain.definitions.get_repository_def().sensor_defs}
        assert "mine_shop_deliveries" not in names
