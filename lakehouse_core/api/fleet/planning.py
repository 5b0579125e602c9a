"""Planning of a fleet: one pass over the tables, one after the other, then one choice under the budget.

Rule: a table that cannot be surveyed is a refusal with its reason, never the end of the pass.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakehouse_core.api.arguments import mapping_of
from lakehouse_core.api.fleet.plan import MaintenancePlan, MaintenanceRefusal, choice_of
from lakehouse_core.api.fleet.refusals import impossible, refusals_of, without_candidate
from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest, LakehouseError, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.fleet.survey import survey_table
from lakehouse_core.planning.fleet.candidates import Candidate, candidates_of
from lakehouse_core.planning.fleet.choice import choose, parted
from lakehouse_core.planning.fleet.cost import Budget, Rates, is_amount
from lakehouse_core.planning.fleet.operations import OPERATIONS, Operation
from lakehouse_core.progress import Listener, Watch

# More are no reads of a table, and seconds would leave the range of numbers.
_MOST_READS: Final = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTable:
    """A table to survey: its warehouse, its name, and the function that opens it."""

    warehouse: str
    name: str
    open: Callable[[str], TableContext]


def plan_fleet(
    tables: Sequence[FleetTable],
    budget: Budget,
    *,
    clock: Clock,
    reads: Mapping[str, float] | None,
    operations: Sequence[Operation],
    only_urgent: bool,
    rates: Rates,
    progress: Listener | None,
) -> MaintenancePlan:
    """Return the plan for the tables. `reads`: by name, how often a day each is read; others are read once.

    Raises InvalidRequest for arguments that fit no table.
    """
    check_budget(budget)
    if not isinstance(rates, Rates):
        raise InvalidRequest(f"rates={shown(rates)}: expected rates, as in lc.Rates(request_seconds=0.02).")
    wanted = checked_operations(operations)
    per_day = _checked_reads(reads, {table.name for table in tables})
    started = clock.monotonic_seconds()
    candidates: list[Candidate] = []
    refusals: list[MaintenanceRefusal] = []
    none: list[MaintenanceRefusal] = []
    unread: list[MaintenanceRefusal] = []
    states: dict[tuple[str, str], tuple[int, int | None]] = {}
    files = size = surveyed = 0
    for done, table in enumerate(tables):
        Watch("plan_maintenance", table.name, progress).at("surveying the tables", done, len(tables), "tables")
        try:
            found = survey_table(table.open(table.name), warehouse=table.warehouse, operations=wanted)
        except LakehouseError as error:
            reason = str(error).removeprefix(f"{table.name}: ")
            unread.append(without_candidate(table.warehouse, table.name, None, reason))
            continue
        surveyed += 1
        files, size = files + found.file_count, size + found.size_bytes
        states[table.warehouse, table.name] = found.incarnation, found.snapshot_id
        often = per_day.get(table.name, 1.0)
        of_table = list(candidates_of(found, wanted, reads_per_day=often, rates=rates, budget=budget))
        worth, not_worth = parted(of_table, only_urgent=only_urgent)
        candidates += worth
        # The sentences of a few are kept, not the candidates of all.
        refusals += refusals_of(not_worth)
        none += impossible(found, wanted, {each.operation for each in of_table})
    choice = choose(candidates, budget, only_urgent=only_urgent)
    refusals += refusals_of(choice.refused)
    refusals.sort(key=lambda each: (each.partitions > 0, -each.saved_seconds, each.warehouse, each.table, each.name))
    return MaintenancePlan(
        warehouses=tuple(dict.fromkeys(table.warehouse for table in tables)),
        budget=budget,
        rates=rates,
        time_millis=clock.now_millis(),
        tables=surveyed,
        files=files,
        bytes=size,
        duration_seconds=clock.monotonic_seconds() - started,
        choices=tuple(choice_of(each, *states[each.warehouse, each.table]) for each in choice.chosen),
        reserve=tuple(choice_of(each, *states[each.warehouse, each.table]) for each in choice.reserve),
        refusals=(*unread, *refusals, *none),
    )


def check_budget(budget: object) -> None:
    """Raise InvalidRequest for a value that is not a budget."""
    if not isinstance(budget, Budget):
        raise InvalidRequest(f"budget={shown(budget)}: expected a budget, as in lc.Budget(bytes=50_000_000_000).")


def names_of(tables: object) -> Sequence[str]:
    """Return the names of a list of tables, each once. Raises InvalidRequest."""
    if not isinstance(tables, Sequence) or not all(isinstance(each, str) for each in tables):
        raise InvalidRequest(f"tables={shown(tables)}: expected a pattern, as in 'sales.*', or a list of names.")
    return list(dict.fromkeys(tables))


def checked_operations(operations: object) -> tuple[Operation, ...]:
    """Return the operations in their order. Raises InvalidRequest naming the known ones."""
    given = operations if isinstance(operations, Sequence) and not isinstance(operations, str) else [operations]
    unknown = [each for each in given if each not in OPERATIONS]
    if unknown or not given:
        raise InvalidRequest(
            f"operations={shown(operations)}: expected a list of some of {', '.join(map(repr, OPERATIONS))}."
        )
    return tuple(each for each in OPERATIONS if each in given)


def _checked_reads(reads: Mapping[str, float] | None, names: Iterable[str]) -> Mapping[str, float]:
    known = set(names)
    for name, count in mapping_of("reads", reads).items():
        if name not in known:
            raise InvalidRequest(f"reads: found {shown(name)}, expected names of tables of the plan. Leave it out.")
        if not _is_count(count):
            raise InvalidRequest(f"reads: {name} is {shown(count)}: expected how often a day it is read, 0 to 1e12.")
    return reads or {}


def _is_count(value: Any) -> bool:
    return is_amount(value) and value <= _MOST_READS
