"""Copying: the tables of one catalog that match a pattern, one after the other, into another catalog."""

from collections.abc import Callable, Sequence

from lakehouse_core.api.reports import CopyReport
from lakehouse_core.errors import LakehouseError
from lakehouse_core.progress import Listener, Watch, unfailing


def copy_each(
    names: Sequence[str], copy: Callable[[str, Listener | None], CopyReport], progress: Listener | None
) -> tuple[CopyReport, ...]:
    """Copy each table; return a report for each, with the `error` of one that failed. The others go on."""
    reports = []
    listener = None if progress is None else unfailing(progress)
    for done, name in enumerate(names):
        Watch("copy_tables", name, listener).at("copying the tables", done, len(names), "tables")
        try:
            found = copy(name, listener)
        except LakehouseError as error:
            found = CopyReport(table=name, error=error)
        reports.append(found)
    return tuple(reports)
