"""MERGE leaves what the row-wise model leaves, in every layout; what it refuses changes nothing."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.execution.row_changes.layouts import COLUMNS, LAYOUTS, Layout, catalog_over, in_order, made, rows_of
from tests.execution.row_changes.test_model import copied, sound
from tests.oracle.row_changes import Clause, Refused, Row, merged
from tests.pairs import in_turn

Test = Callable[[Any, Any], bool | None]
SOURCES: tuple[list[Row], ...] = (
    [
        {"k": 1, "p": 1, "s": 9, "v": "b", "n": 40},
        {"k": 2, "p": 2, "s": 9, "v": None, "n": 4},
        {"k": 5, "p": 2, "s": 9, "v": "z", "n": None},
        {"k": 50, "p": 2, "s": 9, "v": "new", "n": 7},
        {"k": 51, "p": 0, "s": 9, "v": None, "n": 15},
    ],
    [{"k": 7, "p": 1, "s": 9, "v": "a", "n": 1}, {"k": 7, "p": 1, "s": 9, "v": "b", "n": 2}],
    [{"k": 60, "p": 0, "s": 9, "v": "a", "n": -1}, {"k": 60, "p": 0, "s": 9, "v": "b", "n": -1}],
    [],
)


def both(test: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """NULL if a side is NULL."""
    return lambda left, right: None if left is None or right is None else test(left, right)


equal, less = both(lambda left, right: left == right), both(lambda left, right: left < right)


def every(*parts: bool | None) -> bool | None:
    return False if False in parts else None if None in parts else True


ONS: Mapping[str, Test] = {
    "t.k = s.k": lambda t, s: equal(t["k"], s["k"]),
    "s.k = t.k AND t.p = 1": lambda t, s: every(equal(s["k"], t["k"]), equal(t["p"], 1)),
    "(t.k = s.k) AND s.n > 3": lambda t, s: every(equal(t["k"], s["k"]), less(3, s["n"])),
    "t.n = s.n": lambda t, s: equal(t["n"], s["n"]),
    "t.k = s.k AND (t.v <> 'z' OR s.v = 'b')": lambda t, s: every(
        equal(t["k"], s["k"]),
        True
        if equal(s["v"], "b")
        else (None if t["v"] is None else t["v"] != "z" or (None if s["v"] is None else False)),
    ),
    "t.k = s.k + 1": lambda t, s: equal(t["k"], s["k"] + 1),
}
CONDITIONS: Mapping[str, Mapping[str | None, Test]] = {
    "matched": {
        None: lambda t, s: True,
        "s.v = 'b'": lambda t, s: equal(s["v"], "b"),
        "t.n > s.n": lambda t, s: less(s["n"], t["n"]),
        "t.v IS NULL OR s.v IS NULL": lambda t, s: t["v"] is None or s["v"] is None,
    },
    "new": {None: lambda t, s: True, "n IS NOT NULL": lambda t, s: s["n"] is not None},
    "rest": {
        None: lambda t, s: True,
        "n > 5": lambda t, s: less(5, t["n"]),
        "t.v = 'z'": lambda t, s: equal(t["v"], "z"),
    },
}
Values = Mapping[str, Callable[[Any, Any], Any]]
# What a clause does, as it is said and in Python; None deletes.
ACTIONS: Mapping[str, tuple[tuple[Any, Values | None], ...]] = {
    "matched": (
        ({"v": "COALESCE(s.v, 'none')"}, {"v": lambda t, s: s["v"] or "none"}),
        (
            {"n": "COALESCE(t.n, 0) + COALESCE(s.n, 1)", "v": "'m'"},
            {"n": lambda t, s: (t["n"] or 0) + (1 if s["n"] is None else s["n"]), "v": lambda t, s: "m"},
        ),
        ({"N": 3}, {"n": lambda t, s: 3}),
        ({"v": "s.v", "s": "s.s"}, {"v": lambda t, s: s["v"], "s": lambda t, s: s["s"]}),
        (None, None),
    ),
    "new": (
        ("*", {name: (lambda t, s, name=name: s[name]) for name in COLUMNS}),
        (
            {"k": "s.k", "p": "p", "s": 9, "n": "s.n * 2"},
            {
                "k": lambda t, s: s["k"],
                "p": lambda t, s: s["p"],
                # A lower one would be older than a deleted row of the key.
                "s": lambda t, s: 9,
                "n": lambda t, s: None if s["n"] is None else s["n"] * 2,
            },
        ),
    ),
    "rest": (({"v": "'gone'"}, {"v": lambda t, s: "gone"}), (None, None)),
}
KINDS = {"matched": lc.WhenMatched, "new": lc.WhenNotMatched, "rest": lc.WhenNotMatchedBySource}


def clause_of(kind: str, where: str | None, action: Any) -> Any:
    if kind == "new":
        return lc.WhenNotMatched(insert=action, where=where)
    return KINDS[kind](update=action, delete=action is None, where=where)


def drawn(seed: int) -> tuple[str, list[tuple[str, str | None, int]], list[Row]]:
    """Return ON, the clauses as kind, condition and number of the action, and the source."""
    generator = random.Random(seed)
    clauses = []
    for kind in generator.sample(list(KINDS), generator.randint(1, 3)):
        count = generator.randint(1, 2)
        for number in range(count):
            conditions = [one for one in CONDITIONS[kind] if one is not None or number == count - 1]
            clauses.append((kind, generator.choice(conditions), generator.randrange(len(ACTIONS[kind]))))
    generator.shuffle(clauses)
    # Only the last clause of a kind may have no condition.
    clauses.sort(key=lambda clause: clause[1] is None)
    return generator.choice(list(ONS)), clauses, generator.choice(SOURCES[:1] * 4 + SOURCES)


def refusal(layout: Layout, clauses: list[tuple[str, str | None, int]]) -> type[lc.LakehouseError] | None:
    """Return what a table of this layout says to the clauses before it reads a row."""
    for kind, _, number in clauses:
        if kind != "new":
            deletes = ACTIONS[kind][number][1] is None
            if layout.keys and (layout.deletes != "records" if deletes else layout.updates is None):
                return lc.UnsupportedFeature
    return None


def said(seed: int, given: list[Row] | None = None) -> tuple[Any, str, list[Any]]:
    """Return the source, which may be `given`, ON and the clauses as a caller says them."""
    on, clauses, source = drawn(seed)
    # An empty list has no columns.
    return (
        pa_rows(source if given is None else given),
        on,
        [clause_of(kind, where, ACTIONS[kind][number][0]) for kind, where, number in clauses],
    )


def left(name: str, rows: list[Row], seed: int, given: list[Row] | None = None) -> list[Row] | type[lc.LakehouseError]:
    """Return the rows that the merge leaves of `rows`, or the error with which a table of this layout refuses it."""
    layout = LAYOUTS[name]
    on, clauses, source = drawn(seed)
    source = source if given is None else given
    refused = refusal(layout, clauses)
    if refused is not None:
        return refused
    model: list[Clause] = []
    notes: set[str] = set()
    for kind, text, number in clauses:
        values = ACTIONS[kind][number][1]
        if values is not None and kind != "new":
            values = noting(values, notes)
        model.append(Clause(kind, CONDITIONS[kind][text], values))
    try:
        expected = merged(rows, source, ONS[on], model, columns=list(COLUMNS), keys=layout.keys)
    except Refused:
        return lc.InvalidRequest
    # To partial-update null is no value, and a sequence field lets no older row in: both would leave the old value.
    kept = "null" in notes and name.startswith("partial-update")
    return lc.InvalidRequest if kept or ("older" in notes and "sequence" in name) else expected


def check(name: str, store: Any, seed: int) -> None:
    table = catalog_over(copied(store), 1).table("db.t")
    before = rows_of(table)
    data, on, clauses = said(seed)
    where = (name, seed, on, clauses)
    expected = left(name, before, seed)
    if isinstance(expected, type):
        with pytest.raises(expected):
            table.merge(data, on, *clauses)
        assert rows_of(table) == before, where
        return

    counted = table.merge(data, on, *clauses, dry_run=True)
    report = table.merge(data, on, *clauses)

    assert rows_of(table) == in_order(expected), where
    assert (report.rows_updated, report.rows_deleted, report.rows_inserted) == (
        counted.rows_updated,
        counted.rows_deleted,
        counted.rows_inserted,
    ), where
    assert len(expected) == len(before) + report.rows_inserted - (report.rows_deleted or 0), where
    assert (report.snapshot_id is None) == (report.noop_reason is not None), where
    assert sound(table), where


def noting(values: Values, notes: set[str]) -> Values:
    """Return the values; it is noted if one is NULL, and if one is a lower `s` than before."""

    def noted(name: str, value: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def compute(row: Any, other: Any) -> Any:
            found = value(row, other)
            if found is None:
                notes.add("null")
            elif name == "s" and row["s"] is not None and found < row["s"]:
                notes.add("older")
            return found

        return compute

    return {name: noted(name, value) for name, value in values.items()}


def pa_rows(source: list[Row]) -> Any:
    types = {"k": pa.int32(), "p": pa.int32(), "s": pa.int32(), "v": pa.string(), "n": pa.int64()}
    return pa.Table.from_pylist(source, schema=pa.schema(types))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", in_turn(12, LAYOUTS))
def test_a_merge_leaves_what_the_model_leaves(name):
    store, _ = made(LAYOUTS[name])
    first = list(LAYOUTS).index(name) * 100
    for seed in range(first, first + 3):
        check(name, store, seed)


@pytest.mark.long
@pytest.mark.parametrize("name", LAYOUTS)
def test_any_merge_leaves_what_the_model_leaves(name):
    store, _ = made(LAYOUTS[name])
    for seed in range(40):
        check(name, store, 10_000 + seed)
