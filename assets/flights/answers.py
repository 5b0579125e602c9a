"""The answers to the questions of the main job, computed straight from the source, row by row.

Deliberately independent of the feed: no events, no order, no images. Each flight's state on an evening is worked out
from its own clocks with the standard library alone, so that equal answers mean that the whole pipeline is right.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from assets.flights.source import FlightsSource

_NEW_YORK = ZoneInfo("America/New_York")
_MISSING_ZONES = {dest: "America/Puerto_Rico" for dest in ("SJU", "BQN", "PSE")} | {"STT": "America/St_Thomas"}

Key = tuple[date, str, int, str]

# Visibility in miles by the first of these names whose bound it lies below; 10 is the most that is reported.
VISIBILITY_BANDS = (("under 1 mile", 1.0), ("1 to 3 miles", 3.0), ("3 to 10 miles", 10.0), ("10 miles", math.inf))


@dataclass(frozen=True, slots=True, kw_only=True)
class CarrierDay:
    """One carrier on one flight date: how many flights were scheduled, left, arrived, were cancelled, and how late."""

    flight_date: date
    carrier: str
    scheduled: int
    departed: int
    cancelled: int
    arrived: int
    arr_delay: int
    worst_arr_delay: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weathered:
    """Flights with an observation for their scheduled hour: how many, inches over all, (flights, cancelled) by band."""

    flights: int
    precip: float
    by_visibility: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Operated:
    """From its departure at `since` an aircraft was flown by `carrier`, before by `previous` (None: not seen yet)."""

    tailnum: str
    since: datetime
    carrier: str
    previous: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What is known on the evening (24:00 UTC) of a batch day about all flights from a start date on."""

    events: int
    rows: int
    by_status: Mapping[str, int]
    open_by_origin: Mapping[str, int]
    sum_arr_delay: int
    sum_dep_delay: int
    departures: int
    sum_air_time: int
    sum_distance: int
    carrier_days: tuple[CarrierDay, ...]
    # Left more than a day before the evening, and no word since; key order.
    never_arrived: tuple[Key, ...]
    first_seen: Mapping[str, datetime]
    # By aircraft and time; the first entry of each is the airline that it was first seen with.
    operators: tuple[Operated, ...]
    weathered: Weathered
    update_pairs: int

    @property
    def tail_numbers(self) -> int:
        return len(self.first_seen)

    @property
    def open(self) -> int:
        return sum(self.open_by_origin.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flight:
    key: Key
    instants: Mapping[str, datetime]
    sched_arr: datetime
    row: Mapping[str, Any]

    def status(self, evening: datetime) -> str | None:
        """The last thing that happened before `evening`; None: not even scheduled."""
        happened = [name for name, at in self.instants.items() if at < evening]
        return happened[-1] if happened else None


def answers_at(source: FlightsSource, *, start: date, through: date) -> Answers:
    """Answer for flights on or after `start`, as known when the batch of `through` is complete."""
    evening = _end_of(through)
    known = [(flight, status) for flight in _flights(source, start, through) if (status := flight.status(evening))]
    left = [f for f, s in known if s in {"departed", "arrived", "diverted"}]
    arrived = [f for f, s in known if s == "arrived"]
    operators = _operators(left)
    still_open = [f for f, s in known if s in {"scheduled", "departed"}]
    return Answers(
        events=sum(at < evening for f, _ in known for at in f.instants.values()),
        rows=len(known),
        by_status=Counter(s for _, s in known),
        open_by_origin=dict(sorted(Counter(f.row["origin"] for f in still_open).items())),
        sum_arr_delay=sum(f.row["arr_delay"] for f in arrived),
        sum_dep_delay=sum(f.row["dep_delay"] for f in left),
        departures=len(left),
        sum_air_time=sum(f.row["air_time"] for f in arrived),
        sum_distance=sum(f.row["distance"] for f, _ in known),
        carrier_days=_carrier_days(known),
        never_arrived=tuple(
            sorted(f.key for f, s in known if s == "departed" and f.sched_arr < evening - timedelta(days=1))
        ),
        first_seen={each.tailnum: each.since for each in operators if each.previous is None},
        operators=operators,
        weathered=_weathered(source, known, evening),
        update_pairs=sum(_update_batches(f, evening) for f, _ in known),
    )


def board_at(source: FlightsSource, *, start: date, through: date) -> Mapping[tuple[str, str], int]:
    """Return how many flights the departures board shows that evening, by (origin, status)."""
    evening = _end_of(through)
    shown = Counter(
        (flight.row["origin"], status)
        for flight in _flights(source, start, through)
        if (status := flight.status(evening)) in {"scheduled", "departed"}
    )
    return dict(sorted((cell, count) for cell, count in shown.items()))


def changes_between(source: FlightsSource, *, start: date, after: date, until: date) -> Mapping[str, int]:
    """Return how many changes of each row kind the batches in (`after`, `until`] bring to `flights`."""
    begin, end = _end_of(after), _end_of(until)
    kinds: Counter[str] = Counter()
    for flight in _flights(source, start, until):
        for name, at in flight.instants.items():
            if begin <= at < end:
                kinds.update(["+I"] if name == "scheduled" else ["-U", "+U"])
    return dict(sorted(kinds.items()))


def weather_count(source: FlightsSource, *, start: date, through: date) -> int:
    """Return the number of weather observations from `start` 00:00 UTC to the end of `through`."""
    begin, end = datetime.combine(start, time(), UTC), _end_of(through)
    return sum(begin <= at < end for at in source.weather["time_hour"].to_pylist())


def _flights(source: FlightsSource, start: date, through: date) -> Iterator[_Flight]:
    # A flight is first heard of on the day before its date: later dates cannot matter yet.
    last = through + timedelta(days=1)
    zones = (
        dict(zip(source.airports["faa"].to_pylist(), source.airports["tzone"].to_pylist(), strict=True))
        | _MISSING_ZONES
    )
    for row in _rows_between(source.flights, start, last):
        yield _flight(row, date(row["year"], row["month"], row["day"]), ZoneInfo(zones[row["dest"]]))


def _rows_between(flights: pa.Table, first: date, last: date) -> list[dict[str, Any]]:
    year, month, day = (flights[name].cast(pa.int32()) for name in ("year", "month", "day"))
    written = pc.add(pc.multiply(pc.add(pc.multiply(year, 100), month), 100), day)
    inside = pc.and_(*(f(written, int(f"{d:%Y%m%d}")) for f, d in ((pc.greater_equal, first), (pc.less_equal, last))))
    return flights.filter(inside).to_pylist()


def _flight(row: Mapping[str, Any], flight_date: date, zone: ZoneInfo) -> _Flight:
    # The local clock at New York, unlike `time_hour`, is what the passenger reads on the ticket.
    clock = time(row["sched_dep_time"] // 100, row["sched_dep_time"] % 100)
    sched_dep = datetime.combine(flight_date, clock, _NEW_YORK).astimezone(UTC)
    instants = {"scheduled": datetime.combine(flight_date - timedelta(days=1), time(), UTC)}
    if row["dep_time"] is None:
        instants["cancelled"] = sched_dep
    else:
        dep = sched_dep + timedelta(minutes=row["dep_delay"])
        instants["departed"] = dep
        if row["arr_time"] is not None:
            instants["arrived" if row["arr_delay"] is not None else "diverted"] = _clock_after(
                dep, row["arr_time"], zone
            )
    return _Flight(
        key=(flight_date, row["carrier"], row["flight"], row["origin"]),
        instants=instants,
        sched_arr=_clock_after(sched_dep, row["sched_arr_time"], zone),
        row=row,
    )


def _clock_after(start: datetime, clock: int, zone: ZoneInfo) -> datetime:
    """Return the first instant at or after `start` when a clock in `zone` shows `clock` (HHMM)."""
    local = start.astimezone(zone)
    minutes = (clock // 100 % 24 * 60 + clock % 100 - local.hour * 60 - local.minute) % (24 * 60)
    return start + timedelta(minutes=minutes)


def _carrier_days(known: Sequence[tuple[_Flight, str]]) -> tuple[CarrierDay, ...]:
    cells: dict[tuple[date, str], list[tuple[_Flight, str]]] = {}
    for flight, status in known:
        cells.setdefault((flight.key[0], flight.key[1]), []).append((flight, status))
    return tuple(
        CarrierDay(
            flight_date=day,
            carrier=carrier,
            scheduled=len(flights),
            departed=sum(status in {"departed", "arrived", "diverted"} for _, status in flights),
            cancelled=sum(status == "cancelled" for _, status in flights),
            arrived=len(delays := [f.row["arr_delay"] for f, status in flights if status == "arrived"]),
            arr_delay=sum(delays),
            worst_arr_delay=max(delays, default=None),
        )
        for (day, carrier), flights in sorted(cells.items())
    )


def _operators(left: Sequence[_Flight]) -> tuple[Operated, ...]:
    departures: dict[str, list[tuple[datetime, str]]] = {}
    for flight in left:
        departures.setdefault(flight.row["tailnum"], []).append((flight.instants["departed"], flight.key[1]))
    found = []
    for tailnum, moves in sorted(departures.items()):
        previous = None
        for since, carrier in sorted(moves):
            if carrier != previous:
                found.append(Operated(tailnum=tailnum, since=since, carrier=carrier, previous=previous))
            previous = carrier
    return tuple(found)


def _weathered(source: FlightsSource, known: Sequence[tuple[_Flight, str]], evening: datetime) -> Weathered:
    observed = {(row["origin"], row["time_hour"]): row for row in source.weather.to_pylist()}
    seen = [
        (status, weather)
        for flight, status in known
        if flight.row["time_hour"] < evening
        if (weather := observed.get((flight.row["origin"], flight.row["time_hour"]))) is not None
    ]
    bands: dict[str, tuple[int, int]] = {}
    for status, weather in seen:
        if weather["visib"] is not None:
            band = next(name for name, bound in VISIBILITY_BANDS if weather["visib"] < bound)
            flights, cancelled = bands.get(band, (0, 0))
            bands[band] = flights + 1, cancelled + (status == "cancelled")
    precip = math.fsum(weather["precip"] for _, weather in seen if weather["precip"] is not None)
    return Weathered(flights=len(seen), precip=round(precip, 2), by_visibility=bands)


def _update_batches(flight: _Flight, evening: datetime) -> int:
    """Return in how many batches something happened to the flight after it had been scheduled."""
    return len({at.date() for name, at in flight.instants.items() if name != "scheduled" and at < evening})


def _end_of(batch: date) -> datetime:
    return datetime.combine(batch + timedelta(days=1), time(), UTC)
