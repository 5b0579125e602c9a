"""Days and times since 1970 in the proleptic Gregorian calendar, of any year."""

import datetime
from typing import Final

# Milliseconds since 1970, nanoseconds of the millisecond.
Timestamp = tuple[int, int]

MILLIS_PER_DAY: Final = 86_400_000
# As `date.toordinal` counts days, from the year 1.
EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_DAYS_PER_400_YEARS: Final = 146_097


def days_of(year: int, month: int, day: int) -> int:
    """Return days since 1970-01-01 in the proleptic Gregorian calendar; any year. Raises ValueError for no such day."""
    cycles, year_in_cycle = divmod(year - 1, 400)
    ordinal = datetime.date(year_in_cycle + 1, month, day).toordinal()
    return ordinal + cycles * _DAYS_PER_400_YEARS - EPOCH_DAY


def date_of(days: int) -> tuple[int, int, int]:
    """Return (year, month, day) of days since 1970-01-01; any year."""
    cycles, day_in_cycle = divmod(days + EPOCH_DAY - 1, _DAYS_PER_400_YEARS)
    date = datetime.date.fromordinal(day_in_cycle + 1)
    return date.year + cycles * 400, date.month, date.day


def split_nanos(nanos: int) -> Timestamp:
    """Return nanoseconds since 1970 as a timestamp."""
    millis, rest = divmod(nanos, 1_000_000)
    return millis, rest
