"""The asset `<lake>/fleet`: plans the maintenance of all tables of a lake under a budget, and carries it out.

Rule: every operation is shown where a run of its own would show it. A table that fails stops no other.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.assets.context import TableAssets, defined_asset, observed, tag_run
from lakehouse_dagster.assets.maintain import position_version, show_reports, write_page
from lakehouse_dagster.event_tags import DATA_VERSION
from lakehouse_dagster.lake import Lake
from lakehouse_dagster.lineage import StepLineage, table_dataset
from lakehouse_dagster.metadata import Metadata, fleet_metadata
from lakehouse_dagster.pipeline import RUN_ID, TableState, open_table, read_state
from lakehouse_dagster.reads import reads_per_day
from lakehouse_dagster.resources import LakehouseResource

# The strategy's compaction is shown with the full one.
_SHOWN_AS = {"compact": "compact_full"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """An operation of a table, by the name of the asset that shows it."""

    table: str
    name: str


class BudgetLimits(dg.Config):
    """The limits of one run."""

    bytes: int | None = None
    requests: int | None = None
    seconds: float | None = None

    def budget(self, otherwise: lc.Budget) -> lc.Budget:
        """Return the budget of the run, `otherwise` if it has no limit. Raises InvalidRequest for limits below 0."""
        if self.bytes is None and self.requests is None and self.seconds is None:
            return otherwise
        return lc.Budget(bytes=self.bytes, requests=self.requests, seconds=self.seconds)


class FleetConfig(BudgetLimits):
    """The settings of one run. Without a limit of its own a run has the budget of the asset.

    `tables` are `database.table`, none means all. `reads` says how often a day tables are read, before the figures of
    the asset; for others the reads count that Dagster has seen in the last week, at least one a day. `operations` are
    those to choose from, none means those of the asset.
    """

    tables: list[str] = []  # noqa: RUF012  # pydantic copies the default
    reads: dict[str, float] = {}  # noqa: RUF012  # pydantic copies the default
    operations: list[str] = []  # noqa: RUF012  # pydantic copies the default
    only_urgent: bool = False
    dry_run: bool = False


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
    `database.table`, instead of what Dagster has seen. `operations`: those to choose from, None means all. `rates`: the
    speeds of machine and store, None means those of a local disk. Raises InvalidRequest for a table that is not of the
    lake.
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
            reads=_reads(context.instance, lake, names, given={**known, **config.reads}),
            **_given(operations=config.operations or operations, rates=rates),
            only_urgent=config.only_urgent,
        )
        context.log.info(str(plan))
        for refusal in plan.unreadable:
            context.log.warning(str(refusal))
        planned = _metadata(context, lakehouse, plan, [])
        if config.dry_run:
            return observed(context, lake.fleet_key, [(None, f"dry run: {plan}", planned)])
        run = _FleetRun(context, lake, plan, _states(catalog, (*plan.choices, *plan.reserve)))
        problems = run.complete(started)
        metadata = _metadata(context, lakehouse, plan, run.outcomes)
        if problems:
            context.log_event(dg.AssetObservation(lake.fleet_key, metadata=metadata))
            raise dg.Failure(
                description=f"{len(problems)} problems in {len(run.outcomes)} operations: {'; '.join(problems[:3])}",
                # The next run plans again, without what is done.
                allow_retries=False,
            )
        return dg.MaterializeResult(metadata=metadata)

    return fleet


def _metadata(
    context: dg.AssetExecutionContext,
    lakehouse: LakehouseResource,
    plan: lc.MaintenancePlan,
    outcomes: Sequence[lc.MaintenanceOutcome],
) -> Metadata:
    """Write the page of a plan and of its outcomes, and return its path and their figures."""
    page = write_page(lakehouse.health_pages, "fleet", lambda: lc.maintenance_page(plan, outcomes), context.log.warning)
    return {**fleet_metadata(plan, outcomes), **page}


def _given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are given; the others keep the defaults of the core."""
    return {name: value for name, value in arguments.items() if value}


def _reads(
    instance: dg.DagsterInstance, lake: Lake, names: Sequence[str], *, given: Mapping[str, float]
) -> dict[str, float]:
    """Return how often a day tables are read: as it is `given`, or as Dagster has seen it in the last week.

    What is seen less than once a day counts as one read: others may read too.
    """
    of_lake = {lake.table(name).identifier: count for name, count in given.items()}
    unknown = [lake.table(name) for name in names if name not in of_lake]
    seen = reads_per_day(instance, lake, unknown, now=datetime.now(UTC))
    return {
        **{name: max(often, 1.0) for name, often in seen.items()},
        **{name: count for name, count in of_lake.items() if name in names},
    }


def _created(catalog: lc.Catalog, lake: Lake, names: Sequence[str]) -> list[str]:
    """Return the tables to plan: those of the lake that exist, or some of them. Raises InvalidRequest for others."""
    wanted = [lake.table(name).identifier for name in names] or [table.identifier for table in lake.tables]
    return [name for name in wanted if open_table(catalog, name) is not None]


def begun(plan: lc.MaintenancePlan, seconds: float) -> lc.MaintenancePlan:
    """Return the plan with a budget that is smaller by the seconds that are spent already."""
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


