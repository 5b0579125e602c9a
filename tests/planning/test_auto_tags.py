"""Automatic tags: which snapshots get one, against cases in text and against Java's rule, taken one by one."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.options import TableOptions, TagOptions, local_millis, zone_of
from lakehouse_core.planning.auto_tag_names import auto_tag_name, auto_tag_time
from lakehouse_core.planning.auto_tags import (
    AutoTagPlan,
    SnapshotTime,
    due_from_millis,
    first_untagged_id,
    plan_auto_tags,
    taken_by,
)
from tests.oracle.auto_tags import make_all

EPOCH = datetime(1970, 1, 1)
FORMS = {
    "daily": "%Y-%m-%d",
    "hourly": "%Y-%m-%d %H",
    "two-hours": "%Y-%m-%d %H",
}
LENGTHS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}


def millis_of(time: datetime) -> int:
    return (time - EPOCH) // timedelta(milliseconds=1)


def options_of(words: dict[str, str]) -> TagOptions:
    period = words.get("period", "daily")
    given = {
        "tag.automatic-creation": "process-time",
        "tag.creation-period" if period in FORMS else "tag.creation-period-duration": period,
        "tag.period-formatter": words.get("format", "with_dashes"),
        "tag.creation-delay": words.get("delay", "0s"),
        "tag.automatic-completion": str("completes" in words).lower(),
    }
    return TableOptions.parse(given | ({"tag.num-retained-max": words["most"]} if "most" in words else {})).tags


def cases() -> list[tuple[str, TagOptions, dict[str, int], list[SnapshotTime], str]]:
    found, words = [], {"options": "", "tags": ""}
    for line in (Path(__file__).parent / "auto_tag_cases.txt").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if not line or name == "#":
            continue
        words[name] = rest
        if name == "plan":
            options = options_of(dict(each.partition("=")[::2] for each in words["options"].split()))
            tags = {each.split("@")[0]: int(each.split("@")[1]) for each in words["tags"].split()}
            times = [each.split("@") for each in words["snapshots"].split()]
            snapshots = [
                SnapshotTime(int(id), None if time == "-" else millis_of(datetime.fromisoformat(time)))
                for id, time in times
            ]
            found.append((str(words), options, tags, snapshots, rest))
            words = {"options": "", "tags": ""}
    return found


def shown(plan: AutoTagPlan) -> str:
    made = [f"+{name.replace(' ', '_')}@{id}" for name, id in plan.made]
    return " ".join([*made, *(f"-{name}" for name in plan.deleted)])


@pytest.mark.parametrize(("text", "options", "tags", "snapshots", "plan"), cases())
def test_the_tags_that_are_due_are_made(
    text: str, options: TagOptions, tags: dict[str, int], snapshots: list[SnapshotTime], plan: str
) -> None:
    assert shown(plan_auto_tags(tags, snapshots, options)) == plan, text


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, Any], list[datetime | None]]:
    period = draw(st.sampled_from(list(FORMS)))
    length = LENGTHS[period]
    words: dict[str, Any] = {"period": period}
    if draw(st.booleans()):
        words["delay"] = f"{draw(st.integers(0, length // timedelta(seconds=1) - 1))}s"
    if draw(st.booleans()):
        words["completes"] = ""
    if draw(st.booleans()):
        words["most"] = str(draw(st.integers(1, 4)))
    steps = draw(st.lists(st.one_of(st.none(), st.floats(0, 3.5)), min_size=1, max_size=12))
    now, times = datetime(2024, 2, 27, 13, 30), []
    for step in steps:
        now += (step or 0) * length
        times.append(None if step is None else now)
    return words, times


@given(histories(), st.lists(st.integers(1, 12), max_size=4, unique=True), st.integers(0, 2**20))
def test_commits_that_make_tags_now_and_then_make_those_of_java(
    history: tuple[dict[str, Any], list[datetime | None]], by_hand: list[int], looks: int
) -> None:
    """Whichever commits look for tags, each from what is there: the result is that of Java after the same commits."""
    words, times = history
    options, length = options_of(words), LENGTHS[words["period"]]
    delay = timedelta(seconds=int(words.get("delay", "0s")[:-1]))
    snapshots = list(enumerate(times, 1))
    tags = {f"mine{id}": id for id in by_hand if id <= len(times)}
    expected = dict(tags)
    for id, _ in snapshots:
        if not looks >> id & 1 and id != len(times):
            continue
        expected = make_all(
            expected,
            snapshots[:id],
            period=length,
            form=FORMS[words["period"]],
            delay=delay,
            completes="completes" in words,
            most=int(words["most"]) if "most" in words else None,
        )
        first = first_untagged_id(tags, options)
        known = [SnapshotTime(each, None if at is None else millis_of(at)) for each, at in snapshots[first - 1 : id]]
        plan = plan_auto_tags(tags, known, options)
        due = due_from_millis(tags, options)
        is_due = any(each.local_millis is not None and (due is None or each.local_millis >= due) for each in known)

        assert is_due or plan == AutoTagPlan()
        tags = {name: at for name, at in (tags | dict(plan.made)).items() if name not in plan.deleted}
        assert tags == expected


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999), st.sampled_from([*FORMS, "15min"]))
def test_a_name_says_the_time_that_it_was_made_of(millis: int, period: str) -> None:
    options = options_of({"period": period})
    unit = 60_000 if period == "15min" else LENGTHS[period] // timedelta(milliseconds=1)
    begun = millis // unit * unit
    if begun < -62_135_596_800_000:
        begun += unit

    name = auto_tag_name(begun, options)

    assert name is not None
    assert auto_tag_time(name, options) == begun


def test_a_time_that_no_name_has_gets_no_tag() -> None:
    assert plan_auto_tags({}, [SnapshotTime(3, 400_000_000_000_000)], options_of({})) == AutoTagPlan()


@pytest.mark.parametrize(
    ("first_hour", "made"),
    [
        # 2:30 in winter time follows 2:30 in summer time: one tag for both hours.
        (datetime(2024, 10, 27, 0, 30), [("2024-10-27 01", 1), ("2024-10-27 02", 3)]),
        # 3:30 follows 1:30: the hour in between, which no clock shows, is the one that ended.
        (datetime(2024, 3, 31, 0, 30), [("2024-03-31 00", 1), ("2024-03-31 02", 2), ("2024-03-31 03", 3)]),
    ],
)
def test_where_clocks_are_set_the_names_are_those_that_they_show(
    first_hour: datetime, made: list[tuple[str, int]]
) -> None:
    zone = zone_of("Europe/Berlin")
    assert zone is not None
    times = [millis_of(first_hour + timedelta(hours=hour)) for hour in range(3)]

    snapshots = [SnapshotTime(id, local_millis(millis, zone)) for id, millis in enumerate(times, 1)]

    assert list(plan_auto_tags({}, snapshots, options_of({"period": "hourly"})).made) == made


def test_only_a_second_automatic_tag_of_a_snapshot_is_taken() -> None:
    tags = {"2024-05-01": 1, "mine": 2}

    assert taken_by("2020-01-01", 1, tags, options_of({})) == "2024-05-01"
    assert taken_by("2020-01-01", 2, tags, options_of({})) is None
    assert taken_by("yours", 1, tags, options_of({})) is None
    assert taken_by("2020-01-01", 1, tags, TagOptions()) is None


ZONES = {
    "Z": 0, "UTC": 0, "GMT": 0, "UT": 0, "+1": 1, "UTC+8": 8, "GMT-08:00": -8, "+0130": 1.5, "-18:00": -18,
    "Europe/Berlin": 1, "America/Los_Angeles": -8, "Etc/GMT+8": -8,
}  # fmt: skip


@pytest.mark.parametrize(("name", "hours"), ZONES.items())
def test_zones_are_named_as_in_java(name: str, hours: float) -> None:
    zone = zone_of(name)

    assert zone is not None
    assert local_millis(0, zone) == hours * 3_600_000


@pytest.mark.parametrize("name", ["", "x", "+19:00", "+1:30", "+01:60", "utc", "../etc/passwd", "Europe", "UTC+"])
def test_what_is_no_zone_is_none(name: str) -> None:
    assert zone_of(name) is None


def test_a_time_beyond_the_calendar_has_no_wall_clock() -> None:
    zone = zone_of("Europe/Berlin")

    assert zone is not None
    assert local_millis(2**63 - 1, zone) is None
