"""Compaction options: when files of a bucket are rewritten, and which.

Source: docs/semantics/compaction.md#universal-strategy.
"""

from dataclasses import dataclass
from typing import Final

from lakehouse_core.options.changelog import ChangelogProducer
from lakehouse_core.options.lookup import needs_lookup
from lakehouse_core.options.source import Source

COMPACTION_TRIGGER_KEY: Final = "num-sorted-run.compaction-trigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """When files of a bucket are rewritten, and which. Ratios are percent unless the name says otherwise, sizes bytes.

    `forces_level_0`: no file may stay at level 0, because lookups need it or the table's option asks for it. With a
    `gentle_trigger_count` of n, this holds only at every n-th trigger at which the strategy picks nothing else.
    """

    trigger_run_count: int = 5
    # A bucket with more runs makes writers wait for a compaction, whatever may lag.
    stop_run_count: int = 8
    max_size_amplification_percent: int = 200
    size_ratio_percent: int = 1
    # Hours of the local day, the first included, the second not; -1 is none.
    offpeak_start_hour: int = -1
    offpeak_end_hour: int = -1
    offpeak_ratio_percent: int = 0
    full_interval_millis: int | None = None
    total_size_threshold_bytes: int | None = None
    incremental_size_threshold_bytes: int | None = None
    forces_level_0: bool = False
    gentle_trigger_count: int | None = None
    # Deletion vectors mark older versions of a row, so delete records are not needed above level 0.
    marks_deleted: bool = False
    rewrites_all_files: bool = False
    # Files below this share of the target file size are small.
    small_file_ratio: float = 0.7
    # For append tables: the number of small files, and the fraction of deleted rows, from which a rewrite pays.
    min_file_count: int = 5
    delete_ratio_threshold: float = 0.2


def compaction_options(source: Source) -> CompactionOptions:
    trigger = source.whole(COMPACTION_TRIGGER_KEY)
    interval = "lookup-compact.max-interval"
    looks_up = needs_lookup(source)
    is_gentle = looks_up and source.word("lookup-compact") == "gentle"
    longest = source.whole(interval) if source.has(interval) else 2 * trigger
    stop = "num-sorted-run.stop-trigger"
    return CompactionOptions(
        trigger_run_count=trigger,
        stop_run_count=max(trigger, source.whole(stop) if source.has(stop) else trigger + 3),
        max_size_amplification_percent=source.whole("compaction.max-size-amplification-percent"),
        size_ratio_percent=source.whole("compaction.size-ratio"),
        offpeak_start_hour=source.whole("compaction.offpeak.start.hour"),
        offpeak_end_hour=source.whole("compaction.offpeak.end.hour"),
        offpeak_ratio_percent=source.whole("compaction.offpeak-ratio"),
        full_interval_millis=source.millis_if_set("compaction.optimization-interval"),
        total_size_threshold_bytes=source.size_if_set("compaction.total-size-threshold"),
        incremental_size_threshold_bytes=source.size_if_set("compaction.incremental-size-threshold"),
        forces_level_0=looks_up or source.flag("compaction.force-up-level-0"),
        gentle_trigger_count=max(trigger, longest) if is_gentle else None,
        marks_deleted=source.flag("deletion-vectors.enabled"),
        rewrites_all_files=source.flag("compaction.force-rewrite-all-files"),
        small_file_ratio=source.fraction("compaction.small-file-ratio"),
        min_file_count=source.whole("compaction.min.file-num"),
        delete_ratio_threshold=source.fraction("compaction.delete-ratio-threshold"),
    )


def full_compaction_delta_commits(source: Source) -> int | None:
    """Return the number of commits between full compactions; None: no such rule."""
    key = "full-compaction.delta-commits"
    if source.has(key):
        return source.whole(key)
    return 1 if source.word("changelog-producer") == ChangelogProducer.FULL_COMPACTION else None
