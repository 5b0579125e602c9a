"""Warehouse job: maintains the tables of a warehouse under a budget, also those that only other engines write.

Rule: a table that cannot be read or maintained stops no other, and fails the run at its end.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets.fleet import BudgetLimits, begun
from lakehouse_dagster.automation.table_jobs import AskedTables, job_of
from lakehouse_dagster.failures import retry_transient
from lakehouse_dagster.metadata import OUTCOME, details, fleet_metadata, report_metadata
from lakehouse_dagster.pipeline import RUN_ID
from lakehouse_dagster.resources import LakehouseResource


class WarehouseConfig(AskedTables, BudgetLimits):
    """What one run maintains. Without a limit of its own it has the budget of the job. A dry run only plans.

    `reads` says how often a day tables are read, before what the job says; other tables count as read once a day.
    """

    reads: dict[str, float] = {}  # noqa: RUF012  # pydantic copies the default
    only_urgent: bool = False
    dry_run: bool = False


def warehouse_maintenance_job(
    budget: lc.Budget,
    resource: str = "lakehouse",
    *,
    reads: Mapping[str, float] | None = None,
    operations: Sequence[str] | None = None,
    in_spark: bool = False,
    name: str = "maintain_warehouse",
) -> dg.JobDefinition:
    """Return the job that spends a budget of maintenance on the tables in the warehouse of `resource`, where it saves
    most reading. The tables need no specification.

    What it did to a table is an observation of the asset `<name of the resource>/<database>/<table>`.
    `reads`: how often a day tables are read, by `database.table`; others count as read once a day. `operations`: those
    to choose from, None means all; leave out 'expire' where another engine expires snapshots. `in_spark`: on the
    session of the resource, else in the process of the run. Raises InvalidRequest if `budget` is not a Budget.
    """
    if not isinstance(budget, lc.Budget):
        raise lc.InvalidRequest(f"budget={budget!r}: expected a Budget, as in lakehouse_core.Budget(seconds=3600).")

    @dg.op(
        name=f"{name}_tables",
        description=f"Spends {budget} of maintenance on the tables of {resource}, where it saves most reading.",
        out=dg.Out(dg.Nothing),
        required_resource_keys={resource},
        tags={"lakehouse/operation": "maintain"},
        pool=f"{resource}/maintain",
    )
    def maintain(context: dg.OpExecutionContext, config: WarehouseConfig) -> None:
        # A limit of time is one of the run, its plan included.
        started = time.monotonic()
        lakehouse: LakehouseResource = getattr(context.resources, resource)
        with retry_transient(resource, "maintain", retry_number=context.retry_number):
            catalog = lakehouse.catalog() if in_spark else lakehouse.local_catalog()
            plan = _plan(
                context, config, catalog, budget=config.budget(budget), reads=reads or {}, operations=operations
            )
        if plan is not None:
            _carry_out(context, lakehouse.name, catalog, plan, started, is_dry=config.dry_run)

    return job_of(maintain, name=name, description=f"Spends {budget} of maintenance on the tables of {resource}.")


def _plan(
    context: dg.OpExecutionContext,
    config: WarehouseConfig,
    catalog: lc.Catalog,
    *,
    budget: lc.Budget,
    reads: Mapping[str, float],
    operations: Sequence[str] | None,
) -> lc.MaintenancePlan | None:
    """Return the plan for the tables that are asked for, None if there is no table."""
    names = list(config.names_in(catalog))
    if not names:
        context.log.info("there is no table to maintain")
        return None
    given = {**reads, **config.reads}
    unknown = [] if config.tables or config.databases else sorted(given.keys() - names)
    if unknown:
        context.log.warning(f"reads are given for tables that are not there: {', '.join(unknown)}")
    chosen: dict[str, Any] = {} if operations is None else {"operations": operations}
    return catalog.plan_maintenance(
        names,
        budget=budget,
        reads={name: count for name, count in given.items() if name in names},
        only_urgent=config.only_urgent,
        **chosen,
    )


def _carry_out(
    context: dg.OpExecutionContext,
    name: str,
    catalog: lc.Catalog,
    plan: lc.MaintenancePlan,
    started: float,
    *,
    is_dry: bool,
) -> None:
    """Carry out the plan and show what was done. `name`: that of the resource. Raises Failure for a table that cannot
    be read or maintained.
    """
    context.log.info(str(plan))
    outcomes: list[lc.MaintenanceOutcome] = []

    def show(outcome: lc.MaintenanceOutcome) -> None:
        outcomes.append(outcome)
        context.log.info(str(outcome))
        if outcome.report is not None:
            told = {"paimon/operation": outcome.choice.name, OUTCOME: outcome.text}
            metadata = {**told, **report_metadata([outcome.report]), **details(outcome.report)}
            key = [name, *outcome.choice.table.split(".", 1)]
            context.log_event(dg.AssetObservation(key, metadata=metadata))

    try:
        if not is_dry:
            rest = begun(plan, time.monotonic() - started)
            catalog.maintain(rest, properties={RUN_ID: context.run.run_id}, after=show)
    finally:
        context.log_event(dg.AssetObservation([name, "maintenance"], metadata=fleet_metadata(plan, outcomes)))
    failed = [str(outcome) for outcome in outcomes if outcome.error is not None]
    problems = [*map(str, plan.unreadable), *failed]
    if problems:
        # The next run plans again, without what is done. A repetition would spend the budget once more.
        raise dg.Failure(description=f"{len(problems)} problems: {'; '.join(problems[:3])}", allow_retries=False)
