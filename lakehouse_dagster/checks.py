"""Checks of a table: sound, complete, current, compacted, expired.

Rule: they read metadata and one count, without a Spark session.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.failures import retry_transient
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.lateness import ask_source, content_age_check, inputs_check
from lakehouse_dagster.page import (
    CONTENT_AGE,
    INPUTS_CURRENT,
    VERIFY,
    WAITING_ROWS,
    state_checks,
    verify_check,
)
from lakehouse_dagster.pipeline import TableState, logged_progress, read_state, table_of_run
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.row_count import ROW_COUNT, RowsFound, row_count_check
from lakehouse_dagster.sources import SourceCheck, row_source
from lakehouse_dagster.specs import TableSpec

DESCRIPTIONS: Mapping[str, str] = {
    VERIFY: "Metadata, files and totals agree; a failure blocks downstream assets.",
    ROW_COUNT: "The table has as many rows as the source makes of the committed batches.",
    INPUTS_CURRENT: "The table has taken what its source has.",
    CONTENT_AGE: "The newest rows are not older than the specification allows.",
    "sorted_runs": "No bucket has more sorted runs than its specification allows: compaction keeps up.",
    "snapshot_count": "No more snapshots than the specification allows: expiry keeps up.",
    WAITING_ROWS: "No more rows wait for a compaction to be read than the specification allows.",
}
# More would not fit the line that a page shows.
_MOST_NAMED = 5


def table_checks(lake: Lake, table: TableSpec) -> dg.AssetChecksDefinition:
    """Return the checks of a table: `verify`, `sorted_runs`, `snapshot_count`, and those that its source has an answer
    for.
    """
    key, source = lake.table_key(table), row_source(lake, table)
    freshness = table.freshness
    is_there = {
        ROW_COUNT: source.tells_rows,
        INPUTS_CURRENT: source.tells_news,
        CONTENT_AGE: freshness is not None,
        WAITING_ROWS: table.postpones_buckets,
    }
    descriptions = {
        **{name: text for name, text in DESCRIPTIONS.items() if is_there.get(name, True)},
        **{check.name: check.description for check in source.checks},
    }
    specs = [
        dg.AssetCheckSpec(name, asset=key, blocking=name == VERIFY, description=text)
        for name, text in descriptions.items()
    ]

    @dg.multi_asset_check(
        name=f"{'__'.join(key.path)}__checks",
        specs=specs,
        can_subset=True,
        required_resource_keys={lake.resource, *source.resources},
        op_tags={"lakehouse/table": table.identifier, "lakehouse/operation": "check"},
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        wanted = {check.name for check in context.selected_asset_check_keys}
        with retry_transient(table.identifier, "check", retry_number=context.retry_number):
            opened, _ = table_of_run(
                context.run.run_id,
                (lakehouse.place, False),
                table.identifier,
                lambda: lakehouse.local_catalog().table(table.identifier),
                _schema,
            )
            # First: it has findings where the state of a damaged table cannot be read.
            if VERIFY in wanted:
                yield verify_check(key, opened, logged_progress(context.log.info))

            def counted(seen: lc.Table) -> tuple[TableState, list[dg.AssetCheckResult]]:
                state = read_state(seen)
                if ROW_COUNT not in wanted:
                    return state, []
                expected, through = source.expected_rows(seen, context.resources)
                return state, [row_count_check(key, expected, through, RowsFound.of(seen, state))]

            state, found = opened.at_one_moment(counted)
            yield from found
            if INPUTS_CURRENT in wanted:
                behind = ask_source(source, key, opened, context.resources, context.instance)
                yield inputs_check(key, table, behind, now=datetime.now(UTC))
            if freshness is not None and CONTENT_AGE in wanted:
                yield content_age_check(key, freshness, state, now=datetime.now(UTC))
            for check in source.checks:
                if check.name in wanted:
                    yield _source_check(key, check, check.faults(opened, context.resources))
            yield from (result for result in state_checks(key, state, table) if result.check_name in wanted)

    return checks


def _schema(table: lc.Table) -> lc.TableSchema | None:
    """Return the schema, None if it is damaged, which the checks tell. Raises NotFound if the table is gone."""
    with suppress(lc.CorruptTable):
        return table.schema
    return None


def _source_check(key: dg.AssetKey, check: SourceCheck, faults: list[str]) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=check.name,
        passed=not faults,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join(faults[:_MOST_NAMED]) or check.passed,
        metadata={f"paimon/{check.count}": len(faults)},
    )
