"""One verb on each table that matches a pattern, one after the other: the failure of one does not stop the others."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TypeVar

from lakehouse_core.api.arguments import idle_millis, mapping_of
from lakehouse_core.api.reports import CompactionReport
from lakehouse_core.catalog.context import CatalogContext
from lakehouse_core.catalog.names import near
from lakehouse_core.errors import InvalidRequest, LakehouseError, NotFound, shown
from lakehouse_core.planning.commit.checks import check_properties
from lakehouse_core.progress import Listener, Watch, unfailing

R = TypeVar("R")


def matching(catalog: CatalogContext, tables: str, *, database: str | None) -> list[str]:
    """Return `database.table` of each table whose name and database match, sorted; see `Catalog.matching`."""
    if database is None and isinstance(tables, str) and "." in tables:
        database, _, tables = tables.partition(".")
    database = "*" if database is None else database
    for noun, pattern in (("database", database), ("tables", tables)):
        if not isinstance(pattern, str):
            raise InvalidRequest(f"{noun}={shown(pattern)}: expected a name or a pattern, as in 'sales*'.")
    every = catalog.metastore.databases()
    databases = [name for name in every if fnmatchcase(name, database)]
    if not databases:
        raise NotFound(f"No database matches {shown(database)} in {catalog.uri}. {near(database, every)}")
    known = [(name, table) for name in databases for table in catalog.tables(name)]
    found = [f"{name}.{table}" for name, table in known if fnmatchcase(table, tables)]
    if not found:
        near_tables = near(tables, [table for _, table in known])
        raise NotFound(f"No table matches {shown(tables)} in {', '.join(databases)}. {near_tables}")
    return found


def compact(
    catalog: CatalogContext,
    tables: str,
    *,
    database: str | None,
    full: bool,
    partition_idle: timedelta | None,
    dry_run: bool,
    properties: Mapping[str, str] | None,
    progress: Listener | None,
) -> tuple[CompactionReport, ...]:
    """Compact each table whose name and database match; see `Catalog.compact`."""
    # Arguments that fit no table are refused once, not in each table's report.
    idle_millis(partition_idle)
    check_properties(mapping_of("properties", properties))

    def compacted(name: str, listener: Listener | None) -> CompactionReport:
        return catalog.table(name).compact(
            full=full, partition_idle=partition_idle, dry_run=dry_run, properties=properties, progress=listener
        )

    return each_table(
        matching(catalog, tables, database=database),
        compacted,
        lambda name, error: CompactionReport(table=name, dry_run=dry_run, error=error),
        verb="compact",
        phase="compacting the tables",
        progress=progress,
    )


def each_table(
    names: Sequence[str],
    act: Callable[[str, Listener | None], R],
    failed: Callable[[str, LakehouseError], R],
    *,
    verb: str,
    phase: str,
    progress: Listener | None,
) -> tuple[R, ...]:
    """Call `act` for each table; return its reports, and that of `failed` for each table whose verb raised.

    `verb` and `phase` are what `progress` is told of the whole call.
    """
    reports = []
    listener = None if progress is None else unfailing(progress)
    for done, name in enumerate(names):
        Watch(verb, name, listener).at(phase, done, len(names), "tables")
        try:
            report = act(name, listener)
        except LakehouseError as error:
            report = failed(name, error)
        reports.append(report)
    return tuple(reports)
