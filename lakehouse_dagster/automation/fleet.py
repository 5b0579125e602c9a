"""Urgent sensor: starts the maintenance that should not wait for the night, under the budget of the fleet.

Rule: the plan of the core decides what is urgent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.automation.jobs import AssetJob
from lakehouse_dagster.automation.requests import first_requests
from lakehouse_dagster.automation.rounds import NOT_CREATED, look_at_each
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.resources import LakehouseResource


def urgent_sensor(
    lake: Lake, job: AssetJob, budget: lc.Budget, *, rates: lc.Rates | None = None
) -> dg.SensorDefinition:
    """Return the sensor that starts the `fleet_job` of a lake for tables with urgent partitions, each run with this
    budget. It is stopped until you start it. `rates`: those of the `fleet_asset`.
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
            plan = urgent_plan(catalog, table.name, budget, rates)
            found.extend(plan.choices)
            return "; ".join(_told(plan)) or "nothing urgent"

        lines, cursor = look_at_each(context, lake.resource, tables, report, first=context.cursor)
        asked = urgent_requests(lake, found, budget, now=datetime.now(UTC))
        requests = first_requests(context.instance, name, asked, most=1)  # each run has the budget
        return dg.SensorResult(run_requests=requests, skip_reason=None if requests else lines, cursor=cursor)

    return urgent


def _told(plan: lc.MaintenancePlan) -> Iterator[str]:
    for choice in plan.choices:
        yield f"{choice.name}: {choice.urgent}"
    for refusal in plan.urgent_refusals:
        yield f"{refusal.name}: urgent, and the budget of {plan.budget} is too small: {refusal.reason}. Raise it"


def urgent_plan(
    catalog: lc.Catalog, table: str, budget: lc.Budget, rates: lc.Rates | None = None
) -> lc.MaintenancePlan:
    """Return what of a table should not wait."""
    # Manifests and snapshots are never urgent, so they are not read.
    return catalog.plan_maintenance(
        [table],
        budget=budget,
        operations=("compact", "compact_full"),
        only_urgent=True,
        rates=rates or lc.Rates(),
    )


def urgent_requests(
    lake: Lake, found: Sequence[lc.MaintenanceChoice], budget: lc.Budget, *, now: datetime
) -> list[dg.RunRequest]:
    """Return a run with this budget for each table with urgent choices.

    The key of a run names its table and the hour of the clock, so a table is requested at most once in an hour until a
    run has done what is urgent. A table that stays urgent keeps no other from its turn.
    """
    return [
        _urgent_request(lake, table, found, budget, now=now) for table in sorted({choice.table for choice in found})
    ]


def _urgent_request(
    lake: Lake, table: str, found: Sequence[lc.MaintenanceChoice], budget: lc.Budget, *, now: datetime
) -> dg.RunRequest:
    node = lake.fleet_key.to_python_identifier()
    reasons = dict.fromkeys(f"{choice.table}: {choice.urgent}" for choice in found if choice.table == table)
    return dg.RunRequest(
        run_key=f"urgent:{table}#h{now:%Y%m%d%H}",
        run_config={"ops": {node: {"config": {**asdict(budget), "tables": [table], "only_urgent": True}}}},
        tags={"lakehouse/operation": "fleet", "lakehouse/reason": "; ".join(reasons)},
    )
