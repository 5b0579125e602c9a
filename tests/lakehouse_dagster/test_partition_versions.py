"""Each partition of a range has the version of its own batch, so that a change of one is no change of the others."""

import dagster as dg
import pytest

from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.shop import ShopFeed, shop_lake

pytestmark = pytest.mark.dagster
KEY = dg.AssetKey(["mine", "sales", "orders"])
VERSION, INPUT = "dagster/data_version", "dagster/input_data_version/mine/sales/orders/ingest"


@pytest.fixture
def ready():
    with ready_lake(shop_lake(), resources={"shop": ShopFeed()}) as lake:
        yield lake


def event(ready: ReadyLake, day: str) -> dg.AssetMaterialization:
    wanted = dg.AssetRecordsFilter(asset_key=KEY, asset_partitions=[day])
    return ready.instance.fetch_materializations(wanted, limit=1).records[0].asset_materialization


def snapshots(ready: ReadyLake, *days: str) -> list[str]:
    return [event(ready, day).tags[VERSION].rpartition("@")[2] for day in days]


def test_each_batch_of_a_range_has_the_version_of_its_snapshot(ready: ReadyLake):
    ready.ingest("2013-01-01", "2013-01-03")

    days = ("2013-01-01", "2013-01-02", "2013-01-03")
    made = {s.properties["lakehouse.batch"]: str(s.id) for s in ready.table("sales.orders").snapshots() if s.run_id}
    assert snapshots(ready, *days) == [made[day] for day in days]
    assert len({*made.values()}) == 3
    # The version of the table is that of the last one, and its page shows all that it showed.
    latest = ready.instance.get_latest_materialization_event(KEY).asset_materialization
    assert latest.tags[VERSION].rpartition("@")[2] == made[days[-1]]
    first, last = event(ready, days[0]), event(ready, days[-1])
    assert first.metadata.keys() == last.metadata.keys()
    assert first.tags.keys() == last.tags.keys() >= {INPUT}
    assert first.metadata["dagster/partition_row_count"].value == 2


def test_a_version_stays_when_another_partition_is_loaded_or_the_range_again(ready: ReadyLake):
    ready.ingest("2013-01-01", "2013-01-03")
    before = snapshots(ready, "2013-01-01", "2013-01-02")

    ready.ingest("2013-01-02", "2013-01-05")
    ready.maintain()

    assert snapshots(ready, "2013-01-01", "2013-01-02") == before
    assert len({*snapshots(ready, *(f"2013-01-0{day}" for day in range(1, 6)))}) == 5
