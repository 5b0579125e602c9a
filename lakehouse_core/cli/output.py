"""Output of verbs: JSON lines for programs, tables and short texts for people."""

import base64
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.types as pt
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid

from lakehouse_core.api.records import Records
from lakehouse_core.api.reports import CompactionReport, CopyReport, Report, VerifyReport
from lakehouse_core.display import plain_text, readable
from lakehouse_core.table.commit_message import BATCH_IDENTIFIER

_HIDDEN_IN_TEXT: Final = frozenset({"report", "table", "snapshot_id", "commit_kind", "noop_reason", "dry_run", "error"})
_MOST_LISTED: Final = 20
_ALIGNED_ROWS: Final = 1000


def print_json(value: object) -> None:
    """Print one JSON object on a line of its own."""
    click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def print_records(records: Records[Any], *, as_json: bool) -> None:
    """Print records: with JSON all of their fields, else a table of the brief columns."""
    rows = records.to_dicts()
    if as_json:
        for row in rows:
            print_json(row)
        return
    headings = [name.removesuffix("_millis") for name in records.brief]
    print_rows(headings, ([readable(name, row[name]) for name in records.brief] for row in rows))


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for people. On a terminal it is folded to fit; elsewhere the lines may be wide.

    Outside a terminal, rows are printed as they arrive, with the column widths of the first batch.
    """
    console = _Console(soft_wrap=False)
    if sys.stdout.isatty():
        grid = Grid(*columns, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            grid.add_row(*row)
        console.print(grid, markup=False, highlight=False)
        return
    left = iter(rows)
    first = [list(columns), *map(list, islice(left, _ALIGNED_ROWS))]
    widths = [max(map(cell_len, column)) for column in zip(*first, strict=True)]
    for line in chain(first, left):
        cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the program, which knows its exit codes."""
        raise BrokenPipeError


def print_report(report: Report, *, as_json: bool) -> None:
    """Print the outcome of a verb: one line of JSON, or a short text."""
    if as_json:
        print_json(report.to_dict())
        return
    click.echo(f"{report.table}: {_headline(report)}")
    for line in _details(report):
        click.echo(f"  {line}")


def _details(report: Report) -> Iterator[str]:
    """Yield what a report says beyond its headline, without what is zero or empty."""
    unsaid: tuple[Any, ...] = (None, 0, "", False, [], {}, BATCH_IDENTIFIER, [report.snapshot_id], report.noop_reason)
    for name, value in report.to_dict().items():
        part = getattr(report, name, None)
        if isinstance(part, Report):
            yield f"{name}: {_headline(part)}"
            yield from (f"  {line}" for line in _details(part))
        elif name not in _HIDDEN_IN_TEXT and value not in unsaid:
            yield from _lines(name, value)


def _headline(report: Report) -> str:
    if isinstance(report, CompactionReport) and report.error is not None:
        return f"failed: {str(report.error).removeprefix(f'{report.table}: ')}"
    if report.noop_reason is not None:
        return f"nothing done: {report.noop_reason}"
    if report.dry_run:
        return "dry run, nothing changed"
    if isinstance(report, CopyReport):
        count = len(report.snapshot_ids)
        return f"copied with {count} snapshot{'' if count == 1 else 's'} to {report.uri}"
    if isinstance(report, VerifyReport):
        return f"{len(report.findings)} findings" if report.findings else "no findings"
    return "done" if report.snapshot_id is None else f"snapshot {report.snapshot_id} ({report.commit_kind})"


def _lines(name: str, value: Any) -> list[str]:
    label = name.replace("_", " ")
    if name == "files_waiting":
        return [f"{label}: {value}; an expire after lakehouse.read.grace deletes them"]
    if isinstance(value, list) and len(value) > 1:
        rest = [f"  … {len(value) - _MOST_LISTED} more; --json lists all"] if len(value) > _MOST_LISTED else []
        return [f"{label}:", *(f"  {plain_text(item)}" for item in value[:_MOST_LISTED]), *rest]
    if isinstance(value, float):
        return [f"{label}: {value:.3f}"]
    return [f"{label}: {plain_text(value)}"]


def json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as JSON values without loss: decimals, dates and times as text, binaries as base64."""
    names = batch.schema.names
    columns = [_json_column(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else []


def csv_rows(batch: pa.RecordBatch) -> list[list[str | None]]:
    """Return rows as text; None is null."""
    return [[None if value is None else plain_text(value) for value in row.values()] for row in json_rows(batch)]


def text_rows(batch: pa.RecordBatch) -> list[list[str]]:
    """Return rows as text for people; null is NULL, as in Spark's shell."""
    return [["NULL" if value is None else value for value in row] for row in csv_rows(batch)]


def _json_column(column: pa.Array) -> list[Any]:
    plain = _json_type(column.type)
    return [_json_value(value) for value in (column if plain == column.type else column.cast(plain)).to_pylist()]


def _json_type(kind: pa.DataType) -> pa.DataType:
    """Python's own types lose nanoseconds and years beyond 9999; Arrow's texts do not."""
    if pt.is_temporal(kind) or pt.is_decimal(kind):
        return pa.string()
    if pt.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    if pt.is_map(kind):
        return pa.map_(_json_type(kind.key_type), _json_type(kind.item_type))
    if pt.is_struct(kind):
        return pa.struct([pa.field(part.name, _json_type(part.type)) for part in kind])
    return kind


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _json_value(item) for key, item in value.items()}
        case list() if value and all(isinstance(item, tuple) for item in value):
            return _json_map(value)
        case list():
            return [_json_value(item) for item in value]
        case _:
            return value


def _json_map(pairs: Sequence[tuple[Any, Any]]) -> Any:
    if all(isinstance(key, str) for key, _ in pairs):
        return {key: _json_value(item) for key, item in pairs}
    return [[_json_value(key), _json_value(item)] for key, item in pairs]
