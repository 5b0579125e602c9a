"""Verbs on many tables: in the name of one, `*`, `?` and `[…]` stand for others.

Tables are taken by name, one after the other; one that fails is told and stops no other.
"""

from collections.abc import Callable

import click

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.cli.arguments import is_pattern
from lakehouse_core.cli.failures import error_text, exit_code, print_failure, worst
from lakehouse_core.cli.output import print_json
from lakehouse_core.cli.session import is_json, open_catalog
from lakehouse_core.errors import LakehouseError


def matching(catalog: Catalog, pattern: str) -> list[str]:
    """Return the names of the tables that fit, sorted; without a dot those of all databases that fit.

    Raises NotFound when there is none.
    """
    database, _, tables = pattern.partition(".")
    return catalog.matching(tables or "*", database=database)


def on_each(context: click.Context, name: str, verb: Callable[[Table], int | None]) -> int:
    """Run the verb on the table of that name, or on each that the pattern fits; return the worst exit code."""
    catalog = open_catalog(context)
    if not is_pattern(name):
        return verb(catalog.table(name)) or 0
    codes = []
    for found in matching(catalog, name):
        try:
            codes.append(verb(catalog.table(found)) or 0)
        except LakehouseError as error:
            codes.append(exit_code(error))
            text = error_text(error)
            if is_json(context):
                print_json({"table": found, "error": text, "exit_code": codes[-1]})
            else:
                click.echo(f"{found}: failed, exit code {codes[-1]}")
            print_failure(text)
    return worst(codes)
