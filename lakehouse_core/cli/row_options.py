"""Options that say how rows lie in files, and where rows go."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from lakehouse_core.cli.csv_records import parse_delimiter
from lakehouse_core.cli.row_format import FORMATS, PIPE, RowFormat

Callback = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Output:
    """Where rows go: to a file, `PIPE` for standard output as a format has them, None for what people read."""

    file: Path | None
    form: RowFormat


def csv_options(command: Callback) -> Callback:
    """Take --delimiter and --null."""
    command = click.option(
        "--null",
        default="",
        metavar="TEXT",
        help="What is null in CSV where it is not quoted, as in NA or \\\\N; nothing unless given.",
    )(command)
    return click.option(
        "--delimiter", metavar="C", help="What separates the fields of CSV: a character, or tab; a comma unless given."
    )(command)


def output_options(command: Callback) -> Callback:
    """Take -o and how rows lie there; the verb gets one `output`."""

    @wraps(command)
    def call(
        *args: Any, output: Path | None, name: str | None, delimiter: str | None, null: str, **kwargs: Any
    ) -> object:
        form = row_format(name, delimiter, null)
        file = PIPE if output is None and name is not None else output
        return command(*args, output=Output(file, form), **kwargs)

    taking = csv_options(call)
    taking = click.option(
        "--format",
        "name",
        type=click.Choice(FORMATS),
        help="What FILE holds, whatever its name ends with; without -o, on standard output.",
    )(taking)
    return click.option(
        "-o",
        "output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the rows to a file instead: .parquet, .csv, .tsv, .jsonl, .json or .arrow; - is standard output.",
    )(taking)


def row_format(name: str | None, delimiter: str | None, null: str) -> RowFormat:
    """Return what the options say. Raises InvalidRequest."""
    return RowFormat(name=name, delimiter=None if delimiter is None else parse_delimiter(delimiter), null=null)
