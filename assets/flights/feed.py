"""The flights feed as files: one Parquet file a shape and batch day, derived once for each version of the source.

Any run may make them: a file appears whole, under its final name, or not at all.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lakehouse_core as lc
from assets.flights.events import (
    EPOCH,
    FIRST_BATCH,
    RULE_VERSION,
    History,
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
from assets.flights.source import FlightsSource, load_source, source_version
from assets.ingestion import open_table
from resources import FeedResource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHAPES: Mapping[str, Callable[[History, Rows], pa.Table]] = {"events": partial_events, "cdc": full_cdc, "board": board}
DEFAULT_START = "2013-02-01"
DIMENSIONS = ("airlines", "airports", "planes")
WEATHER = "weather"
FEED_NAMES = (*SHAPES, WEATHER, *DIMENSIONS)


class FlightsFeed(FeedResource):
    """`events`, `cdc`, `board` and `weather` in daily batches, and `airlines`, `airports`, `planes` as whole loads."""

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
        if missing or not (root / "counts.parquet").exists():
            self._derive(root, missing)
        return {
            day: sum(pq.read_metadata(root / shape / f"{day}.parquet").num_rows for shape in (*SHAPES, WEATHER))
            for day in days
        }

    def frame(self, session: "SparkSession", feed: str, batch: str | None) -> "DataFrame":
        frame = session.read.parquet(str(self._file(feed, batch)))
        if feed in SHAPES:
            return frame.where(f"flight_date >= DATE '{self._start}'")
        if feed == WEATHER:
            return frame.where(f"time_hour >= TIMESTAMP '{self._start} 00:00:00 UTC'")
        return frame

    def is_gap(self, feed: str, after: str | None, before: str) -> bool:
        counts = self._counts()
        between = pc.and_(
            pc.less(counts["batch"], date.fromisoformat(before)),
            pc.greater(counts["batch"], date.min if after is None else date.fromisoformat(after)),
        )
        wanted = pc.and_(between, pc.greater_equal(counts["flight_date"], self._start))
        column = WEATHER if feed == WEATHER else "events"
        return bool(pc.sum(counts.filter(wanted)[column]).as_py())

    def expected_rows(self, feed: str, through: str | None) -> int:
        if feed in DIMENSIONS:
            return int(pq.read_metadata(self._file(feed, None)).num_rows)
        counts = self._counts()
        last = date.max if through is None else date.fromisoformat(through)
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
        elif feed in SHAPES or feed == WEATHER:
            if batch is None:
                raise lc.InvalidRequest(f"flights feed {feed}: delivered by day, but no batch was named.")
            file = self._root() / feed / f"{date.fromisoformat(batch)}.parquet"
        else:
            raise lc.InvalidRequest(f"flights feed: there is no feed {feed!r}; there are {', '.join(FEED_NAMES)}.")
        if not file.exists():
            self.prepare([] if batch is None else [date.fromisoformat(batch)])
        return file

    def _counts(self) -> pa.Table:
        file = self._root() / "counts.parquet"
        if not file.exists():
            self.prepare([])
        return pq.read_table(file)

    def _derive(self, root: Path, days: Sequence[date]) -> None:
        source = self.source()
        past = history(source)
        weather = weather_rows(source)
        weather_day = pc.cast(weather["time_hour"], pa.date32())
        for day in days:
            events = past.events_of(day)
            for shape, make in SHAPES.items():
                _write(root / shape / f"{day}.parquet", make(past, events))
            _write(root / WEATHER / f"{day}.parquet", weather.filter(pc.equal(weather_day, day)))
        for name in DIMENSIONS:
            _write(root / f"{name}.parquet", getattr(source, name))
        # Last, for its presence says that the rest is there.
        _write(root / "counts.parquet", _row_counts(past, weather_day))


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


def _row_counts(past: History, weather_day: pa.ChunkedArray) -> pa.Table:
    """Return, by batch and flight date, how many rows each feed adds to its table (`board` also takes some away)."""
    batch = past.minute // MINUTES_A_DAY
    scheduled = past.kind == Kind.SCHEDULED
    ended = np.isin(past.kind, (Kind.CANCELLED, Kind.ARRIVED, Kind.DIVERTED))
    per_event = pa.table(
        {
            "batch": pa.array(batch, pa.int32()).cast(pa.date32()),
            "flight_date": pa.array(past.flight_day[past.row], pa.int32()).cast(pa.date32()),
            "events": np.ones(len(batch), dtype=np.int64),
            "cdc": scheduled.astype(np.int64),
            "board": scheduled.astype(np.int64) - ended,
            WEATHER: np.zeros(len(batch), dtype=np.int64),
        }
    )
    hours = pa.table({"batch": weather_day, "flight_date": weather_day})
    zeros = pa.array(np.zeros(hours.num_rows, dtype=np.int64))
    for name in SHAPES:
        hours = hours.append_column(name, zeros)
    hours = hours.append_column(WEATHER, pa.array(np.ones(hours.num_rows, dtype=np.int64)))
    sums = [(name, "sum") for name in (*SHAPES, WEATHER)]
    grouped = pa.concat_tables([per_event, hours]).group_by(["batch", "flight_date"]).aggregate(sums)
    return grouped.rename_columns([name.removesuffix("_sum") for name in grouped.column_names])


def _write(file: Path, table: pa.Table) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    pq.write_table(table, unfinished, compression="zstd")
    unfinished.replace(file)


__all__ = [
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