class _FleetRun:
    """A run of a plan: its outcomes so far, and the lineage of the operations that have begun.

    An operation is one of a table, with all of its partitions: its lineage begins with the first of them, and ends with
    the last one that is planned, or with the run.
    """

    def __init__(
        self, context: dg.AssetExecutionContext, lake: Lake, plan: lc.MaintenancePlan, before: Mapping[str, TableState]
    ) -> None:
        self.outcomes: list[lc.MaintenanceOutcome] = []
        self._context = context
        self._lake = lake
        self._plan = plan
        self._before = before
        self._lineages: dict[_Operation, AbstractContextManager[StepLineage]] = {}
        self._told: dict[_Operation, StepLineage] = {}
        self._left = Counter(_operation(choice) for choice in plan.choices)

    def complete(self, started: float) -> list[str]:
        """Carry out the plan and show what was done; return what failed, and what could not be shown.

        `started`: when the run began to spend its time.
        """
        try:
            self._carry_out(started)
        except BaseException as error:
            # It was interrupted, or the process of Spark died: what was done until then is shown all the same.
            self._end(error)
            with suppress(Exception):
                self._show()
            raise
        self._end()
        unshown = self._show()
        return [*(f"failed: {each}" for each in self.outcomes if each.error is not None), *unshown]

    def _carry_out(self, started: float) -> None:
        """Carry out each choice where its table runs, and the reserve with what the choices leave."""
        plan = begun(self._plan, time.monotonic() - started)
        left = plan.budget
        parts = [
            *(replace(plan, choices=tuple(part), reserve=()) for _, part in groupby(plan.choices, key=self._in_spark)),
            *(replace(plan, choices=(), reserve=tuple(part)) for _, part in groupby(plan.reserve, key=self._in_spark)),
        ]
        for part in parts:
            catalog = self._assets((*part.choices, *part.reserve)[0].table).catalog(self._context)
            done = catalog.maintain(
                replace(part, budget=left),
                properties={RUN_ID: self._context.run.run_id},
                before=self._begins,
                after=self._ends,
            )
            left = left.without(done.cost)

    def _end(self, error: BaseException | None = None) -> None:
        """End the lineage of the operations that are still going on, with the error that ended the run."""
        for operation in list(self._lineages):
            self._close(operation, error)

    def _show(self) -> list[str]:
        """Show what was done on the pages of the operations and of the tables; return what could not be shown."""
        problems = []
        for name, of_table in groupby(sorted(self.outcomes, key=_table), key=_table):
            try:
                _show_table(self._context, self._lake, name, self._before.get(name), list(of_table))
            except lc.LakehouseError as error:
                # What was done is done, and the other tables are shown.
                problems.append(f"not shown: {name}: {error}")
        return problems

    def _assets(self, table: str) -> TableAssets:
        return TableAssets(lake=self._lake, spec=self._lake.table(table))

    def _in_spark(self, choice: lc.MaintenanceChoice) -> bool:
        return self._assets(choice.table).in_spark

    def _begins(self, choice: lc.MaintenanceChoice) -> None:
        operation = _operation(choice)
        if operation in self._told:
            return
        assets, before = self._assets(choice.table), self._before.get(choice.table)
        entered = assets.lineage(self._context, operation.name)
        self._told[operation] = lineage = entered.__enter__()
        self._lineages[operation] = entered
        if before is not None:
            lineage.reads(lambda: assets.dataset(self._context, self._open(choice.table), before))

    def _ends(self, outcome: lc.MaintenanceOutcome) -> None:
        self._context.log.info(str(outcome))
        self.outcomes.append(outcome)
        operation = _operation(outcome.choice)
        self._left[operation] -= 1
        # What the reserve may add comes at the end of the run.
        if self._left[operation] == 0 and all(_operation(choice) != operation for choice in self._plan.reserve):
            self._close(operation)

    def _close(self, operation: _Operation, error: BaseException | None = None) -> None:
        entered = self._lineages.pop(operation, None)
        if entered is None:
            return
        lineage = self._told.pop(operation)
        own = [each for each in self.outcomes if _operation(each.choice) == operation]
        reports = [each.report for each in own if each.report is not None]
        made = [report.snapshot_id for report in reports if report.snapshot_id is not None]
        if made:
            uri = self._assets(operation.table).lakehouse(self._context).uri
            lineage.writes(lambda: table_dataset(uri, self._open(operation.table), made[-1], reports))
        failed: BaseException | None = next((each.error for each in own if each.error is not None), error)
        try:
            entered.__exit__(None if failed is None else type(failed), failed, None)
        except BaseException as raised:
            # The operation has ended as it is told; what the log or the receiver of events lacks does not undo it.
            if raised is not failed:
                self._context.log.warning(f"{operation.table}: {operation.name}: its lineage has no end: {raised}")

    def _open(self, name: str) -> lc.Table:
        return self._assets(name).lakehouse(self._context).local_catalog().table(name)


def _show_table(
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
            reports[_operation(each.choice).name].append(each.report)
    assets = TableAssets(lake=lake, spec=lake.table(name))
    table = open_table(assets.catalog(context), name)
    if table is None or before is None or not reports:
        return
    shown, after = show_reports(context, assets, table, before=before, reports=reports)
    for operation in reports:
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


def _operation(choice: lc.MaintenanceChoice) -> _Operation:
    return _Operation(table=choice.table, name=_SHOWN_AS.get(choice.operation, choice.operation))
