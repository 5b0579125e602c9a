"""The answers of the main job, computed from the tables and set against the source.

Each comparison is of whole values, not of a sample: an answer counts as equal when nothing differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc
from assets.flights.answers import Answers, CarrierDay, answers_at, board_at, changes_between
from assets.flights.source import FlightsSource

KEY = ("flight_date", "carrier", "flight", "origin")
BLIZZARD = date(2013, 2, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question, its answer as lines of text, and whether the source says the same."""

    question: str
    lines: tuple[str, ...]
    found: Any
    expected: Any

    @property
    def agrees(self) -> bool:
        return bool(self.found == self.expected)


def answer_all(catalog: lc.Catalog, source: FlightsSource, *, start: date, through: date) -> tuple[Answer, ...]:
    """Answer the questions of the main job as of the evening of `through`; the tables hold exactly those batches."""
    known = answers_at(source, start=start, through=through)
    flights = catalog.table("ops.flights").scan().to_arrow()
    evening = interesting_evening(start, through)
    answers = [
        _state_now(catalog, flights, known),
        _late_and_cancelled(flights, known, evening),
        _never_arrived(flights, known, through),
    ]
    if evening is not None:
        answers += [
            _board_that_night(catalog, source, start, evening),
            _changes(catalog, source, start, evening),
        ]
    return tuple(sorted(answers, key=lambda answer: answer.question))


def interesting_evening(start: date, through: date) -> date | None:
    """Return the evening that questions 3 and 4 ask about: the blizzard's where it is loaded, else the last but one.

    None while fewer than two batches are loaded.
    """
    first = start - timedelta(days=1)
    if first < BLIZZARD <= through:
        return BLIZZARD
    return through - timedelta(days=1) if through - timedelta(days=1) > first else None


def _state_now(catalog: lc.Catalog, flights: pa.Table, known: Answers) -> Answer:
    on_board = catalog.table("ops.flight_board").scan(columns=["origin"]).to_arrow()
    by_status, open_by_origin = _counts(flights, "status"), _counts(on_board, "origin")
    return Answer(
        question="1. What is the state of every flight now; how many are open, by airport?",
        lines=(
            f"{flights.num_rows:,} flights: " + ", ".join(f"{n:,} {status}" for status, n in sorted(by_status.items())),
            f"{on_board.num_rows:,} open: "
            + ", ".join(f"{origin} {n}" for origin, n in sorted(open_by_origin.items())),
        ),
        found=(by_status, open_by_origin, pc.sum(flights["arr_delay"]).as_py(), pc.sum(flights["dep_delay"]).as_py()),
        expected=(
            dict(known.by_status),
            dict(known.open_by_origin),
            known.sum_arr_delay or None,
            known.sum_dep_delay or None,
        ),
    )


def _late_and_cancelled(flights: pa.Table, known: Answers, evening: date | None) -> Answer:
    cells = _carrier_days(flights)
    days = [d for d in (evening, evening + timedelta(days=1)) if d] if evening else []
    by_place = {(cell.carrier, cell.flight_date): cell for cell in cells}
    carriers = sorted({cell.carrier for cell in cells if cell.flight_date in days})
    lines = [
        "        " + " ".join(f"{day:%-d %B}".center(31) for day in days).rstrip(),
        "carrier " + " ".join(["cancelled of scheduled min. late"] * len(days)),
        *(
            f"{carrier:7} " + " ".join(_cell(by_place.get((carrier, day))) for day in days).rstrip()
            for carrier in carriers
        ),
    ]
    return Answer(
        question="2. Which carriers cancelled and ran late in the blizzard, day by day?",
        lines=tuple(lines) if days else (f"{len(cells)} cells of carrier and day",),
        found=cells,
        expected=known.carrier_days,
    )


def _cell(cell: CarrierDay | None) -> str:
    return " " * 32 if cell is None else f"{cell.cancelled:9} of {cell.scheduled:<9} {cell.arr_delay:9}"


