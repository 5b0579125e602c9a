"""compact, compact-manifests, expire, tag, verify."""

from typing import Final

import click

from lakehouse_core.cli.help import Verb, VerbGroup
from lakehouse_core.cli.options import json_option, parse_age
from lakehouse_core.cli.output import print_report
from lakehouse_core.cli.session import is_json, open_catalog, open_table, parse_assignments
from lakehouse_core.errors import InvalidRequest

# In the name of a table: it stands for many.
_PATTERN: Final = frozenset("*?[")
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


@click.command(
    "compact",
    cls=Verb,
    epilog="lakehouse compact sales.orders --full --partition dt=2013-01-01\n"
    "lakehouse compact 'sales.*' --partition-idle 1h",
)
@click.argument("table")
@click.option("--full", is_flag=True, help="Bring every bucket into its top level, not only what needs it most.")
@click.option("--partition", multiple=True, metavar="K=V", help="Only this partition; once for each of its columns.")
@click.option("--partition-idle", metavar="AGE", help="Only partitions without a new file for so long, as in 1h.")
@_DRY_RUN
@json_option
@click.pass_context
def compact(
    context: click.Context,
    *,
    table: str,
    full: bool,
    partition: tuple[str, ...],
    partition_idle: str | None,
    dry_run: bool,
) -> None:
    """Rewrite the files of TABLE into fewer; with * or ? in its name, of all tables that fit.

    A table that fails does not stop the others; the exit code is that of the first failure.
    """
    idle = None if partition_idle is None else parse_age(partition_idle, "--partition-idle")
    assignments = parse_assignments(partition)
    if not _PATTERN.intersection(table):
        report = open_table(context, table).compact(
            full=full, partition=assignments, partition_idle=idle, dry_run=dry_run
        )
        print_report(report, as_json=is_json(context))
        return
    if assignments:
        raise InvalidRequest(f"--partition goes with one table, and {table!r} stands for many: leave it out.")
    database, _, tables = table.partition(".")
    reports = open_catalog(context).compact(
        tables or "*", database=database, full=full, partition_idle=idle, dry_run=dry_run
    )
    for each in reports:
        print_report(each, as_json=is_json(context))
    for error in (each.error for each in reports if each.error is not None):
        raise error


@click.command("compact-manifests", cls=Verb, epilog="lakehouse compact-manifests sales.orders")
@click.argument("table")
@_DRY_RUN
@json_option
@click.pass_context
def compact_manifests(context: click.Context, *, table: str, dry_run: bool) -> None:
    """Rewrite the manifests of TABLE into few; no data file is touched."""
    print_report(open_table(context, table).compact_manifests(dry_run=dry_run), as_json=is_json(context))


@click.command("expire", cls=Verb, epilog="lakehouse expire sales.orders --retain-max 20 --older-than 7d --dry-run")
@click.argument("table")
@click.option(
    "--retain-max",
    type=int,
    metavar="N",
    help="Keep at most this many snapshots; alone it also lowers the least number that the table keeps.",
)
@click.option(
    "--retain-min",
    type=int,
    metavar="N",
    help="Keep at least this many snapshots; what is not given is the table's option.",
)
@click.option("--older-than", metavar="AGE", help="Snapshots younger than this stay, as in 1h or 7d.")
@_DRY_RUN
@json_option
@click.pass_context
def expire(
    context: click.Context,
    *,
    table: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    dry_run: bool,
) -> None:
    """Let old snapshots of TABLE go, and the files that only they needed."""
    age = None if older_than is None else parse_age(older_than, "--older-than")
    report = open_table(context, table).expire_snapshots(
        retain_max=retain_max, retain_min=retain_min, older_than=age, dry_run=dry_run
    )
    print_report(report, as_json=is_json(context))


@click.group("tag", cls=VerbGroup, epilog="lakehouse tag create sales.orders eod")
def tag() -> None:
    """Create and delete tags."""


@tag.command("create", epilog="lakehouse tag create sales.orders eod --snapshot 12 --retention 30d")
@click.argument("table")
@click.argument("name")
@click.option("--snapshot", type=int, metavar="N", help="The snapshot to tag; the latest unless given.")
@click.option("--retention", metavar="AGE", help="How long the tag is kept, as in 30d; for ever unless given.")
@_DRY_RUN
@json_option
@click.pass_context
def create_tag(
    context: click.Context, *, table: str, name: str, snapshot: int | None, retention: str | None, dry_run: bool
) -> None:
    """Name a snapshot of TABLE and keep its files."""
    age = None if retention is None else parse_age(retention, "--retention")
    report = open_table(context, table).create_tag(name, at=snapshot, retention=age, dry_run=dry_run)
    print_report(report, as_json=is_json(context))


@tag.command("delete", epilog="lakehouse tag delete sales.orders eod")
@click.argument("table")
@click.argument("name")
@_DRY_RUN
@json_option
@click.pass_context
def delete_tag(context: click.Context, *, table: str, name: str, dry_run: bool) -> None:
    """Delete a tag of TABLE, and the files that only it kept."""
    print_report(open_table(context, table).delete_tag(name, dry_run=dry_run), as_json=is_json(context))


@click.command("verify", cls=Verb, epilog="lakehouse verify sales.orders")
@click.argument("table")
@click.option("--data", is_flag=True, help="Also decode every data file, page by page.")
@json_option
@click.pass_context
def verify(context: click.Context, *, table: str, data: bool) -> int:
    """Check the metadata and files of TABLE; the exit code is 1 when something is found."""
    report = open_table(context, table).verify(data=data)
    print_report(report, as_json=is_json(context))
    return 1 if report.findings else 0


COMMANDS: Final = {
    "compact": compact,
    "compact-manifests": compact_manifests,
    "expire": expire,
    "tag": tag,
    "verify": verify,
}
