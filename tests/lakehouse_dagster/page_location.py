"""A code location as the web server loads it: orders in batches that are partitions once delivered, and open orders."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg

from lakehouse_dagster import lake_definitions
from tests.lakehouse_dagster.shop import SHOP, ShopFeed, orders, shop_lake, shop_resources

FEED = replace(SHOP, delivered=dg.DynamicPartitionsDefinition(name="shop_batches"))
_COLUMNS = {"id": "BIGINT NOT NULL", "closed": "BIGINT"}
ORDERS = orders(columns=_COLUMNS, options={"bucket": "1", "write-only": "true", "changelog-producer": "input"})
# Without partitions: kept from the changes of the orders.
_CHANGES = {"table": "sales.orders", "while_null": ["closed"]}
OPEN_ORDERS = orders(name="open_orders", feed=None, changes_of=_CHANGES)
LAKE = replace(shop_lake(ORDERS, OPEN_ORDERS), feeds={"shop": FEED})


class DailyFeed(ShopFeed):
    """Delivers the batch after the last one that is loaded."""

    def delivered(self, loaded: str | None) -> Sequence[str]:
        days = FEED.batches.get_partition_keys()
        return days[: 1 if loaded is None else days.index(loaded) + 2]


# The web server reads no warehouse: the tests run the jobs on one of their own.
defs = lake_definitions(LAKE, resources={**shop_resources(Path("warehouse"), LAKE), "shop": DailyFeed()})
