"""copy."""

from typing import Final

import click

from lakehouse_core.api.table import Table
from lakehouse_core.cli.arguments import is_pattern, tables_argument
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.many import on_each
from lakehouse_core.cli.options import json_option
from lakehouse_core.cli.output import print_report
from lakehouse_core.cli.session import is_json, progress_bar, target_catalog
from lakehouse_core.errors import InvalidRequest


@click.command(
    "copy",
    cls=Verb,
    epilog="lakehouse copy sales.orders s3://lake/warehouse\nlakehouse copy 'sales.*' /backup --snapshots 1 --no-tags",
)
@tables_argument
@click.argument("target", required=False)
@click.option("--target-profile", metavar="NAME", help="The profile of the target, in place of its address.")
@click.option("--as", "name", metavar="NAME", help="The name of the copy (database.table). Default: the table's name.")
@click.option("--snapshots", type=int, metavar="N", help="Only the newest snapshots. Default: all.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only this tag. Repeat for more. Default: all.")
@click.option("--no-tags", is_flag=True, help="No tag.")
@click.option("--branch", "branches", multiple=True, metavar="BRANCH", help="Only this branch beside main.")
@click.option("--no-branches", is_flag=True, help="No branch beside main.")
@click.option("--data", is_flag=True, help="Also read all data files of the copy at the end.")
@json_option
@click.pass_context
def copy(
    context: click.Context,
    *,
    table: str,
    target: str | None,
    target_profile: str | None,
    name: str | None,
    snapshots: int | None,
    tags: tuple[str, ...],
    no_tags: bool,
    branches: tuple[str, ...],
    no_branches: bool,
    data: bool,
) -> int:
    """Copy TABLE, or all tables that match a pattern, to the warehouse TARGET, and verify the copy.

    An interrupted copy is not a table; copying again goes on from the files that are there. The database is created
    where there is none. The exit code is 1 if verify finds anything.
    """
    if name is not None and is_pattern(table):
        raise InvalidRequest("--as names one copy, but a pattern may match many tables. Copy them one by one.")
    if (tags and no_tags) or (branches and no_branches):
        raise InvalidRequest("Give either names or none: --tag or --no-tags, --branch or --no-branches.")
    catalog = target_catalog(target, target_profile)

    def verb(opened: Table) -> int:
        database = (name or opened.name).partition(".")[0]
        catalog.create_database(database, exist_ok=True)
        with progress_bar(context) as progress:
            report = catalog.copy_table(
                opened,
                name,
                snapshots=snapshots,
                tags=[] if no_tags else list(tags) or None,
                branches=[] if no_branches else list(branches) or None,
                data=data,
                progress=progress,
            )
        print_report(report, as_json=is_json(context))
        return 1 if report.findings else 0

    return on_each(context, table, verb)


COMMANDS: Final = {"copy": copy}
