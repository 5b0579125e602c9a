"""Maintenance of the tables of several catalogs under one budget.

Rule: a catalog whose store does not answer is a refusal with its reason, not the end of the plan.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from lakehouse_core.api.fleet.plan import MaintenancePlan
from lakehouse_core.api.fleet.planning import FleetTable, check_budget, names_of, plan_fleet
from lakehouse_core.catalog.context import CatalogContext
from lakehouse_core.catalog.each_table import matching
from lakehouse_core.errors import InvalidRequest, LakehouseError, NotFound, StorageUnavailable, UnsupportedFeature
from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.fleet.cost import Budget, Rates
from lakehouse_core.planning.fleet.operations import Operation
from lakehouse_core.progress import Listener, unfailing
from lakehouse_core.table.layout import branch_in, branch_table_name


def _without_branches(open_table: Callable[[str], TableContext]) -> Callable[[str], TableContext]:
    """Return `open_table` for tables; a plan holds no operations of a branch."""

    def opened(name: str) -> TableContext:
        if branch_in(name) is not None:
            table = branch_table_name(name, None)
            raise UnsupportedFeature(f"{name}: branches are not planned. Name its table, {table}, or call its verbs.")
        return open_table(name)

    return opened


def plan_maintenance(
    catalogs: Sequence[CatalogContext],
    tables: str | Sequence[str],
    *,
    budget: Budget,
    database: str | None,
    reads: Mapping[str, float] | None,
    operations: Sequence[Operation],
    only_urgent: bool,
    rates: Rates,
    progress: Listener | None,
) -> MaintenancePlan:
    """Plan for the tables of all catalogs that match; see `Catalog.plan_maintenance`. The first one's clock counts."""
    check_budget(budget)
    if twice := [uri for uri, count in Counter(each.uri for each in catalogs).items() if count > 1]:
        raise InvalidRequest(f"also: {', '.join(twice)} is given twice. Name each lake once.")
    found: list[FleetTable] = []
    missing: NotFound | None = None
    for each in catalogs:
        try:
            names = matching(each, tables, database=database) if isinstance(tables, str) else names_of(tables)
        except NotFound as nothing:
            missing = missing or nothing
        except StorageUnavailable as away:
            found.append(FleetTable(warehouse=each.uri, name=str(tables), open=_raising(away)))
        else:
            found += [
                FleetTable(warehouse=each.uri, name=name, open=_without_branches(each.table_context)) for name in names
            ]
    if missing is not None and not found:
        raise missing
    return plan_fleet(
        found,
        budget,
        clock=catalogs[0].clock,
        reads=reads,
        operations=operations,
        only_urgent=only_urgent,
        rates=rates,
        progress=None if progress is None else unfailing(progress),
    )


def _raising(error: LakehouseError) -> Callable[[str], TableContext]:
    """Return a function that opens no table: it raises the error."""

    def open_table(_: str) -> TableContext:
        raise error

    return open_table
