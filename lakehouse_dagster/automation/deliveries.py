"""Deliveries sensors: offer the batches that a feed has delivered as partitions.

Rule: only delivered batches are partitions, so a partition that is missing is one that can be loaded. No Spark.
"""

import dagster as dg

from lakehouse_dagster.feed import Feed
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.pipeline import open_table
from lakehouse_dagster.resources import FeedResource, LakehouseResource
from lakehouse_dagster.sources import row_source


def deliveries_sensors(lake: Lake) -> list[dg.SensorDefinition]:
    """Return a sensor for each feed of a lake that has `delivered`. The sensors are on and request no runs."""
    return [_deliveries_sensor(lake, name, feed) for name, feed in lake.feeds.items() if feed.delivered is not None]


def _deliveries_sensor(lake: Lake, name: str, feed: Feed) -> dg.SensorDefinition:
    @dg.sensor(
        name=lake.scoped(f"{name}_deliveries"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Offers the batches that the feed {name} has delivered as partitions.",
        required_resource_keys={lake.resource, feed.resource},
    )
    def deliveries(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        source: FeedResource = getattr(context.resources, feed.resource)
        keys = source.delivered(_newest_loaded(context, lake, name, feed))
        new = feed.not_offered(context.instance, keys)
        if not new or feed.delivered is None:
            return dg.SensorResult(skip_reason=f"{len(keys)} batches are delivered, none is new")
        context.log.info(f"offers {', '.join(new)}")
        return dg.SensorResult(dynamic_partitions_requests=[feed.delivered.build_add_request(new)])

    return deliveries


def _newest_loaded(context: dg.SensorEvaluationContext, lake: Lake, name: str, feed: Feed) -> str | None:
    lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
    catalog = lakehouse.local_catalog()
    found = []
    for spec in lake.tables:
        if spec.feed is not None and spec.feed.batches and spec.feed.source == name:
            table = open_table(catalog, spec.identifier)
            last = None if table is None else row_source(lake, spec).last_committed(table, catalog)
            found += [] if last is None else [last]
    return feed.batch_key(max(found)) if found else None
