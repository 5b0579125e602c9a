"""The universal strategy: choose the runs of a bucket to compact next and their output level, and give the reason.

Rule: always choose the newest runs, so that older ones are below the output level.
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
    """The time of a pick. Both times are local wall clock counted as UTC, as in the creation times of data files.

    `last_full_millis` None: no full compaction is known, so one is due. `skipped_triggers`: how often the gentle lookup
    strategy picked nothing since it last compacted level 0 by force.
    """

    local_now_millis: int
    last_full_millis: int | None = None
    skipped_triggers: int = 0

    @property
    def hour(self) -> int:
        """Return the hour of the local day, 0 to 23."""
        return self.local_now_millis // 3_600_000 % 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Compact `runs`, newest first, into one run of `output_level`, which is never 0."""

    runs: tuple[LevelSortedRun, ...]
    output_level: int
    reason: PickReason


def pick_runs(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    """Return the strategy's next pick, None if the runs may stay as they are."""
    pick = (
        _early_full(levels, options, occasion)
        or _for_size_amplification(levels, options)
        or _for_size_ratio(levels, options, occasion)
        or _for_run_count(levels, options, occasion)
        or _forced(levels, options, occasion)
    )
    return None if pick is None or _is_there_already(pick) else pick


def last_full_compaction_millis(levels: Levels) -> int | None:
    """Return the time of the last full compaction as the files show it: the creation time of the newest file of the top
    level.
    """
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
    """Pick all runs if the newer runs are too large in relation to the oldest one."""
    runs = levels.runs
    if len(runs) < options.trigger_run_count:
        return None
    if _size(runs[:-1]) * 100 > options.max_size_amplification_percent * _size(runs[-1:]):
        return _everything(levels, "size amplification")
    return None


def _for_size_ratio(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    """Pick the newest runs of similar size if there are at least two."""
    if len(levels.runs) < options.trigger_run_count:
        return None
    count = _like_in_size(levels.runs, 1, options, occasion.hour)
    return _newest(levels, count, "size ratio") if count > 1 else None


def _for_run_count(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    """Pick so many of the newest runs that at most the trigger count is left, and the next runs of similar size."""
    excess = len(levels.runs) - options.trigger_run_count
    if excess <= 0:
        return None
    count = _like_in_size(levels.runs, excess + 1, options, occasion.hour)
    return _newest(levels, count, "number of sorted runs")


def _forced(levels: Levels, options: CompactionOptions, occasion: PickTime) -> Pick | None:
    """Pick level 0 if it must be compacted now, and the next runs of similar size."""
    interval = options.gentle_trigger_count
    if not options.forces_level_0 or (interval is not None and occasion.skipped_triggers + 1 < interval):
        return None
    count = sum(one.level == 0 for one in levels.runs)
    if count == 0:
        return None
    return _newest(levels, _like_in_size(levels.runs, count, options, occasion.hour), "level 0 forced up")


def _like_in_size(runs: Sequence[LevelSortedRun], count: int, options: CompactionOptions, hour: int) -> int:
    """Return how many runs to pick: `count`, and each next one that is not much larger than all before it together."""
    taken = _size(runs[:count])
    percent = 100.0 + options.size_ratio_percent + _offpeak_percent(options, hour)
    for run in runs[count:]:
        # In doubles, as in Java, so that sizes at the limit give the same result.
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
    """Return a pick of the newest `count` runs into the level before that of the next run. The output level is never 0:
    more runs are picked instead.
    """
    runs = levels.runs
    output_level = levels.max_level if count == len(runs) else max(0, runs[count].level - 1)
    while output_level == 0 and count < len(runs):
        output_level = runs[count].level
        count += 1
    if count == len(runs):
        return _everything(levels, reason)
    return Pick(runs=runs[:count], output_level=output_level, reason=reason)


def _is_there_already(pick: Pick) -> bool:
    """Return whether the pick changes nothing: no run, or a single file that is in the output level already."""
    files = [keyed.file for one in pick.runs for keyed in one.run.files]
    return not files or (len(files) == 1 and files[0].level == pick.output_level)


def _size(runs: Sequence[LevelSortedRun]) -> int:
    return sum(one.run.size_bytes for one in runs)
