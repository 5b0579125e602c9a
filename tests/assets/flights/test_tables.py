"""The tables of the other engines on two real weeks: right, whatever the order, and once, whoever was killed when."""

from collections.abc import Callable
from datetime import date
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakehouse_core as lc
from assets.flights.answers import Answers, CarrierDay, answers_at
from assets.flights.feed import FlightsFeed
from assets.flights.source import FlightsSource
from lakehouse_dagster.pipeline import committing, table_state
from lakehouse_dagster.sources.changelog_source import changes_user
from orchestration.figures import answer_all
from tests.assets.flights.tables import OPEN_KEY, SPECS, Warehouse, days, rows_by_key

START, CLOSED = date(2013, 2, 1), date(2013, 2, 15)
FED = [name for name, spec in SPECS.items() if spec.is_batched]
STATUS, OPEN, CARRIER_DAY = "ops.flight_status", "serving.open_flights", "ops.carrier_day"
BOARD, SEEN, OPERATORS = "ops.flight_board", "ops.plane_first_seen", "ops.plane_operator"


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.fixture(scope="module")
def feed(extract: Path, tmp_path_factory: pytest.TempPathFactory) -> FlightsFeed:
    return FlightsFeed(folder=str(extract), cache=str(tmp_path_factory.mktemp("feed")))


@pytest.fixture
def warehouse(feed: FlightsFeed, tmp_path: Path) -> Warehouse:
    return Warehouse(folder=tmp_path / "warehouse", feed=feed)


