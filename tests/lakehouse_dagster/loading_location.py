"""A code location whose tables load by themselves: delivered orders, open orders, files, and a function on time."""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from lakehouse_dagster import lake_definitions
from tests.lakehouse_dagster.page_location import LAKE as DELIVERED
from tests.lakehouse_dagster.page_location import DailyFeed
from tests.lakehouse_dagster.shop import orders, shop_resources

ROOT = Path(os.environ["DYING_ROOT"])
_APPENDED = {"primary_key": (), "options": {}, "write_mode": "append", "feed": None}


class TwoDays(DailyFeed):
    """The shop closed after two days."""

    def delivered(self, loaded: str | None) -> list[str]:
        return ["2013-01-01", "2013-01-02"]


def rates() -> pa.Table:
    return pa.table({"id": [1]})


LAKE = replace(
    DELIVERED,
    tables=(
        *DELIVERED.tables,
        orders(**_APPENDED | {"name": "visits", "files": {"path": str(ROOT / "*.csv")}}),
        orders(name="rates", feed=None, function={"call": rates}, ingest={"schedule": "* * * * *"}),
    ),
)
defs = lake_definitions(LAKE, resources={**shop_resources(ROOT / "warehouse", LAKE), "shop": TwoDays()})
