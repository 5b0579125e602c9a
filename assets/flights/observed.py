"""Two feeds made of single facts: partial rows for each kind of news about a flight, and ones to be counted.

The partial rows name all columns of their group and leave the sequence numbers of the other groups null, so that
they may be delivered in any order.
"""

from datetime import date

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from assets.flights.events import EPOCH, INSTANT, FlightHistory, Kind, Rows, flight_keys, partial_events
from assets.flights.instants import MINUTES_A_DAY, Minutes
from assets.flights.source import FlightsSource

WEATHER_COLUMNS = ("temp", "wind_speed", "precip", "visib")
COUNTERS = ("scheduled", "departed", "cancelled", "arrived")


def status_rows(past: FlightHistory, source: FlightsSource, batch: date) -> pa.Table:
    """What became known on the day, by flight: its schedule, its departure or cancellation, its arrival, its weather.

    The weather is that of the scheduled hour at the airport of origin, known when the hour begins.
    """
    news = _event_news(past, past.events_of(batch))
    weather = _weather_news(past, source, batch)
    return pa.concat_tables([news, weather], promote_options="default")


def counted_events(past: FlightHistory, events: Rows) -> pa.Table:
    """One row an event, 1 in the counter of its kind and the delay that it tells; a diversion counts for nothing."""
    row, kind = past.row[events], past.kind[events]
    arrived = kind == Kind.ARRIVED
    kinds = (Kind.SCHEDULED, Kind.DEPARTED, Kind.CANCELLED, Kind.ARRIVED)
    told = partial_events(past, events)
    keys = flight_keys(past, row)
    return pa.table(
        {
            "flight_date": keys["flight_date"],
            "carrier": keys["carrier"],
            **{name: pa.array((kind == k).astype(np.int64)) for name, k in zip(COUNTERS, kinds, strict=True)},
            "arr_delay": pc.fill_null(pc.cast(told["arr_delay"], pa.int64()), 0),
            "dep_delay": pc.fill_null(pc.cast(told["dep_delay"], pa.int64()), 0),
            "worst_arr_delay": pc.if_else(pa.array(arrived), told["arr_delay"], pa.scalar(None, pa.int16())),
        }
    )


def observed_flights(past: FlightHistory, source: FlightsSource) -> tuple[Rows, Rows, Minutes]:
    """Return the flights that have a weather observation, its row in the source, and its hour in minutes since 1970."""
    hour = _hours(past.flights)
    names = np.unique(past.flights["origin"].to_numpy(zero_copy_only=False))
    wanted = _place_and_hour(names, past.flights, hour)
    there = _place_and_hour(names, source.weather, _hours(source.weather))
    order = np.argsort(there)
    place = np.minimum(np.searchsorted(there[order], wanted), len(there) - 1)
    flights = np.flatnonzero(there[order][place] == wanted) if len(there) else np.array([], dtype=np.int64)
    return flights, order[place[flights]], hour[flights]


def _event_news(past: FlightHistory, events: Rows) -> pa.Table:
    kind = past.kind[events]
    told = partial_events(past, events)
    moved = (kind == Kind.DEPARTED) | (kind == Kind.CANCELLED)
    landed = (kind == Kind.ARRIVED) | (kind == Kind.DIVERTED)
    return pa.table(
        {
            **flight_keys(past, past.row[events]),
            **{name: told[name] for name in ("dest", "distance", "sched_dep", "sched_arr")},
            "sched_seq": _where(kind == Kind.SCHEDULED, events),
            **{name: told[name] for name in ("tailnum", "dep", "dep_delay")},
            "cancelled": _true_where(kind == Kind.CANCELLED),
            "move_seq": _where(moved, events),
            **{name: told[name] for name in ("arr", "arr_delay", "air_time")},
            "diverted": _true_where(kind == Kind.DIVERTED),
            "arr_seq": _where(landed, events),
        }
    )


def _weather_news(past: FlightHistory, source: FlightsSource, batch: date) -> pa.Table:
    flights, observation, hour = observed_flights(past, source)
    today = hour // MINUTES_A_DAY == (batch - EPOCH).days
    seen = source.weather.select(list(WEATHER_COLUMNS)).take(pa.array(observation[today]))
    return pa.table(
        {
            **flight_keys(past, flights[today]),
            **{name: seen[name] for name in WEATHER_COLUMNS},
            "wx_seq": pa.array(hour[today], pa.int64()),
        }
    )


def _hours(table: pa.Table) -> Minutes:
    millis = pc.cast(pc.cast(table["time_hour"], INSTANT), pa.int64())
    return np.asarray(millis.to_numpy(), dtype=np.int64) // 60_000


def _place_and_hour(names: npt.NDArray[np.object_], table: pa.Table, hour: Minutes) -> Rows:
    place = pc.index_in(table["origin"], value_set=pa.array(names, pa.string()))
    return np.asarray(pc.fill_null(place, len(names)).to_numpy(), dtype=np.int64) * 2**40 + hour


def _where(mask: npt.NDArray[np.bool_], numbers: Rows) -> pa.Array:
    return pa.array(numbers, pa.int64(), mask=~mask)


def _true_where(mask: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(np.ones(len(mask), dtype=bool), mask=~mask)
