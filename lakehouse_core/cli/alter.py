"""alter: apply schema changes to a table in one alteration, all or none.

Each step takes its own words and options; the next word begins the next step: `add-column note STRING --after status
set a=1`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import click

from lakehouse_core.api.table import Table
from lakehouse_core.cli.arguments import COLUMN, tables_argument
from lakehouse_core.cli.help import Verb, VerbGroup
from lakehouse_core.cli.many import on_each
from lakehouse_core.cli.options import json_option
from lakehouse_core.cli.output import print_report
from lakehouse_core.cli.session import is_json
from lakehouse_core.errors import InvalidRequest, near_hint
from lakehouse_core.planning.alter.schema_change import (
    AddColumn,
    Column,
    DropColumn,
    MoveColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
)
from lakehouse_core.table.schema import TableSchema

# Which column a text names depends on the columns that there are.
Make: TypeAlias = Callable[[TableSchema], SchemaChange]


class AlterVerb(Verb):
    """A verb that takes exactly its own arguments; the words after them are the next step."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        count = self._own_count(args)
        # Its options may stand between its words, and behind them.
        extra = {name: value for name, value in extra.items() if not name.startswith("allow_")}
        context = super().make_context(info_name, args[:count], parent, **extra)
        context.args = args[count:]
        return context

    def _own_count(self, args: Sequence[str]) -> int:
        takes_value = {name: not option.is_flag for option in self._options() for name in option.opts}
        left = sum(parameter.nargs for parameter in self.params if isinstance(parameter, click.Argument))
        index = 0
        while index < len(args):
            word = args[index]
            if word in takes_value or (word.startswith("--") and word != "--"):
                index += 1 + takes_value.get(word, False)
            elif left:
                # nargs is -1 where a step takes any number: of the words that name no step.
                if left < 0 and word in STEPS:
                    break
                left -= left > 0
                index += 1
            else:
                break
        return min(index, len(args))

    def _options(self) -> list[click.Option]:
        return [parameter for parameter in self.params if isinstance(parameter, click.Option)]


class Steps(VerbGroup):
    """The steps of one alteration. Options may also follow the table."""

    command_class = AlterVerb

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        count = next((index for index, word in enumerate(args[1:], 1) if not word.startswith("-")), len(args))
        return super().parse_args(ctx, [*args[1:count], *args[:1], *args[count:]])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in STEPS and not word.startswith("-"):
            quoted = " A type of several words is in quotes, as in 'INT NOT NULL'."
            ctx.fail(
                f"{word!r} is not a step. "
                + near_hint(word, STEPS, f"The steps are {', '.join(self.commands)}.{quoted}", most=1, cutoff=0.7)
            )
        return super().resolve_command(ctx, args)


@click.group(
    "alter",
    cls=Steps,
    chain=True,
    subcommand_metavar="STEP...",
    epilog="lakehouse alter sales.orders add-column note STRING --after status set write-buffer-size=64mb\n"
    "lakehouse alter 'sales.*' set snapshot.num-retained.max=20",
)
@tables_argument
@json_option
def alter(*, table: str) -> None:
    """Change the schema of TABLE, or of all tables that match a pattern: all steps or none.

    A path names a nested field, as in address.city. In a path, `element` is the element of an array and `value` is the
    value of a map.
    """


@alter.result_callback()
@click.pass_context
def _apply(context: click.Context, results: Sequence[Sequence[Make]], *, table: str) -> int:
    def verb(opened: Table) -> None:
        schema = opened.schema
        changes = [make(schema) for step in results for make in step]
        print_report(opened.alter(*changes), as_json=is_json(context))

    return on_each(context, table, verb)


@alter.command("add-column", epilog='lakehouse alter sales.orders add-column total "DECIMAL(12, 2)" --after amount')
@click.argument("name")
@click.argument("type", metavar="TYPE")
@click.option("--first", is_flag=True, help="As the first column.")
@click.option("--after", type=COLUMN, metavar="NAME", help="After this column. Default: at the end.")
@click.option("--before", type=COLUMN, metavar="NAME", help="Before this column.")
@click.option("--comment", metavar="TEXT", help="The comment of the column.")
@json_option
def add_column(
    *, name: str, type: str, first: bool, after: str | None, before: str | None, comment: str | None
) -> list[Make]:
    """Add a column NAME of the SQL type TYPE. Existing rows have null in it."""
    return [lambda schema: AddColumn(_path(name), type, comment=comment, first=first, after=after, before=before)]


@alter.command("drop-column", epilog="lakehouse alter sales.orders drop-column note")
@click.argument("name", type=COLUMN)
@json_option
def drop_column(*, name: str) -> list[Make]:
    """Drop the column NAME. Existing files keep its values."""
    return [lambda schema: DropColumn(_column(schema, name))]


