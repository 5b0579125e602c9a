"""State sensor: shows on the page of each table what other engines and processes did to it."""

import time

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.page import report_state
from lakehouse_dagster.pipeline import open_table
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.specs import TableSpec

# A tick must end within 60 s; the next tick goes on with the table that this one did not get to.
BUDGET_SECONDS = 40


def state_sensor(lake: Lake) -> dg.SensorDefinition:
    """Return the sensor that reports the present state of the tables of a lake. It is on and requests no runs."""

    @dg.sensor(
        name=lake.scoped("state"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Shows on the pages of the tables what other engines and processes did to them.",
        required_resource_keys={lake.resource},
    )
    def state(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        catalog = lakehouse.local_catalog()
        started = time.monotonic()
        names = [spec.identifier for spec in lake.tables]
        first = names.index(context.cursor) if context.cursor in names else 0
        looked, cursor = [], None
        for spec in [*lake.tables[first:], *lake.tables[:first]]:
            if time.monotonic() - started > BUDGET_SECONDS:
                cursor = spec.identifier
                break
            try:
                looked.append(f"{spec.identifier}: {_look_at(context.instance, lake, catalog, spec)}")
            except lc.LakehouseError as error:
                # The other tables are shown all the same.
                looked.append(f"{spec.identifier}: {error}")
        return dg.SensorResult(skip_reason="\n".join(looked) or "no tables", cursor=cursor or "")

    return state


def _look_at(instance: dg.DagsterInstance, lake: Lake, catalog: lc.Catalog, spec: TableSpec) -> str:
    table = open_table(catalog, spec.identifier)
    if table is None:
        return "not created yet"
    found = report_state(instance, lake.table_key(spec), table, spec, done="found by the sensor")
    return "no snapshot" if found.snapshot_id is None else f"snapshot {found.snapshot_id}"
