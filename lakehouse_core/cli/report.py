"""report: write the health page of a table, or of many."""

from pathlib import Path
from typing import Final

import click

from lakehouse_core.api.health.facts import HealthFacts
from lakehouse_core.api.health.page import health_page
from lakehouse_core.api.table import Table
from lakehouse_core.cli.help import Verb
from lakehouse_core.cli.many import on_each
from lakehouse_core.cli.options import json_option
from lakehouse_core.cli.output import print_json
from lakehouse_core.cli.session import is_json
from lakehouse_core.errors import InvalidRequest


@click.command(
    "report",
    cls=Verb,
    epilog="lakehouse report sales.orders -o orders.html\nlakehouse report 'sales.*' -o sales.html",
)
@click.argument("table", default="*")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The HTML file to write.")
@json_option
@click.pass_context
def report(context: click.Context, *, table: str, output: Path) -> int:
    """Write a page about the health of TABLE, of the tables that match, or of all.

    The page shows sorted runs by bucket and level, files by size, snapshots over time, the last commits and what
    maintenance is due. It is made from metadata, and needs no network.
    """
    found: list[HealthFacts] = []

    def collect(opened: Table) -> int:
        found.append(opened.health())
        return 0

    code = on_each(context, table, collect)
    try:
        output.write_text(health_page(found), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(
            f"{output}: cannot be written ({error.strerror or error}). Name a file in a folder that exists."
        ) from error
    due = sum(bool(each.due) for each in found)
    if is_json(context):
        print_json({"output": str(output), "tables": len(found), "tables_due": due})
    else:
        click.echo(f"{output}: {len(found)} table{'s' if len(found) != 1 else ''}, maintenance due for {due}")
    return code


COMMANDS: Final = {"report": report}
