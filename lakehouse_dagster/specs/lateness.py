"""Lateness: when a table loads what is new, how far behind its source it may be, and how old its rows may become.

Rule: times are texts with a unit (`36 h`), so no unit has to be guessed.
"""

import re
from datetime import timedelta
from typing import Annotated, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from lakehouse_dagster.specs.cron import Cron, Timezone, shortest_interval
from lakehouse_dagster.specs.strict import StrictModel

_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"\s*(\d+)\s*(s|min|h|d)\s*")
# Dagster refuses shorter windows.
_SHORTEST = timedelta(minutes=1)


def _duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None or len(found[1]) > len("99999999"):
        raise ValueError(f"found {value!r}, expected a whole number with a unit, s, min, h or d, such as '36 h'")
    duration = timedelta(**{_UNITS[found[2]]: int(found[1])})
    if duration < _SHORTEST:
        raise ValueError(f"found {value!r}, expected at least '1 min'")
    return duration


Duration: TypeAlias = Annotated[timedelta, BeforeValidator(_duration)]


class BehindSpec(StrictModel):
    """How far behind its source a table may be. Batches are those of its source: snapshots, files, batches of a feed.

    The check `inputs_current` warns above `warn_above` batches, and fails above `fail_above`, or when the oldest batch
    has waited for `fail_after`. Without `fail_after` that is an hour for a table that loads news by itself, and there
    is no limit for others.
    """

    warn_above: int = Field(default=0, ge=0)
    fail_above: int = Field(default=10, ge=0)
    fail_after: Duration | None = None

    @model_validator(mode="after")
    def _warns_before_it_fails(self) -> Self:
        if self.warn_above > self.fail_above:
            raise ValueError(
                f"warn_above is {self.warn_above} and fail_above is {self.fail_above}. Warn at fewer batches than fail"
            )
        return self


class FreshnessSpec(StrictModel):
    """How old the newest rows of a table may become, in one of two forms.

    `fail_after`: they are never older than this, and above `warn_after` there is a warning. `deadline`, a cron
    schedule: whenever it is due, they are not older than `within`.
    """

    warn_after: Duration | None = None
    fail_after: Duration | None = None
    deadline: Cron | None = None
    within: Duration | None = None
    timezone: Timezone = "UTC"

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if (self.fail_after is None) == (self.deadline is None):
            found = "both" if self.deadline is not None else "neither"
            raise ValueError(f"found {found}, expected fail_after, or deadline with within. Give one of the two")
        if (self.deadline is None) != (self.within is None):
            found = "within without deadline" if self.deadline is None else "deadline without within"
            raise ValueError(f"found {found}, expected both. Give both, or fail_after alone")
        if self.warn_after is not None and (self.fail_after is None or self.warn_after >= self.fail_after):
            limit = "no fail_after" if self.fail_after is None else f"fail_after {self.fail_after}"
            raise ValueError(
                f"found warn_after {self.warn_after} and {limit}, expected a fail_after that is longer. Lower "
                "warn_after, or leave it out"
            )
        if self.deadline is not None and self.within is not None:
            shortest = shortest_interval(self.deadline)
            if self.within > shortest:
                raise ValueError(
                    f"found within {self.within}, expected at most the time between two deadlines, {shortest}. Lower it"
                )
        return self


class IngestSpec(StrictModel):
    """When a table loads what is new: with `news` as soon as its source has something, and by a cron schedule.

    Without `news`, a table loads news if it has no schedule. `news: false` without a schedule leaves it to others.
    """

    news: bool | None = None
    schedule: Cron | None = None
    timezone: Timezone = "UTC"

    @property
    def takes_news(self) -> bool:
        """Whether the table loads news, if its source tells of them."""
        return self.schedule is None if self.news is None else self.news
