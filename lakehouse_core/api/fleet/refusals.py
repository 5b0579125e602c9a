"""Refusals of a maintenance plan: why an operation is not carried out, as users see it.

Rule: of the partitions of a table that are refused alike, the most valuable are named and the others are counted, so a
plan of many partitions stays short.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from lakehouse_core.api.fleet.plan import MaintenanceRefusal
from lakehouse_core.display import count_text
from lakehouse_core.planning.fleet.candidates import total, why_none
from lakehouse_core.planning.fleet.choice import Refused
from lakehouse_core.planning.fleet.operations import COMPACTIONS, Operation
from lakehouse_core.planning.fleet.survey import TableSurvey

# So many partitions of a table are named for an operation; the next one says how many there are more.
_NAMED: Final = 5


def refusals_of(refused: Iterable[Refused]) -> Iterator[MaintenanceRefusal]:
    """Yield refused candidates as users see them: for each operation of a table the most valuable, then the number of
    the others. What is urgent is told apart.
    """
    alike: dict[tuple[str, str, Operation, bool, bool], list[Refused]] = defaultdict(list)
    for each in refused:
        of = each.candidate
        alike[of.warehouse, of.table, of.operation, of.urgent is not None, of.bucket is None].append(each)
    for found in alike.values():
        found.sort(key=lambda one: -one.candidate.saved_seconds)
        # One more is shorter named than counted.
        named = found if len(found) <= _NAMED + 1 else found[:_NAMED]
        yield from map(_named, named)
        if len(found) > len(named):
            yield _counted(found[len(named) :])


def impossible(
    found: TableSurvey, operations: Sequence[Operation], possible: Collection[Operation]
) -> Iterator[MaintenanceRefusal]:
    """Yield why operations are not `possible` in the table, those refused for the same reason once."""
    told: set[str] = set()
    for operation in operations:
        # Of the two compactions one is enough.
        if operation in possible or (operation in COMPACTIONS and not COMPACTIONS.isdisjoint(possible)):
            continue
        reason = found.refusals.get(operation) or why_none(found, operation)
        if reason not in told:
            told.add(reason)
            yield without_candidate(found.warehouse, found.table, operation, reason)


def without_candidate(warehouse: str, table: str, operation: Operation | None, reason: str) -> MaintenanceRefusal:
    """Return why an operation on a table, or any (None), is not possible."""
    return MaintenanceRefusal(
        warehouse=warehouse, table=table, operation=operation, partition=None, saved_seconds=0.0, reason=reason
    )


def _named(refused: Refused) -> MaintenanceRefusal:
    candidate = refused.candidate
    return MaintenanceRefusal(
        warehouse=candidate.warehouse,
        table=candidate.table,
        operation=candidate.operation,
        partition=candidate.partition,
        bucket=candidate.bucket,
        saved_seconds=round(candidate.saved_seconds, 6),
        reason=f"{candidate.sentence}. Refused: {refused.reason}",
        urgent=candidate.urgent,
    )


def _counted(others: Sequence[Refused]) -> MaintenanceRefusal:
    first = others[0].candidate
    saved = sum(each.candidate.saved_seconds for each in others)
    more = f"{count_text(len(others), 'partition' if first.bucket is None else 'bucket')} more"
    urgent = f"{more}, as {first.name}: {first.urgent}"
    return MaintenanceRefusal(
        warehouse=first.warehouse,
        table=first.table,
        operation=first.operation,
        partition=None,
        saved_seconds=round(saved, 6),
        reason=(
            f"{more}, which together would take "
            f"{total(each.candidate for each in others)} and save {saved:.3g} s a day. Refused: of {first.name}, the "
            f"most valuable of them: {others[0].reason}"
        ),
        urgent=None if first.urgent is None else urgent,
        partitions=len(others),
    )
