"""DELETE, UPDATE, TRUNCATE and DROP PARTITION leave what the row-wise model leaves, in every layout."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import MemoryStore
from tests.execution.row_changes.layouts import LAYOUTS, catalog_over, in_order, made, rows_of
from tests.oracle.row_changes import Row, deleted, is_hit, updated
from tests.pairs import in_turn

CONDITIONS = (
    "k = 5",
    "k IN (1, 2, 9, 77)",
    "k < 4 OR k > 9",
    "n > 5",
    "NOT n > 5",
    "n IS NULL",
    "v = 'b' AND n < 10",
    "v LIKE 'z%'",
    "v <> 'z'",
    "p = 1",
    "p = 1 AND k > 4",
    "k = 77",
    "k > 0",
)
# What is assigned, and the same in Python.
UPDATES: tuple[tuple[Mapping[str, Any], Mapping[str, Callable[[Row], Any]]], ...] = (
    ({"v": "'void'"}, {"v": lambda row: "void"}),
    ({"n": 7}, {"n": lambda row: 7}),
    ({"n": "COALESCE(n, 0) * 2 + k - 1"}, {"n": lambda row: (row["n"] or 0) * 2 + row["k"] - 1}),
    (
        {"n": "k", "v": "COALESCE(v, 'none') || '!'"},
        {"n": lambda row: row["k"], "v": lambda row: (row["v"] or "none") + "!"},
    ),
    ({"s": "s + 1"}, {"s": lambda row: row["s"] + 1}),
)
# Each layout takes some of the conditions; the long tests take all.
PARTS = 6
CHANGED = [name for name, layout in LAYOUTS.items() if layout.updates is not None]


def copied(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore(clock=VirtualClock())
    copy.write({info.key: store.read(info.key) for info in store.list("")})
    return copy


def sound(table: lc.Table) -> bool:
    return table.verify(data=True).findings == ()


def some(name: str) -> tuple[str, ...]:
    return CONDITIONS[list(LAYOUTS).index(name) % PARTS :: PARTS]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", in_turn(13, LAYOUTS, first=1))
def test_a_delete_leaves_the_rows_for_which_its_condition_is_not_true(name):
    check_deletes(name, some(name))


@pytest.mark.long
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_delete_by_any_condition_leaves_the_rows_for_which_it_is_not_true(name):
    check_deletes(name, CONDITIONS)


def check_deletes(name: str, conditions: tuple[str, ...]) -> None:
    layout = LAYOUTS[name]
    store, _ = made(layout)
    for where in conditions:
        table = catalog_over(copied(store), 1).table("db.t")
        before = rows_of(table)

        report = table.delete(where)

        expected = deleted(before, where, table.schema)
        assert rows_of(table) == in_order(expected), where
        hits = len(before) - len(expected)
        assert report.rows_deleted in (hits, None), where
        assert report.rows_deleted is not None or report.method == "partitions"
        assert (report.snapshot_id is None) == (report.noop_reason is not None) == (hits == 0), where
        assert sound(table), where
        assert table.delete(where).noop_reason == "no row satisfies the condition"
        whole = layout.partitions and where == "p = 1"
        assert report.method == ("partitions" if whole else layout.deletes)


@pytest.mark.parametrize("name", in_turn(13, CHANGED, first=1))
def test_an_update_leaves_the_new_values_where_its_condition_is_true(name):
    check_updates(
        name,
        [(number, where) for number, where in zip(range(len(UPDATES)), [*some(name), None, "k > 3"], strict=False)],
    )


@pytest.mark.long
@pytest.mark.parametrize("name", CHANGED)
def test_any_update_leaves_the_new_values_where_its_condition_is_true(name):
    check_updates(name, [(number, where) for number in range(len(UPDATES)) for where in (*CONDITIONS, None)])


def check_updates(name: str, cases: list[tuple[int, str | None]]) -> None:
    store, _ = made(LAYOUTS[name])
    for number, where in cases:
        assignments, values = UPDATES[number]
        table = catalog_over(copied(store), 1).table("db.t")
        before = rows_of(table)

        report = table.update(assignments, where)

        assert rows_of(table) == in_order(updated(before, values, where, table.schema)), (assignments, where)
        hits = sum(is_hit(row, where, table.schema) for row in before)
        assert (report.rows_updated, report.rows_deleted) == (hits, 0)
        assert report.method == LAYOUTS[name].updates
        assert sound(table), (assignments, where)


@pytest.mark.parametrize("name", in_turn(4, LAYOUTS))
def test_truncate_leaves_no_row_and_the_table_goes_on(name):
    _, table = made(LAYOUTS[name])
    row = {"k": 1, "p": 1, "s": 0, "v": "new", "n": 0}

    report = table.truncate()

    assert rows_of(table) == []
    assert (report.operation, report.method, report.commit_kind) == ("TRUNCATE", "partitions", "OVERWRITE")
    assert report.files_removed > 0
    table.write([row])
    assert rows_of(table) == [row]
    assert sound(table)
    assert rows_of_snapshot(table, report.snapshot_id_before) != []


def rows_of_snapshot(table: lc.Table, snapshot_id: int | None) -> list[Row]:
    assert snapshot_id is not None
    return in_order(table.scan(at=lc.AtSnapshot(snapshot_id)).to_arrow().to_pylist())


@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if layout.partitions])
def test_dropped_partitions_are_gone_and_the_others_stay(name):
    _, table = made(LAYOUTS[name])
    before = rows_of(table)

    report = table.drop_partitions([{"p": 1}, {"p": 2}])

    assert rows_of(table) == in_order([row for row in before if row["p"] == 0])
    assert report.method == "partitions"
    assert sound(table)
    assert table.drop_partitions({"p": 7}).noop_reason == "no row satisfies the condition"


@pytest.mark.parametrize("name", in_turn(5, CHANGED))
def test_a_dry_run_counts_and_changes_nothing(name):
    store, table = made(LAYOUTS[name])
    objects = {info.key for info in store.list("")}
    expected = len([row for row in rows_of(table) if is_hit(row, "n > 5", table.schema)])

    deleting = table.delete("n > 5", dry_run=True)
    updating = table.update({"n": 0}, "n > 5", dry_run=True)

    assert (deleting.rows_deleted, updating.rows_updated) == (expected, expected)
    assert (deleting.snapshot_id, updating.snapshot_id, deleting.dry_run) == (None, None, True)
    assert {info.key for info in store.list("")} == objects


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["append, vectors", "deduplicate, vectors", "partial-update", "first-row"])
def test_some_statements_one_after_the_other(name):
    check_sequence(name, 3)


@pytest.mark.long
@pytest.mark.parametrize("name", LAYOUTS)
def test_statements_one_after_the_other_with_compactions_between(name):
    check_sequence(name, 8)


def check_sequence(name: str, count: int) -> None:
    layout = LAYOUTS[name]
    _, table = made(layout)
    rows = rows_of(table)
    for number, where in enumerate(CONDITIONS[:count]):
        if layout.updates is not None:
            assignments, values = UPDATES[number % len(UPDATES)]
            table.update(assignments, where)
            rows = updated(rows, values, where, table.schema)
        table.delete(f"k = {number + 1}")
        rows = deleted(rows, f"k = {number + 1}", table.schema)
        if number % 3 == 1:
            table.compact(full=True)
        if number % 3 == 2:
            table.expire_snapshots(retain_max=1)
        assert rows_of(table) == in_order(rows), number
    assert sound(table)
