"""Automatic tags' names: times, as the options of a table say. Only the name shows that a tag is automatic.

Times are wall clocks in the zone of their writer, in milliseconds, counted as UTC.
Source: docs/semantics/maintenance.md#automatic-tags.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from lakehouse_core.options import TagFormatter, TagOptions, TagPeriod

_EPOCH: Final = datetime(1970, 1, 1)
_MILLI: Final = timedelta(milliseconds=1)

# What the names look like, and how Java also reads them: after a day may follow anything.
_HOURLY: Final = {
    TagFormatter.WITH_DASHES: ("{:%Y-%m-%d %H}", r"(\d{4})-(\d\d)-(\d\d) (\d\d)"),
    TagFormatter.WITHOUT_DASHES: ("{:%Y%m%d %H}", r"(\d{4})(\d\d)(\d\d) (\d\d)"),
    TagFormatter.WITHOUT_DASHES_AND_SPACES: ("{:%Y%m%d%H}", r"(\d{4})(\d\d)(\d\d)(\d\d)"),
}
_DAILY: Final = {
    TagFormatter.WITH_DASHES: ("{:%Y-%m-%d}", r"(\d{4})-(\d\d)-(\d\d)(?: .*)?"),
    TagFormatter.WITHOUT_DASHES: ("{:%Y%m%d}", r"(\d{4})(\d\d)(\d\d)(?: .*)?"),
    TagFormatter.WITHOUT_DASHES_AND_SPACES: ("{:%Y%m%d}", r"(\d{4})(\d\d)(\d\d)(?: .*)?"),
}
_BY_MINUTES: Final = ("{:%Y%m%d%H%M}", r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)")


def auto_tag_name(local_millis: int, options: TagOptions) -> str | None:
    """Return the name of the automatic tag of a time; None beyond the years 1 to 9999."""
    template, _ = _form(options)
    try:
        time = _EPOCH + local_millis * _MILLI
    except OverflowError:
        return None
    # Four digits also before the year 1000, where `%Y` has fewer on some platforms.
    return template.replace("%Y", f"{time.year:04}").format(time)


def auto_tag_time(name: str, options: TagOptions) -> int | None:
    """Return the time in an automatic tag's name; None for other tags."""
    match = re.fullmatch(_form(options)[1], name, re.ASCII | re.DOTALL)
    if match is None:
        return None
    try:
        return (datetime(*map(int, match.groups())) - _EPOCH) // _MILLI  # type: ignore[arg-type]
    except ValueError:
        return None


def previous_auto_tag(name: str, names: Iterable[str], options: TagOptions) -> str | None:
    """Return the last automatic tag in `names` before `name`; None if there is none. REQUIRES: `name` is automatic."""
    end = auto_tag_time(name, options)
    assert end is not None
    times = ((auto_tag_time(other, options), other) for other in names)
    return max(((time, other) for time, other in times if time is not None and time < end), default=(None, None))[1]


def _form(options: TagOptions) -> tuple[str, str]:
    if options.by_minutes:
        return _BY_MINUTES
    if options.period is TagPeriod.TWO_HOURS:
        return _HOURLY[TagFormatter.WITH_DASHES]
    return (_DAILY if options.period is TagPeriod.DAILY else _HOURLY)[options.formatter]
