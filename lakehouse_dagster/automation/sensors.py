"""Maintenance sensor: reads the state of each table, without Spark, and requests the maintenance that is due.

For a table that needs nothing, the sensor reports its figures.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.automation.jobs import AssetJob
from lakehouse_dagster.automation.requests import first_requests
from lakehouse_dagster.automation.rounds import BUDGET_SECONDS
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.pipeline import OPERATIONS, Figure, figures, open_table, read_state, settings
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.specs import TableSpec

CURSOR_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """The state of one table at a tick; `snapshot_id` None: the table does not exist yet."""

    spec: TableSpec
    snapshot_id: int | None
    figures: tuple[Figure, ...]

    @property
    def due(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in self.figures if figure.is_due)

    def __str__(self) -> str:
        return f"{self.spec.identifier}: " + ("; ".join(map(str, self.figures)) or "not created yet")


def maintenance_sensor(lake: Lake, job: AssetJob) -> dg.SensorDefinition:
    """Return the sensor over the tables of a lake. Its runs are runs of the maintenance `job`, with its hooks."""
    name = lake.scoped("maintenance")

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Requests compaction and expiry of tables that need them, and reports the figures of the others.",
        required_resource_keys={lake.resource},
    )
    def maintenance(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        started = time.monotonic()
        looks = []
        for spec in _least_recent_first(lake.tables, _seen(context.cursor)):
            if time.monotonic() - started > BUDGET_SECONDS:
                break
            looks.append(look_at(lakehouse.local_catalog(), spec))
        requests = first_requests(context.instance, name, run_requests(lake, looks, now=datetime.now(UTC)))
        cursor = _cursor(_seen(context.cursor), looks, now=datetime.now(UTC))
        context.log.info("; ".join(map(str, looks)))
        if requests:
            return dg.SensorResult(run_requests=requests, cursor=cursor)
        return dg.SensorResult(skip_reason="\n".join(map(str, looks)) or "no tables", cursor=cursor)

    return maintenance


def look_at(catalog: lc.Catalog, spec: TableSpec) -> TableLook:
    """Read the figures of one table."""
    table = open_table(catalog, spec.identifier)
    if table is None:
        return TableLook(spec=spec, snapshot_id=None, figures=())
    state = read_state(table, recent=0)
    return TableLook(spec=spec, snapshot_id=state.snapshot_id, figures=figures(state, spec.maintenance))


def run_requests(lake: Lake, looks: Sequence[TableLook], *, now: datetime) -> list[dg.RunRequest]:
    """Return one run for each table that needs maintenance, the worst tables first.

    The key of a run has the snapshot and the hour, so the same need is requested once an hour until a run has met it.
    """
    needy = sorted((look for look in looks if look.due), key=lambda look: -max(f.excess for f in look.due))
    requests = []
    for look in needy:
        operations = [name for name in OPERATIONS if any(figure.operation == name for figure in look.due)]
        keys = {name: lake.operation_key(look.spec, name) for name in operations}
        told = {
            keys[name].to_python_identifier(): {"config": config}
            for name in operations
            if (config := dict(settings(name, look.due)))
        }
        reason = "; ".join(map(str, look.due))
        requests.append(
            dg.RunRequest(
                run_key=f"{'+'.join(operations)}:{look.spec.identifier}@s{look.snapshot_id}#h{now:%Y%m%d%H}",
                asset_selection=[*keys.values()],
                run_config={"ops": told} if told else {},
                tags={"lakehouse/table": look.spec.identifier, "lakehouse/reason": reason},
            )
        )
    return requests


def _seen(cursor: str | None) -> Mapping[str, str]:
    """Return when each table was looked at last. A cursor that cannot be read is begun anew."""
    try:
        document = json.loads(cursor or "{}")
        return dict(document["tables"]) if document["version"] == CURSOR_VERSION else {}
    except (ValueError, KeyError, TypeError):
        return {}


def _cursor(seen: Mapping[str, str], looks: Sequence[TableLook], *, now: datetime) -> str:
    stamp = now.isoformat(timespec="seconds")
    tables = {**seen, **{look.spec.identifier: stamp for look in looks}}
    return json.dumps({"version": CURSOR_VERSION, "tables": tables}, sort_keys=True)


def _least_recent_first(specs: Sequence[TableSpec], seen: Mapping[str, str]) -> list[TableSpec]:
    return sorted(specs, key=lambda spec: seen.get(spec.identifier, ""))
