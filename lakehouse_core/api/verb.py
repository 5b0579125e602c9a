"""Verbs: what every verb of a table does around its work. It adds the table's name to errors, takes the time, and logs
the outcome.

Rule: layers below the catalog know folders only, so names are added here.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from lakehouse_core.api.reports import Report, outcome
from lakehouse_core.clock import Clock
from lakehouse_core.errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    TaskFailed,
    WriteOutcomeUnknown,
    retell,
)
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.presence import check_here
from lakehouse_core.progress import LOGGER


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class _Clocked(_Named, Protocol):
    @property
    def clock(self) -> Clock: ...


N = TypeVar("N", bound=_Named)
C = TypeVar("C", bound=_Clocked)
P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", bound=Report)


# What may come from a drop or a rename of the table.
_OF_A_DROP: Final = (NotFound, InvalidRequest, CorruptTable, CommitConflict, StorageUnavailable, TaskFailed)


@contextmanager
def overtaken(table: _Named) -> Iterator[None]:
    """Raise TableDropped for an error inside if the table is dropped or renamed, but for an unknown outcome. Add the
    table's name to errors that lack it.
    """
    # A scan and a system table have the table that they read.
    read = getattr(table, "_table", table)
    with named(table.name, instead_of=read.name):
        try:
            yield
        except (CommitOutcomeUnknown, WriteOutcomeUnknown):
            raise
        except _OF_A_DROP as error:
            # Else nothing was read, and an argument is wrong.
            if isinstance(read, TableContext) and read.schemas.known.newest_id() is not None:
                with suppress(StorageUnavailable):
                    check_here(read, error)
            raise


@contextmanager
def named(table: str, *, instead_of: str = "") -> Iterator[None]:
    """Add the table's name to errors that lack it. `instead_of`: the name that they may begin with, of the table that
    is read.
    """
    try:
        yield
    except LakehouseError as error:
        if table not in str(error):
            retell(error, lambda told: f"{table}: {told.removeprefix(f'{instead_of}: ')}")
        raise


def names_table(verb: Callable[Concatenate[N, P], R]) -> Callable[Concatenate[N, P], R]:
    """Add the table's name to the errors of a verb. The verb's object has it as `name`."""

    @wraps(verb)
    def call(self: N, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with overtaken(self):
            return verb(self, *args, **kwargs)

    return call


def reported(verb: Callable[Concatenate[C, P], A]) -> Callable[Concatenate[C, P], A]:
    """Add the duration of a verb to its report, by the table's clock, and log the outcome in one line; add the table's
    name to its errors.
    """
    log = logging.getLogger(f"{LOGGER}.{verb.__name__}")

    @wraps(verb)
    def call(table: C, /, *args: P.args, **kwargs: P.kwargs) -> A:
        started = table.clock.monotonic_seconds()
        try:
            with overtaken(table):
                report = verb(table, *args, **kwargs)
                if report.noop_reason is not None and isinstance(table, TableContext):
                    # A table that is gone has nothing to do.
                    check_here(table)
        except BaseException as error:
            # The message may quote a row, so it is not logged; the caller gets the whole error.
            seconds = table.clock.monotonic_seconds() - started
            log.info("%s: failed after %.3f s: %s", table.name, seconds, type(error).__name__)
            raise
        report = replace(report, duration_seconds=table.clock.monotonic_seconds() - started)
        # A reason why nothing was done is a sentence; a duration at its end could seem to belong to it.
        shape = "%s: %s in %.3f s" if report.noop_reason is None else "%s: %s (%.3f s)"
        log.info(shape, table.name, outcome(report), report.duration_seconds)
        return report

    return call
