"""What the departures tell of the aircraft: when each was seen, and by whom it was operated.

Both depend on the first flight date that is looked at: an aircraft is new where the looking begins.
"""

from datetime import date

import numpy as np
import pyarrow as pa

from assets.flights.events import FlightHistory, Kind, Rows, partial_events
from assets.flights.instants import MINUTES_A_DAY


def sightings(past: FlightHistory, start: date) -> pa.Table:
    """The first departure of each aircraft in each batch, oldest batch first; `is_new`: its first one of all.

    One a batch, for rows of a batch reach their bucket in no order, and the first to come stays.
    """
    events, tails = _departures(past, start)
    day = past.minute[events] // MINUTES_A_DAY
    first_of_day = _changes(tails, day)
    kept = np.flatnonzero(first_of_day)
    order = kept[np.argsort(events[kept])]
    is_new = _changes(tails)
    told = _told(past, events[order], "first_seen")
    return told.append_column("is_new", pa.array(is_new[order]))


def operators(past: FlightHistory, start: date) -> pa.Table:
    """The departures at which an aircraft is with another airline than at its last one, the very first included."""
    events, tails = _departures(past, start)
    carriers = past.flights["carrier"].chunk(0).take(pa.array(past.row[events]))
    _, carrier = np.unique(carriers.to_numpy(zero_copy_only=False), return_inverse=True)
    changed = np.flatnonzero(_changes(tails, carrier))
    is_new = _changes(tails)[changed]
    before = carriers.take(pa.array(changed - 1, mask=is_new))
    told = _told(past, events[changed], "valid_from").append_column("previous_carrier", before)
    return told.take(pa.array(np.argsort(events[changed])))


def _departures(past: FlightHistory, start: date) -> tuple[Rows, Rows]:
    """Return the departures from `start` on, aircraft by aircraft in order of time, and a number for each aircraft."""
    events = past.from_day(np.flatnonzero(past.kind == Kind.DEPARTED), start)
    named = past.flights["tailnum"].chunk(0).take(pa.array(past.row[events]))
    _, tails = np.unique(named.to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    order = np.lexsort((events, tails))
    return events[order], tails[order]


def _changes(*columns: Rows) -> Rows:
    """Return where any of the columns is another than in the row before; the first row is."""
    first = np.ones(min(1, len(columns[0])), dtype=bool)
    return np.concatenate([first, np.logical_or.reduce([column[1:] != column[:-1] for column in columns])])


def _told(past: FlightHistory, events: Rows, instant: str) -> pa.Table:
    told = partial_events(past, events)
    columns = {name: told[name] for name in ("carrier", "flight", "origin", "flight_date", "batch")}
    return pa.table({"tailnum": told["tailnum"], instant: told["dep"], **columns})
