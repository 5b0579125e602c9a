"""Warehouse job: maintains the tables of a warehouse under a budget, also those that only other engines write.

Rule: a table that fails stops no other, and fails the run at its end.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets.fleet import BudgetLimits, begun
from lakehouse_dagster.automation.alerts import log_failed_step
from lakehouse_dagster.automation.asked_tables import AskedTables
from lakehouse_dagster.failures import first_lasting, retry_transient
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
    session of the resource, else in the process of the run.
    """

    @dg.op(
        name=f"{name}_tables",
        description=f"Spends {budget} of maintenance on the tables of {resource}, where it saves most reading.",
        out=dg.Out(dg.Nothing),
        required_resource_keys={resource},
        tags={"lakehouse/operation": "maintain"},
        pool=f"{resource}/maintain",
    )
    def maintain(context: dg.OpExecutionContext, config: WarehouseConfig) -> None:
        with retry_transient(resource, "maintain", retry_number=context.retry_number):
            lakehouse: LakehouseResource = getattr(context.resources, resource)
            catalog = lakehouse.catalog() if in_spark else lakehouse.local_catalog()
            settings: dict[str, Any] = {"budget": config.budget(budget), "only_urgent": config.only_urgent}
            if operations is not None:
                settings["operations"] = operations
            _maintain(context, config, lakehouse.name, catalog, settings | {"reads": {**(reads or {}), **config.reads}})

    @dg.job(
        name=name,
        description=f"Spends {budget} of maintenance on the tables of {resource}.",
        hooks={log_failed_step},
        tags={"lakehouse/operation": "maintain"},
    )
    def job() -> None:
        maintain()

    return job


def _maintain(
    context: dg.OpExecutionContext,
    config: WarehouseConfig,
    name: str,
    catalog: lc.Catalog,
    settings: Mapping[str, Any],
) -> None:
    """Plan with the settings and carry the plan out. `name`: that of the resource. Raises the first error that a
    repetition does not mend, else the first one.
    """
    # A limit of time is one of the run, its plan included.
    started = time.monotonic()
    names = list(config.names_in(catalog))
    if not names:
        context.log.info(f"{name}: there is no table to maintain")
        return
    reads = settings["reads"]
    if config.tables or config.databases:
        # Reads are told for all tables, and some of them are asked for.
        reads = {table: count for table, count in reads.items() if table in names}
    plan = catalog.plan_maintenance(names, **{**settings, "reads": reads})
    context.log.info(str(plan))
    for refusal in plan.unreadable:
        context.log.warning(str(refusal))
    outcomes: list[lc.MaintenanceOutcome] = []

    def show(outcome: lc.MaintenanceOutcome) -> None:
        outcomes.append(outcome)
        context.log.info(str(outcome))
        if outcome.report is not None:
            told = {"paimon/operation": outcome.choice.name, OUTCOME: outcome.text}
            metadata = {**told, **report_metadata([outcome.report]), **details(outcome.report)}
            key = [name, *outcome.choice.table.split(".", 1)]
            context.log_event(dg.AssetObservation(key, metadata=metadata))

    if not config.dry_run:
        catalog.maintain(begun(plan, time.monotonic() - started), properties={RUN_ID: context.run.run_id}, after=show)
    context.log_event(dg.AssetObservation([name, "maintenance"], metadata=fleet_metadata(plan, outcomes)))
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors:
        raise first_lasting(errors)
