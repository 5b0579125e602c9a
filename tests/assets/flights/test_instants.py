"""True instants from local clocks."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse_core as lc
from assets.flights.instants import ABSENT, Instants, _next_clock, _offsets, instants
from assets.flights.source import FlightsSource

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ["America/New_York", "America/Chicago", "America/Phoenix", "Pacific/Honolulu", "America/Puerto_Rico"]
MINUTES_OF_2013 = st.integers(22_616_640, 22_616_640 + 366 * 1440)


def minute(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) // 60


def one_flight(**fields: object) -> pa.Table:
    row = {
        "time_hour": datetime(2013, 2, 8, 22, tzinfo=UTC),
        "minute": 30,
        "dep_delay": 10,
        "sched_arr_time": 1930,
        "arr_time": 1945,
        "arr_delay": 15,
        "dest": "ORD",
    } | fields
    types = {"time_hour": pa.timestamp("s", tz="UTC"), "dest": pa.string()}
    return pa.table({name: pa.array([value], types.get(name, pa.int16())) for name, value in row.items()})


AIRPORTS = pa.table({"faa": ["ORD", "LAX"], "tzone": ["America/Chicago", "America/Los_Angeles"]})


@given(st.lists(st.tuples(MINUTES_OF_2013, st.sampled_from(range(len(ZONES)))), min_size=1, max_size=20))
def test_the_offset_table_says_what_zoneinfo_says(points: list[tuple[int, int]]):
    minutes = np.array([at for at, _ in points])
    codes = np.array([code for _, code in points])

    assert _offsets(minutes, codes, ZONES).tolist() == [
        int((EPOCH + timedelta(minutes=at)).astimezone(ZoneInfo(ZONES[code])).utcoffset().total_seconds()) // 60
        for at, code in points
    ]


@given(MINUTES_OF_2013, st.integers(0, 23), st.integers(0, 59), st.sampled_from(range(len(ZONES))))
def test_the_next_time_a_clock_shows_is_at_most_a_day_away(start: int, hour: int, past: int, code: int):
    found = _next_clock(np.array([start]), np.array([hour * 100 + past]), np.array([code]), ZONES)[0]

    assert 0 <= found - start < 1440
    at_start = (EPOCH + timedelta(minutes=start)).astimezone(ZoneInfo(ZONES[code]))
    assert (at_start.hour * 60 + at_start.minute + found - start) % 1440 == hour * 60 + past


def test_an_arrival_has_its_instant_from_the_delay_and_from_the_clock():
    found = instants(one_flight(), AIRPORTS)

    assert found.sched_dep.tolist() == [minute("2013-02-08 22:30")]
    assert found.dep.tolist() == [minute("2013-02-08 22:40")]
    assert found.sched_arr.tolist() == [minute("2013-02-09 01:30")]
    assert found.arr.tolist() == [minute("2013-02-09 01:45")]


def test_a_clock_of_2400_is_midnight():
    found = instants(one_flight(arr_time=2400, arr_delay=270), AIRPORTS)

    assert found.arr.tolist() == [minute("2013-02-09 06:00")]


def test_a_diverted_flight_arrives_at_the_first_match_of_its_clock():
    found = instants(one_flight(arr_time=215, arr_delay=None), AIRPORTS)

    assert found.arr.tolist() == [minute("2013-02-09 08:15")]


def test_a_cancelled_flight_never_left():
    found = instants(one_flight(dep_delay=None, arr_time=None, arr_delay=None), AIRPORTS)

    assert (found.dep.tolist(), found.arr.tolist()) == ([ABSENT], [ABSENT])


def test_clock_and_delay_that_disagree_are_refused():
    with pytest.raises(
        lc.CorruptTable, match=r"row 0 has an arrival delay and an arrival clock that differ by 5 minutes"
    ):
        instants(one_flight(arr_delay=20), AIRPORTS)


def test_a_destination_without_a_zone_is_named():
    with pytest.raises(lc.NotFound, match="no time zone for destination XXX"):
        instants(one_flight(dest="XXX"), AIRPORTS)


def test_block_times_are_plausible_for_every_flight(two_weeks: FlightsSource):
    found: Instants = instants(two_weeks.flights, two_weeks.airports)
    block = found.sched_arr - found.sched_dep

    assert block.min() >= 50
    assert block.max() <= 700
