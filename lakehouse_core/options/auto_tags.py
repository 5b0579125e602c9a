"""Automatic tag options: the times after which automatic tags are named, and their format.

Source: docs/semantics/reading.md#increments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakehouse_core.options.units import parse_word

_PERIOD, _FORMATTER = "tag.creation-period", "tag.period-formatter"


class TagPeriod(StrEnum):
    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagFormatter(StrEnum):
    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoTagOptions:
    """How automatic tags are named: after a `period`, as `formatter` says, or after minutes (`by_minutes`)."""

    by_minutes: bool = False
    period: TagPeriod = TagPeriod.DAILY
    formatter: TagFormatter = TagFormatter.WITH_DASHES


def auto_tag_options(options: Mapping[str, str]) -> AutoTagOptions:
    """Return the parsed options of a table. Raises InvalidRequest for unknown words."""
    if "tag.creation-period-duration" in options:
        return AutoTagOptions(by_minutes=True)
    period = parse_word(_PERIOD, options.get(_PERIOD, TagPeriod.DAILY), tuple(TagPeriod))
    formatter = parse_word(_FORMATTER, options.get(_FORMATTER, TagFormatter.WITH_DASHES), tuple(TagFormatter))
    return AutoTagOptions(period=TagPeriod(period), formatter=TagFormatter(formatter))
