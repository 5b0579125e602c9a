"""Automatic tags: tags with a time as their name.

Only the name shows that a tag is automatic; its writer is not recorded.
Source: docs/semantics/reading.md#increments.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from lakehouse_core.options import AutoTagOptions, TagFormatter, TagPeriod

_HOURLY: Final = {
    TagFormatter.WITH_DASHES: r"(\d{4})-(\d\d)-(\d\d) (\d\d)",
    TagFormatter.WITHOUT_DASHES: r"(\d{4})(\d\d)(\d\d) (\d\d)",
    TagFormatter.WITHOUT_DASHES_AND_SPACES: r"(\d{4})(\d\d)(\d\d)(\d\d)",
}
_DAILY: Final = {
    TagFormatter.WITH_DASHES: r"(\d{4})-(\d\d)-(\d\d)(?: .*)?",
    TagFormatter.WITHOUT_DASHES: r"(\d{4})(\d\d)(\d\d)(?: .*)?",
    TagFormatter.WITHOUT_DASHES_AND_SPACES: r"(\d{4})(\d\d)(\d\d)(?: .*)?",
}
_BY_MINUTES: Final = r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)"


def auto_tag_time(name: str, options: AutoTagOptions) -> datetime | None:
    """Return the time in an automatic tag's name, in the local time of its writer; None for other tags."""
    match = re.fullmatch(_pattern(options), name)
    if match is None:
        return None
    try:
        return datetime(*map(int, match.groups()))  # type: ignore[arg-type]
    except ValueError:
        return None


def previous_auto_tag(name: str, names: Iterable[str], options: AutoTagOptions) -> str | None:
    """Return the last automatic tag in `names` before `name`; None if there is none. REQUIRES: `name` is automatic."""
    end = auto_tag_time(name, options)
    assert end is not None
    times = ((auto_tag_time(other, options), other) for other in names)
    return max(((time, other) for time, other in times if time is not None and time < end), default=(None, None))[1]


def _pattern(options: AutoTagOptions) -> str:
    if options.by_minutes:
        return _BY_MINUTES
    if options.period is TagPeriod.TWO_HOURS:
        return _HOURLY[TagFormatter.WITH_DASHES]
    return (_DAILY if options.period is TagPeriod.DAILY else _HOURLY)[options.formatter]
