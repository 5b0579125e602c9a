"""Time zones: the names of zones that options hold, as Java's `ZoneId.of` reads them, and local times.

Source: the documentation of java.time.ZoneId and ZoneOffset.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE: Final = datetime(1970, 1, 1)
_PREFIXED: Final = re.compile(r"(UTC|GMT|UT)?([+-].*)?")
# +h, +hh, +hh:mm, +hhmm, +hh:mm:ss or +hhmmss.
_OFFSET: Final = re.compile(r"([+-])(\d|\d\d(?::(\d\d)(?::(\d\d))?|(\d\d)(\d\d)?)?)", re.ASCII)
_MOST_OFFSET: Final = timedelta(hours=18)
_MILLI: Final = timedelta(milliseconds=1)


def zone_of(text: str) -> tzinfo | None:
    """Return the zone of this name or offset, such as Europe/Berlin, GMT-08:00 or Z; None if there is none."""
    if text == "Z":
        return UTC
    if (match := _PREFIXED.fullmatch(text)) is not None and text:
        return UTC if match[2] is None else _offset(match[2])
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        return None


def local_millis(millis: int, zone: tzinfo) -> int | None:
    """Return the wall clock of a zone, counted as UTC, at a time since the epoch; None beyond the years 1 to 9999."""
    try:
        local = (_EPOCH + timedelta(milliseconds=millis)).astimezone(zone)
    except OverflowError:
        return None
    return (local.replace(tzinfo=None) - _EPOCH_WITHOUT_ZONE) // _MILLI


def _offset(text: str) -> tzinfo | None:
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    hours = int(match[2][:2].rstrip(":"))
    minutes, seconds = int(match[3] or match[5] or 0), int(match[4] or match[6] or 0)
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if max(minutes, seconds) > 59 or offset > _MOST_OFFSET:
        return None
    return timezone(offset if match[1] == "+" else -offset)
