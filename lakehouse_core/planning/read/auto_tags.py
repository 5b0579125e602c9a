"""Tags that a clock makes: their names are times.

A name tells alone; who made the tag is not recorded.
Source: docs/semantics/reading.md#increments.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from lakehouse_core.options.units import parse_word

_HOURLY: Final = {
    "with_dashes": r"(\d{4})-(\d\d)-(\d\d) (\d\d)",
    "without_dashes": r"(\d{4})(\d\d)(\d\d) (\d\d)",
    "without_dashes_and_spaces": r"(\d{4})(\d\d)(\d\d)(\d\d)",
}
_DAILY: Final = {
    "with_dashes": r"(\d{4})-(\d\d)-(\d\d)(?: .*)?",
    "without_dashes": r"(\d{4})(\d\d)(\d\d)(?: .*)?",
    "without_dashes_and_spaces": r"(\d{4})(\d\d)(\d\d)(?: .*)?",
}
_BY_MINUTES: Final = r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)"


def auto_tag_time(name: str, options: Mapping[str, str]) -> datetime | None:
    """Return the time that the name of an automatic tag means, on the local clock of who made it; None for others."""
    match = re.fullmatch(_pattern(options), name)
    if match is None:
        return None
    try:
        return datetime(*map(int, match.groups()))  # type: ignore[arg-type]
    except ValueError:
        return None


def previous_auto_tag(name: str, names: Iterable[str], options: Mapping[str, str]) -> str | None:
    """Return of the automatic tags among `names` the last one before `name`, which is one; None for the first."""
    end = auto_tag_time(name, options)
    assert end is not None
    times = ((auto_tag_time(other, options), other) for other in names)
    return max(((time, other) for time, other in times if time is not None and time < end), default=(None, None))[1]


def _pattern(options: Mapping[str, str]) -> str:
    if "tag.creation-period-duration" in options:
        return _BY_MINUTES
    period = parse_word("tag.creation-period", options.get("tag.creation-period", "daily"), _PERIODS)
    formatter = parse_word("tag.period-formatter", options.get("tag.period-formatter", "with_dashes"), tuple(_HOURLY))
    if period == "two-hours":
        return _HOURLY["with_dashes"]
    return (_DAILY if period == "daily" else _HOURLY)[formatter]


_PERIODS: Final = ("daily", "hourly", "two-hours")
