"""Failures: errors in a shell, as one line on standard error for each fault, and an exit code.

The codes never change: 0 done · 1 verify found something · 2 the request is wrong · 3 conflict, try again · 4 storage
did not answer · 5 stored bytes are corrupt · 6 feature not supported.
"""

import re
from collections.abc import Iterable
from typing import Final

import click

from lakehouse_core.errors import (
    BackPressure,
    CommitConflict,
    CommitOutcomeUnknown,
    CommitTimeout,
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    StorageUnavailable,
    TaskFailed,
    UnsupportedFeature,
)

_EXIT_CODES: Final[tuple[tuple[type[LakehouseError], int], ...]] = (
    (NotFound, 2),
    (InvalidRequest, 2),
    (CommitConflict, 3),
    (CommitTimeout, 3),
    (CommitOutcomeUnknown, 3),
    (BackPressure, 3),
    (StorageUnavailable, 4),
    (TaskFailed, 4),
    (CorruptTable, 5),
    (UnsupportedFeature, 6),
)
# Of many tables' codes: evidence of damage first, then what another run may cure, then what it will not.
_WORST_FIRST: Final = (5, 4, 3, 6, 2, 1, 0)
# Messages name the arguments of the Python front door; here they are options.
_AS_OPTIONS: Final = (
    (re.compile(r"\b([a-z_]+)=True\b"), lambda match: _option(match[1])),
    (re.compile(r"\bmissing='([a-z]+)'"), lambda match: f"--missing {match[1]}"),
    (
        re.compile(r"\b(older_than|retain_max|retain_min)=(\S+?)(?=[:,. ])"),
        lambda match: f"{_option(match[1])} {match[2]}",
    ),
    (re.compile(r"\bsql\(text, \{'(\w+)': …\}\)"), lambda match: f"--parameter {match[1]}=…"),
    (re.compile(r"\bscan\(where=…\)"), lambda _: "lakehouse read --where"),
)


def exit_code(error: LakehouseError) -> int:
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 2)


def worst(codes: Iterable[int]) -> int:
    """Return the most severe code of several runs; 0 without runs."""
    return min(codes, key=_WORST_FIRST.index, default=0)


def error_text(error: LakehouseError) -> str:
    """Return the message, each fault on one line, with the shell's names for flags."""
    text = str(error)
    for pattern, written in _AS_OPTIONS:
        text = pattern.sub(written, text)
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def _option(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"


def print_failure(text: str) -> None:
    for line in text.split("\n"):
        click.echo(f"lakehouse: {' '.join(line.split())}", err=True)
