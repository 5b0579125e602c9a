"""Maintenance step: run the verb, and show its outcome on its own page and on the page of the table."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets.context import TableAssets, observed
from lakehouse_dagster.metadata import (
    OUTCOME,
    before_and_after,
    details,
    input_snapshots,
    outcome,
    plan_metadata,
    report_metadata,
    state_metadata,
)
from lakehouse_dagster.page import report_check, report_state, verify_check
from lakehouse_dagster.pipeline import OPERATIONS, TableState, logged_progress, read_state
from lakehouse_dagster.resources import spark_app_id


class CompactConfig(dg.Config):
    """The compaction settings of one run."""

    dry_run: bool = False


def maintenance_arguments(assets: TableAssets, operation: str, config: type[dg.Config]) -> dict[str, Any]:
    """Return the arguments of a maintenance asset, whose runs have settings of the type `config`."""
    common = assets.common(operation)
    # One run does them in this order, without claiming that one was made from the other.
    priority = str(len(OPERATIONS) - OPERATIONS.index(operation))
    return common | {
        "op_tags": {**common["op_tags"], "dagster/priority": priority},
        "config_schema": _config_schema(config),
    }


@cache
def _config_schema(config: type[dg.Config]) -> Any:
    """Return the schema of settings. Dagster would make it of an annotation too, and for each table again."""
    return config.to_config_schema()


def maintain(
    context: dg.AssetExecutionContext, assets: TableAssets, operation: str, verb: Callable[[lc.Table], lc.Report]
) -> dg.MaterializeResult[Any]:
    """Run one maintenance verb, and show its outcome on its own page and on the page of the table."""
    spec = assets.spec
    with assets.step(context, operation) as lineage:
        table, before = assets.table(context, read_state)
        lineage.reads(lambda: assets.dataset(context, table, before))
        report = verb(table)
        if report.dry_run:
            # The plan is no state of the table: its page is left alone.
            description = f"dry run: {report.noop_reason or 'nothing was done; the metadata are the plan'}"
            context.log.info(f"{spec.identifier}: {operation}: {description}")
            return observed(context, assets.operation(operation), [(None, description, plan_metadata(report))])
        if isinstance(report, lc.CompactionReport) and report.tag_failure is not None:
            context.log.warning(
                f"{spec.identifier}: {operation}: automatic tags are not complete: {report.tag_failure}"
            )
        shown, after = show_reports(context, assets, table, before=before, reports={operation: [report]})
        if report.snapshot_id is not None:
            lineage.writes(lambda: assets.dataset(context, table, after, [report]))
        context.log.info(f"{spec.identifier}: {operation}: {_summary(report, before, after)}")
        return dg.MaterializeResult(data_version=dg.DataVersion(position_version(after)), metadata=shown[operation])


def show_reports(
    context: dg.AssetExecutionContext,
    assets: TableAssets,
    table: lc.Table,
    *,
    before: TableState,
    reports: Mapping[str, Sequence[lc.Report]],
) -> tuple[dict[str, dict[str, Any]], TableState]:
    """Show on the page of the table what its operations did; return what the page of each shows, and the state after
    them.

    Shown also when there was nothing to do: another process may have changed the table meanwhile.
    """
    after = report_state(
        context.instance,
        assets.lake,
        assets.spec,
        table,
        done=f"{', '.join(reports)} by run {context.run.run_id[:8]}",
        outcomes={operation: outcome(*found) for operation, found in reports.items()},
    )
    if any(report.noop_reason is None for found in reports.values() for report in found):
        # Of the files that the operations have made and deleted.
        check = verify_check(assets.key, table, logged_progress(context.log.info))
        report_check(context.instance, check, blocking=True)
    common = {
        **before_and_after(before, after),
        **state_metadata(after),
        **_health_page(assets.lakehouse(context).health_pages, table, context.log.warning),
        "paimon/spark_app_id": spark_app_id(),
        **input_snapshots([(assets.key.to_user_string(), before.content_version, before.snapshot_id or 0)]),
    }
    shown = {
        operation: {OUTCOME: outcome(*found), **details(*found), **report_metadata(found), **common}
        for operation, found in reports.items()
    }
    return shown, after


def position_version(state: TableState) -> str:
    """Return the data version of an operation's asset: the snapshot of its table."""
    return f"{state.incarnation}/{state.branch}@{state.snapshot_id or 0}"


def write_page(folder: str, name: str, text: Callable[[], str], warn: Callable[[str], None]) -> dict[str, Any]:
    """Write a page into the folder of pages, and return its path as metadata; nothing without a folder.

    A page that cannot be made or written is a warning: the operation is done.
    """
    if not folder:
        return {}
    page = Path(folder).expanduser().absolute() / f"{name}.html"
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text(), encoding="utf-8")
    except (OSError, lc.LakehouseError) as error:
        told = error.strerror if isinstance(error, OSError) and error.strerror else error
        warn(f"{name}: its health page {page} cannot be written ({told}).")
        return {}
    # Not a link: browsers follow none from a web page to a file.
    return {"paimon/health_page": dg.MetadataValue.path(str(page))}


def _health_page(folder: str, table: lc.Table, warn: Callable[[str], None]) -> dict[str, Any]:
    """Write the health page of a table, and return its path; nothing without a folder."""
    return write_page(folder, table.name, lambda: lc.health_page([table.health()]), warn)


def _summary(report: lc.Report, before: TableState, after: TableState) -> str:
    if report.noop_reason is not None:
        return f"nothing to do: {report.noop_reason}"
    return (
        f"files {before.files_total} -> {after.files_total}, manifests {before.manifests_total} -> "
        f"{after.manifests_total}, snapshots {before.snapshots_retained} -> {after.snapshots_retained}"
    )
