"""Deliveries sensors: offer the batches that a feed has delivered as partitions.

Rule: only delivered batches are partitions, so a partition that is missing is one that can be loaded. No Spark.
"""

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.answers import answered
from lakehouse_dagster.automation.rounds import NOT_CREATED, look_at_each
from lakehouse_dagster.feed import Feed
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.resources import FeedResource, LakehouseResource
from lakehouse_dagster.sources import feed_source


def deliveries_sensors(lake: Lake) -> list[dg.SensorDefinition]:
    """Return a sensor for each feed of a lake that has `delivered`. The sensors are on and request no runs."""
    return [_deliveries_sensor(lake, name, feed) for name, feed in lake.feeds.items() if feed.delivered is not None]


def _deliveries_sensor(lake: Lake, name: str, feed: Feed) -> dg.SensorDefinition:
    specs = [spec for spec in lake.tables if spec.feed is not None and spec.is_batched and spec.feed.source == name]
    sources = {lake.table_key(spec): feed_source(lake, spec) for spec in specs}
    tables = {lake.table_key(spec): spec.identifier for spec in specs}

    @dg.sensor(
        name=lake.scoped(f"{name}_deliveries"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Offers the batches that the feed {name} has delivered as partitions.",
        required_resource_keys={lake.resource, feed.resource},
    )
    def deliveries(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        source: FeedResource = getattr(context.resources, feed.resource)
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        catalog = lakehouse.local_catalog()
        loaded: list[int] = []

        def look(key: dg.AssetKey, table: lc.Table | None) -> str:
            last = None if table is None else sources[key].last_committed(table, catalog)
            loaded.extend([] if last is None else [last])
            return NOT_CREATED if table is None else "no batch" if last is None else f"batch {feed.batch_key(last)}"

        lines, cursor = look_at_each(context, lake.resource, tables, look, first=context.cursor)
        newest = feed.batch_key(max(loaded)) if loaded else None
        keys = answered(("delivered", lake.name, name), lambda: source.delivered(newest))
        new = feed.not_offered(context.instance, keys)
        if not new or feed.delivered is None:
            told = f"{len(keys)} batches are delivered, none is new"
            return dg.SensorResult(skip_reason=f"{told}\n{lines}", cursor=cursor)
        context.log.info(f"offers {', '.join(new)}\n{lines}")
        return dg.SensorResult(dynamic_partitions_requests=[feed.delivered.build_add_request(new)], cursor=cursor)

    return deliveries
