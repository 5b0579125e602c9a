"""Cron schedules of specifications are those that Dagster takes, and their ticks are as far apart."""

from datetime import timedelta

import dagster as dg
import pytest
from pydantic import TypeAdapter, ValidationError

from lakehouse_dagster.specs.cron import Cron, Timezone, shortest_interval

SCHEDULES = """
0 6 * * *          1 day
*/10 * * * *       10 min
5/20 * * * *       20 min
0 6,18 * * *       12 h
55,5 23,0 * * *    10 min
0 0 1 * *          28 days
0 0 29 2 *         1461 days
0 9 * * mon-fri    1 day
0 9 * * 1          7 days
0 9 * * 0,7        7 days
0 0 13 * fri       1 day
30 4 1,15 jan *    14 days
"""
UNITS = {"min": "minutes", "h": "hours", "day": "days", "days": "days"}


@pytest.mark.parametrize("case", SCHEDULES.strip().splitlines())
def test_the_shortest_interval_is_that_of_the_ticks_and_dagster_takes_the_schedule(case: str):
    *cron, number, unit = case.split()
    shortest = timedelta(**{UNITS[unit]: int(number)})

    assert shortest_interval(" ".join(cron)) == shortest
    dg.FreshnessPolicy.cron(" ".join(cron), min(shortest, timedelta(days=1)))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("@daily", "expected the five fields"),
        ("0 6 * *", "expected the five fields"),
        ("0 24 * * *", "hour '24', expected numbers from 0 to 23"),
        ("60 * * * *", "minute '60'"),
        ("*/0 * * * *", "minute '\\*/0'"),
        ("0 0 0 * *", "day of the month '0'"),
        ("0 0 * * 5-3", "day of the week '5-3'"),
        ("0 0 * foo *", "month 'foo'"),
        ("0 1, * * *", "hour ''"),
        ("0 0 30 feb *", "is never due"),
    ],
)
def test_another_text_is_refused_with_the_field_that_is_wrong(text: str, fault: str):
    with pytest.raises(ValidationError, match=fault):
        TypeAdapter(Cron).validate_python(text)


def test_a_time_zone_that_is_not_known_is_refused():
    assert TypeAdapter(Timezone).validate_python("Europe/Berlin") == "Europe/Berlin"
    with pytest.raises(ValidationError, match="found 'Berlin', expected the name of a time zone"):
        TypeAdapter(Timezone).validate_python("Berlin")
