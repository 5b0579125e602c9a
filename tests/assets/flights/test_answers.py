"""The answers computed straight from the source: the published figures, and equal to the feed folded up."""

from datetime import date

import numpy as np
import pyarrow.compute as pc
import pytest

from assets.flights.answers import CarrierDay, answers_at, board_at, changes_between, weather_count
from assets.flights.events import FlightHistory, full_cdc
from assets.flights.source import FlightsSource

START, CLOSED = date(2013, 2, 1), date(2013, 2, 15)


def test_the_closed_answers_of_two_weeks(two_weeks: FlightsSource):
    answers = answers_at(two_weeks, start=START, through=CLOSED)

    assert answers.events == 35_590
    assert answers.by_status == {"arrived": 11_123, "cancelled": 1_061, "departed": 15, "diverted": 23}
    assert answers.rows == 12_222
    assert (answers.sum_arr_delay, answers.sum_dep_delay, answers.departures) == (68_620, 115_591, 11_161)
    assert len(answers.carrier_days) == 206
    assert answers.tail_numbers == 2_544
    # True, not missing: the first aircraft of the year to change its airline does so in March.
    assert [each for each in answers.operators if each.previous is not None] == []
    assert answers.update_pairs == 14_520
    assert len(answers.never_arrived) == 15
    assert (answers.weathered.flights, answers.weathered.precip) == (12_222, 64.88)
    assert sum(cancelled for _, cancelled in answers.weathered.by_visibility.values()) == 1_061
    assert answers.open == 15


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("carrier", "day", "cell"),
    [
        ("B6", 8, (148, 91, 57, 91, 1_762, 137)),
        ("UA", 9, (113, 43, 70, 43, 974, 234)),
        ("UA", 14, (171, 170, 1, 170, 285, 104)),
    ],
)
def test_a_carrier_on_a_closed_day(two_weeks: FlightsSource, carrier: str, day: int, cell: tuple[int, ...]):
    answers = answers_at(two_weeks, start=START, through=CLOSED)

    found = next(c for c in answers.carrier_days if (c.carrier, c.flight_date.day) == (carrier, day))
    assert found == CarrierDay(
        flight_date=date(2013, 2, day),
        carrier=carrier,
        scheduled=cell[0],
        departed=cell[1],
        cancelled=cell[2],
        arrived=cell[3],
        arr_delay=cell[4],
        worst_arr_delay=cell[5],
    )


def test_the_night_of_the_blizzard(two_weeks: FlightsSource):
    """Only flights up to 14 February are in the extract, so of 8 February every figure is the published one."""
    answers = answers_at(two_weeks, start=START, through=date(2013, 2, 8))

    assert (answers.events, answers.rows) == (21_001, 7_697)
    assert answers.by_status == {"arrived": 6_420, "cancelled": 405, "departed": 35, "diverted": 12, "scheduled": 825}
    assert answers.open_by_origin == {"EWR": 290, "JFK": 346, "LGA": 224}
    assert (answers.sum_arr_delay, answers.departures, answers.sum_dep_delay) == (27_065, 6_467, 51_763)
    assert (answers.sum_air_time, answers.sum_distance) == (967_687, 7_687_277)
    assert (len(answers.carrier_days), answers.tail_numbers, answers.update_pairs) == (131, 2_074, 8_146)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("evening", [date(2013, 2, 1), date(2013, 2, 8), CLOSED])
def test_the_feed_folds_to_the_same_answers(two_weeks: FlightsSource, past: FlightHistory, evening: date):
    answers = answers_at(two_weeks, start=START, through=evening)
    changes = full_cdc(
        past, np.arange(past.events_of(evening)[-1] + 1 if len(past.events_of(evening)) else len(past.row))
    )
    latest = {
        (row["flight_date"], row["carrier"], row["flight"], row["origin"]): row
        for row in changes.filter(pc.not_equal(changes["op"], "-U")).to_pylist()
    }

    assert len(latest) == answers.rows
    assert sum(row["arr_delay"] or 0 for row in latest.values()) == answers.sum_arr_delay
    assert sum(row["dep_delay"] or 0 for row in latest.values()) == answers.sum_dep_delay
    statuses = [row["status"] for row in latest.values()]
    assert {status: statuses.count(status) for status in set(statuses)} == answers.by_status


def test_the_board_counts_what_is_open(two_weeks: FlightsSource):
    shown = board_at(two_weeks, start=START, through=date(2013, 2, 8))

    assert sum(shown.values()) == 860
    assert sum(count for (_, status), count in shown.items() if status == "departed") == 35


def test_changes_between_two_evenings_are_the_events_between(two_weeks: FlightsSource, past: FlightHistory):
    changes = changes_between(two_weeks, start=START, after=date(2013, 2, 7), until=date(2013, 2, 8))
    cdc = full_cdc(past, past.events_of(date(2013, 2, 8)))

    assert changes == {op: cdc["op"].to_pylist().count(op) for op in ("+I", "+U", "-U")}


def test_weather_counts_whole_days_of_utc(two_weeks: FlightsSource):
    assert weather_count(two_weeks, start=START, through=CLOSED) == 1_080
    assert weather_count(two_weeks, start=START, through=START) == 72
