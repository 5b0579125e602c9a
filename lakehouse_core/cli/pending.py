"""pending list, pending forget: the staged commits that a table keeps until they are committed."""

from typing import Final

import click

from lakehouse_core.cli.arguments import table_argument
from lakehouse_core.cli.help import VerbGroup
from lakehouse_core.cli.options import json_option
from lakehouse_core.cli.output import print_records
from lakehouse_core.cli.session import is_json, open_table
from lakehouse_core.errors import NotFound


@click.group("pending", cls=VerbGroup, epilog="lakehouse pending list sales.orders")
def pending() -> None:
    """List the staged commits that a table keeps, and remove one."""


@pending.command("list", epilog="lakehouse pending list sales.orders --json")
@table_argument
@json_option
@click.pass_context
def list_pending(context: click.Context, *, table: str) -> None:
    """List the staged commits of TABLE, with the reason of those that cannot be committed."""
    print_records(open_table(context, table).pending_commits(), as_json=is_json(context))


@pending.command("forget", epilog="lakehouse pending forget sales.orders pipeline/feed 20130105")
@table_argument
@click.argument("user")
@click.argument("identifier", type=int)
@click.pass_context
def forget(context: click.Context, *, table: str, user: str, identifier: int) -> None:
    """Remove a staged commit of TABLE. Its rows are lost unless they are staged again."""
    opened = open_table(context, table)
    kept = {(each.commit_user, each.commit_identifier): each for each in opened.pending_commits()}
    found = kept.get((user, identifier))
    if found is None:
        there = ", ".join(f"{name} {number}" for name, number in kept) or "none"
        raise NotFound(f"{table}: no commit of {user} {identifier} is staged. There are: {there}.")
    opened.forget_pending(found)
    click.echo(f"{table}: the staged commit {user} {identifier} is removed")


COMMANDS: Final = {"pending": pending}
