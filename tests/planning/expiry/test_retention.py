from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.planning.expiry.retention import (
    Retention,
    asked_ids,
    checked_retention,
    outlive_snapshots,
    plan_expiry,
    snapshot_horizon,
)

HOUR = 3_600_000
NOW = 1_000_000 * HOUR
UNLIMITED = 2**31 - 1


@dataclass(frozen=True)
class At:
    id: int
    time_millis: int


def retention(**changes: int) -> Retention:
    return Retention(**{"min_retained": 1, "max_retained": UNLIMITED, "max_age_millis": HOUR, "limit": 50, **changes})


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(at.id for at in history_of(text))


def history_of(text: str) -> list[At]:
    """`1..3@2` is three snapshots two hours old, `4` one that is old."""
    found = []
    for word in text.split() if text != "-" else []:
        ids, _, age = word.partition("@")
        first, _, last = ids.partition("..")
        for id in range(int(first), int(last or first) + 1):
            found.append(At(id, NOW - int(float(age or 1000) * HOUR)))
    return found


def retention_of(text: str) -> Retention:
    names = {"min": "min_retained", "max": "max_retained", "limit": "limit", "age": "max_age_millis"}
    words = dict(word.split("=") for word in text.split())
    return retention(
        **{
            names[name]: int(value[:-1]) * HOUR if name == "age" else int(value)
            for name, value in words.items()
            if name in names and value != "inf"
        }
    )


def cases(name: str) -> list[pytest.param]:
    blocks = (Path(__file__).parent / name).read_text().split("\n\n")
    found = []
    for block in blocks[1:]:
        lines = block.strip().split("\n")
        title = " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
        fields = dict([*line.split(None, 1), ""][:2] for line in lines if not line.startswith("#"))
        found.append(pytest.param(fields, id=title))
    return found


@pytest.mark.parametrize("case", cases("expiry_cases.txt"))
def test_the_horizon_of_snapshots(case):
    history = history_of(case["history"])
    asked = dict(word.split("=") for word in case.get("retain", "").split())

    horizon = snapshot_horizon(
        history,
        retention_of(case.get("retain", "")),
        latest_id=history[-1].id,
        now_millis=NOW,
        next_consumed_id=int(asked["consumer"]) if "consumer" in asked else None,
    )

    assert f"{horizon.first_kept_id} ({horizon.held_by})" == case["keep"]


@pytest.mark.parametrize("case", cases("changelog_cases.txt"))
def test_what_becomes_of_changelogs(case):
    history = history_of(case["snapshots"])
    changelogs = history_of(case.get("changelogs", "-"))
    next_id, _, only = case.get("consumer", "").partition(" ")

    plan = plan_expiry(
        history,
        changelogs,
        latest_id=history[-1].id,
        last_changelog_id=changelogs[-1].id if changelogs else None,
        snapshot_retention=retention_of(case.get("snap", "")),
        changelog_retention=retention_of(case.get("log", "")),
        now_millis=NOW,
        consumers={"c": int(next_id)} if next_id else {},
        consumers_hold_snapshots=not only,
    )

    assert plan.snapshot_ids == ids_of(case["go"])
    assert plan.made_changelog_ids == ids_of(case["made"])
    assert plan.changelog_ids == ids_of(case["gone"])


@pytest.mark.parametrize(
    ("changelogs", "outlive"),
    [
        ({}, False),
        ({"max_retained": 11}, True),
        ({"max_retained": 9}, False),
        ({"max_age_millis": HOUR + 1}, True),
        ({"max_age_millis": HOUR - 1}, False),
        ({"min_retained": 3}, True),
        ({"min_retained": 1}, False),
    ],
)
def test_changelogs_are_decoupled_when_any_setting_keeps_them_longer(changelogs, outlive):
    snapshots = {"min_retained": 2, "max_retained": 10, "max_age_millis": HOUR}

    assert outlive_snapshots(retention(**{**snapshots, **changelogs}), retention(**snapshots)) is outlive


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"min_retained": 0}, "set 1 <= min <= max"),
        ({"max_retained": 0}, "At most 0 snapshots are to be retained: retain 1 or more"),
        ({"min_retained": 5, "max_retained": 4}, "At least 5 and at most 4"),
        ({"max_age_millis": -1}, "set 0 or more"),
        ({"limit": 0}, "a limit of 1 or more"),
    ],
)
def test_a_retention_that_contradicts_itself_is_refused(wrong, named):
    with pytest.raises(InvalidRequest, match=named):
        checked_retention(retention(**wrong))


