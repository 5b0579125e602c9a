"""The code location of the tests that kill processes: orders, appended day by day by a feed that waits when told."""

import os
import sys
import time
from pathlib import Path

import dagster as dg
import pyarrow as pa

from lakehouse_dagster import lake_definitions, webhook_sensor
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake, shop_resources

ROOT = Path(os.environ["DYING_ROOT"])
# As a worker that runs out of memory while it imports.
if (ROOT / "dies-at-start").exists() and "execute_run" in sys.argv:
    (ROOT / "dies-at-start").unlink()
    print("there is no such module", file=sys.stderr, flush=True)
    os._exit(1)

ORDERS = orders(write_mode="append", primary_key=(), options={"bucket": "-1"})


class WaitingFeed(ShopFeed):
    """While there is a file `wait`, a batch is not delivered, or only that which the file names.

    Its run is then there to be killed. With a file `deaf` it does not end for an interrupt.
    """

    def rows(self, feed: str, batch: str | None) -> pa.Table:
        while any(path.read_text() in ("", batch) for path in ROOT.glob("wait")):
            try:
                (ROOT / f"waits-{batch}").write_text(str(os.getpid()))
                time.sleep(0.1)
            except BaseException:
                if not (ROOT / "deaf").exists():
                    raise
        return super().rows(feed, batch)


LAKE = shop_lake(ORDERS)
defs = dg.Definitions.merge(
    lake_definitions(LAKE, resources={**shop_resources(ROOT / "warehouse", LAKE), "shop": WaitingFeed()}),
    dg.Definitions(sensors=[webhook_sensor(dg.EnvVar("DYING_ALERTS"))]),
)
