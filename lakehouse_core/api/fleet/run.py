"""Run of a maintenance plan: each choice at most once, by the verbs of its table, until the budget is spent.

Rule: a table that changed, failed or is gone is an outcome with its reason, never the end of the run. One figure
decides: what is left of the budget, after what was done, found done, or begun before it failed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lakehouse_core.api import table_maintenance
from lakehouse_core.api.arguments import CallOptions, mapping_of
from lakehouse_core.api.fleet.plan import MaintenanceChoice, MaintenancePlan
from lakehouse_core.api.reports import CompactionReport, Report, outcome
from lakehouse_core.clock import Clock
from lakehouse_core.display import count_text
from lakehouse_core.errors import CommitConflict, InvalidRequest, LakehouseError, NotFound, SnapshotExpired, shown
from lakehouse_core.execution.compaction.plan import BucketCompaction, CompactionBase
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.fleet.since import CompactedSince
from lakehouse_core.metadata.lru import Recent
from lakehouse_core.planning.commit.checks import check_properties
from lakehouse_core.planning.fleet.candidates import compaction_cost
from lakehouse_core.planning.fleet.cost import NOTHING, Budget, Cost, Rates
from lakehouse_core.planning.fleet.operations import COMPACTIONS
from lakehouse_core.planning.fleet.survey import work_of
from lakehouse_core.progress import Listener, Progress, Watch

# An open table remembers its manifests, so the next choice of the same table does not read them again.
_OPEN_TABLES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOutcome:
    """What became of a choice: the `report` of its verb, the `error` that it ended with, or why it was `skipped`.

    `is_left`: it was neither carried out nor found done, so a new plan may choose it again; not of the reserve.
    """

    choice: MaintenanceChoice
    report: Report | None = None
    error: LakehouseError | None = None
    skipped: str | None = None
    is_left: bool = False

    @property
    def is_done(self) -> bool:
        """Whether the verb changed the table."""
        return self.report is not None and self.report.noop_reason is None

    @property
    def text(self) -> str:
        """What became of the choice, in words."""
        if self.report is not None:
            return outcome(self.report)
        return f"skipped: {self.skipped}" if self.error is None else f"failed: {self.error}"

    def __str__(self) -> str:
        return f"{self.choice.table}: {self.choice.name}: {self.text}"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return {
            "warehouse": self.choice.warehouse,
            "table": self.choice.table,
            "operation": self.choice.operation,
            "partition": None if self.choice.partition is None else dict(self.choice.partition),
            "bucket": self.choice.bucket,
            "report": None if self.report is None else self.report.to_dict(),
            "error": None if self.error is None else str(self.error),
            "error_class": None if self.error is None else type(self.error).__name__,
            "skipped": self.skipped,
            "is_left": self.is_left,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """What a run of a plan did: an outcome for each choice of the warehouse, in their order, then for what it carried
    out of the reserve. `cost`: what counts against the budget.
    """

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
    before: Callable[[MaintenanceChoice], None] | None,
    after: Callable[[MaintenanceOutcome], None] | None,
) -> MaintenanceReport:
    """Carry out the choices of the plan for this warehouse.

    `before` is called with each choice whose operation begins, `after` with each outcome; their errors end the run.
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
    run = _Run(plan, open_table, clock, mapping_of("properties", properties), progress, before=before, after=after)
    choices = [choice for choice in plan.choices if choice.warehouse == warehouse]
    for done, choice in enumerate(choices):
        Watch("maintain", choice.table, progress).at("carrying out the plan", done, len(choices), "operations")
        run.carry_out(choice)
    # The choices of other warehouses come before any reserve.
    run.hold_back(sum((choice.cost for choice in plan.choices if choice.warehouse != warehouse), NOTHING))
    for choice in plan.reserve:
        if choice.warehouse == warehouse and run.left.holds(choice.cost):
            run.carry_out(choice, is_reserve=True)
    return MaintenanceReport(warehouse=warehouse, budget=plan.budget, cost=run.spent, outcomes=tuple(run.outcomes))


