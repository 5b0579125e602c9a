"""Cursors: how far a table has taken rows that come in the order of one of their columns, the cursor.

Rule: a staged commit holds the cursor that it leads to, and the table `<database>.row_cursors` has it before the
commit. So a run that was killed continues after the rows that are staged. Rows that have the value of the cursor are
known by their digests, because later rows may have it too.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from hashlib import blake2b
from math import isnan
from typing import Any, TypeAlias

import lakehouse_core as lc
from lakehouse_dagster.pipeline.table_setup import open_table
from lakehouse_dagster.pipeline.table_state import committed_identifier

CURSORS = "row_cursors"
# The property of a staged commit with its cursor. No snapshot has it: it may be large.
CURSOR = "lakehouse.cursor"

CursorValue: TypeAlias = int | float | str | Decimal | datetime | date

_COLUMNS = {"target": "STRING NOT NULL", "delivery": "BIGINT", "cursor": "STRING"}
# More digests would make the record of a cursor larger than some megabytes.
_MOST_TAKEN = 100_000
# Snapshots of the table of cursors, which has no maintenance of its own.
_RETAINED = 10
# The names of types in records, never to be renamed: the type, and the function that reads its text.
_TYPES: Mapping[str, tuple[type, Callable[[str], Any]]] = {
    "int": (int, int),
    "float": (float, float),
    "text": (str, str),
    "decimal": (Decimal, Decimal),
    "datetime": (datetime, datetime.fromisoformat),
    "date": (date, date.fromisoformat),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The last value that was taken (None: nothing was taken), and the rows that have it: digest → number.

    `rows` is the number of rows that were taken so far, and `query` the digest of what they were selected by.
    """

    value: CursorValue | None = None
    taken: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    query: str = ""

    def to_json(self) -> str:
        name = "" if self.value is None else _type_name(self.value)
        plain = {"type": name, "value": str(self.value), "taken": self.taken, "rows": self.rows, "query": self.query}
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str) -> "Cursor":
        found = json.loads(text)
        value = _TYPES[found["type"]][1](found["value"]) if found["type"] else None
        return cls(value=value, taken=found["taken"], rows=found["rows"], query=found["query"])


class NewRows:
    """Tells rows that are new from rows that were taken before, and notes the cursor that they lead to.

    `column` is the name of the cursor. `is_sorted`: values that go back are refused; otherwise the caller knows that
    its rows are in the order of the cursor.
    """

    def __init__(self, since: Cursor, column: str, *, query: str = "", is_sorted: bool = False) -> None:
        self._since, self._column, self._query, self._is_sorted = since, column, query, is_sorted
        self._left = Counter(since.taken)
        self._value, self._taken, self._rows = since.value, Counter(since.taken), since.rows

    @property
    def cursor(self) -> Cursor:
        return Cursor(value=self._value, taken=dict(self._taken), rows=self._rows, query=self._query)

    def places(self, values: Sequence[Any], rows_at: Callable[[Sequence[int]], Iterable[object]]) -> Sequence[int]:
        """Return the places of the new ones of some rows, which have these `values` of the cursor.

        `rows_at` returns the rows at places. Raises InvalidRequest for a null, a value of another type, and a value
        that goes back.
        """
        self._check(values)
        known = [place for place, value in enumerate(values) if value == self._since.value] if self._left else []
        dropped = set()
        for place, digest in zip(known, map(_digest, rows_at(known)), strict=True):
            if self._left[digest] > 0:
                self._left[digest] -= 1
                dropped.add(place)
        new = [place for place in range(len(values)) if place not in dropped]
        if not new:
            return new
        last = values[new[-1]]
        if last != self._value:
            self._value, self._taken = last, Counter()
        self._taken.update(map(_digest, rows_at([place for place in new if values[place] == last])))
        if (count := self._taken.total()) > _MOST_TAKEN:
            raise lc.InvalidRequest(
                f"cursor {self._column!r}: found {count:,} rows of one value, {last}, expected at most "
                f"{_MOST_TAKEN:,}. Take a column with finer values."
            )
        self._rows += len(new)
        return new

    def _check(self, values: Sequence[Any]) -> None:
        before = self._value
        for value in values:
            if value is None:
                raise lc.InvalidRequest(
                    f"cursor {self._column!r}: found a row where it is null, which has no place in the order. Leave "
                    "such rows out, or take another column."
                )
            if before is not None and type(value) is not type(before):
                raise lc.InvalidRequest(
                    f"cursor {self._column!r}: found {value!r} after {before!r}, expected values of one type. Cast "
                    "the column."
                )
            if self._is_sorted and before is not None and value < before:
                raise lc.InvalidRequest(
                    f"cursor {self._column!r}: found {value} after {before}, but rows are taken in its order. Give "
                    "the rows in the order of the cursor, none before the value that the function is called with."
                )
            before = value
        if before is not None:
            _type_name(before)


def recorded_cursor(catalog: lc.Catalog, table: lc.Table, *, commit_user: str) -> tuple[int, Cursor]:
    """Return the number of the last delivery of `commit_user` that is recorded, -1 for none, and its cursor."""
    log = open_table(catalog, _log_name(table))
    rows = [] if log is None else log.scan(where=lc.col("target") == commit_user).to_arrow().to_pylist()
    return (rows[0]["delivery"], Cursor.from_json(rows[0]["cursor"])) if rows else (-1, Cursor())


def advance_cursor(catalog: lc.Catalog, table: lc.Table, *, commit_user: str) -> tuple[int, Cursor]:
    """Record the cursors of staged deliveries that are not recorded; return the last delivery and its cursor."""
    delivery, cursor = recorded_cursor(catalog, table, commit_user=commit_user)
    while (staged := table.pending(commit_user, delivery + 1)) is not None:
        delivery, cursor = delivery + 1, Cursor.from_json(staged.properties[CURSOR])
        log = catalog.create_table(
            _log_name(table),
            _COLUMNS,
            primary_keys=["target"],
            options={"bucket": "1"},
            comment="How far tables have taken the rows of queries and functions. The ingest of the tables writes it.",
            exist_ok=True,
        )
        row = {"target": commit_user, "delivery": delivery, "cursor": cursor.to_json()}
        log.commit(log.stage([row], commit_user=f"cursors/{commit_user}", commit_identifier=delivery))
        log.expire_snapshots(retain_max=_RETAINED, retain_min=1)
    return delivery, cursor


def staged_deliveries(table: lc.Table, delivery: int, *, commit_user: str) -> list[lc.StagedCommit]:
    """Return the staged commits up to number `delivery` that are still stored, in their order.

    The last committed one is included while its staged commit is stored: a replay removes it.
    """
    first = committed_identifier(table, commit_user) or 0
    found = (table.pending(commit_user, number) for number in range(first, delivery + 1))
    return [staged for staged in found if staged is not None]


def _type_name(value: object) -> str:
    for name, (kind, _) in _TYPES.items():
        # By the exact type: a moment is a date too, and a truth value a number. NaN has no place in an order.
        if type(value) is kind and not (isinstance(value, float | Decimal) and isnan(value)):
            return name
    raise lc.InvalidRequest(
        f"cursor: found {value!r}, expected a number, a text, a date or a time. Cast the column, or take another."
    )


def _digest(row: object) -> str:
    return blake2b(repr(row).encode(), digest_size=8).hexdigest()


def _log_name(table: lc.Table) -> str:
    return f"{table.name.partition('.')[0]}.{CURSORS}"
