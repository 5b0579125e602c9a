"""delete, update, truncate, drop-partitions."""

from datetime import timedelta
from typing import Final

import click

from lakehouse_core.cli.arguments import table_argument
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.options import AGE, json_option
from lakehouse_core.cli.output import print_report
from lakehouse_core.cli.session import is_json, open_table, parse_assignments, progress_bar
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.row_changes.statements import Isolation

_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Count the rows and change nothing.")
_WHERE: Final = click.option(
    "--where", required=True, metavar="SQL", help='The rows to change, as in "amount < 0". Only true counts.'
)
_ISOLATION: Final = click.option(
    "--isolation",
    type=click.Choice(["snapshot", "serializable"]),
    default="snapshot",
    help="serializable: begin again if a write meanwhile added rows that satisfy the condition.",
)


@click.command("delete", cls=Verb, epilog="lakehouse delete sales.orders --where \"status = 'void'\" --dry-run")
@table_argument
@_WHERE
@_ISOLATION
@_DRY_RUN
@json_option
@click.pass_context
def delete(context: click.Context, *, table: str, where: str, isolation: Isolation, dry_run: bool) -> None:
    """Delete the rows of TABLE that satisfy a condition, in one commit."""
    opened = open_table(context, table)
    with progress_bar(context) as progress:
        report = opened.delete(where, isolation=isolation, dry_run=dry_run, progress=progress)
    print_report(report, as_json=is_json(context))


@click.command(
    "update",
    cls=Verb,
    epilog="lakehouse update sales.orders --set \"status='void'\" --set 'amount=amount * 2' --where 'id = 7'",
)
@table_argument
@click.option(
    "--set",
    "assignments",
    multiple=True,
    required=True,
    metavar="COLUMN=SQL",
    help="A new value, computed from the old row; a text is in quotes. Repeat for more columns.",
)
@_WHERE
@_ISOLATION
@_DRY_RUN
@json_option
@click.pass_context
def update(
    context: click.Context,
    *,
    table: str,
    assignments: tuple[str, ...],
    where: str,
    isolation: Isolation,
    dry_run: bool,
) -> None:
    """Give columns new values in the rows of TABLE that satisfy a condition, in one commit."""
    given: dict[str, str] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or name.strip() in given:
            raise InvalidRequest(f"--set {text!r}: expected COLUMN=SQL, each column once, as in \"status='void'\".")
        given[name.strip()] = value
    opened = open_table(context, table)
    with progress_bar(context) as progress:
        report = opened.update(given, where, isolation=isolation, dry_run=dry_run, progress=progress)
    print_report(report, as_json=is_json(context))


@click.command("truncate", cls=Verb, epilog="lakehouse truncate sales.orders")
@table_argument
@_DRY_RUN
@json_option
@click.pass_context
def truncate(context: click.Context, *, table: str, dry_run: bool) -> None:
    """Delete all rows of TABLE, in one commit. Older snapshots and tags keep them."""
    report = open_table(context, table).truncate(dry_run=dry_run)
    print_report(report, as_json=is_json(context))


@click.command("drop-partitions", cls=Verb, epilog="lakehouse drop-partitions sales.orders dt=2013-01-01 dt=2013-01-02")
@table_argument
@click.argument("partitions", nargs=-1, required=True, metavar="K=V[,K=V]...")
@_DRY_RUN
@json_option
@click.pass_context
def drop_partitions(context: click.Context, *, table: str, partitions: tuple[str, ...], dry_run: bool) -> None:
    """Delete the rows of partitions of TABLE, in one commit. Some of the partition columns are enough."""
    given = [parse_assignments(tuple(text.split(","))) or {} for text in partitions]
    report = open_table(context, table).drop_partitions(given, dry_run=dry_run)
    print_report(report, as_json=is_json(context))


@click.command(
    "expire-partitions", cls=Verb, epilog="lakehouse expire-partitions sales.orders --older-than 90d --dry-run"
)
@table_argument
@click.option(
    "--older-than",
    type=AGE,
    help="How long ago the time of a partition is, as in 90d. Default: the table's option.",
)
@click.option("--pattern", metavar="TEXT", help="The parts of the time, as in '$day $hour:00:00'.")
@click.option("--formatter", metavar="TEXT", help="The format of the time in Java's letters, as in yyyyMMdd.")
@click.option("--at-most", type=int, metavar="N", help="How many partitions are dropped at most.")
@click.option(
    "--strategy",
    type=click.Choice(["values-time", "update-time"]),
    help="What the time of a partition is: its values, or its newest file. Default: the table's option.",
)
@_DRY_RUN
@json_option
@click.pass_context
def expire_partitions(
    context: click.Context,
    *,
    table: str,
    older_than: timedelta | None,
    pattern: str | None,
    formatter: str | None,
    at_most: int | None,
    strategy: str | None,
    dry_run: bool,
) -> None:
    """Delete the rows of partitions of TABLE whose time is too long ago, in one commit."""
    report = open_table(context, table).expire_partitions(
        older_than, pattern=pattern, formatter=formatter, at_most=at_most, strategy=strategy, dry_run=dry_run
    )
    print_report(report, as_json=is_json(context))


COMMANDS: Final = {
    "delete": delete,
    "update": update,
    "truncate": truncate,
    "drop-partitions": drop_partitions,
    "expire-partitions": expire_partitions,
}
