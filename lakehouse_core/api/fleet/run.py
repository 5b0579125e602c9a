"""Run of a maintenance plan: each choice at most once, by the verbs of its table, until the budget is spent.

Rule: a table that changed, failed or is gone is an outcome with its reason, never the end of the run. The bytes and the
time are those really spent; requests are those of the plan.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_core.api import table_maintenance
from lakehouse_core.api.arguments import mapping_of
from lakehouse_core.api.fleet.plan import MaintenanceChoice, MaintenancePlan
from lakehouse_core.api.reports import CompactionReport, Report, outcome
from lakehouse_core.clock import Clock
from lakehouse_core.display import count_text
from lakehouse_core.errors import InvalidRequest, LakehouseError, NotFound, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.commit.checks import check_properties
from lakehouse_core.planning.fleet.cost import NOTHING, Budget, Cost
from lakehouse_core.progress import Listener, Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOutcome:
    """What became of a choice: the `report` of its verb, the `error` that it ended with, or why it was `skipped`."""

    choice: MaintenanceChoice
    report: Report | None = None
    error: LakehouseError | None = None
    skipped: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether the verb changed the table."""
        return self.report is not None and self.report.noop_reason is None

    def __str__(self) -> str:
        if self.report is not None:
            told = outcome(self.report)
        else:
            told = f"skipped: {self.skipped}" if self.error is None else f"failed: {self.error}"
        return f"{self.choice.table}: {self.choice.name}: {told}"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return {
            "table": self.choice.table,
            "operation": self.choice.operation,
            "partition": None if self.choice.partition is None else dict(self.choice.partition),
            "report": None if self.report is None else self.report.to_dict(),
            "error": None if self.error is None else str(self.error),
            "skipped": self.skipped,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """What a run of a plan did: an outcome for each choice of the warehouse, in their order, and the cost of all."""

    warehouse: str
    budget: Budget
    cost: Cost
    outcomes: tuple[MaintenanceOutcome, ...]

    def __str__(self) -> str:
        done = sum(each.is_done for each in self.outcomes)
        failed = sum(each.error is not None for each in self.outcomes)
        told = f"{done} of {count_text(len(self.outcomes), 'operation')} done"
        return f"{told}{f', {failed} failed' if failed else ''}: {self.cost} of the budget of {self.budget}"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "warehouse": self.warehouse,
            "bytes": self.cost.bytes,
            "requests": self.cost.requests,
            "seconds": self.cost.seconds,
            "outcomes": [each.to_dict() for each in self.outcomes],
        }


def run_plan(
    plan: MaintenancePlan,
    warehouse: str,
    open_table: Callable[[str], TableContext],
    *,
    clock: Clock,
    properties: Mapping[str, str] | None,
    progress: Listener | None,
) -> MaintenanceReport:
    """Carry out the choices of the plan for this warehouse.

    Raises InvalidRequest for a plan of other warehouses, and for properties that no commit takes.
    """
    if not isinstance(plan, MaintenancePlan):
        raise InvalidRequest(f"maintain({shown(plan)}): expected a plan as plan_maintenance returns it.")
    if warehouse not in plan.warehouses:
        raise InvalidRequest(
            f"The plan is for {', '.join(plan.warehouses)}, not for {warehouse}. Connect to one of these, or plan "
            "again."
        )
    check_properties(mapping_of("properties", properties))
    choices = [choice for choice in plan.choices if choice.warehouse == warehouse]
    started = clock.monotonic_seconds()
    spent, outcomes = NOTHING, []
    for done, choice in enumerate(choices):
        Watch("maintain", choice.table, progress).at("carrying out the plan", done, len(choices), "operations")
        if exceeded := plan.budget.exceeded_by(spent + choice.cost):
            reason = f"{spent} of the budget of {plan.budget} are spent, and {choice.cost} more exceed its "
            outcomes.append(MaintenanceOutcome(choice=choice, skipped=f"{reason}{', '.join(exceeded)}"))
            continue
        left = None if plan.budget.bytes is None else plan.budget.bytes - spent.bytes
        ended = _carried_out(choice, open_table, left, properties, progress)
        outcomes.append(ended)
        spent = Cost(
            bytes=spent.bytes + _rewritten(ended),
            requests=spent.requests + (0 if ended.skipped else choice.requests),
            seconds=clock.monotonic_seconds() - started,
        )
    return MaintenanceReport(warehouse=warehouse, budget=plan.budget, cost=spent, outcomes=tuple(outcomes))


def _carried_out(
    choice: MaintenanceChoice,
    open_table: Callable[[str], TableContext],
    most_bytes: int | None,
    properties: Mapping[str, str] | None,
    progress: Listener | None,
) -> MaintenanceOutcome:
    try:
        table = open_table(choice.table)
        if table.schemas.all()[0].time_millis != choice.incarnation:
            return MaintenanceOutcome(
                choice=choice, skipped="the table was dropped, and another one of its name was created. Plan again"
            )
        return MaintenanceOutcome(choice=choice, report=_verb(table, choice, most_bytes, properties, progress))
    except NotFound as gone:
        return MaintenanceOutcome(choice=choice, skipped=str(gone))
    except LakehouseError as error:
        return MaintenanceOutcome(choice=choice, error=error)


def _rewritten(ended: MaintenanceOutcome) -> int:
    """Return the bytes that an operation rewrote. One that failed may have rewritten all before it failed."""
    if isinstance(ended.report, CompactionReport):
        return ended.report.bytes_rewritten
    return ended.choice.bytes if ended.is_done or ended.error is not None else 0


def _verb(
    table: TableContext,
    choice: MaintenanceChoice,
    most_bytes: int | None,
    properties: Mapping[str, str] | None,
    progress: Listener | None,
) -> Report:
    match choice.operation:
        case "compact" | "compact_full":
            return table_maintenance.compact(
                table,
                full=choice.operation == "compact_full",
                partition=choice.partition,
                partition_idle=None,
                dry_run=False,
                properties=properties,
                progress=progress,
                most_bytes=most_bytes,
            )
        case "compact_manifests":
            return table_maintenance.compact_manifests(table, dry_run=False, properties=properties)
        case "expire":
            return table_maintenance.expire_snapshots(
                table, retain_max=None, retain_min=None, older_than=None, dry_run=False, progress=progress
            )
