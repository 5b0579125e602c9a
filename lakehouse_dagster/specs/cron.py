"""Cron schedules: five fields, checked when a specification is read.

Rule: what is accepted here, Dagster accepts.
"""

from datetime import date, timedelta
from functools import cache
from itertools import pairwise
from typing import Annotated, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class _Field(NamedTuple):
    """A field of a schedule: its lowest and highest number, and names for its numbers from the lowest on."""

    what: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _DAYS),
)
# Every combination of a weekday and a leap year occurs in 28 years.
_FIRST, _YEARS = date(2000, 1, 1), 28
_SHORTEST_MONTH = 28


def _cron(text: str) -> str:
    # Any other month and day come every year.
    if min(_parsed(text)[2]) > _SHORTEST_MONTH and not _days(text):
        raise ValueError(f"found {text!r}, which is never due. Correct the day of the month, or the month")
    return " ".join(text.split())


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"found {name!r}, expected the name of a time zone, such as 'Europe/Berlin'") from error
    return name


Cron: TypeAlias = Annotated[str, AfterValidator(_cron)]
Timezone: TypeAlias = Annotated[str, AfterValidator(_timezone)]


@cache
def shortest_interval(text: str) -> timedelta:
    """Return the shortest time between two ticks of a schedule."""
    minutes, hours, *_ = _parsed(text)
    times = sorted(hour * 60 + minute for hour in hours for minute in minutes)
    gaps = [timedelta(minutes=later - earlier) for earlier, later in pairwise(times)]
    night = timedelta(minutes=times[-1] - times[0])
    return min([*gaps, *(later - earlier - night for earlier, later in pairwise(_days(text)))])


@cache
def _days(text: str) -> list[date]:
    """Return the days of some years on which a schedule is due."""
    _, _, days, months, weekdays = _parsed(text)
    # Where the days of the month and of the week are both restricted, either suffices.
    fits = any if not any(text.split()[place].startswith("*") for place in (2, 4)) else all
    numbered = {number % 7 for number in weekdays}
    return [
        day
        for day in (_FIRST + timedelta(days=place) for place in range(_YEARS * 366))
        if day.month in months and fits((day.day in days, day.isoweekday() % 7 in numbered))
    ]


def _parsed(text: str) -> list[set[int]]:
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"found {text!r}, expected the five fields of a cron schedule, such as '0 6 * * *': minute, hour, day of "
            "the month, month, day of the week"
        )
    return [
        {number for part in words.split(",") for number in _numbers(text, part, field)}
        for words, field in zip(fields, _FIELDS, strict=True)
    ]


def _numbers(text: str, part: str, field: _Field) -> range:
    """Return the numbers of a part of a field: `*`, a number, or a range of them, maybe with a step."""
    whole, slash, step = part.partition("/")
    first, dash, last = whole.partition("-")
    low, high = field.low, field.high
    if whole != "*":
        low = _number(first, field)
        # `5/10` means every tenth from the fifth on.
        high = _number(last, field) if dash else high if slash else low
    steps = (int(step) if step.isdecimal() else 0) if slash else 1
    if steps == 0 or not field.low <= low <= high <= field.high:
        raise ValueError(
            f"found {text!r}: {field.what} {part!r}, expected numbers from {field.low} to {field.high}, as in "
            f"'{field.low}', '*' or '*/2'"
        )
    return range(low, high + 1, steps)


def _number(word: str, field: _Field) -> int:
    """Return a number, or the number of a name; -1 for any other word."""
    if word.lower() in field.names:
        return field.low + field.names.index(word.lower())
    return int(word) if word.isascii() and word.isdecimal() else -1
