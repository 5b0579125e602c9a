"""The change history of a year of flights, and the three shapes in which it is delivered.

Each flight is scheduled, then departs and arrives or is diverted, or is cancelled: one event each, at its own minute.
Two of these times are assumed, for the source does not have them: a schedule is published at 00:00 UTC on the day
before the flight date, and a cancellation becomes known at the scheduled departure.
Which columns are known after an event depends on its kind alone, so every row image is a mask over the source row.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from assets.flights.instants import ABSENT, MINUTES_A_DAY, Instants, Minutes, flight_days, instants
from assets.flights.source import FlightsSource

# Part of every cached feed's version: raise it when a rule of this module or of `instants` changes.
RULE_VERSION = 1

EPOCH = date(1970, 1, 1)
FIRST_BATCH = date(2012, 12, 31)
LAST_BATCH = date(2014, 1, 1)

INSTANT = pa.timestamp("ms", tz="UTC")

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Kind(IntEnum):
    """What happened; also the state of a flight after it. The order decides between events of one minute."""

    SCHEDULED = 0
    DEPARTED = 1
    CANCELLED = 2
    ARRIVED = 3
    DIVERTED = 4


KIND_NAMES = tuple(kind.name.lower() for kind in Kind)

_ENDED = (Kind.CANCELLED, Kind.ARRIVED, Kind.DIVERTED)
# The image before an event, by its kind: arrivals and diversions follow a departure, the others the schedule.
_BEFORE = np.array([-1, Kind.SCHEDULED, Kind.SCHEDULED, Kind.DEPARTED, Kind.DEPARTED], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightHistory:
    """All events of the source in their total order; event `i` has sequence number `i`.

    `row` is the position of the flight in the source, `minute` the instant of the event.
    """

    flights: pa.Table
    times: Instants
    flight_day: Minutes
    row: Rows
    kind: Rows
    minute: Minutes

    def events_of(self, batch: date) -> Rows:
        """Return the sequence numbers of the events whose UTC date is `batch`, ascending."""
        begin = (batch - EPOCH).days * MINUTES_A_DAY
        first, last = np.searchsorted(self.minute, [begin, begin + MINUTES_A_DAY])
        return np.arange(first, last)

    def from_day(self, events: Rows, start: date) -> Rows:
        """Keep the events of flights from `start` on. With an upper bound a batch would change its meaning."""
        return events[self.flight_day[self.row[events]] >= (start - EPOCH).days]


def history(source: FlightsSource) -> FlightHistory:
    """Derive the events of all flights: sorted by time, kind, carrier, flight, origin and flight date."""
    flights = source.flights.combine_chunks()
    times = instants(flights, source.airports)
    day = flight_days(flights)
    departed, arrived = times.dep != ABSENT, times.arr != ABSENT
    has_delay = flights["arr_delay"].is_valid().to_numpy()
    by_kind = {
        Kind.SCHEDULED: (np.ones(len(day), dtype=bool), (day - 1) * MINUTES_A_DAY),
        Kind.DEPARTED: (departed, times.dep),
        Kind.CANCELLED: (~departed, times.sched_dep),
        Kind.ARRIVED: (arrived & has_delay, times.arr),
        Kind.DIVERTED: (arrived & ~has_delay, times.arr),
    }
    rows = [np.flatnonzero(mask) for mask, _ in by_kind.values()]
    row = np.concatenate(rows)
    minute = np.concatenate([at[chosen] for (_, at), chosen in zip(by_kind.values(), rows, strict=True)])
    kind = np.concatenate([np.full(len(r), k, dtype=np.int64) for k, r in zip(by_kind, rows, strict=True)])

    ranks = [_ranks(flights[name]) for name in ("carrier", "flight", "origin")]
    order = np.lexsort((day[row], ranks[2][row], ranks[1][row], ranks[0][row], np.minimum(kind, Kind.ARRIVED), minute))
    return FlightHistory(
        flights=flights, times=times, flight_day=day, row=row[order], kind=kind[order], minute=minute[order]
    )


def partial_events(past: FlightHistory, events: Rows) -> pa.Table:
    """The feed of an append or partial-update table: the key, and only the columns that the event itself brings."""
    row, kind = past.row[events], past.kind[events]
    scheduled, departed = kind == Kind.SCHEDULED, kind == Kind.DEPARTED
    arrived = kind == Kind.ARRIVED
    landed = arrived | (kind == Kind.DIVERTED)
    return pa.table(
        {
            **flight_keys(past, row),
            "kind": _names(kind),
            "event_time": _instants(past.minute[events]),
            "dest": _column(past, "dest", row, scheduled),
            "distance": _column(past, "distance", row, scheduled),
            "sched_dep": _instants(past.times.sched_dep[row], scheduled),
            "sched_arr": _instants(past.times.sched_arr[row], scheduled),
            "tailnum": _column(past, "tailnum", row, departed | (kind == Kind.CANCELLED)),
            "dep": _instants(past.times.dep[row], departed),
            "dep_delay": _column(past, "dep_delay", row, departed),
            "arr": _instants(past.times.arr[row], landed),
            "arr_delay": _column(past, "arr_delay", row, arrived),
            "air_time": _column(past, "air_time", row, arrived),
            "seq": pa.array(events, pa.int64()),
            "batch": pa.array(past.minute[events] // MINUTES_A_DAY, pa.int32()).cast(pa.date32()),
        }
    )


def full_cdc(past: FlightHistory, events: Rows) -> pa.Table:
    """The feed of `flights`: +I first, then for each event the whole row before (-U) and after (+U).

    The images of event `s` carry the sequence numbers 2s and 2s + 1.
    """
    changed = past.kind[events] != Kind.SCHEDULED
    before, after = events[changed], events
    sequence = np.concatenate([2 * before, 2 * after + 1])
    order = np.argsort(sequence)
    row = np.concatenate([past.row[before], past.row[after]])[order]
    state = np.concatenate([_BEFORE[past.kind[before]], past.kind[after]])[order]
    op = np.concatenate([np.full(len(before), "-U"), np.where(changed, "+U", "+I")])[order]
    return _with_sequence(_images(past, row, state), sequence[order], op)


def board(past: FlightHistory, events: Rows) -> pa.Table:
    """The feed of the departures board: a flight comes when scheduled, changes when it leaves, goes when it is over."""
    kind = past.kind[events]
    ended = np.isin(kind, _ENDED)
    op = np.where(kind == Kind.SCHEDULED, "+I", np.where(ended, "-D", "+U"))
    return _with_sequence(_images(past, past.row[events], kind), events, op)


def weather_rows(source: FlightsSource) -> pa.Table:
    """The observations by airport and hour; local calendar columns are left out, `time_hour` says it all."""
    weather = source.weather.drop_columns(["year", "month", "day", "hour"])
    index = weather.column_names.index("time_hour")
    return weather.set_column(index, "time_hour", weather["time_hour"].cast(INSTANT))


def batches() -> list[date]:
    """All batch days of the year, oldest first; the ordinal of a batch is its position here."""
    return [FIRST_BATCH + timedelta(days=n) for n in range((LAST_BATCH - FIRST_BATCH).days + 1)]


def batch_ordinal(batch: date) -> int:
    return (batch - FIRST_BATCH).days


def _images(past: FlightHistory, row: Rows, state: Rows) -> pa.Table:
    """The complete row of each flight after the event that `state` names."""
    left = np.isin(state, (Kind.DEPARTED, Kind.ARRIVED, Kind.DIVERTED))
    landed = np.isin(state, (Kind.ARRIVED, Kind.DIVERTED))
    arrived = state == Kind.ARRIVED
    times = past.times
    updated = np.select(
        [state == Kind.SCHEDULED, state == Kind.DEPARTED, state == Kind.CANCELLED],
        [(past.flight_day[row] - 1) * MINUTES_A_DAY, times.dep[row], times.sched_dep[row]],
        default=times.arr[row],
    )
    return pa.table(
        {
            **flight_keys(past, row),
            "status": _names(state),
            "updated_at": _instants(updated),
            "dest": _column(past, "dest", row),
            "distance": _column(past, "distance", row),
            "sched_dep": _instants(times.sched_dep[row]),
            "sched_arr": _instants(times.sched_arr[row]),
            "tailnum": _column(past, "tailnum", row, state != Kind.SCHEDULED),
            "dep": _instants(times.dep[row], left),
            "dep_delay": _column(past, "dep_delay", row, left),
            "arr": _instants(times.arr[row], landed),
            "arr_delay": _column(past, "arr_delay", row, arrived),
            "air_time": _column(past, "air_time", row, arrived),
        }
    )


def _with_sequence(table: pa.Table, sequence: Rows, op: npt.NDArray[np.str_]) -> pa.Table:
    named = table.append_column("seq", pa.array(sequence, pa.int64()))
    return named.append_column("op", pa.array(op.astype(object), pa.string()))


def flight_keys(past: FlightHistory, row: Rows) -> dict[str, pa.Array]:
    """The key columns of the flights at `row`."""
    return {
        "flight_date": pa.array(past.flight_day[row], pa.int32()).cast(pa.date32()),
        "carrier": _column(past, "carrier", row),
        "flight": _column(past, "flight", row),
        "origin": _column(past, "origin", row),
    }


def _column(past: FlightHistory, name: str, row: Rows, known: Mask | None = None) -> pa.Array:
    """The column's values at `row`, null where not `known`."""
    indices = pa.array(row) if known is None else pa.array(row, mask=~known)
    return past.flights[name].chunk(0).take(indices)


def _instants(minutes: Minutes, known: Mask | None = None) -> pa.Array:
    absent = minutes == ABSENT if known is None else ~known | (minutes == ABSENT)
    return pa.array(np.where(absent, 0, minutes) * 60_000, pa.int64(), mask=absent).cast(INSTANT)


def _names(kinds: Rows) -> pa.Array:
    return pa.array(KIND_NAMES).take(pa.array(kinds))


def _ranks(column: pa.ChunkedArray) -> Rows:
    """Return for each value its position among the sorted distinct ones."""
    _, inverse = np.unique(column.to_numpy(zero_copy_only=False), return_inverse=True)
    return np.asarray(inverse, dtype=np.int64)