@alter.command("rename-column", epilog="lakehouse alter sales.orders rename-column note remark")
@click.argument("name", type=COLUMN)
@click.argument("new", metavar="NEW")
@json_option
def rename_column(*, name: str, new: str) -> list[Make]:
    """Rename the column NAME to NEW."""
    return [lambda schema: RenameColumn(_column(schema, name), new)]


@alter.command("move-column", epilog="lakehouse alter sales.orders move-column note --after status")
@click.argument("name", type=COLUMN)
@click.option("--first", is_flag=True, help="To the first place.")
@click.option("--last", is_flag=True, help="To the last place.")
@click.option("--after", type=COLUMN, metavar="NAME", help="After this column.")
@click.option("--before", type=COLUMN, metavar="NAME", help="Before this column.")
@json_option
def move_column(*, name: str, first: bool, last: bool, after: str | None, before: str | None) -> list[Make]:
    """Move the column NAME."""
    return [lambda schema: MoveColumn(name, first=first, last=last, after=after, before=before)]


@alter.command("change-type", epilog="lakehouse alter sales.orders change-type quantity BIGINT")
@click.argument("name", type=COLUMN)
@click.argument("type", metavar="TYPE")
@json_option
def change_type(*, name: str, type: str) -> list[Make]:
    """Change the type of the column NAME to the SQL type TYPE, for reads and writes."""
    return [lambda schema: UpdateColumnType(_column(schema, name), type)]


@alter.command("set-not-null", epilog="lakehouse alter sales.orders set-not-null status")
@click.argument("name", type=COLUMN)
@json_option
def set_not_null(*, name: str) -> list[Make]:
    """Forbid nulls in the column NAME. An option of the table has to allow this change."""
    return [lambda schema: UpdateColumnNullability(_column(schema, name), False)]


@alter.command("drop-not-null", epilog="lakehouse alter sales.orders drop-not-null status")
@click.argument("name", type=COLUMN)
@json_option
def drop_not_null(*, name: str) -> list[Make]:
    """Allow nulls in the column NAME."""
    return [lambda schema: UpdateColumnNullability(_column(schema, name), True)]


@alter.command(
    "set-default",
    epilog="lakehouse alter sales.orders set-default status new",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("name", type=COLUMN)
@click.argument("value")
@json_option
def set_default(*, name: str, value: str) -> list[Make]:
    """Set the default of the column NAME: later writes replace its nulls by VALUE."""
    return [lambda schema: UpdateColumnDefault(name, value)]


@alter.command("drop-default", epilog="lakehouse alter sales.orders drop-default status")
@click.argument("name", type=COLUMN)
@json_option
def drop_default(*, name: str) -> list[Make]:
    """Drop the default of the column NAME: later writes keep its nulls."""
    return [lambda schema: UpdateColumnDefault(name, None)]


@alter.command("comment", epilog='lakehouse alter sales.orders comment "One row per order."')
@click.argument("text")
@click.option("--column", type=COLUMN, metavar="NAME", help="Comment on this column instead of the table.")
@json_option
def comment(*, text: str, column: str | None) -> list[Make]:
    """Set the comment of the table to TEXT; an empty TEXT removes it."""
    if column is None:
        return [lambda schema: UpdateComment(text or None)]
    return [lambda schema: UpdateColumnComment(_column(schema, column), text or None)]


@alter.command("set", epilog="lakehouse alter sales.orders set write-buffer-size=64mb file.compression=zstd")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@json_option
def set_options(*, settings: tuple[str, ...]) -> list[Make]:
    """Set options of the table."""
    pairs = []
    for text in settings:
        key, equals, value = text.partition("=")
        if not (equals and key):
            raise InvalidRequest(f"set {text!r}: expected KEY=VALUE, as in bucket=8.")
        pairs.append((key, value))
    return [_always(SetOption(key, value)) for key, value in pairs]


@alter.command("unset", epilog="lakehouse alter sales.orders unset write-buffer-size")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@json_option
def unset_options(*, keys: tuple[str, ...]) -> list[Make]:
    """Remove options of the table, so that their defaults apply."""
    return [_always(RemoveOption(key)) for key in keys]


STEPS: Final = frozenset(alter.commands)


def _always(change: SchemaChange) -> Make:
    return lambda schema: change


def _column(schema: TableSchema, text: str) -> Column:
    """Return a name, or the path to a nested field where no column has the text for its name."""
    return text if schema.has_field(text) else _path(text)


def _path(text: str) -> Column:
    parts = tuple(text.split("."))
    return text if len(parts) == 1 else parts


COMMANDS: Final = {"alter": alter}
