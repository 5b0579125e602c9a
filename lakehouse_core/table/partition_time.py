"""Partition times: the time that a partition's values mean, and whether the partition has expired.

All times are in local wall clock.
Source: docs/semantics/maintenance.md#partition-expiry.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import DataType, TypeRoot
from lakehouse_core.format.java_time import TimePattern, parse_time_pattern, read_time
from lakehouse_core.format.partition_path import value_text
from lakehouse_core.table.schema import TableSchema

_MILLI_NANOS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimes:
    """The rule for a partition's time. `pattern` combines its values; None: the first value is the time."""

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    pattern: str | None
    formatter: TimePattern | None

    def time_nanos(self, values: Sequence[Any]) -> int | None:
        """Return the time of a partition with these comparable values, nanoseconds since 1970 of the local clock.

        None if the values are not a time, or one is null.
        """
        text = self._text(values)
        return None if text is None else read_time(text, self.formatter)

    def untimed(self, partitions: Iterable[Sequence[Any]]) -> str | None:
        """Return how many partitions have values that are not a time, how the first of them was read, and what to do;
        None if there is none. Partitions without a value are not counted.
        """
        every = [(values, text) for values in partitions if (text := self._text(values)) is not None]
        wrong = [(values, text) for values, text in every if read_time(text, self.formatter) is None]
        if not wrong:
            return None
        values, text = wrong[0]
        named = ", ".join(
            f"{name}={value_text(value, data_type, legacy=False)}"
            for name, data_type, value in zip(self.names, self.types, values, strict=True)
            if value is not None
        )
        number = f"{len(wrong):,} of {len(every):,} partitions have values"
        read = f"{number} that are not a time, such as {named}, which counts as {text!r}"
        pattern = f"${self.names[0]}" if self.pattern is None else self.pattern
        dates = [
            name
            for name, one in zip(self.names, self.types, strict=True)
            if getattr(one, "root", None) is TypeRoot.DATE
        ]
        if any(f"${name}" in pattern for name in dates):
            return f"{read}: a DATE counts as its number of days. Delete such partitions by a condition"
        return (
            f"{read}. Give a formatter, and for several columns a pattern, that describe it, such as "
            "formatter='yyyyMMdd' for 20240131, or set partition.timestamp-formatter and partition.timestamp-pattern"
        )

    def _text(self, values: Sequence[Any]) -> str | None:
        """Return the text that is parsed as a time; None if a value that it needs is null."""
        # The values as Java's texts: a DATE is its number of days, which is a time only with a formatter for numbers.
        texts = {
            name: None if value is None else value_text(value, data_type, legacy=True)
            for name, data_type, value in zip(self.names, self.types, values, strict=True)
        }
        return texts[self.names[0]] if self.pattern is None else _filled(self.pattern, list(texts.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpiry:
    """Partitions with a time before `deadline_nanos` have expired; partitions without a time never expire."""

    times: PartitionTimes
    deadline_nanos: int

    def is_expired(self, values: Sequence[Any]) -> bool:
        time = self.times.time_nanos(values)
        return time is not None and time < self.deadline_nanos


@dataclass(frozen=True, slots=True)
class UpdateExpiry:
    """Partitions whose newest file was created before `deadline_millis` have expired; a file without a time is new."""

    deadline_millis: int

    def is_expired(self, creation_times_millis: Iterable[int | None]) -> bool:
        return all(time is not None and time < self.deadline_millis for time in creation_times_millis)


def partition_times(
    schema: TableSchema, *, pattern: str | None = None, formatter: str | None = None
) -> PartitionTimes | None:
    """Return the rule for the times of a table's partitions; None if the table has none. `pattern` and `formatter`
    replace those of the table. Raises InvalidRequest for a formatter that is not supported.
    """
    if not schema.partition_keys:
        return None
    options = schema.table_options.partition_times
    formatter = options.formatter if formatter is None else formatter
    return PartitionTimes(
        names=tuple(schema.partition_keys),
        types=tuple(field.type for field in schema.partition_fields),
        pattern=options.pattern if pattern is None else pattern,
        formatter=None if formatter is None else parse_time_pattern(formatter),
    )


def expired_before(times: PartitionTimes, *, local_now_millis: int, age_millis: int) -> PartitionExpiry:
    """Return which partitions have expired: those whose time is more than `age_millis` ago."""
    return PartitionExpiry(times=times, deadline_nanos=(local_now_millis - age_millis) * _MILLI_NANOS)


def skipped_by_compaction(schema: TableSchema, *, local_now_millis: int) -> PartitionExpiry | None:
    """Return which partitions a compaction skips because they have expired by their values; None if it skips none."""
    times, options = partition_times(schema), schema.table_options.partition_times
    skips = options.compaction_skips and not options.expires_by_update
    if times is None or options.age_millis is None or not skips:
        return None
    return expired_before(times, local_now_millis=local_now_millis, age_millis=options.age_millis)


def check_partition_time(values: Sequence[Any], schema: TableSchema) -> None:
    """Raise InvalidRequest if the table requires partitions with times and these values are not a time.

    A formatter or a pattern defines the form of times; without either, all values are allowed.
    """
    times, options = partition_times(schema), schema.table_options.partition_times
    is_told = options.formatter is not None or options.pattern is not None
    if times is None or not options.is_strict or not is_told or times.time_nanos(values) is not None:
        return
    shown = ", ".join(f"{name}={value!r}" for name, value in zip(times.names, values, strict=True))
    raise InvalidRequest(
        f"Partition {shown} is not a time as partition.timestamp-pattern ({options.pattern or 'not set'}) and "
        f"partition.timestamp-formatter ({options.formatter or 'not set'}) describe it, and "
        "partition.timestamp-format.strict is on. Correct the values, or unset it."
    )


def _filled(pattern: str, texts: Sequence[tuple[str, str | None]]) -> str | None:
    """Return the pattern with each `$name` replaced by its value, the longest name that fits; None if a value is
    null.
    """
    present = {name: text for name, text in texts if text is not None}
    if len(present) < len(texts):
        return None
    longest_first = sorted(present, key=len, reverse=True)
    places = re.compile(r"\$(" + "|".join(map(re.escape, longest_first)) + ")")
    return places.sub(lambda match: present[match[1]], pattern)
