"""The checks of a table: is it sound, complete, compacted, expired. Metadata and one count; no Spark session."""

from collections.abc import Iterator, Mapping

import dagster as dg

import lakehouse_core as lc
from assets.failures import retrying_what_may_pass
from assets.inflow import Inflow
from assets.metadata import findings
from assets.progress import logged_progress
from assets.specs import TableSpec
from assets.state import read_state
from resources import LakehouseResource

DESCRIPTIONS: Mapping[str, str] = {
    "verify": "Metadata, files and totals agree with each other; blocks what comes after.",
    "source_row_count": "As many rows as the source makes of the batches committed so far.",
    "sorted_runs": "No bucket has more sorted runs than its specification allows: compaction keeps up.",
    "snapshot_count": "No more snapshots than the specification allows: expiry keeps up.",
}


def table_checks(spec: TableSpec, key: dg.AssetKey, inflow: Inflow) -> dg.AssetChecksDefinition:
    """Return the checks of the table at `key`, which takes its rows from `inflow`."""
    specs = [
        dg.AssetCheckSpec(name, asset=key, blocking=name == "verify", description=text)
        for name, text in DESCRIPTIONS.items()
    ]

    @dg.multi_asset_check(
        name=f"{'__'.join(key.path)}__checks",
        specs=specs,
        can_subset=True,
        required_resource_keys={"lakehouse", *inflow.resources},
        op_tags={"lakehouse/table": spec.identifier, "lakehouse/operation": "check"},
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        lakehouse: LakehouseResource = context.resources.lakehouse
        wanted = {check.name for check in context.selected_asset_check_keys}
        with retrying_what_may_pass(spec.identifier, "check", retry_number=context.retry_number):
            table = lakehouse.local_catalog().table(spec.identifier)
            state = read_state(table)
            if "verify" in wanted:
                yield _verify(context, table, key)
            if "source_row_count" in wanted:
                expected, through = inflow.expected_rows(table, context.resources)
                yield _source_row_count(table, key, expected, through)
            if "sorted_runs" in wanted:
                yield _at_most(key, "sorted_runs", state.sorted_runs, spec.maintenance.max_sorted_runs)
            if "snapshot_count" in wanted:
                yield _at_most(key, "snapshot_count", state.snapshots_retained, spec.maintenance.max_snapshots)

    return checks


def _verify(context: dg.AssetCheckExecutionContext, table: lc.Table, key: dg.AssetKey) -> dg.AssetCheckResult:
    report = table.verify(progress=logged_progress(context.log.info))
    return dg.AssetCheckResult(
        asset_key=key,
        check_name="verify",
        passed=not report.findings,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata=findings(report),
    )


def _source_row_count(table: lc.Table, key: dg.AssetKey, expected: int, through: str | None) -> dg.AssetCheckResult:
    found = table.scan().count()
    return dg.AssetCheckResult(
        asset_key=key,
        check_name="source_row_count",
        passed=found == expected,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{found} rows, the source makes {expected}" + (f" through {through}" if through else ""),
        metadata={"dagster/row_count": found, "paimon/rows_expected": expected, "paimon/through": through or ""},
    )


def _at_most(key: dg.AssetKey, name: str, found: int, limit: int) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=found <= limit,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{found}, at most {limit}",
        metadata={f"paimon/{name}": found, "paimon/limit": limit},
    )
