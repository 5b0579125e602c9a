"""The universal strategy: which runs of a bucket to compact next, into which level, and why.

One rule: always the newest runs, so that what is older lies below the output.
Source: docs/semantics/compaction.md#universal-strategy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from lakehouse_core.options import CompactionOptions
from lakehouse_core.table.levels import Levels, LevelSortedRun

PickReason: TypeAlias = Literal[
    "full compaction interval",
    "total size below threshold",
    "increment above threshold",
    "size amplification",
    "size ratio",
    "number of sorted runs",
    "level 0 forced up",
]

_NO_HOUR: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PickTime:
    """When a pick is asked for. Both times are local wall clock as if UTC, as data files note their creation.

    `last_full_millis` None: no full compaction is known, so one is due. `skipped_triggers`: how often the
    gentle strategy found nothing to do since it last forced level 0 up.
    """

    local_now_millis: int
    last_full_millis: int | None = None
    skipped_triggers: int = 0

    @property
    def hour(self) -> int:
        """The hour of the local day, 0 to 23."""
        return self.local_now_millis // 3_600_000 % 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Compact `runs`, newest first, into one run of `output_level`, which is never 0."""

    runs: tuple[LevelSortedRun, ...]
    output_level: int
    reason: PickReason


def pick_runs(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    """Return what the strategy compacts next, or None when the runs may stay as they are."""
    pick = (
        _early_full(levels, options, occasion)
        or _for_size_amplification(levels, options)
        or _for_size_ratio(levels, options, occasion)
        or _for_run_count(levels, options, occasion)
        or _forced(levels, options, occasion)
    )
    return None if pick is None or _is_there_already(pick) else pick


def last_full_compaction_millis(levels: Levels) -> int | None:
    """Return when the bucket was compacted in full, as far as its files tell: the newest file of the top level."""
    return max(
        (
            file.creation_time_millis
            for leveled in levels.runs
            if leveled.level == levels.max_level
            for file in leveled.run.data_files
            if file.creation_time_millis is not None
        ),
        default=None,
    )


def _early_full(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    runs = levels.runs
    if len(runs) == 1:
        return None
    interval, last = options.full_interval_millis, occasion.last_full_millis
    if interval is not None and (last is None or occasion.local_now_millis - last > interval):
        return _everything(levels, "full compaction interval")
    total = options.total_size_threshold_bytes
    if total is not None and _size(runs) < total:
        return _everything(levels, "total size below threshold")
    increment = options.incremental_size_threshold_bytes
    if increment is not None and _size([one for one in runs if one.level != levels.max_level]) > increment:
        return _everything(levels, "increment above threshold")
    return None


def _for_size_amplification(levels: Levels, options: CompactionOptions) -> Pick | None:
    """All runs, when those before the oldest take up too much beside it."""
    runs = levels.runs
    if len(runs) < options.trigger_run_count:
        return None
    if _size(runs[:-1]) * 100 > options.max_size_amplification_percent * _size(runs[-1:]):
        return _everything(levels, "size amplification")
    return None


def _for_size_ratio(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    """The newest runs of like size, when there are two at least."""
    if len(levels.runs) < options.trigger_run_count:
        return None
    count = _like_in_size(levels.runs, 1, options, occasion.hour)
    return _newest(levels, count, "size ratio") if count > 1 else None


def _for_run_count(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    """So many of the newest that no more than the trigger are left, and those of like size behind them."""
    excess = len(levels.runs) - options.trigger_run_count
    if excess <= 0:
        return None
    count = _like_in_size(levels.runs, excess + 1, options, occasion.hour)
    return _newest(levels, count, "number of sorted runs")


def _forced(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    """Level 0, where none of it may stay there, and the runs of like size behind it."""
    interval = options.gentle_interval
    if not options.forces_level_0 or (interval is not None and occasion.skipped_triggers + 1 < interval):
        return None
    count = sum(one.level == 0 for one in levels.runs)
    if count == 0:
        return None
    return _newest(levels, _like_in_size(levels.runs, count, options, occasion.hour), "level 0 forced up")


def _like_in_size(runs: Sequence[LevelSortedRun], count: int, options: CompactionOptions, hour: int) -> int:
    """Return how many runs to take: `count`, and each next one that is hardly larger than all before it."""
    taken = _size(runs[:count])
    percent = 100.0 + options.size_ratio_percent + _offpeak_percent(options, hour)
    for run in runs[count:]:
        # In doubles, as Java counts: sizes just at the limit go the same way.
        if taken * percent / 100.0 < run.run.size_bytes:
            break
        taken += run.run.size_bytes
        count += 1
    return count


def _offpeak_percent(options: CompactionOptions, hour: int) -> int:
    start, end = options.offpeak_start_hour, options.offpeak_end_hour
    if _NO_HOUR in (start, end) or start == end:
        return 0
    is_offpeak = start <= hour < end if start < end else hour >= start or hour < end
    return options.offpeak_ratio_percent if is_offpeak else 0


def _everything(levels: Levels, reason: PickReason) -> Pick:
    return Pick(runs=levels.runs, output_level=levels.max_level, reason=reason)


def _newest(levels: Levels, count: int, reason: PickReason) -> Pick:
    """Take the newest `count` runs into the level before the next run's; never into level 0, so that more are taken."""
    runs = levels.runs
    output_level = levels.max_level if count == len(runs) else max(0, runs[count].level - 1)
    while output_level == 0 and count < len(runs):
        output_level = runs[count].level
        count += 1
    if count == len(runs):
        return _everything(levels, reason)
    return Pick(runs=runs[:count], output_level=output_level, reason=reason)


def _is_there_already(pick: Pick) -> bool:
    """Whether the pick is nothing, or a single file in its place."""
    files = [keyed.file for one in pick.runs for keyed in one.run.files]
    return not files or (len(files) == 1 and files[0].level == pick.output_level)


def _size(runs: Sequence[LevelSortedRun]) -> int:
    return sum(one.run.size_bytes for one in runs)
