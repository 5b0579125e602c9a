"""Partition options: the names of partitions, their times, and when a partition is expired.

Source: docs/semantics/maintenance.md#partition-expiry.
"""

from dataclasses import dataclass

from lakehouse_core.options.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimeOptions:
    """How the values of a partition give its time, and when it expires: `age_millis` after that time, None: never.

    One run drops `most_expired` partitions at most. `done_actions`: what marks a partition as done.
    `pattern` combines values, as in `$day $hour`; without a pattern the first value is the time. `is_strict`: a write
    to a partition without a time is refused. `compaction_skips`: expired partitions are not compacted. With
    `expires_by_update` the time of a partition is not in its values: it is that of its newest file.
    """

    age_millis: int | None = None
    most_expired: int = 100
    done_actions: tuple[str, ...] = ("success-file",)
    pattern: str | None = None
    formatter: str | None = None
    is_strict: bool = False
    compaction_skips: bool = False
    expires_by_update: bool = False


def partition_time_options(source: Source) -> PartitionTimeOptions:
    return PartitionTimeOptions(
        age_millis=source.millis_if_set("partition.expiration-time"),
        most_expired=source.whole("partition.expiration-max-num"),
        done_actions=source.names("partition.mark-done-action"),
        pattern=source.text("partition.timestamp-pattern"),
        formatter=source.text("partition.timestamp-formatter"),
        is_strict=source.flag("partition.timestamp-format.strict"),
        compaction_skips=source.flag("compaction.skip-expired-partitions"),
        expires_by_update=source.text("partition.expiration-strategy") == "update-time",
    )
