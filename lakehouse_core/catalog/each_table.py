"""One verb on many tables, one after the other: the failure of one does not stop the others."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from lakehouse_core.errors import LakehouseError
from lakehouse_core.progress import Listener, Watch, unfailing

R = TypeVar("R")


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
