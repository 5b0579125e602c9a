"""Copying: tables of any catalog into this one, each verified when it is complete.

Source: docs/moving.md.
"""

from collections.abc import Sequence
from dataclasses import replace

from lakehouse_core.api.copying import checked_choice, checked_source, copy_report
from lakehouse_core.api.reports import CopyReport, outcome
from lakehouse_core.api.table import Table
from lakehouse_core.api.verb import named
from lakehouse_core.catalog.context import CatalogContext
from lakehouse_core.catalog.ddl import create_database
from lakehouse_core.catalog.each_table import each_table, matching
from lakehouse_core.catalog.metastore import TableName, TablePlace
from lakehouse_core.catalog.names import check_new_name, check_no_twin, split_name
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.copying import CopyResult, copied_from, copy_files, end_copy, is_complete
from lakehouse_core.planning.copying import CopyChoice
from lakehouse_core.progress import Listener, Watch, log_outcome
from lakehouse_core.storage.outcomes import begun


def copy_table(
    catalog: CatalogContext,
    source: Table,
    name: str | None,
    *,
    snapshots: int | None,
    tags: Sequence[str] | None,
    branches: Sequence[str] | None,
    data: bool,
    progress: Listener | None,
) -> CopyReport:
    """Copy a table into a catalog, and verify the copy; see `Catalog.copy_table`."""
    choice = checked_choice(checked_source(source).name, snapshots=snapshots, tags=tags, branches=branches)
    name = source.name if name is None else name
    database, table = split_name(name)
    known = catalog.tables(database, like=table)
    if table not in known:
        check_new_name(table, "table")
        check_no_twin(table, known, "table")
    full_name = TableName(database, table)
    place = catalog.metastore.place(full_name)
    started = catalog.clock.monotonic_seconds()
    with named(name):
        result = _copied(catalog, source, full_name, place, choice, watch=Watch("copy_table", name, progress))
    with begun(f"Table {shown(name)} is copied, but was not verified. Verify it."):
        copy = catalog.table_at(name, place, place.schemas())
        findings = copy.verify(data=data, progress=progress).findings
    report = copy_report(copy, source, result, findings=findings)
    report = replace(report, duration_seconds=catalog.clock.monotonic_seconds() - started)
    log_outcome("copy_table", name, outcome(report))
    return report


def copy_tables(
    catalog: CatalogContext,
    source: CatalogContext,
    tables: str,
    *,
    database: str | None,
    snapshots: int | None,
    tags: Sequence[str] | None,
    branches: Sequence[str] | None,
    data: bool,
    progress: Listener | None,
) -> tuple[CopyReport, ...]:
    """Copy each table of `source` whose name and database match into a catalog; see `Catalog.copy_tables`."""
    names = matching(source, tables, database=database)

    def copy(name: str, listener: Listener | None) -> CopyReport:
        create_database(catalog, split_name(name)[0], properties=None, exist_ok=True)
        return copy_table(
            catalog,
            source.table(name),
            None,
            snapshots=snapshots,
            tags=tags,
            branches=branches,
            data=data,
            progress=listener,
        )

    # Arguments that fit no table are refused once, not in each table's report.
    checked_choice("copy_tables", snapshots=snapshots, tags=tags, branches=branches)
    return each_table(
        names,
        copy,
        lambda name, error: CopyReport(table=name, error=error),
        verb="copy_tables",
        phase="copying the tables",
        progress=progress,
    )


def _copied(
    catalog: CatalogContext, source: Table, name: TableName, place: TablePlace, choice: CopyChoice, *, watch: Watch
) -> CopyResult | None:
    """Copy the files and list the table; return None if an earlier call had copied all."""
    metastore = catalog.metastore
    origin = copied_from(place.store)
    is_listed = metastore.find(name, place.schemas()) is not None
    is_there = is_listed or is_complete(place.store)
    if is_there and origin != source.uri:
        raise InvalidRequest(
            f"Table {shown(str(name))} exists already. Copy to another name."
            if is_listed
            else str(metastore.hint(name))
        )
    result = None
    if not is_there:
        metastore.check_free(name)
        result = copy_files(source._context, place.store, choice, catalog.clock, engine=catalog.engine, watch=watch)
    if not is_listed:
        with begun(f"The files of table {shown(str(name))} are copied, but not listed. Copy again."):
            metastore.adopt(name, place.schemas())
    end_copy(place.store)
    return result
