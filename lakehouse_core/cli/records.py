"""snapshots, partitions, files, manifests, tags, schemas: the verbs that list the parts of a table."""

from typing import Final

import click

from lakehouse_core.cli.arguments import table_argument
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.options import json_option, point_options, read_point
from lakehouse_core.cli.output import print_records
from lakehouse_core.cli.session import is_json, open_table


@click.command("snapshots", cls=Verb, epilog="lakehouse snapshots sales.orders")
@table_argument
@json_option
@click.pass_context
def snapshots(context: click.Context, *, table: str) -> None:
    """List the snapshots of TABLE, oldest first."""
    print_records(open_table(context, table).snapshots(), as_json=is_json(context))


@click.command("partitions", cls=Verb, epilog="lakehouse partitions sales.orders --tag eod")
@table_argument
@point_options
@json_option
@click.pass_context
def partitions(context: click.Context, *, table: str, snapshot: int | None, tag: str | None, as_of: str | None) -> None:
    """List the partitions of TABLE with the rows and bytes of their files."""
    found = open_table(context, table).partitions(at=read_point(snapshot, tag, as_of))
    print_records(found, as_json=is_json(context))


@click.command("files", cls=Verb, epilog="lakehouse files sales.orders --tag eod")
@table_argument
@point_options
@click.option("--stats", is_flag=True, help="Add the bounds and null counts of columns (only --json shows them).")
@json_option
@click.pass_context
def files(
    context: click.Context, *, table: str, snapshot: int | None, tag: str | None, as_of: str | None, stats: bool
) -> None:
    """List the live data files of TABLE."""
    found = open_table(context, table).files(at=read_point(snapshot, tag, as_of), stats=stats)
    print_records(found, as_json=is_json(context))


@click.command("manifests", cls=Verb, epilog="lakehouse manifests sales.orders --snapshot 12")
@table_argument
@point_options
@json_option
@click.pass_context
def manifests(context: click.Context, *, table: str, snapshot: int | None, tag: str | None, as_of: str | None) -> None:
    """List the manifests of TABLE."""
    found = open_table(context, table).manifests(at=read_point(snapshot, tag, as_of))
    print_records(found, as_json=is_json(context))


@click.command("tags", cls=Verb, epilog="lakehouse tags sales.orders")
@table_argument
@json_option
@click.pass_context
def tags(context: click.Context, *, table: str) -> None:
    """List the tags of TABLE."""
    print_tags(context, table)


def print_tags(context: click.Context, table: str) -> None:
    """Print the tags of a table."""
    print_records(open_table(context, table).tags(), as_json=is_json(context))


@click.command("schemas", cls=Verb, epilog="lakehouse schemas sales.orders --json")
@table_argument
@json_option
@click.pass_context
def schemas(context: click.Context, *, table: str) -> None:
    """List the versions of the schema of TABLE."""
    print_records(open_table(context, table).schemas(), as_json=is_json(context))


COMMANDS: Final = {
    "snapshots": snapshots,
    "partitions": partitions,
    "files": files,
    "manifests": manifests,
    "tags": tags,
    "schemas": schemas,
}
