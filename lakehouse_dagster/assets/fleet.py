"""The asset `<lake>/fleet`: plans the maintenance of all tables of a lake under a budget, and carries it out.

Rule: every operation is shown where a run of its own would show it. A table that fails stops no other.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets.context import TableAssets, defined_asset, observed
from lakehouse_dagster.assets.maintain import position_version, show_reports, write_page
from lakehouse_dagster.event_tags import DATA_VERSION
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.metadata import fleet_metadata
from lakehouse_dagster.pipeline import RUN_ID, open_table, read_state
from lakehouse_dagster.resources import LakehouseResource

# The strategy's compaction is shown with the full one.
_SHOWN_AS = {"compact": "compact_full"}


class FleetConfig(dg.Config):
    """The settings of one run. Without a limit of its own a run has the budget of the asset.

    `tables` are `database.table`, none means all. `reads` says how often a day tables are read; others count as read
    once.
    """

    bytes: int | None = None
    requests: int | None = None
    seconds: float | None = None
    tables: list[str] = []  # noqa: RUF012  # pydantic copies the default
    reads: dict[str, float] = {}  # noqa: RUF012  # pydantic copies the default
    only_urgent: bool = False
    dry_run: bool = False

    def budget(self, otherwise: lc.Budget) -> lc.Budget:
        """Return the budget of the run. Raises InvalidRequest for limits below 0."""
        if self.bytes is None and self.requests is None and self.seconds is None:
            return otherwise
        return lc.Budget(bytes=self.bytes, requests=self.requests, seconds=self.seconds)


def fleet_asset(lake: Lake, budget: lc.Budget) -> dg.AssetsDefinition:
    """Return the asset that spends a budget of maintenance on the tables of a lake, where it saves most reading."""

    @defined_asset(
        key=lake.fleet_key,
        deps=[lake.table_key(table) for table in lake.tables],
        description=f"Spends {budget} of maintenance on the tables of {lake.name}, where it saves most reading.",
        group_name=f"{lake.name}__fleet",
        kinds={"paimon"},
        op_tags={"lakehouse/operation": "fleet"},
        pool=f"{lake.name}/fleet",
        required_resource_keys={lake.resource},
    )
    def fleet(context: dg.AssetExecutionContext, config: FleetConfig) -> dg.MaterializeResult[Any]:
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        catalog = lakehouse.local_catalog()
        names = _created(catalog, lake, config.tables)
        plan = catalog.plan_maintenance(
            names,
            budget=config.budget(budget),
            reads={name: count for name, count in config.reads.items() if lake.table(name).identifier in names},
            only_urgent=config.only_urgent,
        )
        context.log.info(str(plan))
        page = write_page(lakehouse.health_pages, "fleet", lambda: lc.maintenance_page(plan), context.log.warning)
        if config.dry_run:
            return observed(context, lake.fleet_key, [(None, f"dry run: {plan}", {**fleet_metadata(plan, []), **page})])
        outcomes: list[lc.MaintenanceOutcome] = []
        problems: list[str] = []
        left = plan.budget
        for (name, operation), choices in groupby(plan.choices, key=lambda each: (each.table, _shown_as(each))):
            assets = TableAssets(lake=lake, spec=lake.table(name))
            try:
                done = _carry_out(context, assets, operation, replace(plan, budget=left, choices=tuple(choices)))
            except lc.LakehouseError as error:
                # The other tables need not wait for a table that cannot be read.
                problems.append(f"{name}: {operation}: {error}")
                continue
            left = left.without(done.cost)
            outcomes += done.outcomes
            problems += [str(each) for each in done.outcomes if each.error is not None]
        metadata = {**fleet_metadata(plan, outcomes), **page}
        if problems:
            context.log_event(dg.AssetObservation(lake.fleet_key, metadata=metadata))
            raise dg.Failure(
                description=f"{len(problems)} of {len(plan.choices)} operations failed: {'; '.join(problems[:3])}",
                # The next run plans again, without what is done.
                allow_retries=False,
            )
        return dg.MaterializeResult(metadata=metadata)

    return fleet


def _created(catalog: lc.Catalog, lake: Lake, names: Sequence[str]) -> list[str]:
    """Return the tables to plan: those of the lake that exist, or some of them. Raises InvalidRequest for others."""
    wanted = [lake.table(name).identifier for name in names] or [table.identifier for table in lake.tables]
    return [name for name in wanted if open_table(catalog, name) is not None]


def _carry_out(
    context: dg.AssetExecutionContext, assets: TableAssets, operation: str, plan: lc.MaintenancePlan
) -> lc.MaintenanceReport:
    """Carry out a plan of one operation of one table, and show it on the pages of the operation and of the table."""
    catalog = assets.catalog(context)
    with assets.lineage(context, operation) as lineage:
        table = open_table(catalog, assets.spec.identifier)
        before = None if table is None else read_state(table)
        done = catalog.maintain(plan, properties={RUN_ID: context.run.run_id})
        for each in done.outcomes:
            context.log.info(str(each))
        reports = [each.report for each in done.outcomes if each.report is not None]
        if table is None or before is None or not reports:
            return done
        lineage.reads(lambda: assets.dataset(context, table, before))
        metadata, after = show_reports(context, assets, operation, table, before=before, reports=reports)
        if any(report.snapshot_id is not None for report in reports):
            lineage.writes(lambda: assets.dataset(context, table, after, reports))
    context.log_event(
        dg.AssetMaterialization(
            assets.operation(operation),
            description=f"by {assets.lake.fleet_key.to_user_string()}",
            metadata=metadata,
            tags={DATA_VERSION: position_version(after)},
        )
    )
    return done


def _shown_as(choice: lc.MaintenanceChoice) -> str:
    return _SHOWN_AS.get(choice.operation, choice.operation)