def _board_that_night(catalog: lc.Catalog, source: FlightsSource, start: date, evening: date) -> Answer:
    scan = catalog.table("ops.flight_board").scan(columns=["origin", "status"], at=lc.AtTag(f"batch-{evening}"))
    shown = _pairs(scan.to_arrow(), "origin", "status")
    return Answer(
        question=f"3. What did the board show on the night of {evening:%-d %B}?",
        lines=(
            f"{sum(shown.values())} flights: "
            + ", ".join(f"{origin} {status} {n}" for (origin, status), n in shown.items()),
        ),
        found=shown,
        expected=dict(board_at(source, start=start, through=evening)),
    )


def _changes(catalog: lc.Catalog, source: FlightsSource, start: date, evening: date) -> Answer:
    flights = catalog.table("ops.flights")
    before = evening - timedelta(days=1)
    tags = {tag.name: tag.snapshot_id for tag in flights.tags()}
    after, until = (tags[f"batch-{day}"] for day in (before, evening))
    kinds = _counts(flights.changes(after=after, until=until).to_arrow(), "rowkind")
    return Answer(
        question=f"4. What changed between the evenings of {before:%-d} and {evening:%-d %B}?",
        lines=(f"snapshots ({after}, {until}]: " + ", ".join(f"{n:,} {kind}" for kind, n in sorted(kinds.items())),),
        found=kinds,
        expected=dict(changes_between(source, start=start, after=before, until=evening)),
    )


def _never_arrived(flights: pa.Table, known: Answers, through: date) -> Answer:
    long_due = datetime.combine(through, time(), UTC)
    lost = flights.filter(
        pc.and_(pc.equal(flights["status"], "departed"), pc.less(flights["sched_arr"], pa.scalar(long_due)))
    )
    keys = tuple(sorted(tuple(row[name] for name in KEY) for row in lost.select(list(KEY)).to_pylist()))
    return Answer(
        question="7. Which flights departed and never arrived?",
        lines=(
            f"{len(keys)} due before {through:%-d %B}"
            + (": " if keys else "")
            + ", ".join(f"{c} {n} from {o} on {d:%-d %b}" for d, c, n, o in keys[:3])
            + (" …" if len(keys) > 3 else ""),
        ),
        found=keys,
        expected=known.never_arrived,
    )


def _carrier_days(flights: pa.Table) -> tuple[CarrierDay, ...]:
    """Group the flights by date and carrier."""
    left = pc.is_in(flights["status"], value_set=pa.array(["departed", "arrived", "diverted"]))
    marked = pa.table(
        {
            "flight_date": flights["flight_date"],
            "carrier": flights["carrier"],
            "departed": pc.cast(left, pa.int64()),
            "cancelled": pc.cast(pc.equal(flights["status"], "cancelled"), pa.int64()),
            "arr_delay": pc.cast(flights["arr_delay"], pa.int64()),
        }
    )
    grouped = marked.group_by(["flight_date", "carrier"]).aggregate(
        [
            ("departed", "count"),
            ("departed", "sum"),
            ("cancelled", "sum"),
            ("arr_delay", "count"),
            ("arr_delay", "sum"),
            ("arr_delay", "max"),
        ]
    )
    cells = [
        CarrierDay(
            flight_date=row["flight_date"],
            carrier=row["carrier"],
            scheduled=row["departed_count"],
            departed=row["departed_sum"],
            cancelled=row["cancelled_sum"],
            arrived=row["arr_delay_count"],
            arr_delay=row["arr_delay_sum"] or 0,
            worst_arr_delay=row["arr_delay_max"],
        )
        for row in grouped.to_pylist()
    ]
    return tuple(sorted(cells, key=lambda cell: (cell.flight_date, cell.carrier)))


def _counts(table: pa.Table, column: str) -> dict[Any, int]:
    return {pair["values"]: pair["counts"] for pair in pc.value_counts(table[column]).to_pylist()}


def _pairs(table: pa.Table, *columns: str) -> Mapping[tuple[Any, ...], int]:
    grouped = table.group_by(list(columns)).aggregate([([], "count_all")]).to_pylist()
    return dict(sorted((tuple(row[name] for name in columns), row["count_all"]) for row in grouped))
