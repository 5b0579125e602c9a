"""branch, branches: create, rename, fast-forward, delete and list the branches of a table."""

from typing import Final

import click

from lakehouse_core.cli.arguments import BRANCH, table_argument
from lakehouse_core.cli.help import Verb, VerbGroup
from lakehouse_core.cli.options import given_point, json_option, point_options
from lakehouse_core.cli.output import print_records, print_report
from lakehouse_core.cli.session import is_json, open_table

_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")


@click.group("branch", cls=VerbGroup, epilog="lakehouse branch create sales.orders trial --tag eod")
def branch() -> None:
    """Create, rename, fast-forward, delete and list branches."""


@branch.command(
    "create",
    epilog="lakehouse branch create sales.orders trial --tag eod\nlakehouse branch create sales.orders empty",
)
@table_argument
@click.argument("name")
@point_options
@_DRY_RUN
@json_option
@click.pass_context
def create_branch(
    context: click.Context,
    *,
    table: str,
    name: str,
    snapshot: int | None,
    tag: str | None,
    as_of: str | None,
    dry_run: bool,
) -> None:
    """Create a branch of TABLE that begins with a state. Without one it has no rows."""
    point = given_point(snapshot, tag, as_of)
    report = open_table(context, table).create_branch(name, at=point, dry_run=dry_run)
    print_report(report, as_json=is_json(context))


@branch.command("rename", epilog="lakehouse branch rename sales.orders trial tried")
@table_argument
@click.argument("name", type=BRANCH)
@click.argument("new_name", metavar="NEW")
@_DRY_RUN
@json_option
@click.pass_context
def rename_branch(context: click.Context, *, table: str, name: str, new_name: str, dry_run: bool) -> None:
    """Give a branch of TABLE the name NEW, which no branch had before."""
    report = open_table(context, table).rename_branch(name, new_name, dry_run=dry_run)
    print_report(report, as_json=is_json(context))


@branch.command("forward", epilog="lakehouse branch forward sales.orders trial --dry-run")
@table_argument
@click.argument("name", type=BRANCH)
@_DRY_RUN
@json_option
@click.pass_context
def forward_branch(context: click.Context, *, table: str, name: str, dry_run: bool) -> None:
    """Give TABLE the rows and schemas of a branch, in a new snapshot."""
    report = open_table(context, table).fast_forward(name, dry_run=dry_run)
    print_report(report, as_json=is_json(context))


@branch.command("delete", epilog="lakehouse branch delete sales.orders trial --dry-run")
@table_argument
@click.argument("name", type=BRANCH)
@_DRY_RUN
@json_option
@click.pass_context
def delete_branch(context: click.Context, *, table: str, name: str, dry_run: bool) -> None:
    """Delete a branch of TABLE, and the files that only the branch keeps."""
    report = open_table(context, table).delete_branch(name, dry_run=dry_run)
    print_report(report, as_json=is_json(context))


@branch.command("list", epilog="lakehouse branch list sales.orders")
@table_argument
@json_option
@click.pass_context
def list_branches(context: click.Context, *, table: str) -> None:
    """List the branches of TABLE, as the verb branches does."""
    _print_branches(context, table)


@click.command("branches", cls=Verb, epilog="lakehouse branches sales.orders")
@table_argument
@json_option
@click.pass_context
def branches(context: click.Context, *, table: str) -> None:
    """List the branches of TABLE."""
    _print_branches(context, table)


def _print_branches(context: click.Context, table: str) -> None:
    print_records(open_table(context, table).branches(), as_json=is_json(context))


COMMANDS: Final = {
    "branches": branches,
    "branch": branch,
}
