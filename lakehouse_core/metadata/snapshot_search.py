"""Snapshot search: find snapshots by time or watermark, by bisection over their ids.

Source: docs/semantics/reading.md#scan-modes.
"""

from collections.abc import Callable

from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.table.snapshot import Snapshot


def newest_until(low: int, high: int, time_millis: int, *, time_of: Callable[[int], int]) -> int | None:
    """Return the highest id from `low` to `high` whose time is not after `time_millis`, None if there is none.

    Times never fall along the ids, so `time_of` is called for a few ids only. Source:
    docs/reliability/invariants.md#i8-counts-are-true.
    """
    if time_of(low) > time_millis:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if time_of(middle) <= time_millis:
            low = middle
        else:
            high = middle - 1
    return low


def first_with_watermark(
    low: int, high: int, watermark: int, *, watermark_of: Callable[[int], int | None]
) -> int | None:
    """Return the id from `low` to `high` that `AtWatermark` means, None if no snapshot has this watermark or a later
    one.

    Of several snapshots with exactly this watermark, it is the one that Java's search finds first.
    """
    while low < high and watermark_of(low) is None:
        low += 1
    lowest = watermark_of(low)
    if lowest is None:
        return None
    if lowest >= watermark:
        return low
    found = None
    while low <= high:
        middle = nearest = (low + high) // 2
        while (there := watermark_of(nearest)) is None:
            nearest -= 1
        if there == watermark:
            return nearest
        if there > watermark:
            found, high = nearest, nearest - 1
        else:
            low = middle + 1
    return found


def earliest_and_latest(snapshots: SnapshotLog) -> tuple[int, int] | None:
    """Return the lowest and the highest id of the snapshots, None if the table has none."""
    earliest, latest = snapshots.ids.earliest(), snapshots.ids.latest()
    return None if earliest is None or latest is None else (earliest, latest)


def newest_snapshot_until(snapshots: SnapshotLog, ids: tuple[int, int], time_millis: int) -> Snapshot | None:
    """Return the newest snapshot committed at `time_millis` or before, None if there is none. `ids`: those of the
    earliest and of the latest snapshot.
    """
    found = newest_until(*ids, time_millis, time_of=lambda at: snapshots.snapshot(at).time_millis)
    return None if found is None else snapshots.snapshot(found)


def snapshot_with_watermark(snapshots: SnapshotLog, watermark: int) -> Snapshot | None:
    """Return the snapshot that `AtWatermark` means, None if no snapshot has this watermark or a later one."""
    ids = earliest_and_latest(snapshots)
    if ids is None:
        return None
    found = first_with_watermark(*ids, watermark, watermark_of=lambda at: snapshots.snapshot(at).watermark)
    return None if found is None else snapshots.snapshot(found)
