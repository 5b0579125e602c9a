"""A code location with tables whose batches are committed together, one of them by Spark, and one that a schedule loads
each minute.

Its processes find the warehouse and the files in the folder that TOGETHER_ROOT names.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg

from lakehouse_dagster import Lake, lake_definitions
from tests.lakehouse_dagster.many_batches import DAYS, FEED, ManyDays, day_number, keyed_orders, orders, resources

ROOT = Path(os.environ["TOGETHER_ROOT"])
ALL = DAYS.get_partition_keys()[:4]
DELIVERED = dg.DynamicPartitionsDefinition(name="many_batches")
# Batches are not loaded before somebody clicks.
ORDERS = keyed_orders(ingest={"news": False})
BY_SPARK = keyed_orders(name="orders_by_spark", runs_on="spark", ingest={"news": False})
RETURNS = orders(
    name="returns",
    feed=None,
    commit="each",
    files={"path": str(ROOT / "in" / "*.csv")},
    ingest={"schedule": "* * * * *", "news": False},
)
LAKE = Lake(name="lake", tables=[ORDERS, BY_SPARK, RETURNS], feeds={"many": replace(FEED, delivered=DELIVERED)})


class FourDays(ManyDays):
    def expected_rows(self, feed: str, through: str | None) -> int:
        # Order 0 is in each batch.
        return 0 if through is None else 1 + day_number(through)

    def delivered(self, loaded: str | None) -> Sequence[str]:
        return ALL


defs = lake_definitions(LAKE, resources={**resources(ROOT), "feed": FourDays()})
