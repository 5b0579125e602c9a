"""Definitions: everything of a lake as Dagster definitions."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets import (
    commit_asset,
    compact_full_asset,
    compact_manifests_asset,
    expire_asset,
    fleet_asset,
    ingest_asset,
)
from lakehouse_dagster.automation import (
    carry_on,
    committer_sensors,
    deliveries_sensors,
    derived_sensors,
    fleet_job,
    fleet_schedule,
    ingest_job,
    ingest_schedules,
    lineage_sensors,
    log_failed_run,
    maintain_job,
    maintenance_sensor,
    news_sensors,
    nightly_schedule,
    state_sensor,
    urgent_sensor,
)
from lakehouse_dagster.checks import table_checks
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.specs import TableSpec


def location_definitions() -> dg.Definitions:
    """Return what a code location has once, for all its lakes: the sensors of dead and failed runs, which are on."""
    return dg.Definitions(sensors=[carry_on, log_failed_run])


def lake_definitions(
    lake: Lake,
    *,
    resources: Mapping[str, Any] | None = None,
    fleet: lc.Budget | None = None,
    with_location: bool = True,
) -> dg.Definitions:
    """Return the assets and checks of all tables, the jobs, the schedules and the sensors of a lake.

    `resources` has the `LakehouseResource` under `lake.resource`, and the resources of the feeds under their keys.
    Merge the result with the definitions of the feeds' own assets. Start the schedule and the sensor of maintenance
    yourself; what loads the tables is on, as their specifications say. `fleet` is a budget of maintenance for all
    tables, and adds the `fleet_definitions`. `with_location` adds the `location_definitions`.
    Raises InvalidRequest when the name of the resource is not the name of the lake.
    """
    lakehouse = (resources or {}).get(lake.resource)
    if isinstance(lakehouse, LakehouseResource) and lakehouse.name != lake.name:
        raise lc.InvalidRequest(
            f"lake {lake.name}: its resource {lake.resource!r} is named {lakehouse.name!r}, expected the name of "
            f"the lake. Pass LakehouseResource(name={lake.name!r}, …)."
        )
    ingest, maintain = ingest_job(lake), maintain_job(lake)
    return dg.Definitions.merge(
        *(table_definitions(lake, table) for table in lake.tables),
        dg.Definitions(
            jobs=[ingest, maintain],
            schedules=[nightly_schedule(lake, maintain), *ingest_schedules(lake, ingest)],
            sensors=[
                maintenance_sensor(lake, maintain),
                state_sensor(lake),
                *deliveries_sensors(lake),
                *derived_sensors(lake),
                *news_sensors(lake, ingest),
                *(lineage_sensors(lake) if isinstance(lakehouse, LakehouseResource) and lakehouse.lineage else []),
                *committer_sensors(lake),
            ],
            resources=resources,
            # One process and one Spark session a run; the default would start a JVM for each step.
            executor=dg.in_process_executor,
        ),
        dg.Definitions() if fleet is None else fleet_definitions(lake, fleet),
        location_definitions() if with_location else dg.Definitions(),
    )


def fleet_definitions(
    lake: Lake,
    budget: lc.Budget,
    *,
    reads: Mapping[str, float] | None = None,
    operations: Sequence[str] | None = None,
    rates: lc.Rates | None = None,
    urgent: lc.Budget | None = None,
) -> dg.Definitions:
    """Return the asset that spends a budget of maintenance on all tables of a lake, its job, the schedule that does so
    each night, and the sensor that starts what is urgent. Start the schedule and the sensor yourself.

    `reads`, `operations` and `rates` are those of `fleet_asset`. `urgent` is the budget of each run that the sensor
    starts, by default the budget of the night.
    """
    job = fleet_job(lake)
    return dg.Definitions(
        assets=[fleet_asset(lake, budget, reads=reads, operations=operations, rates=rates)],
        jobs=[job],
        schedules=[fleet_schedule(lake, job)],
        sensors=[urgent_sensor(lake, job, budget if urgent is None else urgent, rates=rates)],
    )


def table_definitions(lake: Lake, table: TableSpec) -> dg.Definitions:
    """Return the five assets and the checks of one table."""
    builders = (ingest_asset, commit_asset, compact_full_asset, compact_manifests_asset, expire_asset)
    return dg.Definitions(assets=[build(lake, table) for build in builders], asset_checks=[table_checks(lake, table)])
