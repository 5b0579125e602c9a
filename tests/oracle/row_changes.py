"""Row changes, row by row: what DELETE and UPDATE leave of the rows that readers see, whatever the table's layout."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse_core.planning.read.where import parse_where
from lakehouse_core.table.predicate import bind
from lakehouse_core.table.schema import TableSchema
from tests.oracle.conditions import truth

Row = dict[str, Any]
NewValue = Callable[[Row], Any]


def is_hit(row: Row, where: str | None, schema: TableSchema) -> bool:
    """Only TRUE counts: FALSE and NULL leave the row."""
    return where is None or truth(bind(parse_where(where), schema.fields), row) is True


def deleted(rows: Sequence[Row], where: str | None, schema: TableSchema) -> list[Row]:
    return [row for row in rows if not is_hit(row, where, schema)]


def updated(
    rows: Sequence[Row], new_values: Mapping[str, NewValue], where: str | None, schema: TableSchema
) -> list[Row]:
    """New values are computed from the old row, all of them before one is assigned."""
    return [
        {**row, **{name: value(row) for name, value in new_values.items()}} if is_hit(row, where, schema) else row
        for row in rows
    ]


@dataclass(frozen=True)
class Clause:
    """A clause of a MERGE. `kind`: matched, new (in the source alone), rest (in the table alone).
    `values` None: delete.

    `holds` and the values get the row of the table and that of the source, None where there is none.
    """

    kind: str
    holds: Callable[[Row | None, Row | None], bool | None]
    values: Mapping[str, Callable[[Row | None, Row | None], Any]] | None = None


class Refused(Exception):
    """The MERGE says two things about one row."""


def merged(
    rows: Sequence[Row],
    source: Sequence[Row],
    on: Callable[[Row, Row], bool | None],
    clauses: Sequence[Clause],
    *,
    columns: Sequence[str],
    keys: Sequence[str] = (),
) -> list[Row]:
    """Of the clauses of a kind, the first one that holds counts. Raises Refused for two matches of one row if some
    clause is about matches, and for a new row whose key is there or comes twice.
    """
    left: list[Row] = []
    used: set[int] = set()
    for row in rows:
        matches = [number for number, other in enumerate(source) if on(row, other) is True]
        used.update(matches)
        if len(matches) > 1 and any(clause.kind == "matched" for clause in clauses):
            raise Refused("two rows of the source match one row")
        other = source[matches[0]] if matches else None
        clause = _first(clauses, "matched" if matches else "rest", row, other)
        if clause is None:
            left.append(row)
        elif clause.values is not None:
            left.append({**row, **{name: value(row, other) for name, value in clause.values.items()}})
    present = {tuple(row[key] for key in keys) for row in rows}
    for number, other in enumerate(source):
        clause = None if number in used else _first(clauses, "new", None, other)
        if clause is not None and clause.values is not None:
            row = dict.fromkeys(columns) | {name: value(None, other) for name, value in clause.values.items()}
            key = tuple(row[key] for key in keys)
            if keys and key in present:
                raise Refused("a key is inserted that is there")
            present.add(key)
            left.append(row)
    return left


def _first(clauses: Sequence[Clause], kind: str, row: Row | None, other: Row | None) -> Clause | None:
    return next((one for one in clauses if one.kind == kind and one.holds(row, other) is True), None)
