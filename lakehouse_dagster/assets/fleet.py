"""The asset `<lake>/fleet`: plans the maintenance of all tables of a lake under a budget, and carries it out.

Rule: every operation is shown where a run of its own would show it. A table that fails stops no other.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets.context import TableAssets, defined_asset, observed, tag_run
from lakehouse_dagster.assets.maintain import position_version, show_reports, write_page
from lakehouse_dagster.event_tags import DATA_VERSION
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.metadata import fleet_metadata
from lakehouse_dagster.pipeline import RUN_ID, TableState, open_table, read_state
from lakehouse_dagster.resources import LakehouseResource

# The strategy's compaction is shown with the full one.
_SHOWN_AS = {"compact": "compact_full"}


class FleetConfig(dg.Config):
    """The settings of one run. Without a limit of its own a run has the budget of the asset.

    `tables` are `database.table`, none means all. `reads` says how often a day tables are read, before the figures of
    the asset; others count as read once. `operations` are those to choose from, none means those of the asset.
    """

    bytes: int | None = None
    requests: int | None = None
    seconds: float | None = None
    tables: list[str] = []  # noqa: RUF012  # pydantic copies the default
    reads: dict[str, float] = {}  # noqa: RUF012  # pydantic copies the default
    operations: list[str] = []  # noqa: RUF012  # pydantic copies the default
    only_urgent: bool = False
    dry_run: bool = False

    def budget(self, otherwise: lc.Budget) -> lc.Budget:
        """Return the budget of the run. Raises InvalidRequest for limits below 0."""
        if self.bytes is None and self.requests is None and self.seconds is None:
            return otherwise
        return lc.Budget(bytes=self.bytes, requests=self.requests, seconds=self.seconds)


def fleet_asset(
    lake: Lake,
    budget: lc.Budget,
    *,
    reads: Mapping[str, float] | None = None,
    operations: Sequence[str] | None = None,
    rates: lc.Rates | None = None,
) -> dg.AssetsDefinition:
    """Return the asset that spends a budget of maintenance on the tables of a lake, where it saves most reading.

    The tables are not upstream of it: each load would make it out of date. `reads`: how often a day tables are read, by
    `database.table`. `operations`: those to choose from, None means all. `rates`: the speeds of machine and store, None
    means those of a local disk. Raises InvalidRequest for a table that is not of the lake.
    """
    known = {lake.table(name).identifier: count for name, count in (reads or {}).items()}

    @defined_asset(
        key=lake.fleet_key,
        description=f"Spends {budget} of maintenance on the tables of {lake.name}, where it saves most reading.",
        group_name=f"{lake.name}__fleet",
        kinds={"paimon"},
        op_tags={"lakehouse/operation": "fleet"},
        pool=f"{lake.name}/fleet",
        required_resource_keys={lake.resource},
    )
    def fleet(context: dg.AssetExecutionContext, config: FleetConfig) -> dg.MaterializeResult[Any]:
        # A limit of time is one of the run, its plan included.
        started = time.monotonic()
        tag_run(context)
        lakehouse: LakehouseResource = getattr(context.resources, lake.resource)
        catalog = lakehouse.local_catalog()
        names = _created(catalog, lake, config.tables)
        plan = catalog.plan_maintenance(
            names,
            budget=config.budget(budget),
            reads={
                name: count for name, count in {**known, **config.reads}.items() if lake.table(name).identifier in names
            },
            **_given(operations=config.operations or operations, rates=rates),
            only_urgent=config.only_urgent,
        )
        context.log.info(str(plan))
        for refusal in plan.unreadable:
            context.log.warning(str(refusal))
        page = write_page(lakehouse.health_pages, "fleet", lambda: lc.maintenance_page(plan), context.log.warning)
        if config.dry_run:
            return observed(context, lake.fleet_key, [(None, f"dry run: {plan}", {**fleet_metadata(plan, []), **page})])
        before = _states(catalog, (*plan.choices, *plan.reserve))
        outcomes = _carry_out(context, lake, begun(plan, time.monotonic() - started))
        problems = [f"failed: {each}" for each in outcomes if each.error is not None]
        for name, of_table in groupby(sorted(outcomes, key=_table), key=_table):
            try:
                _show(context, lake, name, before.get(name), list(of_table))
            except lc.LakehouseError as error:
                # What was done is done, and the other tables are shown.
                problems.append(f"not shown: {name}: {error}")
        metadata = {**fleet_metadata(plan, outcomes), **page}
        if problems:
            context.log_event(dg.AssetObservation(lake.fleet_key, metadata=metadata))
            raise dg.Failure(
                description=f"{len(problems)} problems in {len(outcomes)} operations: {'; '.join(problems[:3])}",
                # The next run plans again, without what is done.
                allow_retries=False,
            )
        return dg.MaterializeResult(metadata=metadata)

    return fleet


def _given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are given; the others keep the defaults of the core."""
    return {name: value for name, value in arguments.items() if value}


