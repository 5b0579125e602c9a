"""Options that several verbs share, and the parsing of their texts."""

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any, Final, TypeVar

import click

from lakehouse_core.cli.arguments import TAG
from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.options.units import parse_duration
from lakehouse_core.planning.read.read_point import AsOf, AtSnapshot, AtTag, Latest, ReadPoint, parse_time

F = TypeVar("F", bound=Callable[..., Any])
# More than any table has.
_MOST_ROWS: Final = (1 << 63) - 1


class RowCount(click.ParamType[int]):
    """A number of rows, 0 or more."""

    name = "number of rows"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, at most what any table has."""
        try:
            number = int(value)
        except ValueError:
            number = -1
        if number < 0:
            self.fail(f"{value!r}: expected a number of rows, 0 or more", param, ctx)
        return min(number, _MOST_ROWS)


ROW_COUNT: Final = RowCount()


def _remember_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().obj["json"] = True


def json_option(command: F) -> F:
    """Take --json after the verb too."""
    option = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_remember_json,
        help="One JSON object per line on standard output.",
    )
    return option(command)


def point_options(command: F) -> F:
    """Take --snapshot, --tag and --as-of."""
    command = click.option(
        "--as-of",
        "as_of",
        metavar="TIME",
        help="The newest snapshot at this time, as in 2013-01-31T12:00:00Z. UTC unless it has a zone.",
    )(command)
    command = click.option("--tag", type=TAG, metavar="NAME", help="The snapshot of this tag.")(command)
    return click.option("--snapshot", type=int, metavar="N", help="The snapshot with this id.")(command)


def given_point(snapshot: int | None, tag: str | None, as_of: str | None) -> ReadPoint | None:
    """Return the read point of the options; None when none is given. Raises InvalidRequest for more than one."""
    if sum(each is not None for each in (snapshot, tag, as_of)) > 1:
        raise InvalidRequest("Give only one of --snapshot, --tag and --as-of.")
    if snapshot is not None:
        return AtSnapshot(snapshot)
    if tag is not None:
        return AtTag(tag)
    return None if as_of is None else AsOf(parse_time(as_of))


def read_point(snapshot: int | None, tag: str | None, as_of: str | None) -> ReadPoint:
    """Return the read point of the options; the latest when none is given. Raises InvalidRequest for more than one."""
    return given_point(snapshot, tag, as_of) or Latest()


def rollback_point(text: str, tags: Collection[str]) -> ReadPoint:
    """Return the state that `--to` names: a tag of the table, else a snapshot in digits, else a time.

    Raises InvalidRequest for another text.
    """
    if text in tags:
        return AtTag(text)
    if text.isascii() and text.isdigit() and len(text) <= len(str(2**63)):
        return AtSnapshot(int(text))
    try:
        return AsOf(parse_time(text))
    except InvalidRequest as error:
        known = f"The tags are: {', '.join(sorted(tags))}." if tags else "The table has no tags."
        raise InvalidRequest(
            f"--to {shown(text)}: expected the id of a snapshot, the name of a tag, or a time. {known}"
        ) from error


class Age(click.ParamType[timedelta]):
    """A duration such as 1h, 30 min or 7d. A number without a unit, which table options read as milliseconds, is
    refused.
    """

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        assert param is not None, "only options have this type"
        option, text = param.opts[0], str(value).strip()
        if text.isdigit():
            raise InvalidRequest(f"Option {option} is {value!r}: expected a unit. Write it, as in {text} min.")
        try:
            return timedelta(milliseconds=parse_duration(option, value))
        except OverflowError as error:
            raise InvalidRequest(f"Option {option} is {value!r}: expected at most {timedelta.max.days} d.") from error


AGE: Final = Age()
