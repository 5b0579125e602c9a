"""Tag options: which tags are made automatically, how they are named, how long tags stay.

Rule: parsing takes what Java takes; `check_auto_tags` says what no tag can be made with.
Source: docs/semantics/maintenance.md#automatic-tags.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.options.source import Source
from lakehouse_core.options.zones import zone_of

_PERIOD, _FORMATTER, _DURATION = "tag.creation-period", "tag.period-formatter", "tag.creation-period-duration"
_DELAY: Final = "tag.creation-delay"
_PROCESS_ZONE, _WATERMARK_ZONE = "sink.process-time-zone", "sink.watermark-time-zone"


class TagCreation(StrEnum):
    """The time of a snapshot that decides whether a tag is due: its commit time, its watermark, or none."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class TagPeriod(StrEnum):
    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class TagFormatter(StrEnum):
    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"


_PERIOD_MILLIS: Final = {
    TagPeriod.DAILY: 86_400_000,
    TagPeriod.HOURLY: 3_600_000,
    TagPeriod.TWO_HOURS: 7_200_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TagOptions:
    """How tags are made. An automatic one is named after a `period`, as `formatter` says, or after minutes
    (`by_minutes`), `period_millis` long, once it is over for `delay_millis`.

    `completes`: periods without a commit get tags too. `most_automatic` tags stay, None: all. `zone`: that of the times
    in names; None: the local one. `retention_millis`: that of every tag made without one. `has_success_file`: a file
    beside the tags says that a tag is there. `is_registered`: each tag is a partition in Hive's metastore, too.
    """

    creation: TagCreation = TagCreation.NONE
    by_minutes: bool = False
    period: TagPeriod = TagPeriod.DAILY
    formatter: TagFormatter = TagFormatter.WITH_DASHES
    period_millis: int = 86_400_000
    delay_millis: int = 0
    completes: bool = False
    most_automatic: int | None = None
    zone: str | None = None
    retention_millis: int | None = None
    has_success_file: bool = False
    is_registered: bool = False

    @property
    def is_automatic(self) -> bool:
        """Whether tags are made of periods that are over."""
        return self.creation in (TagCreation.PROCESS_TIME, TagCreation.WATERMARK)


def tag_options(source: Source) -> TagOptions:
    creation, period = TagCreation(source.word("tag.automatic-creation")), TagPeriod(source.word(_PERIOD))
    duration = source.millis_if_set(_DURATION)
    by_watermark = creation is TagCreation.WATERMARK
    return TagOptions(
        creation=creation,
        by_minutes=duration is not None,
        period=period,
        formatter=TagFormatter(source.word(_FORMATTER)),
        period_millis=_PERIOD_MILLIS[period] if duration is None else duration,
        delay_millis=source.millis(_DELAY),
        completes=source.flag("tag.automatic-completion"),
        most_automatic=source.whole("tag.num-retained-max") if source.has("tag.num-retained-max") else None,
        zone=source.text(_WATERMARK_ZONE if by_watermark else _PROCESS_ZONE),
        retention_millis=source.millis_if_set("tag.default-time-retained"),
        has_success_file=source.flag("tag.create-success-file"),
        is_registered=source.has("metastore.tag-to-partition"),
    )


def check_auto_tags(options: Mapping[str, str]) -> None:
    """Raise InvalidRequest for options by which no automatic tag can be made, if any is to be."""
    tags = tag_options(Source(options))
    if not tags.is_automatic:
        return
    if tags.period_millis < 1:
        raise InvalidRequest(f"Option {_DURATION} is {shown(options[_DURATION])}: expected at least 1 ms.")
    if tags.delay_millis >= tags.period_millis:
        raise InvalidRequest(
            f"Option {_DELAY} is {tags.delay_millis} ms: expected less than the period of the tags, which is "
            f"{tags.period_millis} ms. Set a shorter delay, or a longer period."
        )
    if tags.zone is not None and zone_of(tags.zone) is None:
        key = _WATERMARK_ZONE if tags.creation is TagCreation.WATERMARK else _PROCESS_ZONE
        raise InvalidRequest(
            f"Option {key} is {shown(tags.zone)}: expected the name of a time zone, such as Europe/Berlin or "
            "GMT-08:00. A machine without a database of time zones needs the package tzdata."
        )
