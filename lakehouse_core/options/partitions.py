"""Partitions: their names, their times, and when a time is over.

Source: docs/semantics/maintenance.md#partition-expiry.
"""

from dataclasses import dataclass

from lakehouse_core.options.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimeOptions:
    """How the time of a partition is told from its values, and when it is over: `age_millis` later, None: never.

    `pattern` puts values together, as in `$day $hour`; without one the first is the time. `is_strict`: partitions
    without a time are not written to. `compaction_skips`: those whose time is over are not compacted.
    """

    age_millis: int | None = None
    pattern: str | None = None
    formatter: str | None = None
    is_strict: bool = False
    compaction_skips: bool = False


def partition_time_options(source: Source) -> PartitionTimeOptions:
    return PartitionTimeOptions(
        age_millis=source.millis_if_set("partition.expiration-time"),
        pattern=source.text("partition.timestamp-pattern"),
        formatter=source.text("partition.timestamp-formatter"),
        is_strict=source.flag("partition.timestamp-format.strict"),
        compaction_skips=source.flag("compaction.skip-expired-partitions"),
    )
