"""The answers of the main job, computed from the tables and set against the source.

Each comparison is of whole values, not of a sample: an answer counts as equal when nothing differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc
from assets.flights.answers import (
    VISIBILITY_BANDS,
    Answers,
    CarrierDay,
    Operated,
    Weathered,
    answers_at,
    board_at,
    changes_between,
)
from assets.flights.source import FlightsSource

KEY = ("flight_date", "carrier", "flight", "origin")
# What both flights, from whole rows, and flight_status, from partial ones, know of a flight; then the two boards.
_ALL_KNOW = (*KEY, "dest", "distance", "sched_dep", "sched_arr", "tailnum", "dep", "dep_delay")
_BOTH_KNOW = (*_ALL_KNOW, "arr", "arr_delay", "air_time")
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
    pieces = catalog.table("ops.flight_status").scan().to_arrow()
    evening = interesting_evening(start, through)
    answers = [
        _state_now(catalog, flights, pieces, known),
        _late_and_cancelled(catalog, flights, known, evening),
        _cancelled_by_visibility(pieces, known),
        _changed_operator(catalog, known),
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


def _state_now(catalog: lc.Catalog, flights: pa.Table, pieces: pa.Table, known: Answers) -> Answer:
    on_board = catalog.table("ops.flight_board").scan(columns=list(_ALL_KNOW)).to_arrow()
    served = catalog.table("serving.open_flights").scan(columns=list(_ALL_KNOW)).to_arrow()
    same_rows = _differing(flights, pieces, _BOTH_KNOW), _differing(on_board, served, _ALL_KNOW)
    by_status, open_by_origin = _counts(flights, "status"), _counts(on_board, "origin")
    return Answer(
        question="1. What is the state of every flight now; how many are open, by airport?",
        lines=(
            f"{flights.num_rows:,} flights: " + ", ".join(f"{n:,} {status}" for status, n in sorted(by_status.items())),
            f"{on_board.num_rows:,} open: "
            + ", ".join(f"{origin} {n}" for origin, n in sorted(open_by_origin.items())),
            "rows that differ: {} in flight_status, put together from pieces, {} in open_flights, kept from its "
            "changelog".format(*same_rows),
        ),
        found=(
            by_status,
            open_by_origin,
            pc.sum(flights["arr_delay"]).as_py(),
            pc.sum(flights["dep_delay"]).as_py(),
            same_rows,
        ),
        expected=(
            dict(known.by_status),
            dict(known.open_by_origin),
            known.sum_arr_delay or None,
            known.sum_dep_delay or None,
            (0, 0),
        ),
    )


def _late_and_cancelled(catalog: lc.Catalog, flights: pa.Table, known: Answers, evening: date | None) -> Answer:
    counted = catalog.table("ops.carrier_day").scan().to_arrow()
    cells = _counted_cells(counted)
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
        # Counted event by event, and grouped from whole rows.
        found=(cells, _carrier_days(flights), pc.sum(counted["dep_delay"]).as_py() or 0),
        expected=(known.carrier_days, known.carrier_days, known.sum_dep_delay),
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


def _cancelled_by_visibility(pieces: pa.Table, known: Answers) -> Answer:
    seen = pieces.filter(pc.is_valid(pieces["wx_seq"]))
    bands: dict[str, tuple[int, int]] = {}
    above = -1.0
    for name, bound in VISIBILITY_BANDS:
        inside = pc.and_(pc.greater_equal(seen["visib"], above), pc.less(seen["visib"], bound))
        flights = seen.filter(inside)
        if flights.num_rows:
            bands[name] = flights.num_rows, flights.num_rows - flights["cancelled"].null_count
        above = bound
    precip = round(pc.sum(seen["precip"]).as_py() or 0.0, 2)
    return Answer(
        question="5. Did low visibility cancel flights?",
        lines=(
            f"{seen.num_rows:,} flights with weather",
            *(
                f"{name:13} {cancelled:6,} of {flights:6,} cancelled: {100 * cancelled / flights:4.1f} %"
                for name, (flights, cancelled) in bands.items()
            ),
        ),
        found=Weathered(flights=seen.num_rows, precip=precip, by_visibility=bands),
        expected=known.weathered,
    )


def _changed_operator(catalog: lc.Catalog, known: Answers) -> Answer:
    first = catalog.table("ops.plane_first_seen").scan(columns=["tailnum", "first_seen"]).to_arrow()
    first_seen = dict(zip(first["tailnum"].to_pylist(), first["first_seen"].to_pylist(), strict=True))
    history = catalog.table("ops.plane_operator").scan().to_arrow().to_pylist()
    operators = [
        Operated(
            tailnum=row["tailnum"], since=row["valid_from"], carrier=row["carrier"], previous=row["previous_carrier"]
        )
        for row in history
    ]
    operators.sort(key=lambda each: (each.tailnum, each.since))
    changed = [each for each in operators if each.previous is not None]
    return Answer(
        question="6. Which aircraft changed operator, and when?",
        lines=(
            f"{len(changed)} of the {len(first_seen):,} aircraft that departed"
            if changed
            else f"None: all {len(first_seen):,} aircraft that departed flew for one airline each",
            *(
                f"{each.tailnum} {each.previous} until {each.since:%-d %b %H:%M}, then {each.carrier}"
                for each in changed
            ),
        ),
        found=(first_seen, tuple(operators)),
        expected=(dict(known.first_seen), known.operators),
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


def _counted_cells(counted: pa.Table) -> tuple[CarrierDay, ...]:
    """Return the rows of `carrier_day`, which were counted event by event."""
    ordered = counted.drop_columns(["dep_delay"]).sort_by([("flight_date", "ascending"), ("carrier", "ascending")])
    return tuple(CarrierDay(**row) for row in ordered.to_pylist())


def _differing(one: pa.Table, other: pa.Table, columns: Sequence[str]) -> int:
    """Return how many rows only one of the two has, looking at `columns` alone."""
    left, right = (set(zip(*(table[name].to_pylist() for name in columns), strict=True)) for table in (one, other))
    return len(left ^ right) + abs(one.num_rows - other.num_rows)


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
