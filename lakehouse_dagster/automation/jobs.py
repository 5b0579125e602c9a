"""Jobs of a lake: ingest batches, maintain the tables, observe the sources."""

from typing import Any, TypeAlias

import dagster as dg

from lakehouse_dagster.automation.alerts import log_failed_step
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.pipeline import OPERATIONS

# What define_asset_job returns; Dagster does not publish its class.
AssetJob: TypeAlias = Any


def ingest_job(lake: Lake) -> AssetJob:
    """Return the job of feeds, files and commits of all tables, but for those that take batches together.

    A range of batches is one run with one commit for each batch. Feeds without an asset in the location are left out.
    """
    specs = [table for table in lake.tables if not table.commit.is_together]
    delivering = {table.feed.source for table in specs if table.feed is not None and table.feed.batches}
    feeds = [feed.key for name, feed in lake.feeds.items() if name in delivering]
    tables = [key for table in specs for key in (lake.operation_key(table, "ingest"), lake.table_key(table))]
    return _job(
        lake,
        "ingest",
        dg.AssetSelection.assets(*tables) | dg.AssetSelection.assets(*feeds).materializable(),
        description=f"Loads {_what(lake)} into all tables.",
        operation="ingest",
    )


def maintain_job(lake: Lake) -> AssetJob:
    """Return the job of full compaction, manifest compaction and expiry of all tables."""
    return _job(
        lake,
        "maintain",
        dg.AssetSelection.assets(
            *(lake.operation_key(table, operation) for table in lake.tables for operation in OPERATIONS)
        ),
        description="Compacts files and manifests of all tables, then expires old snapshots.",
        operation="maintain",
    )


def fleet_job(lake: Lake) -> AssetJob:
    """Return the job of the `fleet_asset` of a lake, which spends a budget of maintenance on its tables."""
    return _job(
        lake,
        "fleet",
        dg.AssetSelection.assets(lake.fleet_key),
        description="Plans the maintenance of all tables under a budget, and carries it out.",
        operation="fleet",
    )


def observe_job(lake: Lake) -> AssetJob:
    """Return the job that checks whether the sources of the feeds have changed.

    Each source must be an observable asset.
    """
    return _job(
        lake,
        "observe_source",
        dg.AssetSelection.assets(*(feed.source for feed in lake.feeds.values())),
        description="Reads the version of the source.",
        operation="observe",
    )


def _what(lake: Lake) -> str:
    match list(lake.feeds):
        case []:
            return "what is new"
        case [name]:
            return f"batches of the {name} feed"
        case names:
            return f"batches of the feeds {', '.join(names)}"


def _job(lake: Lake, name: str, selection: dg.AssetSelection, *, description: str, operation: str) -> AssetJob:
    return dg.define_asset_job(
        lake.scoped(name),
        selection=selection,
        description=description,
        hooks={log_failed_step},
        tags={"lakehouse/operation": operation},
    )
