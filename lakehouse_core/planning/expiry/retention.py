"""Expiry: choose the part of a table's history to expire.

Rule: the oldest ids expire first, without gaps, and the latest never expires. Tags do not keep snapshots; they keep
their own files.
Source: docs/semantics/maintenance.md#snapshot-expiry, docs/semantics/maintenance.md#changelog-lifecycle.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.options import ChangelogExpiryOptions, ExpiryOptions
from lakehouse_core.planning.timestamps import Stamped

HeldBy: TypeAlias = Literal["age", "min retained", "limit", "consumer", "last changelog"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The minimum and maximum count of ids to keep, the age up to which ids in between are kept, and the limit of one
    run.
    """

    min_retained: int
    max_retained: int
    max_age_millis: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Every id below `first_kept_id` may expire; `held_by` is the reason why `first_kept_id` is kept."""

    first_kept_id: int
    held_by: HeldBy


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """The ids to expire, in rising order.

    `made_changelog_ids`: those of `snapshot_ids` that become long-lived changelogs; `changelog_ids`: existing
    long-lived changelogs to expire. `reason` says with figures what keeps the rest.
    """

    snapshot_ids: tuple[int, ...]
    first_kept_id: int
    made_changelog_ids: tuple[int, ...]
    changelog_ids: tuple[int, ...]
    first_kept_changelog_id: int | None
    reason: str

    @property
    def is_empty(self) -> bool:
        return not self.snapshot_ids and not self.changelog_ids


def retention_of(options: ExpiryOptions | ChangelogExpiryOptions) -> Retention:
    """Return the retention that options set. Raises InvalidRequest if their values contradict each other."""
    return checked_retention(
        Retention(
            min_retained=options.min_retained,
            max_retained=options.max_retained,
            max_age_millis=options.max_age_millis,
            limit=options.limit,
        )
    )


def checked_retention(retention: Retention) -> Retention:
    """Return `retention`. Raises InvalidRequest if its values contradict each other."""
    low, high = retention.min_retained, retention.max_retained
    if high < 1:
        raise InvalidRequest(f"At most {high} snapshots are to be retained: retain 1 or more.")
    if not 1 <= low <= high:
        raise InvalidRequest(
            f"At least {low} and at most {high} are to be retained: set 1 <= min <= max. A value that a call "
            "omits is the table's option, so give both."
        )
    if retention.max_age_millis < 0:
        raise InvalidRequest(f"The age to retain is {retention.max_age_millis} ms: set 0 or more.")
    if retention.limit < 1:
        raise InvalidRequest(f"At most {retention.limit} may expire in one run: set a limit of 1 or more.")
    return retention


def outlive_snapshots(changelogs: Retention, snapshots: Retention) -> bool:
    """Return whether changelogs are decoupled: a setting keeps them longer than their snapshots."""
    return (
        changelogs.max_retained > snapshots.max_retained
        or changelogs.max_age_millis > snapshots.max_age_millis
        or changelogs.min_retained > snapshots.min_retained
    )


def asked_ids(ids: Sequence[int], latest_id: int, retention: Retention) -> Sequence[int]:
    """Return the part of `ids` (rising) whose times can matter, because a run expires no more than its limit."""
    if not ids:
        return ids
    end = min(latest_id - retention.min_retained + 1, ids[0] + retention.limit)
    return [id for id in ids if id <= end]


def snapshot_horizon(
    history: Sequence[Stamped],
    retention: Retention,
    *,
    latest_id: int,
    now_millis: int,
    next_consumed_id: int | None = None,
) -> Horizon:
    """Return the oldest snapshot to keep.

    `history` is oldest first and not empty; it may end where `asked_ids` ends. `next_consumed_id` is the smallest id
    that a consumer has yet to read.
    """
    earliest = history[0].id
    end = _end(earliest, latest_id, retention, next_consumed_id)
    keep_at_most_from = max(latest_id - retention.max_retained + 1, earliest)
    for snapshot, successor in pairwise(history):
        if snapshot.id >= end.first_kept_id:
            break
        # A reader may still hold a snapshot whose successor is young, so age is the successor's.
        if snapshot.id >= keep_at_most_from and successor.time_millis >= now_millis - retention.max_age_millis:
            return Horizon(first_kept_id=snapshot.id, held_by="age")
    return end


def changelog_horizon(
    changelogs: Sequence[Stamped],
    retention: Retention,
    *,
    latest_id: int,
    now_millis: int,
    last_changelog_id: int,
    next_consumed_id: int | None = None,
) -> Horizon:
    """Return the oldest long-lived changelog to keep. `latest_id`: the latest snapshot's, from which counts are counted
    back.

    `changelogs` is oldest first and not empty; it may end where `asked_ids` ends.
    """
    earliest = changelogs[0].id
    end = _end(earliest, latest_id, retention, next_consumed_id)
    if last_changelog_id < end.first_kept_id:
        end = Horizon(first_kept_id=last_changelog_id, held_by="last changelog")
    keep_at_most_from = max(latest_id - retention.max_retained + 1, earliest)
    for changelog in changelogs:
        if changelog.id >= end.first_kept_id:
            break
        # Readers need a changelog only for its own rows, not for a state, so its own age counts.
        if changelog.id >= keep_at_most_from and changelog.time_millis >= now_millis - retention.max_age_millis:
            return Horizon(first_kept_id=changelog.id, held_by="age")
    return end


def plan_expiry(
    history: Sequence[Stamped],
    changelogs: Sequence[Stamped],
    *,
    latest_id: int,
    last_changelog_id: int | None,
    snapshot_retention: Retention,
    changelog_retention: Retention,
    now_millis: int,
    consumers: Mapping[str, int],
    consumers_hold_snapshots: bool = True,
) -> ExpiryPlan:
    """Return the ids to expire.

    `history` and `changelogs` are oldest first, `history` is not empty, both may end where `asked_ids` ends;
    `consumers` gives the id that each of them reads next.
    """
    next_consumed_id = min(consumers.values(), default=None)
    horizon = snapshot_horizon(
        history,
        snapshot_retention,
        latest_id=latest_id,
        now_millis=now_millis,
        next_consumed_id=next_consumed_id if consumers_hold_snapshots else None,
    )
    going = [snapshot for snapshot in history if snapshot.id < horizon.first_kept_id]
    made = going if outlive_snapshots(changelog_retention, snapshot_retention) else []
    # A changelog that would expire at once is never made.
    every = [*(changelog for changelog in changelogs if not going or changelog.id < going[0].id), *made]
    first_kept_changelog_id = None
    if every:
        last = max([*(snapshot.id for snapshot in made), *([] if last_changelog_id is None else [last_changelog_id])])
        first_kept_changelog_id = changelog_horizon(
            every,
            changelog_retention,
            latest_id=latest_id,
            now_millis=now_millis,
            last_changelog_id=last,
            next_consumed_id=next_consumed_id,
        ).first_kept_id
    return ExpiryPlan(
        snapshot_ids=_ids(going),
        first_kept_id=horizon.first_kept_id,
        made_changelog_ids=tuple(s.id for s in made if s.id >= (first_kept_changelog_id or 0)),
        changelog_ids=tuple(c.id for c in changelogs if c.id < (first_kept_changelog_id or 0)),
        first_kept_changelog_id=first_kept_changelog_id,
        reason=_reason(horizon, history[0].id, latest_id, snapshot_retention, consumers),
    )


def _end(earliest: int, latest_id: int, retention: Retention, next_consumed_id: int | None) -> Horizon:
    """Return the horizon if every id were old enough: the lowest of the fixed bounds, never below `earliest`."""
    bounds: list[tuple[int, HeldBy]] = [
        (latest_id - retention.min_retained + 1, "min retained"),
        (earliest + retention.limit, "limit"),
    ]
    if next_consumed_id is not None:
        bounds.append((next_consumed_id, "consumer"))
    first_kept_id, held_by = min(bounds, key=lambda bound: bound[0])
    return Horizon(first_kept_id=max(first_kept_id, earliest), held_by=held_by)


def _ids(dated: Iterable[Stamped]) -> tuple[int, ...]:
    return tuple(each.id for each in dated)


def _reason(horizon: Horizon, earliest: int, latest_id: int, retention: Retention, consumers: Mapping[str, int]) -> str:
    first = horizon.first_kept_id
    kept = f"snapshots {first} to {latest_id}" if first < latest_id else f"snapshot {latest_id}"
    those = (
        ""
        if first == earliest < latest_id
        else ", the only one,"
        if first == earliest
        else f" of {earliest} to {latest_id}"
    )
    kept = f"{kept}{those} {'stay' if first < latest_id else 'stays'}"
    match horizon.held_by:
        case "age":
            why = f"the one after {horizon.first_kept_id} is younger than {retention.max_age_millis / 1000:g} s"
        case "min retained":
            why = f"at least {retention.min_retained} are to be retained"
        case "limit":
            why = f"at most {retention.limit} expire in one run"
        case "consumer":
            name = min(consumers, key=lambda consumer: consumers[consumer])
            why = f"consumer {name} has yet to read {consumers[name]}"
        case "last changelog":
            why = "it is the last changelog"
    return f"{kept}: {why}"
