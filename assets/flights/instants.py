"""When each flight was to leave and arrive, and when it did: true instants from local clocks.

Instants are minutes since 1970-01-01 00:00 UTC; `ABSENT` where the source has none. Pure functions of the source.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc

Minutes = npt.NDArray[np.int64]

# Smaller than any instant, so that no comparison mistakes it for one.
ABSENT = np.iinfo(np.int64).min

MINUTES_A_DAY = 24 * 60

# Destinations that the airports file lacks.
_ZONES_OF_MISSING_AIRPORTS = {
    "SJU": "America/Puerto_Rico",
    "BQN": "America/Puerto_Rico",
    "PSE": "America/Puerto_Rico",
    "STT": "America/St_Thomas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instants:
    """One entry for each row of the flights file, in its order."""

    sched_dep: Minutes
    sched_arr: Minutes
    dep: Minutes
    arr: Minutes


def instants(flights: pa.Table, airports: pa.Table) -> Instants:
    """Derive the four instants of every flight.

    Arrival clocks are in the zone of the destination. Where a flight has both an arrival delay and an arrival clock the
    two must give the same minute; where it has only the clock (a diverted flight) its first match after the departure
    is taken. Raises CorruptTable when they disagree, NotFound for a destination without a zone.
    """
    zone_codes, zones = _zones(flights, airports)
    sched_dep = _minutes(flights["time_hour"]) + _filled(flights["minute"], 0)
    dep_delay = _filled(flights["dep_delay"], ABSENT)
    dep = np.where(dep_delay == ABSENT, ABSENT, sched_dep + dep_delay)

    sched_arr = _next_clock(sched_dep, _filled(flights["sched_arr_time"], ABSENT), zone_codes, zones)
    arr_delay = _filled(flights["arr_delay"], ABSENT)
    by_delay = np.where(arr_delay == ABSENT, ABSENT, sched_arr + arr_delay)
    by_clock = _next_clock(dep, _filled(flights["arr_time"], ABSENT), zone_codes, zones)

    contradicting = np.flatnonzero((by_delay != ABSENT) & (by_delay != by_clock))
    if len(contradicting):
        raise lc.CorruptTable(
            f"flights: row {contradicting[0]} has an arrival delay and an arrival clock that differ by "
            f"{abs(int((by_delay - by_clock)[contradicting[0]]))} minutes ({len(contradicting)} such rows)."
        )
    return Instants(sched_dep=sched_dep, sched_arr=sched_arr, dep=dep, arr=by_clock)


def flight_days(flights: pa.Table) -> Minutes:
    """Return the local date of each flight in days since 1970-01-01."""
    # Days are few, rows are many: one date is made for each distinct (month, day).
    year, month, day = (_filled(flights[name], 0) for name in ("year", "month", "day"))
    codes, inverse = np.unique((year * 100 + month) * 100 + day, return_inverse=True)
    epoch = datetime(1970, 1, 1)
    days = [(datetime(int(c) // 10_000, int(c) // 100 % 100, int(c) % 100) - epoch).days for c in codes]
    return np.asarray(days, dtype=np.int64)[inverse]


def _next_clock(start: Minutes, clock: Minutes, zone_codes: Minutes, zones: list[str]) -> Minutes:
    """Return the first instant at or after `start` when the zone's clock shows `clock` (HHMM, 2400 is midnight)."""
    known = (start != ABSENT) & (clock != ABSENT)
    begin = np.where(known, start, 0)
    minute_of_day = (clock // 100 % 24) * 60 + clock % 100
    local = (begin + _offsets(begin, zone_codes, zones)) % MINUTES_A_DAY
    return np.where(known, begin + (minute_of_day - local) % MINUTES_A_DAY, ABSENT)


def _offsets(minutes: Minutes, zone_codes: Minutes, zones: list[str]) -> Minutes:
    """Return the minutes to add to UTC for local time.

    Offsets are looked up once for each (zone, UTC hour): zones change their offset on whole UTC hours only. Done with
    `zoneinfo`, which finds the tzdata package on machines that have no zone database of their own; pyarrow does not.
    """
    hours = minutes // 60
    first_hour = int(hours.min())
    width = int(hours.max()) - first_hour + 1
    pairs, inverse = np.unique(zone_codes * width + (hours - first_hour), return_inverse=True)
    infos = [ZoneInfo(zone) for zone in zones]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    offsets = np.empty(len(pairs), dtype=np.int64)
    for index, pair in enumerate(pairs.tolist()):
        at = epoch + timedelta(hours=pair % width + first_hour)
        offset = at.astimezone(infos[pair // width]).utcoffset()
        assert offset is not None
        offsets[index] = int(offset.total_seconds()) // 60
    return offsets[inverse]


def _zones(flights: pa.Table, airports: pa.Table) -> tuple[Minutes, list[str]]:
    """Return the zone of each flight's destination: a code a row, and the names that the codes index."""
    zone_of = (
        dict(zip(airports["faa"].to_pylist(), airports["tzone"].to_pylist(), strict=True)) | _ZONES_OF_MISSING_AIRPORTS
    )
    encoded = flights["dest"].combine_chunks().dictionary_encode()
    names = [zone_of.get(dest) for dest in encoded.dictionary.to_pylist()]
    if None in names:
        unknown = encoded.dictionary[names.index(None)].as_py()
        raise lc.NotFound(f"airports: no time zone for destination {unknown}; add it to the airports file.")
    zones = sorted({name for name in names if name is not None})
    codes = np.asarray([zones.index(name) for name in names if name is not None], dtype=np.int64)
    return codes[encoded.indices.to_numpy()], zones


def _minutes(column: pa.ChunkedArray) -> Minutes:
    return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64) // 60


def _filled(column: pa.ChunkedArray, absent: int) -> Minutes:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), absent).to_numpy(), dtype=np.int64)
