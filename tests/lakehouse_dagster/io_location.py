"""A code location whose steps run in processes of their own: their inputs and outputs are tables."""

import os
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

import lakehouse_core as lc
from lakehouse_dagster import LakehouseIOManager, LakehouseResource, SparkRuntime, table_metadata

ORDERS = dg.AssetKey(["lake", "sales", "orders"])
COPY = dg.AssetKey(["lake", "sales", "copy"])


def folder() -> Path:
    return Path(os.environ["LAKEHOUSE_TEST_FOLDER"])


@dg.asset(ins={"orders": dg.AssetIn(key=ORDERS)}, key=COPY, metadata=table_metadata(write_mode="append"))
def copy(orders: pa.Table) -> pa.Table:
    """Copies the orders, and meanwhile somebody else writes one."""
    lc.connect(folder() / "warehouse").table("sales.orders").write([{"id": 100}])
    return orders


@dg.asset(ins={"orders": dg.AssetIn(key=ORDERS), "copied": dg.AssetIn(key=COPY)})
def report(orders: pa.Table, copied: pa.Table) -> None:
    """Fails until there is a file named `mended`."""
    (folder() / "seen").write_text(f"{orders.num_rows} {copied.num_rows}")
    if not (folder() / "mended").exists():
        raise RuntimeError("not mended yet")


def job() -> Any:
    resources = {
        "io_manager": LakehouseIOManager(
            lakehouse=LakehouseResource(warehouse=dg.EnvVar("LAKEHOUSE_TEST_WAREHOUSE"), spark=SparkRuntime())
        )
    }
    copies = dg.define_asset_job("copies", dg.AssetSelection.assets(copy, report))
    defs = dg.Definitions(assets=[copy, report, dg.AssetSpec(ORDERS)], jobs=[copies], resources=resources)
    return defs.resolve_job_def("copies")
