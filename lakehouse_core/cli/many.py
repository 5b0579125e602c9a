"""Verbs on many tables: in a table name, `*`, `?` and `[…]` are a pattern.

Tables are processed by name, one after the other. When one fails, its error is printed and the others continue.
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
    """Return the names of the tables that match, sorted. A pattern without a dot matches databases.

    Raises NotFound when no table matches.
    """
    database, _, tables = pattern.partition(".")
    return catalog.matching(tables or "*", database=database)


def on_each(context: click.Context, name: str, verb: Callable[[Table], int | None]) -> int:
    """Run the verb on the named table, or on each table that the pattern matches. Return the most severe exit code."""
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
