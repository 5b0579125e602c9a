"""A code location as the web server loads it: orders of the shop, in batches that are partitions once delivered."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg

from lakehouse_dagster import lake_definitions
from tests.lakehouse_dagster.shop import SHOP, ShopFeed, orders, shop_lake, shop_resources

FEED = replace(SHOP, delivered=dg.DynamicPartitionsDefinition(name="shop_batches"))
LAKE = replace(shop_lake(orders(options={"bucket": "1", "write-only": "true"})), feeds={"shop": FEED})


class DailyFeed(ShopFeed):
    """Delivers the batch after the last one that is loaded."""

    def delivered(self, loaded: str | None) -> Sequence[str]:
        days = FEED.batches.get_partition_keys()
        return days[: 1 if loaded is None else days.index(loaded) + 2]


# The web server reads no warehouse: the tests run the jobs on one of their own.
defs = lake_definitions(LAKE, resources={**shop_resources(Path("warehouse"), LAKE), "shop": DailyFeed()})
