"""What the change history of the flights promises, on two real weeks."""

from collections import Counter
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.flights.events import (
    FlightHistory,
    Kind,
    batch_ordinal,
    batches,
    board,
    full_cdc,
    history,
    partial_events,
    weather_rows,
)
from assets.flights.source import FlightsSource

KEY = ("flight_date", "carrier", "flight", "origin")
DAYS = [date(2013, 1, 31) + timedelta(days=n) for n in range(16)]


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def everything(past: FlightHistory) -> np.ndarray:
    return np.arange(len(past.row))


def fold(changes: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Apply changes in order; what is left by key."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in changes.to_pylist():
        match row.pop("op"):
            case "-D":
                del rows[key(row)]
            case "-U":
                assert {**rows.pop(key(row)), "seq": row["seq"]} == row
            case "+I" | "+U":
                assert key(row) not in rows or row["status"] == "departed"
                rows[key(row)] = row
    return rows


def test_every_flight_has_the_events_of_its_outcome(past: FlightHistory):
    counts = Counter(Kind(kind).name for kind in past.kind.tolist())

    assert counts == {"SCHEDULED": 12_222, "DEPARTED": 11_161, "CANCELLED": 1_061, "ARRIVED": 11_123, "DIVERTED": 23}
    assert sum(counts.values()) == 35_590


def test_events_are_in_order_of_time_and_strictly_so_within_a_flight(past: FlightHistory):
    assert (np.diff(past.minute) >= 0).all()
    by_flight: dict[int, list[int]] = {}
    for row, minute in zip(past.row.tolist(), past.minute.tolist(), strict=True):
        by_flight.setdefault(row, []).append(minute)
    assert all(earlier < later for minutes in by_flight.values() for earlier, later in pairwise(minutes))


def test_the_order_does_not_depend_on_the_order_of_the_source(two_weeks: FlightsSource, past: FlightHistory):
    backwards = pa.array(np.arange(two_weeks.flights.num_rows)[::-1])
    shuffled = FlightsSource(
        flights=two_weeks.flights.take(backwards),
        weather=two_weeks.weather,
        airports=two_weeks.airports,
        airlines=two_weeks.airlines,
        planes=two_weeks.planes,
    )

    again = history(shuffled)

    assert full_cdc(again, everything(again)).equals(full_cdc(past, everything(past)))


def test_each_batch_is_a_day_of_utc_and_all_batches_are_all_events(past: FlightHistory):
    parts = [past.events_of(day) for day in batches()]

    assert np.concatenate(parts).tolist() == everything(past).tolist()
    for day, events in zip(batches(), parts, strict=True):
        assert set(partial_events(past, events)["batch"].to_pylist()) <= {day}


def test_the_partial_feed_brings_only_what_the_event_tells(past: FlightHistory):
    filled: dict[str, set[str]] = {}
    for row in partial_events(past, everything(past)).to_pylist():
        filled.setdefault(row["kind"], set()).update(name for name, value in row.items() if value is not None)
    always = {*KEY, "kind", "event_time", "seq", "batch"}

    assert {kind: names - always for kind, names in filled.items()} == {
        "scheduled": {"dest", "distance", "sched_dep", "sched_arr"},
        "departed": {"tailnum", "dep", "dep_delay"},
        "cancelled": {"tailnum"},
        "arrived": {"arr", "arr_delay", "air_time"},
        "diverted": {"arr"},
    }


def test_folding_the_full_feed_gives_back_the_source(two_weeks: FlightsSource, past: FlightHistory):
    changes = full_cdc(past, everything(past))
    rows = fold(changes)

    assert changes.num_rows == 12_222 + 2 * (11_161 + 1_061 + 11_123 + 23)
    assert len(rows) == 12_222
    for flight in two_weeks.flights.to_pylist():
        row = rows[
            date(flight["year"], flight["month"], flight["day"]), flight["carrier"], flight["flight"], flight["origin"]
        ]
        for name in ("dest", "distance", "dep_delay", "arr_delay", "air_time"):
            assert row[name] == flight[name]
        assert row["tailnum"] == flight["tailnum"]


def test_sequence_numbers_of_the_full_feed_rise_and_never_repeat(past: FlightHistory):
    sequence = full_cdc(past, everything(past))["seq"].to_numpy()

    assert (np.diff(sequence) > 0).all()


def test_only_flights_never_heard_of_again_stay_on_the_board(past: FlightHistory):
    left = fold(board(past, everything(past)))

    assert len(left) == 15
    assert {row["status"] for row in left.values()} == {"departed"}


def test_the_board_shows_what_the_full_feed_calls_open(past: FlightHistory):
    evening = past.events_of(date(2013, 2, 8))[-1] + 1
    known = np.arange(evening)

    of_full = {k for k, row in fold(full_cdc(past, known)).items() if row["status"] in {"scheduled", "departed"}}
    assert fold(board(past, known)).keys() == of_full


def test_a_start_date_leaves_out_flights_and_changes_no_sequence_number(past: FlightHistory):
    events = past.events_of(date(2013, 2, 8))
    kept = past.from_day(events, date(2013, 2, 8))
    late = set(events.tolist()) - set(kept.tolist())

    assert late
    assert set(pc.unique(partial_events(past, np.array(sorted(late)))["flight_date"]).to_pylist()) == {date(2013, 2, 7)}
    assert partial_events(past, kept)["seq"].to_pylist() == kept.tolist()


def test_weather_joins_every_flight_by_airport_and_hour(two_weeks: FlightsSource):
    weather = {(row["origin"], row["time_hour"]): row for row in weather_rows(two_weeks).to_pylist()}
    matched = [weather[row["origin"], row["time_hour"]] for row in two_weeks.flights.to_pylist()]

    assert len(matched) == 12_222
    assert round(sum(row["precip"] for row in matched), 2) == 64.88


def test_batches_cover_the_year_and_count_from_zero():
    assert len(batches()) == 367
    assert [batch_ordinal(day) for day in batches()] == list(range(367))
