"""Arguments that a shell can complete: names of tables, tags and columns."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from lakehouse_core.api.table import Table
from lakehouse_core.catalog.names import is_system_name
from lakehouse_core.cli.session import open_catalog
from lakehouse_core.errors import InvalidRequest, LakehouseError, shown

F = TypeVar("F", bound=Callable[..., Any])


_PATTERN: Final = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Return whether the name is a pattern for many tables."""
    return not _PATTERN.isdisjoint(name)


def is_system(name: str) -> bool:
    """Return whether the name is that of a system table, such as sales.orders$files; a branch is not a system table."""
    return is_system_name(name)


class TableArgument(click.ParamType[str]):
    """The name of a table, completed from the warehouse. With `many`, the verb also takes a pattern.

    With `system`, the verb also takes a system table.
    """

    name = "table"

    def __init__(self, *, many: bool, system: bool) -> None:
        self._many = many
        self._system = system

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a pattern when the verb takes one table, and a system table when the verb needs a table with its own
        rows.
        """
        if is_pattern(value) and not self._many:
            raise InvalidRequest(
                f"{shown(value)} is a pattern for many tables, but this verb takes one table. Name one."
            )
        if is_system(value) and not self._system:
            base, _, _ = value.partition("$")
            raise InvalidRequest(
                f"{shown(value)} is a system table, which only `read` and `count` take. Name {shown(base)}."
            )
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the tables that begin with the typed text; none without a warehouse."""
        try:
            catalog = open_catalog(ctx)
            names = [f"{database}.{table}" for database in catalog.databases() for table in catalog.tables(database)]
        except LakehouseError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class TagName(click.ParamType[str]):
    """The name of a tag of the table in the words before it."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the tags that begin with the typed text; none without a table."""
        try:
            names = [tag.name for tag in _table_before(ctx).tags()]
        except LakehouseError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class BranchName(click.ParamType[str]):
    """The name of a branch of the table in the words before it."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the branches that begin with the typed text; none without a table."""
        try:
            names = [branch.name for branch in _table_before(ctx).branches()]
        except LakehouseError:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class ColumnName(click.ParamType[str]):
    """The name of a column of the table in the words before it.

    With `many`, the last name of a comma list is completed.
    """

    name = "name"

    def __init__(self, *, many: bool = False) -> None:
        self._many = many

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the columns that begin with the typed text; none without a table."""
        done, comma, begun = incomplete.rpartition(",") if self._many else ("", "", incomplete)
        try:
            names = _table_before(ctx).schema.column_names
        except LakehouseError:
            return []
        return [CompletionItem(f"{done}{comma}{name}") for name in names if name.startswith(begun)]


TAG: Final = TagName()
BRANCH: Final = BranchName()
COLUMN: Final = ColumnName()
COLUMNS: Final = ColumnName(many=True)


def _table_before(context: click.Context) -> Table:
    """Return the table that the words before name. Raises as `open_catalog` and `Catalog.table` do."""
    # The steps of an alteration stand behind a table that is not theirs.
    given = (each.params.get("table") for each in (context, context.parent) if each is not None)
    # Before an option that has no value yet nothing is parsed.
    name = next(filter(None, given), None) or next(iter(context.args), "")
    return open_catalog(context).table(name)


def table_argument(command: F) -> F:
    """Take TABLE, one table."""
    return click.argument("table", type=TableArgument(many=False, system=False))(command)


def tables_argument(command: F) -> F:
    """Take TABLE, one table or a pattern for many."""
    return click.argument("table", type=TableArgument(many=True, system=False))(command)


def readable_argument(command: F) -> F:
    """Take TABLE, one table or system table."""
    return click.argument("table", type=TableArgument(many=False, system=True))(command)


def countable_argument(command: F) -> F:
    """Take TABLE, one table, a pattern for many, or a system table."""
    return click.argument("table", type=TableArgument(many=True, system=True))(command)
