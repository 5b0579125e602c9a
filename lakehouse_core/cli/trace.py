"""trace: which run made a file or a snapshot, from which commits its rows come, and which snapshots a run made."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

import click

from lakehouse_core.api.records import FileOrigin, Records
from lakehouse_core.api.table import Table
from lakehouse_core.api.table_records import SHORTEST_RUN, check_run
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.many import on_each
from lakehouse_core.cli.options import json_option
from lakehouse_core.cli.output import print_json, print_rows
from lakehouse_core.cli.session import is_json, open_table
from lakehouse_core.display import readable
from lakehouse_core.errors import InvalidRequest, NotFound, shown

_SNAPSHOT: Final = re.compile(r"(.*)@(\d{1,18})")
_MOST_NAMED: Final = 10


@click.command(
    "trace",
    cls=Verb,
    epilog="lakehouse trace sales.orders@12\n"
    "lakehouse trace data-58b0e2c7-0.parquet --table sales.orders\n"
    "lakehouse trace 3f2a9c1e",
)
@click.argument("what", metavar="FILE|SNAPSHOT|RUN")
@click.option(
    "--table", default="*", show_default=True, metavar="TABLE", help="Search this table, or those that match."
)
@json_option
@click.pass_context
def trace(context: click.Context, *, what: str, table: str) -> int:
    """Trace a data file, a snapshot or a run.

    FILE is the name of a data file, or a path that ends with it. SNAPSHOT is TABLE@ID. RUN is the identifier that a
    run recorded in its snapshots (Dagster does), or its first 8 or more characters. For a file and a snapshot the
    snapshots and runs are listed that the rows come from, through compactions, and where the trail ends because a
    snapshot expired; for a run, the snapshots that it made, also if it failed.
    """
    if match := _SNAPSHOT.fullmatch(what):
        found = open_table(context, match[1])
        origins = found.trace_snapshot(int(match[2]))
        _print_origins(context, found, f"snapshot {match[2]}{_rolled_back(found, int(match[2]))}", origins)
        return 0
    if what.isdecimal() and len(what) < SHORTEST_RUN:
        raise InvalidRequest(f"{shown(what)}: expected a snapshot with its table, as in sales.orders@{what}.")
    is_file = "." in what or "/" in what
    if not is_file:
        check_run(what)
    hits = []

    def search(found: Table) -> int:
        hits.append(_trace_file(context, found, what) if is_file else _trace_run(context, found, what))
        return 0

    code = on_each(context, _table_in(what) or table, search)
    if code == 0 and not any(hits):
        where = f"{len(hits)} table{'s' if len(hits) != 1 else ''}"
        raise NotFound(
            f"{shown(what)}: no known snapshot of {where} has this file. Check the name and --table."
            if is_file
            else f"{shown(what)}: no known snapshot of {where} was made by this run. It made none, or they expired."
        )
    return code


def _rolled_back(table: Table, snapshot_id: int) -> str:
    """Return what a rollback brought back, for a message; nothing for other snapshots, or if only a tag holds it."""
    with suppress(NotFound):
        snapshot = table.snapshot(snapshot_id)
        if snapshot is not None and snapshot.rolled_back_to is not None:
            return f", a rollback to snapshot {snapshot.rolled_back_to}"
        if snapshot is not None and snapshot.forwarded_from is not None:
            return f", a fast-forward to branch {snapshot.forwarded_from}"
    return ""


def _table_in(path: str) -> str | None:
    """Return the name of the table in a path to one of its files, None if the text is not such a path."""
    parts = PurePosixPath(path).parts
    for database, table in pairwise(parts[:-1]):
        if database.endswith(".db"):
            return f"{database.removesuffix('.db')}.{table}"
    return None


def _trace_file(context: click.Context, table: Table, file: str) -> bool:
    try:
        found = table.trace_file(file)
    except NotFound:
        return False
    _print_origins(context, table, found[0].file_name, found)
    return True


def _trace_run(context: click.Context, table: Table, run: str) -> bool:
    found = table.trace_run(run)
    rows = found.to_dicts()
    if is_json(context):
        for row in rows:
            print_json({"table": table.name, **row})
    elif rows:
        click.echo(f"{table.name}: {len(rows)} snapshot{'s' if len(rows) > 1 else ''} by {_listed(_runs(rows))}")
        names = ("id", "commit_kind", "time_millis", "delta_record_count", "commit_user", "commit_identifier")
        _print_columns(names, rows)
    return bool(rows)


def _print_origins(context: click.Context, table: Table, what: str, found: Records[FileOrigin]) -> None:
    rows = found.to_dicts()
    if is_json(context):
        for row in rows:
            print_json({"table": table.name, **row})
        return
    if not rows:
        click.echo(f"{table.name}: {what}: it made no file, and brought none back")
        return
    known = {row["snapshot_id"]: row for row in rows if row["snapshot_id"] is not None and not row["inputs"]}
    sources = [known[snapshot_id] for snapshot_id in sorted(known)]
    click.echo(f"{table.name}: {what}: rows of {_of_snapshots([str(row['snapshot_id']) for row in sources])}")
    if runs := _runs(sources):
        click.echo(f"  runs: {_listed(runs)}")
    lost = [row for row in rows if row["snapshot_id"] is None]
    if lost:
        files = f"{len(lost)} file{'s' if len(lost) > 1 else ''}"
        click.echo(f"  the trail ends at {files} {lost[0]['note']}")
    _print_columns(("file_name", "snapshot_id", "commit_kind", "time_millis", "run_id", "commit_user"), rows)


def _runs(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["run_id"] for row in rows if row["run_id"] is not None))


def _of_snapshots(ids: Sequence[str]) -> str:
    return f"snapshot{'s' if len(ids) > 1 else ''} {_listed(ids)}" if ids else "no known snapshot"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _print_columns(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        headings = [name.removesuffix("_millis") for name in names]
        print_rows(headings, ([readable(name, row[name]) for name in names] for row in rows))


COMMANDS: Final = {"trace": trace}
