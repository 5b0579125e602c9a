"""State sensors: show on the pages of tables what other engines and processes did to them.

Rule: a tick looks at each table, without Spark, and an error of one table stops no other.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.automation.rounds import NOT_CREATED, look_at_each
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.lateness import ask_source, content_age_check, inputs_check, report_lateness
from lakehouse_dagster.page import changed_rows, read_pages, report_state, report_unreadable
from lakehouse_dagster.pipeline import read_state
from lakehouse_dagster.sources import row_source


def state_sensor(lake: Lake) -> dg.SensorDefinition:
    """Return the sensor that reports the present state of the tables of a lake. It is on and requests no runs."""

    tables = {lake.table_key(spec): spec.identifier for spec in lake.tables}
    sources = {spec.identifier: row_source(lake, spec) for spec in lake.tables}
    # A feed has a sensor of its own: one that cannot start or answer must not stop the pages.
    told = {name: source for name, source in sources.items() if source.tells_news and not source.resources}

    @dg.sensor(
        name=lake.scoped("state"),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Shows on the pages of the tables what other engines and processes did to them, and to their "
        "sources.",
        required_resource_keys={lake.resource},
    )
    def state(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        # Read before the tables: most pages show them already.
        seen = read_pages(context.instance, tables)

        def report(key: dg.AssetKey, table: lc.Table | None) -> str:
            spec = lake.table(tables[key])
            done = "found by the sensor"
            try:
                found = None if table is None else read_state(table)
                if table is not None and found is not None and not seen.shows(key, found, spec):
                    found = report_state(context.instance, lake, spec, table, done=done)
            except lc.CorruptTable as error:
                report_unreadable(context.instance, key, error)
                raise
            now = datetime.now(UTC)
            if (source := told.get(spec.identifier)) is not None:
                behind = ask_source(source, key, table, context.resources, context.instance)
                report_lateness(context.instance, inputs_check(key, spec, behind, now=now), now=now, seen=seen)
            if found is None:
                return NOT_CREATED
            if spec.freshness is not None:
                aged = content_age_check(key, spec.freshness, found, now=now)
                report_lateness(context.instance, aged, now=now, seen=seen)
            return "no snapshot" if found.snapshot_id is None else f"snapshot {found.snapshot_id}"

        lines, cursor = look_at_each(context, lake.resource, tables, report, first=context.cursor)
        return dg.SensorResult(skip_reason=lines, cursor=cursor)

    return state


def external_tables_sensor(
    tables: Sequence[dg.AssetSpec], *, lake: str = "lake", resource: str = "lakehouse", interval_seconds: int = 60
) -> dg.SensorDefinition:
    """Return the sensor that reports each table of `external_table` whose rows changed: its state and data version.

    A compaction changes no rows, so automation conditions of downstream assets see exactly the changes. `resource` is
    the key of the `LakehouseResource`. Raises InvalidRequest for specs that are not tables of `lake`.
    """
    named: dict[dg.AssetKey, str] = {}
    for spec in tables:
        if spec.metadata.get("paimon/lake") != lake or spec.key in named:
            raise lc.InvalidRequest(
                f"external_tables_sensor: found {spec.key.to_user_string()}, expected each table of the lake {lake} "
                "once, as external_table returns it."
            )
        named[spec.key] = str(spec.metadata["dagster/table_name"])

    @dg.sensor(
        name=f"{lake}_external_tables",
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports tables that others write, when their rows changed.",
        required_resource_keys={resource},
    )
    def external_tables(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        events: list[dg.AssetMaterialization] = []

        def report(key: dg.AssetKey, table: lc.Table | None) -> str:
            if table is None:
                return NOT_CREATED
            found = changed_rows(context.instance, key, table)
            events.extend([] if found is None else [found])
            return "unchanged" if found is None else "changed"

        lines, cursor = look_at_each(context, resource, named, report, first=context.cursor)
        return dg.SensorResult(asset_events=events, skip_reason=None if events else lines, cursor=cursor)

    return external_tables