@pytest.fixture(scope="module")
def closed(feed: FlightsFeed, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """All tables with all 16 batches, and the rows that wait for a compaction brought to where they are read."""
    whole = Warehouse(folder=tmp_path_factory.mktemp("closed"), feed=feed)
    for name in FED:
        whole.load(name, days(16))
    whole.stage_open_flights()
    whole.commit_open_flights()
    assert whole.table(SEEN).scan().count() == 0
    whole.table(SEEN).compact()
    return whole


@pytest.fixture(scope="module")
def answers(two_weeks: FlightsSource) -> Answers:
    return answers_at(two_weeks, start=START, through=CLOSED)


# What the tables say.


@pytest.mark.program
@pytest.mark.slow
def test_every_question_is_answered_as_the_source_does(closed: Warehouse, two_weeks: FlightsSource):
    found = answer_all(closed.catalog, two_weeks, start=START, through=CLOSED)

    assert [answer.question for answer in found if not answer.agrees] == []
    assert [answer.question[0] for answer in found] == ["1", "2", "3", "4", "5", "6", "7"]


@pytest.mark.slow
def test_the_closed_figures_of_two_weeks(closed: Warehouse):
    status = closed.table(STATUS).scan().to_arrow()
    counted = closed.table(CARRIER_DAY).scan().to_arrow()

    assert status.num_rows == 12_222
    assert status["wx_seq"].null_count == 0
    assert round(pc.sum(status["precip"]).as_py(), 2) == 64.88
    assert counted.num_rows == 206
    assert {name: pc.sum(counted[name]).as_py() for name in ("scheduled", "departed", "cancelled", "arrived")} == {
        "scheduled": 12_222,
        "departed": 11_161,
        "cancelled": 1_061,
        "arrived": 11_123,
    }
    assert (pc.sum(counted["arr_delay"]).as_py(), pc.sum(counted["dep_delay"]).as_py()) == (68_620, 115_591)
    assert closed.table(SEEN).scan().count() == 2_544
    assert closed.table(OPEN).scan().count() == 15


@pytest.mark.slow
def test_the_lookup_changelog_inserts_each_flight_once_and_repeats_what_was_there(closed: Warehouse):
    changes = closed.table(STATUS).changes(after=0).to_arrow()

    before: dict[Any, dict[str, Any]] = {}
    for row in changes.to_pylist():
        key = row["flight_date"], row["carrier"], row["flight"], row["origin"]
        kind = row.pop("rowkind")
        if kind == "-U":
            assert before[key] == row
        else:
            assert (key in before) == (kind == "+U")
            before[key] = row
    assert before == rows_by_key(closed.table(STATUS))


@pytest.mark.slow
def test_an_aircraft_stays_where_it_was_seen_first(closed: Warehouse, answers: Answers):
    seen = rows_by_key(closed.table(SEEN))

    assert {tailnum: row["first_seen"] for (tailnum,), row in seen.items()} == answers.first_seen


@pytest.mark.slow
def test_ingest_compacts_only_what_its_readers_need(closed: Warehouse):
    kinds = {
        name: {str(each.commit_kind) for each in closed.table(name).snapshots() if "compaction" not in each.commit_user}
        for name in (*FED, OPEN)
    }

    assert {name for name, found in kinds.items() if "COMPACT" in found} == {STATUS}
    assert all("APPEND" in found for found in kinds.values())


@pytest.mark.slow
def test_a_flight_is_in_the_partition_of_its_status_alone_and_leaves_the_board_when_it_is_over(closed: Warehouse):
    board = closed.table(BOARD)

    that_night = board.scan(at=lc.AtTag("batch-2013-02-08")).to_arrow()
    assert set(that_night["status"].to_pylist()) == {"scheduled", "departed"}
    assert {row["status"] for row in rows_by_key(board).values()} == {"departed"}
    assert {file.partition["status"] for file in board.files()} == {"scheduled", "departed"}
    assert board.verify(data=True).findings == ()


@pytest.mark.slow
def test_an_aircraft_has_its_changes_in_as_many_buckets_as_they_need(closed: Warehouse):
    history = closed.table(OPERATORS)

    assert history.scan().count() == 2_544
    assert {file.bucket for file in history.files()} == {0, 1, 2}
    assert history.verify(data=True).findings == ()


# The order of delivery.

GROUPS = {"schedule": "sched_seq", "movement": "move_seq", "arrival": "arr_seq", "weather": "wx_seq"}


def only(rows: pa.Table, feed: str) -> pa.Table:
    """Return the rows that bring news of one kind."""
    return rows.filter(pc.is_valid(rows[GROUPS[feed]]))


@pytest.fixture(scope="module")
def in_order(feed: FlightsFeed, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What `flight_status` is after three batches that came as they should."""
    whole = Warehouse(folder=tmp_path_factory.mktemp("in_order"), feed=feed)
    return rows_by_key(whole.load(STATUS, days(3)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", list(permutations(GROUPS))[::-8], ids="-".join)
def test_the_feeds_of_a_batch_come_in_any_order(
    warehouse: Warehouse, in_order: dict[tuple[Any, ...], dict[str, Any]], order: tuple[str, ...]
):
    table = warehouse.table(STATUS)
    for day in days(3):
        rows = warehouse.feed.rows("status", day.isoformat())
        for name in order:
            table.write(only(rows, name))

    assert rows_by_key(table) == in_order


@pytest.mark.parametrize("late", ["schedule", "arrival"])
def test_a_feed_comes_a_batch_late(warehouse: Warehouse, in_order: dict[tuple[Any, ...], dict[str, Any]], late: str):
    table = warehouse.table(STATUS)
    held: list[pa.Table] = []
    for day in days(3):
        rows = warehouse.feed.rows("status", day.isoformat())
        for name in GROUPS:
            if name != late:
                table.write(only(rows, name))
        held.append(only(rows, late))
        if len(held) > 1:
            table.write(held.pop(0))
    table.write(held.pop())

    assert rows_by_key(table) == in_order


def test_an_arrival_that_comes_twice_or_after_a_newer_one_changes_nothing(
    warehouse: Warehouse, in_order: dict[tuple[Any, ...], dict[str, Any]]
):
    table = warehouse.load(STATUS, days(3))
    arrivals = only(warehouse.feed.rows("status", days(3)[-1].isoformat()), "arrival")
    older = arrivals.set_column(
        arrivals.schema.get_field_index("arr_seq"), "arr_seq", pc.subtract(arrivals["arr_seq"], 1)
    ).drop_columns(["arr_delay"])

    table.write(arrivals)
    table.write(older)

    assert rows_by_key(table) == in_order


# A run that is killed.


def killed_at(monkeypatch: pytest.MonkeyPatch, commit: int, *, after: bool) -> None:
    """Let the process end at its `commit`-th commit (from 1): before it, or between it and its answer."""
    committed, count = committing.commit_staged, 0

    def dying(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count == commit and not after:
            raise Killed
        report = committed(*arguments, **named)
        if count == commit:
            raise Killed
        return report

    monkeypatch.setattr(committing, "commit_staged", dying)


def twice(monkeypatch: pytest.MonkeyPatch, job: Callable[[], object], commit: int, *, after: bool) -> None:
    """Do `job`, killed on the way, then again, whole."""
    killed_at(monkeypatch, commit, after=after)
    with pytest.raises(Killed):
        job()
    monkeypatch.undo()
    job()


@pytest.mark.parametrize(("commit", "after"), [(1, False), (9, True), pytest.param(16, True, marks=pytest.mark.long)])
def test_a_batch_counts_once_whenever_the_run_was_killed(
    warehouse: Warehouse, answers: Answers, monkeypatch: pytest.MonkeyPatch, commit: int, after: bool
):
    twice(monkeypatch, lambda: warehouse.load(CARRIER_DAY, days(16)), commit, after=after)
    warehouse.load(CARRIER_DAY, days(16))

    cells = warehouse.table(CARRIER_DAY).scan().to_arrow().drop_columns(["dep_delay"]).to_pylist()
    found = sorted((CarrierDay(**row) for row in cells), key=lambda cell: (cell.flight_date, cell.carrier))
    assert tuple(found) == answers.carrier_days
    assert [s.properties[table_state.BATCH] for s in warehouse.table(CARRIER_DAY).snapshots()] == [
        day.isoformat() for day in days(16)
    ]
    assert not list(warehouse.folder.rglob("lakehouse/pending/*"))


def test_a_batch_that_is_counted_twice_would_show(warehouse: Warehouse, answers: Answers):
    """So that the test above can fail: the same rows under another user are counted again."""
    table = warehouse.load(CARRIER_DAY, days(2))
    once = pc.sum(table.scan().to_arrow()["scheduled"]).as_py()

    table.write(warehouse.feed.rows("counts", days(2)[0].isoformat()))

    assert pc.sum(table.scan().to_arrow()["scheduled"]).as_py() == once + 926


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
def test_a_killed_first_row_load_keeps_the_first_sightings(
    warehouse: Warehouse, two_weeks: FlightsSource, monkeypatch: pytest.MonkeyPatch, after: bool
):
    twice(monkeypatch, lambda: warehouse.load(SEEN, days(4)), 2, after=after)

    warehouse.table(SEEN).compact()
    seen = rows_by_key(warehouse.table(SEEN))
    known = answers_at(two_weeks, start=START, through=days(4)[-1])
    assert {tailnum: row["first_seen"] for (tailnum,), row in seen.items()} == known.first_seen


# A table that is kept from a changelog.


def still_open(warehouse: Warehouse) -> set[tuple[Any, ...]]:
    scan = warehouse.table(STATUS).scan(where="arr IS NULL AND cancelled IS NULL")
    keys = warehouse.table(OPEN).schema.primary_keys
    return {tuple(row[name] for name in keys) for row in scan.to_arrow().to_pylist()}


def test_it_takes_each_snapshot_with_changes_as_one_commit(warehouse: Warehouse):
    warehouse.load(STATUS, days(3))
    warehouse.stage_open_flights()
    table = warehouse.commit_open_flights()

    compacted = [s.id for s in warehouse.table(STATUS).snapshots() if str(s.commit_kind) == "COMPACT"]
    assert [s.commit_identifier for s in table.snapshots()] == compacted
    assert rows_by_key(table).keys() == still_open(warehouse)
    assert warehouse.stage_open_flights() == []


@pytest.mark.parametrize(
    ("commit", "after"),
    [(1, False), (2, True), *(pytest.param(*case, marks=pytest.mark.long) for case in ((2, False), (3, True)))],
)
def test_it_takes_changes_once_also_when_more_came_while_it_was_dead(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, commit: int, after: bool
):
    warehouse.load(STATUS, days(3))
    warehouse.stage_open_flights()
    killed_at(monkeypatch, commit, after=after)
    with pytest.raises(Killed):
        warehouse.commit_open_flights()
    monkeypatch.undo()
    warehouse.load(STATUS, days(4))

    warehouse.stage_open_flights()
    table = warehouse.commit_open_flights()

    assert rows_by_key(table).keys() == still_open(warehouse)
    identifiers = [s.commit_identifier for s in table.snapshots()]
    assert identifiers == sorted(set(identifiers))
    assert len(identifiers) == 4
    assert not list(warehouse.folder.rglob("lakehouse/pending/*"))


def test_what_is_staged_can_be_committed_alone(warehouse: Warehouse):
    """The commit asset of a re-execution: more has come meanwhile, which nobody has staged."""
    warehouse.load(STATUS, days(2))
    staged = warehouse.stage_open_flights()
    warehouse.load(STATUS, days(3))

    table = warehouse.commit_open_flights()

    assert [s.commit_identifier for s in table.snapshots()] == [each.identifier for each in staged]


def test_changes_that_are_gone_are_missed_aloud(warehouse: Warehouse):
    status = warehouse.load(STATUS, days(3))
    status.alter(
        lc.SetOption("changelog.num-retained.min", "1"),
        lc.SetOption("changelog.num-retained.max", "1"),
        lc.SetOption("lakehouse.read.grace", "0 s"),
    )
    status.expire_snapshots(retain_max=1, retain_min=1)

    with pytest.raises(lc.SnapshotExpired, match=r"ops\.flight_status"):
        warehouse.stage_open_flights()


def test_another_table_of_the_same_name_is_not_followed(warehouse: Warehouse):
    warehouse.load(STATUS, days(2))
    warehouse.stage_open_flights()
    warehouse.commit_open_flights()
    user = changes_user(warehouse.table(STATUS), OPEN_KEY)
    warehouse.catalog.drop_table(STATUS)
    warehouse.load(STATUS, days(1))

    assert changes_user(warehouse.table(STATUS), OPEN_KEY) != user
    with pytest.raises(lc.InvalidRequest, match=r"Drop serving\.open_flights; the next run makes it anew"):
        warehouse.stage_open_flights()