class _Run:
    """A run of a plan: its outcomes so far, and what is left of the budget."""

    def __init__(
        self,
        plan: MaintenancePlan,
        open_table: Callable[[str], TableContext],
        clock: Clock,
        properties: Mapping[str, str],
        progress: Listener | None,
        *,
        before: Callable[[MaintenanceChoice], None] | None,
        after: Callable[[MaintenanceOutcome], None] | None,
    ) -> None:
        self._before = before
        self._after = after
        self._budget = plan.budget
        self._open = open_table
        self._opened: Recent[TableContext] = Recent(_OPEN_TABLES)
        self._rates = plan.rates
        self._compacted: dict[tuple[str, int], CompactedSince] = {}
        self._clock = clock
        self._started = clock.monotonic_seconds()
        self._properties = properties
        self._progress = progress
        self._taken = self._held = NOTHING
        self.outcomes: list[MaintenanceOutcome] = []

    @property
    def spent(self) -> Cost:
        """What counts against the budget: bytes and requests of what was done, and the time since the run began."""
        return self._taken + Cost(seconds=self._clock.monotonic_seconds() - self._started)

    @property
    def left(self) -> Budget:
        return self._budget.without(self.spent + self._held)

    def hold_back(self, cost: Cost) -> None:
        """Leave so much of the budget to others."""
        self._held = cost

    def carry_out(self, choice: MaintenanceChoice, *, is_reserve: bool = False) -> None:
        """Carry out a choice if the rest of the budget holds it, and add its outcome."""
        spent = self.spent
        if exceeded := self._budget.exceeded_by(spent + choice.cost):
            reason = f"{spent} of the budget of {self._budget} are spent, and {choice.cost} more exceed its "
            skipped = f"{reason}{', '.join(exceeded)}"
            self._ended(MaintenanceOutcome(choice=choice, skipped=skipped, is_left=not is_reserve))
            return
        if self._before is not None:
            self._before(choice)
        meter = _Meter(choice, self.left, self._rates, self._progress)
        outcome = self._outcome(choice, meter)
        self._taken += meter.spent(outcome)
        is_skipped = meter.was_refused or (outcome.skipped is not None and not meter.was_done)
        self._ended(replace(outcome, is_left=is_skipped and not is_reserve))

    def _ended(self, outcome: MaintenanceOutcome) -> None:
        self.outcomes.append(outcome)
        if self._after is not None:
            self._after(outcome)

    def _outcome(self, choice: MaintenanceChoice, meter: "_Meter") -> MaintenanceOutcome:
        try:
            table = self._table(choice)
            if table is None:
                made_again = "the table was dropped, and another one of its name was created. Plan again"
                return MaintenanceOutcome(choice=choice, skipped=made_again)
            if reason := self._why_done(table, choice, meter):
                return MaintenanceOutcome(choice=choice, skipped=reason)
            return MaintenanceOutcome(choice=choice, report=_verb(table, choice, meter, self._properties))
        except NotFound as gone:
            return MaintenanceOutcome(choice=choice, skipped=str(gone))
        except CommitConflict as conflict:
            return MaintenanceOutcome(choice=choice, skipped=f"overtaken by another commit: {conflict}")
        except LakehouseError as error:
            return MaintenanceOutcome(choice=choice, error=error)

    def _table(self, choice: MaintenanceChoice) -> TableContext | None:
        """Return the table of a choice, None: it was created after the plan. Raises NotFound, CorruptTable."""
        # An open table would not see that another one has its name now.
        opened = self._open(choice.table)
        if opened.schemas.first().time_millis != choice.incarnation:
            return None
        place = choice.table, choice.incarnation
        table = self._opened.get(place) or opened
        self._opened.put(place, table)
        return table

    def _why_done(self, table: TableContext, choice: MaintenanceChoice, meter: "_Meter") -> str | None:
        """Return why a compaction counts as done. Raises NotFound, CorruptTable, StorageUnavailable."""
        if choice.operation not in COMPACTIONS or choice.snapshot_id is None:
            return None
        place = choice.table, choice.snapshot_id
        since = self._compacted.setdefault(place, CompactedSince(choice.snapshot_id))
        try:
            found = since.first(table, choice.partition, choice.bucket)
        except SnapshotExpired as expired:
            return f"whether it was done since the plan is not known any more: {expired} Plan again"
        if found is None:
            return None
        # A plan that is run again spends its budget once.
        meter.was_done = True
        return f"snapshot {found} has compacted it since the plan, which counts as spent"


class _Meter:
    """What a choice takes: its cost as its verb finds it, and how far the verb has come. It is a `Listener`."""

    def __init__(self, choice: MaintenanceChoice, left: Budget, rates: Rates, listener: Listener | None) -> None:
        self._cost = choice.cost
        self._left = left
        self._rates = rates
        self._listener = listener
        self._sizes: Sequence[int] = ()
        self._finished = 0
        self.was_done = False
        self.was_refused = False

    def __call__(self, progress: Progress) -> None:
        if progress.unit == "tasks":
            self._finished = progress.done
        if self._listener is not None:
            self._listener(progress)

    def why_not(self, buckets: Sequence[BucketCompaction], base: CompactionBase) -> str | None:
        """Return why the compaction exceeds the rest of the budget, None: it does not."""
        self._cost = compaction_cost(
            work_of([one.plan for one in buckets], base.schema), len(base.manifests), self._rates
        )
        self._sizes = [one.rewritten_bytes for one in buckets]
        if exceeded := self._left.exceeded_by(self._cost):
            self.was_refused = True
            return (
                f"it would take {self._cost} now, and of the budget {self._left} are left: too few "
                f"{' and '.join(exceeded)}"
            )
        return None

    def spent(self, outcome: MaintenanceOutcome) -> Cost:
        """Return the bytes and requests of what was done; of an earlier run also the seconds."""
        if self.was_done:
            return self._cost
        if isinstance(outcome.report, CompactionReport):
            requests = self._cost.requests if outcome.is_done else 0
            return Cost(bytes=outcome.report.bytes_rewritten, requests=requests)
        if outcome.is_done:
            return Cost(bytes=self._cost.bytes, requests=self._cost.requests)
        # It failed or was overtaken: the tasks that had finished, the largest first, have rewritten their buckets.
        size = sum(self._sizes[: self._finished])
        return Cost(bytes=size, requests=self._cost.requests if size else 0)


def _verb(table: TableContext, choice: MaintenanceChoice, meter: _Meter, properties: Mapping[str, str]) -> Report:
    call = CallOptions(properties, meter)
    match choice.operation:
        case "compact" | "compact_full":
            return table_maintenance.compact(
                table,
                call,
                full=choice.operation == "compact_full",
                partition=choice.partition,
                buckets=None if choice.bucket is None else [choice.bucket],
                why_not=meter.why_not,
            )
        case "compact_manifests":
            return table_maintenance.compact_manifests(table, call)
        case "expire":
            return table_maintenance.expire_snapshots(table, call)
