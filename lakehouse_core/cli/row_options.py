"""Row options: the format of rows in files, and the target of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from lakehouse_core.row_files.csv_records import parse_delimiter
from lakehouse_core.row_files.row_format import FORMATS, PIPE, RowFormat

Callback = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Output:
    """The target of rows: a file, `PIPE` for standard output in a format, None for a table that people read."""

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
        "--delimiter", metavar="C", help="The character between the fields of CSV, or tab. Default: a comma."
    )(command)


def output_options(command: Callback) -> Callback:
    """Take -o and the format of the rows. The verb gets them as one `output`."""

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
        help="The format of FILE, whatever its name. Without -o, rows go to standard output in this format.",
    )(taking)
    return click.option(
        "-o",
        "output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the rows to a file: .parquet, .csv, .tsv, .jsonl, .json or .arrow; - is standard output.",
    )(taking)


def row_format(name: str | None, delimiter: str | None, null: str) -> RowFormat:
    """Return the format that the options give. Raises InvalidRequest."""
    return RowFormat(
        name=name, delimiter=None if delimiter is None else parse_delimiter(delimiter, "--delimiter"), null=null
    )
