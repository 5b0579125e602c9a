"""The feed as files: made once, whole, and with row counts that say what the tables must hold."""

from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lakehouse_core as lc
from assets.flights.feed import DIMENSIONS, FEED_NAMES, SHAPES, FlightsFeed, next_batches
from assets.lake import LAKE

BLIZZARD = date(2013, 2, 8)


@pytest.fixture(scope="module")
def feed(extract: Path, tmp_path_factory: pytest.TempPathFactory) -> FlightsFeed:
    return FlightsFeed(folder=str(extract), cache=str(tmp_path_factory.mktemp("feed")))


def files(feed: FlightsFeed) -> dict[str, int]:
    return {str(f.relative_to(feed.cache)): f.stat().st_mtime_ns for f in Path(feed.cache).rglob("*") if f.is_file()}


def test_files_appear_once_for_each_version_and_are_not_written_again(feed: FlightsFeed):
    rows = feed.prepare([BLIZZARD])
    before = files(feed)

    assert feed.prepare([BLIZZARD]) == rows
    assert files(feed) == before
    assert all(name.startswith(f"{feed.source_version()}/") for name in before)


def test_a_day_without_events_is_an_empty_file(feed: FlightsFeed):
    assert feed.prepare([date(2013, 6, 1)]) == {date(2013, 6, 1): 0}


@pytest.mark.parametrize(
    ("name", "through", "rows"),
    [
        ("events", "2013-02-08", 21_001),
        ("cdc", "2013-02-08", 7_697),
        ("board", "2013-02-08", 860),
        ("weather", "2013-02-08", 8 * 72),
        ("status", "2013-02-08", 7_697),
        ("counts", "2013-02-08", 131),
        ("sightings", "2013-02-08", 2_074),
        ("operators", "2013-02-08", 2_074),
        ("status", None, 12_222),
        ("counts", None, 206),
        ("sightings", None, 2_544),
        ("events", None, 35_590),
        ("cdc", None, 12_222),
        ("board", None, 15),
        ("weather", None, 1_080),
        ("airlines", None, 16),
        ("airports", None, 1_458),
    ],
)
def test_a_table_must_hold_as_many_rows_as_the_source_says(
    feed: FlightsFeed, name: str, through: str | None, rows: int
):
    assert feed.expected_rows(name, through) == rows


def test_a_later_start_leaves_earlier_flights_out(feed: FlightsFeed):
    later = FlightsFeed(folder=feed.folder, cache=feed.cache, start="2013-02-14")

    assert later.expected_rows("cdc", None) == 956
    assert later.expected_rows("weather", None) == 2 * 72


def test_no_file_names_a_column_after_its_folder(feed: FlightsFeed):
    feed.prepare([BLIZZARD])
    folder = Path(feed.cache) / feed.source_version()

    for shape in SHAPES:
        assert pq.read_schema(folder / shape / f"{BLIZZARD}.parquet").names[:2] == ["flight_date", "carrier"]


@pytest.mark.parametrize("name", FEED_NAMES)
def test_a_feed_has_the_columns_of_its_table_and_no_others(feed: FlightsFeed, name: str):
    specs = [spec for spec in LAKE.tables if spec.feed is not None and spec.feed.name == name]

    rows = feed.rows(name, None if name in DIMENSIONS else BLIZZARD.isoformat())

    assert rows.num_rows
    assert [set(spec.columns) for spec in specs] == [set(rows.column_names)]


def test_an_aircraft_is_new_where_the_looking_begins(feed: FlightsFeed):
    later = FlightsFeed(folder=feed.folder, cache=feed.cache, start="2013-02-14")

    new = later.rows("sightings", "2013-02-14")["tailnum"].to_pylist()

    assert len(new) == len(set(new)) == later.expected_rows("sightings", "2013-02-14")
    assert later.rows("sightings", "2013-02-13").num_rows == 0


@pytest.mark.parametrize(
    ("name", "batch", "gap"),
    [
        ("events", "2013-02-01", True),
        ("status", "2013-02-01", True),
        ("counts", "2013-02-01", True),
        ("weather", "2013-02-01", False),
        ("sightings", "2013-02-01", False),
        ("operators", "2013-02-01", False),
        ("sightings", "2013-02-02", True),
    ],
)
def test_a_batch_that_brings_nothing_leaves_no_gap(feed: FlightsFeed, name: str, batch: str, gap: bool):
    """On 31 January the flights of the next day are scheduled; none departs."""
    assert feed.is_gap(name, None, batch) == gap


@pytest.mark.parametrize(
    ("name", "batch", "message"),
    [
        ("cdd", "2013-02-08", "found feed 'cdd', expected one of events, cdc"),
        ("cdc", None, "found no batch, expected one"),
    ],
)
def test_a_wrong_name_is_refused_with_the_right_ones(feed: FlightsFeed, name: str, batch: str | None, message: str):
    with pytest.raises(lc.InvalidRequest, match=message):
        feed._file(name, batch)


@pytest.mark.parametrize(
    ("start", "done", "count", "loaded"),
    [
        (date(2013, 2, 1), None, 16, (date(2013, 1, 31), date(2013, 2, 15), 16)),
        (date(2013, 2, 1), date(2013, 2, 15), 16, (date(2013, 2, 16), date(2013, 3, 3), 16)),
        (date(2013, 1, 1), None, 400, (date(2012, 12, 31), date(2014, 1, 1), 367)),
        (date(2013, 1, 1), date(2013, 12, 30), 16, (date(2013, 12, 31), date(2014, 1, 1), 2)),
    ],
)
def test_a_run_goes_on_where_the_last_one_ended(
    start: date, done: date | None, count: int, loaded: tuple[date, date, int]
):
    days = next_batches(start, done, count)

    assert (days[0], days[-1], len(days)) == loaded


def test_after_the_last_batch_there_is_nothing_to_do():
    assert next_batches(date(2013, 1, 1), date(2014, 1, 1), 16) == []
