"""Automatic tags: which snapshots get one, and which of the tags go.

Rule: the first snapshot after a period, and after the delay, gets the tag of the period that ended last; with
completion, that of the first period without a tag. A snapshot gets one such tag at most.
Source: docs/semantics/maintenance.md#automatic-tags.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakehouse_core.options import TagOptions
from lakehouse_core.planning.auto_tag_names import auto_tag_name, auto_tag_time


@dataclass(frozen=True, slots=True)
class SnapshotTime:
    """A snapshot, and its wall clock time or watermark as the table's options ask for it; None: it has none, or one
    beyond the calendar, and gets no tag.
    """

    snapshot_id: int
    local_millis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoTagPlan:
    """The tags to make, name and snapshot id, in the order in which to make them; then the names of those to delete."""

    made: tuple[tuple[str, int], ...] = ()
    deleted: tuple[str, ...] = ()


def due_from_millis(names: Iterable[str], options: TagOptions) -> int | None:
    """Return the time from which on a snapshot gets a tag, when there are tags of these names; None: any time."""
    times = [time for name in names if (time := auto_tag_time(name, options)) is not None]
    # The tag of the newest time says which period is next; that is over one period later.
    return max(times) + 2 * options.period_millis + options.delay_millis if times else None


def first_untagged_id(tags: Mapping[str, int], options: TagOptions) -> int:
    """Return the first snapshot id that may get a tag: the one after that of the newest automatic tag. `tags`: ids by
    name.
    """
    newest = max(
        ((time, tagged) for name, tagged in tags.items() if (time := auto_tag_time(name, options)) is not None),
        default=(0, 0),
    )
    return newest[1] + 1


def plan_auto_tags(tags: Mapping[str, int], snapshots: Iterable[SnapshotTime], options: TagOptions) -> AutoTagPlan:
    """Return the tags to make of `snapshots`, and those to delete. `tags`: the snapshot ids of all tags, by name.

    REQUIRES: ids of `snapshots` rise, from `first_untagged_id` on.
    """
    automatic = {name: tagged for name, tagged in tags.items() if auto_tag_time(name, options) is not None}
    due_millis = due_from_millis(automatic, options)
    made: dict[str, int] = {}
    has_come = False
    for snapshot in snapshots:
        millis = snapshot.local_millis
        is_tagged = snapshot.snapshot_id in automatic.values()
        if millis is None or is_tagged or (due_millis is not None and millis < due_millis):
            continue
        period = _previous_period(millis, options)
        if options.completes and due_millis is not None:
            period = due_millis - options.delay_millis - options.period_millis
        name = auto_tag_name(period, options)
        if name is None:
            continue
        has_come = True
        # One that is there stays, whatever its snapshot.
        if name not in automatic:
            made[name] = snapshot.snapshot_id
            automatic[name] = snapshot.snapshot_id
        due_millis = period + 2 * options.period_millis + options.delay_millis
    outdated = _outdated(automatic, options) if has_come else ()
    return AutoTagPlan(
        made=tuple((name, tagged) for name, tagged in made.items() if name not in outdated),
        deleted=tuple(name for name in outdated if name not in made),
    )


def taken_by(name: str, snapshot_id: int, tags: Mapping[str, int], options: TagOptions) -> str | None:
    """Return the automatic tag that a snapshot has already, if `name` would be another one. `tags`: ids by name.

    Java can neither make nor delete automatic tags of a table in which a snapshot has two.
    """
    if not options.is_automatic or auto_tag_time(name, options) is None:
        return None
    held = (other for other, tagged in tags.items() if tagged == snapshot_id and other != name)
    return next((other for other in held if auto_tag_time(other, options) is not None), None)


def _previous_period(local_millis: int, options: TagOptions) -> int:
    """Return the beginning of the period before the one that a time is in."""
    # As in Java, the periods before 1970 end at their beginning: it rounds towards 0.
    count = abs(local_millis) // options.period_millis
    return (count if local_millis >= 0 else -count) * options.period_millis - options.period_millis


def _outdated(automatic: Mapping[str, int], options: TagOptions) -> tuple[str, ...]:
    """Return the tags of the oldest snapshots, beyond the number that stays."""
    if options.most_automatic is None:
        return ()
    oldest_first = sorted(automatic, key=lambda name: (automatic[name], auto_tag_time(name, options)))
    return tuple(oldest_first[: max(len(oldest_first) - max(options.most_automatic, 0), 0)])
