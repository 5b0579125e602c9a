"""The flights feed as files: one Parquet file a shape and batch day, derived once for each version of the source.

What is told of the aircraft depends on the start date too: one file of all batches for each.
Any run may make them: a file appears whole, under its final name, or not at all.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lakehouse_core as lc
from assets.flights.aircraft import operators, sightings
from assets.flights.events import (
    EPOCH,
    FIRST_BATCH,
    RULE_VERSION,
    FlightHistory,
    Kind,
    Rows,
    batches,
    board,
    full_cdc,
    history,
    partial_events,
    weather_rows,
)
from assets.flights.instants import MINUTES_A_DAY
from assets.flights.observed import counted_events, observed_flights, status_rows
from assets.flights.source import FlightsSource, load_source, source_version
from lakehouse_dagster import FeedResource, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHAPES: Mapping[str, Callable[[FlightHistory, FlightsSource, date], pa.Table]] = {
    "events": lambda past, _, day: partial_events(past, past.events_of(day)),
    "cdc": lambda past, _, day: full_cdc(past, past.events_of(day)),
    "board": lambda past, _, day: board(past, past.events_of(day)),
    "status": status_rows,
    "counts": lambda past, _, day: counted_events(past, past.events_of(day)),
}
AIRCRAFT: Mapping[str, Callable[[FlightHistory, date], pa.Table]] = {"sightings": sightings, "operators": operators}
DEFAULT_START = "2013-02-01"
DIMENSIONS = ("airlines", "airports", "planes")
WEATHER = "weather"
FEED_NAMES = (*SHAPES, *AIRCRAFT, WEATHER, *DIMENSIONS)

# Columns of the aircraft's files that the feed only counts by.
_UNTOLD = ("batch", "is_new")
# How many rows each batch adds to the table of a feed, a column a feed, and `news` for what it delivers at all.
_COUNTS = "added.parquet"


class FlightsFeed(FeedResource):
    """Nine feeds: in daily batches what happened to flights and aircraft, in several shapes, and the weather; as whole
    loads `airlines`, `airports` and `planes`."""

    # Flights before this date are left out. There is no last date: a batch would change its meaning with it.
    start: str = DEFAULT_START
    # A folder of Parquet files instead of the installed package.
    folder: str | None = None
    # Empty: LAKEHOUSE_FEED_CACHE of the environment, else the user's cache folder.
    cache: str = ""

    def version(self) -> str:
        return f"{self.source_version()}-from-{self.start}"

    def source_version(self) -> str:
        """Return what identifies the source and the rules that make files of it; the start date only selects."""
        return f"{source_version(self._folder)}-rules-{RULE_VERSION}"

    def source(self) -> FlightsSource:
        return load_source(self._folder)

    def prepare(self, days: Sequence[date]) -> Mapping[date, int]:
        """Make the files of `days` that are not there yet; return the rows of each day in all shapes together."""
        root = self._root()
        missing = [
            day for day in days if not all((root / shape / f"{day}.parquet").exists() for shape in (*SHAPES, WEATHER))
        ]
        if missing or not (root / _COUNTS).exists() or not all(self._aircraft(name).exists() for name in AIRCRAFT):
            self._derive(root, missing)
        return {
            day: sum(pq.read_metadata(root / shape / f"{day}.parquet").num_rows for shape in (*SHAPES, WEATHER))
            for day in days
        }

    def frame(self, session: "SparkSession", feed: str, batch: str | None) -> "DataFrame":
        frame = session.read.parquet(str(self._file(feed, batch)))
        if feed in SHAPES:
            return frame.where(f"flight_date >= DATE '{self._start}'")
        if feed in AIRCRAFT:
            return frame.where(f"batch = DATE '{batch}'").drop(*_UNTOLD)
        if feed == WEATHER:
            return frame.where(f"time_hour >= TIMESTAMP '{self._start} 00:00:00 UTC'")
        return frame

    def rows(self, feed: str, batch: str | None) -> pa.Table:
        file = self._file(feed, batch)
        if feed in SHAPES:
            return pq.read_table(file, filters=pc.field("flight_date") >= self._start)
        if feed in AIRCRAFT and batch is not None:
            told = pq.read_table(file, filters=pc.field("batch") == date.fromisoformat(batch))
            return told.drop_columns([name for name in _UNTOLD if name in told.column_names])
        if feed == WEATHER:
            begin = datetime.combine(self._start, time(), UTC)
            return pq.read_table(file, filters=pc.field("time_hour") >= begin)
        return pq.read_table(file)

    def is_gap(self, feed: str, after: str | None, before: str) -> bool:
        later = date.min if after is None else date.fromisoformat(after)
        delivered = self._delivered(feed)
        between = pc.and_(
            pc.less(delivered["batch"], date.fromisoformat(before)), pc.greater(delivered["batch"], later)
        )
        return bool(pc.any(between).as_py())

    def delivered(self, loaded: str | None) -> Sequence[str]:
        """Return the batches through the one after `loaded`: the year is past, so the next day is delivered then."""
        days = next_batches(self._start, None, len(batches()))
        last = days[0] if loaded is None else date.fromisoformat(loaded) + timedelta(days=1)
        return [day.isoformat() for day in days if day <= last]

    def expected_rows(self, feed: str, through: str | None) -> int:
        if feed in DIMENSIONS:
            return int(pq.read_metadata(self._file(feed, None)).num_rows)
        last = date.max if through is None else date.fromisoformat(through)
        if feed in AIRCRAFT:
            told = pq.read_table(self._file(feed, last.isoformat()))
            # A sighting adds a row when it is the first, a change of operator always.
            adds = told["is_new"] if feed == "sightings" else pc.is_valid(told["tailnum"])
            return int(pc.sum(pc.and_(adds, pc.less_equal(told["batch"], last))).as_py() or 0)
        counts = self._counts()
        inside = pc.and_(pc.less_equal(counts["batch"], last), pc.greater_equal(counts["flight_date"], self._start))
        return int(pc.sum(counts.filter(inside)[feed]).as_py() or 0)

    @property
    def _folder(self) -> Path | None:
        return Path(self.folder) if self.folder else None

    @property
    def _start(self) -> date:
        return date.fromisoformat(self.start)

    def _root(self) -> Path:
        cache = self.cache or os.environ.get("LAKEHOUSE_FEED_CACHE", "")
        return (
            Path(cache) if cache else Path.home() / ".cache" / "paimon-lakehouse" / "flights"
        ) / self.source_version()

    def _file(self, feed: str, batch: str | None) -> Path:
        if feed in DIMENSIONS:
            file = self._root() / f"{feed}.parquet"
        elif feed in SHAPES or feed in AIRCRAFT or feed == WEATHER:
            if batch is None:
                raise lc.InvalidRequest(
                    f"flights feed {feed}: found no batch, expected one, because the feed is delivered by day. Name a "
                    "batch."
                )
            day = date.fromisoformat(batch)
            file = self._aircraft(feed) if feed in AIRCRAFT else self._root() / feed / f"{day}.parquet"
        else:
            raise lc.InvalidRequest(
                f"flights feed: found feed {feed!r}, expected one of {', '.join(FEED_NAMES)}. Name one of them."
            )
        if not file.exists():
            self.prepare([] if batch is None or feed in AIRCRAFT else [date.fromisoformat(batch)])
        return file

    def _aircraft(self, feed: str) -> Path:
        return self._root() / f"{feed}-from-{self._start}.parquet"

    def _delivered(self, feed: str) -> pa.Table:
        """Return a table whose column `batch` has each batch that brings rows to the feed, at least once."""
        if feed in AIRCRAFT:
            return pq.read_table(self._file(feed, self.start), columns=["batch"])
        counts = self._counts()
        brings = pc.greater(counts[WEATHER if feed == WEATHER else "news" if feed == "status" else "events"], 0)
        return counts.filter(pc.and_(brings, pc.greater_equal(counts["flight_date"], self._start)))

    def _counts(self) -> pa.Table:
        file = self._root() / _COUNTS
        if not file.exists():
            self.prepare([])
        return pq.read_table(file)

    def _derive(self, root: Path, days: Sequence[date]) -> None:
        source = self.source()
        past = history(source)
        weather = weather_rows(source)
        weather_day = pc.cast(weather["time_hour"], pa.date32())
        for day in days:
            for shape, make in SHAPES.items():
                _write(root / shape / f"{day}.parquet", make(past, source, day))
            _write(root / WEATHER / f"{day}.parquet", weather.filter(pc.equal(weather_day, day)))
        for name in DIMENSIONS:
            _write(root / f"{name}.parquet", getattr(source, name))
        for name, tell in AIRCRAFT.items():
            _write(self._aircraft(name), tell(past, self._start))
        # Last, for its presence says that the rest is there.
        _write(root / _COUNTS, _row_counts(past, source, weather_day))


def begun_with(catalog: lc.Catalog) -> date | None:
    """Return the earliest flight date of a warehouse; flights are never removed, so it is the start it began with."""
    flights = open_table(catalog, "ops.flights")
    if flights is None:
        return None
    return min(flights.scan(columns=["flight_date"]).to_arrow()["flight_date"].unique().to_pylist(), default=None)


def next_batches(start: date, done_through: date | None, count: int) -> list[date]:
    """Return the `count` batches to load next; the very first is the day on which the flights of `start` are published.

    Fewer at the end of the year, none when all are done.
    """
    first = start - timedelta(days=1) if done_through is None else done_through + timedelta(days=1)
    return [day for day in batches() if day >= max(first, FIRST_BATCH)][:count]


def _row_counts(past: FlightHistory, source: FlightsSource, weather_day: pa.ChunkedArray) -> pa.Table:
    """Return, by batch and flight date, how many rows each feed adds to its table (`board` also takes some away)."""
    day = past.minute // MINUTES_A_DAY
    scheduled = (past.kind == Kind.SCHEDULED).astype(np.int64)
    ended = np.isin(past.kind, (Kind.CANCELLED, Kind.ARRIVED, Kind.DIVERTED)).astype(np.int64)
    flight_day = past.flight_day[past.row]
    ones = np.ones(len(day), dtype=np.int64)
    # All flights of a carrier and date are scheduled in one batch, so the first of them makes the cell.
    cells = np.zeros(len(day), dtype=np.int64)
    carriers = past.flights["carrier"].chunk(0).take(pa.array(past.row)).dictionary_encode().indices.to_numpy()
    first = np.unique(flight_day * len(carriers) + carriers, return_index=True)[1]
    cells[first] = 1
    added = {"events": ones, "cdc": scheduled, "board": scheduled - ended, "status": scheduled, "counts": cells}
    per_event = _by_day(day, flight_day, {**added, "news": ones})
    flights, _, hour = observed_flights(past, source)
    per_flight = _by_day(hour // MINUTES_A_DAY, past.flight_day[flights], {"news": np.ones(len(flights), np.int64)})
    hours = pa.table({"batch": weather_day, "flight_date": weather_day, WEATHER: np.ones(len(weather_day), np.int64)})
    whole = pa.concat_tables([per_event, per_flight, hours], promote_options="default")
    names = [*added, "news", WEATHER]
    grouped = whole.group_by(["batch", "flight_date"]).aggregate([(name, "sum") for name in names])
    return grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])


def _by_day(batch: Rows, flight_day: Rows, counts: Mapping[str, Rows]) -> pa.Table:
    days = {"batch": batch, "flight_date": flight_day}
    return pa.table({**{name: pa.array(d, pa.int32()).cast(pa.date32()) for name, d in days.items()}, **counts})


def _write(file: Path, table: pa.Table) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    pq.write_table(table, unfinished, compression="zstd")
    unfinished.replace(file)


__all__ = [
    "AIRCRAFT",
    "DEFAULT_START",
    "DIMENSIONS",
    "EPOCH",
    "FEED_NAMES",
    "SHAPES",
    "WEATHER",
    "FlightsFeed",
    "begun_with",
    "next_batches",
]
