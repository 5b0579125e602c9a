"""What other teams test their code location with."""

import pytest

import lakehouse_core as lc
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.lakehouse_dagster.shop import ShopFeed, shop_lake

pytestmark = pytest.mark.dagster
ORDERS = "sales.orders"


@pytest.fixture
def ready():
    with ready_lake(shop_lake(), resources={"shop": ShopFeed()}) as lake:
        yield lake


def test_a_ready_lake_loads_and_maintains_its_tables_and_shows_what_the_pages_show(ready: ReadyLake):
    assert (ready.metadata(ORDERS), ready.checks(ORDERS)) == ({}, {})

    ready.ingest("2013-01-01", "2013-01-03")
    ready.ingest("2013-01-04")
    ready.maintain()

    assert ready.table(ORDERS).scan().count() == 5
    ready.assert_metadata(ORDERS, {"dagster/row_count": 5})
    ready.assert_metadata(ORDERS, {"paimon/files_after": 1}, "compact_full")
    assert len(ready.table(ORDERS).files()) == 1
    assert ready.checks(ORDERS) == {
        "snapshot_count": True,
        "sorted_runs": True,
        "source_row_count": True,
        "verify": True,
    }


def test_metadata_that_differ_are_told_with_what_was_found(ready: ReadyLake):
    ready.ingest("2013-01-01")

    with pytest.raises(AssertionError) as told:
        ready.assert_metadata(ORDERS, {"dagster/row_count": 7, "paimon/none": 1})

    assert str(told.value) == (
        "metadata of mine/sales/orders\n"
        "dagster/row_count: expected 7, found 2\n"
        "paimon/none: expected 1, found no such key"
    )


def test_a_table_that_the_lake_lacks_is_refused(ready: ReadyLake):
    with pytest.raises(lc.InvalidRequest, match=r"there is no table sales\.carts"):
        ready.metadata("sales.carts")


def test_two_ready_lakes_share_nothing(ready: ReadyLake):
    ready.ingest("2013-01-01")

    with ready_lake(shop_lake(), resources={"shop": ShopFeed()}) as other:
        assert other.catalog.databases() == []
        assert other.metadata(ORDERS) == {}
    assert not other.warehouse.exists()