def _created(catalog: lc.Catalog, lake: Lake, names: Sequence[str]) -> list[str]:
    """Return the tables to plan: those of the lake that exist, or some of them. Raises InvalidRequest for others."""
    wanted = [lake.table(name).identifier for name in names] or [table.identifier for table in lake.tables]
    return [name for name in wanted if open_table(catalog, name) is not None]


def begun(plan: lc.MaintenancePlan, seconds: float) -> lc.MaintenancePlan:
    """Return a plan of whose time so many seconds are spent already."""
    if plan.budget.seconds is None:
        return plan
    return replace(plan, budget=replace(plan.budget, seconds=max(plan.budget.seconds - seconds, 0.0)))


def _states(catalog: lc.Catalog, choices: Iterable[lc.MaintenanceChoice]) -> dict[str, TableState]:
    """Return the present states of the tables of some choices, without those that cannot be read."""
    found = {}
    for name in dict.fromkeys(choice.table for choice in choices):
        with suppress(lc.LakehouseError):
            if (table := open_table(catalog, name)) is not None:
                found[name] = read_state(table)
    return found


def _carry_out(context: dg.AssetExecutionContext, lake: Lake, plan: lc.MaintenancePlan) -> list[lc.MaintenanceOutcome]:
    """Carry out a plan, each choice where its table runs, and the reserve with what the choices leave."""
    outcomes: list[lc.MaintenanceOutcome] = []
    left = plan.budget

    def engine(choice: lc.MaintenanceChoice) -> bool:
        return TableAssets(lake=lake, spec=lake.table(choice.table)).in_spark

    parts = [
        *(replace(plan, choices=tuple(part), reserve=()) for _, part in groupby(plan.choices, key=engine)),
        *(replace(plan, choices=(), reserve=tuple(part)) for _, part in groupby(plan.reserve, key=engine)),
    ]
    for part in parts:
        assets = TableAssets(lake=lake, spec=lake.table((*part.choices, *part.reserve)[0].table))
        done = assets.catalog(context).maintain(replace(part, budget=left), properties={RUN_ID: context.run.run_id})
        left = left.without(done.cost)
        outcomes += done.outcomes
        for each in done.outcomes:
            context.log.info(str(each))
    return outcomes


def _show(
    context: dg.AssetExecutionContext,
    lake: Lake,
    name: str,
    before: TableState | None,
    outcomes: Sequence[lc.MaintenanceOutcome],
) -> None:
    """Show what was done to a table on the pages of the operations and of the table."""
    reports: dict[str, list[lc.Report]] = defaultdict(list)
    for each in outcomes:
        if each.report is not None:
            reports[_shown_as(each.choice)].append(each.report)
    assets = TableAssets(lake=lake, spec=lake.table(name))
    table = open_table(assets.catalog(context), name)
    if table is None or before is None or not reports:
        return
    shown, after = show_reports(context, assets, table, before=before, reports=reports)
    for operation, found in reports.items():
        with assets.lineage(context, operation) as lineage:
            lineage.reads(lambda: assets.dataset(context, table, before))
            if any(report.snapshot_id is not None for report in found):
                lineage.writes(lambda found=found: assets.dataset(context, table, after, found))  # type: ignore[misc]
        context.log_event(
            dg.AssetMaterialization(
                assets.operation(operation),
                description=f"by {lake.fleet_key.to_user_string()}",
                metadata=shown[operation],
                tags={DATA_VERSION: position_version(after)},
            )
        )


def _table(outcome: lc.MaintenanceOutcome) -> str:
    return outcome.choice.table


def _shown_as(choice: lc.MaintenanceChoice) -> str:
    return _SHOWN_AS.get(choice.operation, choice.operation)
