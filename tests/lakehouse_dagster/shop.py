"""A small lake of another team: one feed in daily batches, tables without Spark."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from lakehouse_dagster import Feed, FeedResource, Lake, LakehouseResource, SparkRuntime, TableSpec

DAYS = dg.DailyPartitionsDefinition(start_date="2013-01-01", end_date="2013-01-11", timezone="UTC")
SHOP = Feed(
    key=dg.AssetKey("shop_feed"),
    source=dg.AssetKey("shop_files"),
    resource="shop",
    names=("orders", "carts"),
    batches=DAYS,
)


class ShopFeed(FeedResource):
    """Each day order 0 again, and one order of its own."""

    release: str = "v1"

    def version(self) -> str:
        return self.release

    def frame(self, session: Any, feed: str, batch: str | None) -> Any:
        raise NotImplementedError("these tables are filled by the run itself")

    def rows(self, feed: str, batch: str | None) -> pa.Table:
        assert batch is not None
        return pa.table({"id": pa.array([0, date.fromisoformat(batch).day], pa.int64())})

    def is_gap(self, feed: str, after: str | None, before: str) -> bool:
        days = DAYS.get_partition_keys()
        return days.index(before) > (0 if after is None else days.index(after) + 1)

    def expected_rows(self, feed: str, through: str | None) -> int:
        return 0 if through is None else 1 + date.fromisoformat(through).day


READER = ShopFeed()


def orders(**change: Any) -> TableSpec:
    """A table specification of the shop, with other values for some of its fields."""
    fields: Mapping[str, Any] = {
        "database": "sales",
        "name": "orders",
        "comment": "Orders.",
        "columns": {"id": "BIGINT NOT NULL"},
        "primary_key": ("id",),
        "options": {"bucket": "1"},
        "write_mode": "upsert",
        "runs_on": "process",
        "feed": {"source": "shop", "name": "orders"},
    }
    return TableSpec.model_validate({**fields, **change})


def shop_lake(*tables: TableSpec, name: str = "mine", resource: str = "lakehouse") -> Lake:
    return Lake(name=name, tables=tables or (orders(),), feeds={"shop": SHOP}, resource=resource)


def shop_resources(warehouse: Path, lake: Lake) -> Mapping[str, Any]:
    lakehouse = LakehouseResource(name=lake.name, warehouse=str(warehouse), spark=SparkRuntime())
    return {lake.resource: lakehouse, "shop": ShopFeed()}
