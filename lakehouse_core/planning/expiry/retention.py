"""Expiry: how much of a table's history may go.

Rule: ids go from the oldest, without gaps, and the latest never goes. Tags do not hold snapshots back; they keep
files of their own.
Source: docs/semantics/maintenance.md#snapshot-expiry, docs/semantics/maintenance.md#changelog-lifecycle.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.timestamps import Stamped

HeldBy: TypeAlias = Literal["age", "min retained", "limit", "consumer", "last changelog"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many ids stay at least and at most, how long they stay in between, how many may go in one run."""

    min_retained: int
    max_retained: int
    max_age_millis: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """Every id below `first_kept_id` may go; `held_by` is what keeps that one."""

    first_kept_id: int
    held_by: HeldBy


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """What leaves the history. Ids are rising.

    `made_changelog_ids` are those of `snapshot_ids` that live on as changelogs; `changelog_ids` leave the changelogs
    there are. `reason` says with figures what keeps the rest.
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


def checked_retention(retention: Retention) -> Retention:
    """Return `retention`. Raises InvalidRequest where it contradicts itself."""
    low, high = retention.min_retained, retention.max_retained
    if high < 1:
        raise InvalidRequest(f"At most {high} snapshots are to be retained: retain 1 or more.")
    if not 1 <= low <= high:
        raise InvalidRequest(
            f"At least {low} and at most {high} are to be retained: set 1 <= min <= max. What a call leaves out is the "
            "table's option, so give both."
        )
    if retention.max_age_millis < 0:
        raise InvalidRequest(f"The age to retain is {retention.max_age_millis} ms: set 0 or more.")
    if retention.limit < 1:
        raise InvalidRequest(f"At most {retention.limit} may go in one run: set a limit of 1 or more.")
    return retention


def outlive_snapshots(changelogs: Retention, snapshots: Retention) -> bool:
    """True when changelogs are decoupled: some setting keeps them longer than their snapshots."""
    return (
        changelogs.max_retained > snapshots.max_retained
        or changelogs.max_age_millis > snapshots.max_age_millis
        or changelogs.min_retained > snapshots.min_retained
    )


def asked_ids(ids: Sequence[int], latest_id: int, retention: Retention) -> Sequence[int]:
    """Return the part of `ids` (rising) whose times can matter: a run looks no further than its limit."""
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

    `history` is oldest first and not empty; it need not reach beyond `asked_ids`. `next_consumed_id` is the smallest
    id that a consumer has yet to read.
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
    """Return the oldest long-lived changelog to keep; `latest_id` is the latest snapshot's, and the counts are from it.

    `changelogs` is oldest first and not empty; it need not reach beyond `asked_ids`.
    """
    earliest = changelogs[0].id
    end = _end(earliest, latest_id, retention, next_consumed_id)
    if last_changelog_id < end.first_kept_id:
        end = Horizon(first_kept_id=last_changelog_id, held_by="last changelog")
    keep_at_most_from = max(latest_id - retention.max_retained + 1, earliest)
    for changelog in changelogs:
        if changelog.id >= end.first_kept_id:
            break
        # Nobody reads a state from a changelog, only its own rows, so age is its own.
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
    """Return what may go.

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
    # A changelog that is due at once is never made.
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
    """Return the horizon were everything old: the lowest of the fixed bounds, never below `earliest`."""
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
            why = f"at most {retention.limit} go in one run"
        case "consumer":
            name = min(consumers, key=lambda consumer: consumers[consumer])
            why = f"consumer {name} has yet to read {consumers[name]}"
        case "last changelog":
            why = "it is the last changelog"
    return f"{kept}: {why}"