def test_the_reason_names_the_figure_that_keeps_the_rest():
    def reason(**changes):
        return plan_expiry(
            history_of("3..9@0"),
            [],
            latest_id=9,
            last_changelog_id=None,
            snapshot_retention=retention(**changes),
            changelog_retention=retention(**changes),
            now_millis=NOW,
            consumers={"slow": 5, "quick": 8},
        ).reason

    assert reason() == "snapshots 3 to 9 stay: the one after 3 is younger than 3600 s"
    assert reason(max_retained=1) == "snapshots 5 to 9 of 3 to 9 stay: consumer slow has yet to read 5"
    assert reason(min_retained=7) == "snapshots 3 to 9 stay: at least 7 are to be retained"
    assert reason(max_retained=1, limit=1) == "snapshots 4 to 9 of 3 to 9 stay: at most 1 expire in one run"


retentions = st.builds(
    lambda low, more, age, limit: Retention(
        min_retained=low, max_retained=low + more, max_age_millis=age * HOUR, limit=limit
    ),
    st.integers(1, 12),
    st.integers(0, 12),
    st.integers(0, 30),
    st.integers(1, 12),
)
histories = st.builds(
    lambda first, ages: [At(first + i, NOW - age * HOUR) for i, age in enumerate(ages)],
    st.integers(1, 50),
    st.lists(st.integers(0, 40), min_size=1, max_size=25),
)
consumed = st.none() | st.integers(1, 80)


def expire_one_by_one(history, retention, now_millis, next_consumed_id):
    """The rule as Java walks it: drop the oldest while it may go."""
    earliest, latest = history[0].id, history[-1].id
    by_id = {at.id: at for at in history}
    end = min(latest - retention.min_retained + 1, earliest + retention.limit, next_consumed_id or 10**9)
    for id in range(max(latest - retention.max_retained + 1, earliest), end):
        if now_millis - by_id[id + 1].time_millis <= retention.max_age_millis:
            return id
    return max(earliest, end)


@given(histories, retentions, consumed)
def test_the_horizon_is_the_one_java_finds_step_by_step(history, retention, next_consumed_id):
    horizon = snapshot_horizon(
        history, retention, latest_id=history[-1].id, now_millis=NOW, next_consumed_id=next_consumed_id
    )

    assert horizon.first_kept_id == expire_one_by_one(history, retention, NOW, next_consumed_id)


@given(histories, retentions, consumed)
def test_the_newest_snapshots_always_stay_and_no_run_takes_more_than_its_limit(history, retention, next_consumed_id):
    first_kept = snapshot_horizon(
        history, retention, latest_id=history[-1].id, now_millis=NOW, next_consumed_id=next_consumed_id
    ).first_kept_id
    kept = [at for at in history if at.id >= first_kept]

    assert len(kept) >= min(retention.min_retained, len(history))
    assert len(history) - len(kept) <= retention.limit
    assert next_consumed_id is None or first_kept <= max(next_consumed_id, history[0].id)


@given(histories, retentions, consumed)
def test_times_beyond_the_asked_ids_decide_nothing(history, retention, next_consumed_id):
    ids = set(asked_ids([at.id for at in history], history[-1].id, retention))
    seen = [at for at in history if at.id in ids] or history[:1]

    def horizon(of):
        return snapshot_horizon(
            of, retention, latest_id=history[-1].id, now_millis=NOW, next_consumed_id=next_consumed_id
        )

    assert horizon(seen) == horizon(history)


@given(histories, histories, retentions, retentions)
def test_made_changelogs_come_from_expired_snapshots_and_join_what_is_kept(history, older, snapshots, changelogs):
    older = [at for at in older if at.id < history[0].id]

    plan = plan_expiry(
        history,
        older,
        latest_id=history[-1].id,
        last_changelog_id=older[-1].id if older else None,
        snapshot_retention=snapshots,
        changelog_retention=changelogs,
        now_millis=NOW,
        consumers={},
    )

    assert set(plan.made_changelog_ids) <= set(plan.snapshot_ids)
    kept = [at.id for at in older if at.id not in plan.changelog_ids]
    if kept and plan.snapshot_ids and outlive_snapshots(changelogs, snapshots):
        # Dense: no id between the oldest changelog kept and the first snapshot kept is missing.
        assert list(plan.made_changelog_ids) == list(plan.snapshot_ids)
