"""A lake whose table takes many small batches together, and its runs as processes of their own.

`python -m tests.lakehouse_dagster.many_batches ROOT stage|commit|die DAY…` makes a run for each day.
"""

import os
import sys
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

import lakehouse_dagster.assets.commit
from lakehouse_dagster import Feed, FeedResource, Lake, LakehouseResource, SparkRuntime, TableSpec, lake_definitions

DAYS = dg.DailyPartitionsDefinition(start_date="2013-01-01", end_date="2013-12-31", timezone="UTC")
FEED = Feed(key=dg.AssetKey("feed"), source=dg.AssetKey("files"), resource="feed", names=("orders",), batches=DAYS)
INGEST, TABLE = (dg.AssetKey(["lake", "sales", "orders", *last]) for last in (["ingest"], []))


class ManyDays(FeedResource):
    """Each day order 0 again, and one order of its own."""

    release: str = "v1"

    def version(self) -> str:
        return self.release

    def frame(self, session: Any, feed: str, batch: str | None) -> Any:
        return session.createDataFrame(self.rows(feed, batch).to_pylist(), "id BIGINT NOT NULL, day STRING")

    def rows(self, feed: str, batch: str | None) -> pa.Table:
        assert batch is not None
        number = day_number(batch)
        return pa.table({"id": pa.array([0, number], pa.int64()), "day": [batch, batch]})

    def is_gap(self, feed: str, after: str | None, before: str) -> bool:
        return day_number(before) > (1 if after is None else day_number(after) + 1)

    def expected_rows(self, feed: str, through: str | None) -> int:
        return 0 if through is None else 2 * day_number(through)


def day_number(key: str) -> int:
    return date.fromisoformat(key).timetuple().tm_yday


def orders(**change: Any) -> TableSpec:
    return TableSpec.model_validate(
        {
            "database": "sales",
            "name": "orders",
            "comment": "Orders.",
            "columns": {"id": "BIGINT NOT NULL", "day": "STRING"},
            "write_mode": "append",
            "runs_on": "process",
            "feed": {"source": "many", "name": "orders"},
            "commit": "together",
            **change,
        }
    )


def keyed_orders(**change: Any) -> TableSpec:
    return orders(primary_key=("id",), write_mode="upsert", options={"bucket": "1"}, **change)


def many_lake(spec: TableSpec) -> Lake:
    return Lake(name="lake", tables=[spec], feeds={"many": FEED})


def resources(root: Path) -> dict[str, Any]:
    lakehouse = LakehouseResource(name="lake", warehouse=str(root / "warehouse"), spark=SparkRuntime())
    return {"lakehouse": lakehouse, "feed": ManyDays()}


def run(root: Path, spec: TableSpec, key: dg.AssetKey, day: str, instance: dg.DagsterInstance) -> dg.DagsterRun:
    """Execute a run of one asset for one day, as from the page of the asset."""
    result = _job(root, spec.model_dump_json()).execute_in_process(
        partition_key=day, asset_selection=[key], instance=instance, raise_on_error=False
    )
    return result.dagster_run


@cache
def _job(root: Path, spec: str) -> dg.JobDefinition:
    lake = many_lake(TableSpec.model_validate_json(spec))
    return lake_definitions(lake, resources=resources(root)).resolve_implicit_global_asset_job_def()


def main() -> None:
    root, what, *days = sys.argv[1:]
    if what == "die":
        # The process is gone once the snapshot is there, before anything is told.
        lakehouse_dagster.assets.commit.read_state = lambda _: os._exit(9)
    # Runs that stage tell nothing that the commit needs, and an instance in memory is faster.
    home = str(Path(root) / "home")
    with dg.DagsterInstance.ephemeral() if what == "stage" else dg.DagsterInstance.from_config(home) as instance:
        for day in days:
            made = run(Path(root), orders(), INGEST if what == "stage" else TABLE, day, instance)
            assert made.is_success, what


if __name__ == "__main__":
    main()
