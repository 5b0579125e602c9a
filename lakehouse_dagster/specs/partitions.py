"""Partitions in a specification: the keys of a table's assets, and the values of columns that each key stands for."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Annotated, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lakehouse_dagster.specs.cron import Timezone
from lakehouse_dagster.specs.names import Identifier
from lakehouse_dagster.specs.strict import StrictModel


def _text_of_date(value: object) -> object:
    # YAML reads `2013-01-01` as a date.
    return value.isoformat() if isinstance(value, date) else value


DateText: TypeAlias = Annotated[str, BeforeValidator(_text_of_date)]
_WINDOWS = ("hour", "day", "week", "month")


def _every(text: str) -> str:
    # Five fields are a cron schedule, which Dagster reads.
    if text not in _WINDOWS and len(text.split()) != 5:
        known = f"{', '.join(_WINDOWS)} or the five fields of a cron schedule"
        raise ValueError(f"found {text!r}, expected {known}, as in '0 6 * * 1'")
    return text


class TimePartitionsSpec(StrictModel):
    """Time windows from `start` on, up to `end` or the present. The start of a window makes the values of `columns`:
    column → pattern of `strftime`.
    """

    # `hour`, `day`, `week`, `month`, or a cron schedule.
    every: Annotated[str, AfterValidator(_every)]
    start: DateText
    end: DateText | None = None
    timezone: Timezone = "UTC"
    columns: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _tells_windows_apart(self) -> Self:
        first = datetime(2013, 1, 1)
        # The next window, and those of a day, a month and a year later, which a pattern of the hour alone confuses.
        later = [datetime(2013, 2, 1), datetime(2014, 1, 1)]
        later += {
            "hour": [first + timedelta(hours=1), first + timedelta(days=1)],
            "day": [first + timedelta(days=1)],
        }.get(self.every, [])
        for other in later if self.columns else []:
            if all(first.strftime(pattern) == other.strftime(pattern) for pattern in self.columns.values()):
                raise ValueError(
                    f"columns {dict(self.columns)}: {first} and {other} have the same values, expected values of their "
                    "own for each window. Use patterns as fine as the windows, with all parts of the date"
                )
        return self


class KeyPartitionsSpec(StrictModel):
    """Partitions whose key is the value of `column`, or with `values` the name of a value: key → value."""

    column: str | None = None
    values: Mapping[str, str] | None = None


class StaticPartitionsSpec(KeyPartitionsSpec):
    """Partitions with these keys."""

    keys: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _maps_each_key(self) -> Self:
        if self.values is not None and (missing := [key for key in self.keys if key not in self.values]):
            raise ValueError(f"values have no value for the key {missing[0]!r}. Give each key a value of its own")
        if self.values is not None and len(set(self.values.values())) < len(self.values):
            raise ValueError("values have one value for two keys. Give each key a value of its own")
        return self


class DynamicPartitionsSpec(KeyPartitionsSpec):
    """Partitions whose keys are added to the instance under this name."""

    name: str = Field(min_length=1)


class DimensionSpec(StrictModel):
    """Partitions of one kind."""

    time: TimePartitionsSpec | None = None
    static: StaticPartitionsSpec | None = None
    dynamic: DynamicPartitionsSpec | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        kinds = list(type(self).model_fields)
        if len(given := [kind for kind in kinds if getattr(self, kind) is not None]) != 1:
            raise ValueError(
                f"found {' and '.join(given) or 'no kind'}, expected one of {', '.join(kinds)}. Give one of them"
            )
        return self

    @property
    def columns(self) -> list[str]:
        """The columns that a key gives a value to."""
        keyed = self.static or self.dynamic
        return [*(() if self.time is None else self.time.columns), *([keyed.column] if keyed and keyed.column else [])]


class PartitionsSpec(DimensionSpec):
    """The partitions of a table's assets: of one kind, or of two dimensions by name."""

    multi: Annotated[Mapping[Identifier, DimensionSpec], Field(min_length=2, max_length=2)] | None = None

    @property
    def all_columns(self) -> list[str]:
        """The columns that a key gives a value to, of all dimensions."""
        dimensions = [self] if self.multi is None else self.multi.values()
        return [column for each in dimensions for column in each.columns]
