"""The time that a new snapshot gets; the storage's clock is asked only where the writer's is far from the last time."""

from lakehouse_core.clock import Clock
from lakehouse_core.planning.timestamps import Stamp, is_far, stamp
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.snapshot import Snapshot


def next_stamp(store: ObjectStore, clock: Clock, previous: Snapshot | None, *, max_skew_millis: int) -> Stamp:
    """Return when the snapshot after `previous` counts as committed; it may still be raised to that of `previous`."""
    now_millis = clock.now_millis()
    previous_millis = None if previous is None else previous.time_millis
    if not is_far(now_millis, previous_millis, max_skew_millis=max_skew_millis):
        return Stamp(time_millis=now_millis)
    return stamp(now_millis, store.now_millis(), max_skew_millis=max_skew_millis)
