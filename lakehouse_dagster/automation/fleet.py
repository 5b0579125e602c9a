"""Urgent sensor: starts the maintenance that should not wait for the night, under the budget of the fleet.

Rule: the plan of the core decides what is urgent.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.automation.jobs import AssetJob
from lakehouse_dagster.automation.requests import MOST_REQUESTS, first_requests
from lakehouse_dagster.automation.rounds import NOT_CREATED, look_at_each
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.resources import LakehouseResource


def urgent_sensor(lake: Lake, job: AssetJob, budget: lc.Budget) -> dg.SensorDefinition:
    """Return the sensor that starts the `fleet_job` of a lake for tables with urgent partitions. It is stopped until
    you start it.
    """
    tables = {lake.table_key(spec): spec.identifier for spec in lake.tables}
    name = lake.scoped("urgent_maintenance")

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Starts the maintenance that should not wait, and reports what it found.",
        required_resource_keys={lake.resource},
    )
    def urgent(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        catalog = lakehouse.local_catalog()
        found: list[lc.MaintenanceChoice] = []

        def report(_: dg.AssetKey, table: lc.Table | None) -> str:
            if table is None:
                return NOT_CREATED
            choices = urgent_choices(catalog, table.name, budget)
            found.extend(choices)
            return "; ".join(f"{choice.name}: {choice.urgent}" for choice in choices) or "nothing urgent"

        lines, cursor = look_at_each(context, lake.resource, tables, report, first=context.cursor)
        asked = urgent_requests(lake, found, now=datetime.now(UTC))
        requests = first_requests(context.instance, name, asked, most=1)  # each run has the whole budget
        return dg.SensorResult(run_requests=requests, skip_reason=None if requests else lines, cursor=cursor)

    return urgent


def urgent_choices(catalog: lc.Catalog, table: str, budget: lc.Budget) -> Sequence[lc.MaintenanceChoice]:
    """Return what of a table should not wait."""
    # Manifests and snapshots are never urgent, so they are not read.
    plan = catalog.plan_maintenance([table], budget=budget, operations=("compact", "compact_full"), only_urgent=True)
    return plan.choices


def urgent_requests(lake: Lake, found: Sequence[lc.MaintenanceChoice], *, now: datetime) -> list[dg.RunRequest]:
    """Return a run for each so many tables with urgent choices.

    The key of a run has its tables and the hour, so the same need is requested once in an hour by the clock until a run
    has met it.
    """
    tables = sorted({choice.table for choice in found})
    return [
        _urgent_request(lake, tables[start : start + MOST_REQUESTS], found, now=now)
        for start in range(0, len(tables), MOST_REQUESTS)
    ]


def _urgent_request(
    lake: Lake, tables: Sequence[str], found: Sequence[lc.MaintenanceChoice], *, now: datetime
) -> dg.RunRequest:
    node = lake.fleet_key.to_python_identifier()
    reasons = dict.fromkeys(f"{choice.table}: {choice.urgent}" for choice in found if choice.table in tables)
    return dg.RunRequest(
        run_key=f"urgent:{'+'.join(tables)}#h{now:%Y%m%d%H}",
        run_config={"ops": {node: {"config": {"tables": list(tables), "only_urgent": True}}}},
        tags={"lakehouse/operation": "fleet", "lakehouse/reason": "; ".join(reasons)},
    )
