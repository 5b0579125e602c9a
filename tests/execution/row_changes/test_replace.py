"""An overwrite by a condition leaves the rows for which it is not true, and the given ones, in every layout."""

import re

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.clock import VirtualClock
from lakehouse_core.storage import FaultyStore, MemoryStore
from tests.execution.row_changes.layouts import LAYOUTS, Row, catalog_over, in_order, made, rows_of
from tests.execution.row_changes.test_model import copied, sound
from tests.oracle.row_changes import deleted
from tests.pairs import each_with_one, in_turn

# Conditions with rows for which they are true; some have keys of rows that they replace.
CASES: tuple[tuple[str, list[Row]], ...] = (
    ("k = 5", [{"k": 5, "p": 2, "s": 1, "v": None, "n": 1}]),
    ("k = 77", [{"k": 77, "p": 2, "s": 1, "v": "new", "n": 1}]),
    ("k IN (1, 2, 9)", [{"k": 2, "p": 2, "s": 0, "v": "x", "n": None}, {"k": 9, "p": 0, "s": 9, "v": "y", "n": 3}]),
    ("v = 'b' AND n < 10", [{"k": 50, "p": 1, "s": 3, "v": "b", "n": 4}]),
    ("n IS NULL", [{"k": 60, "p": 0, "s": 2, "v": "m", "n": None}]),
    ("p = 1", [{"k": 1, "p": 1, "s": 0, "v": "q", "n": 2}, {"k": 70, "p": 1, "s": 4, "v": "r", "n": 5}]),
    ("k > 0", [{"k": 3, "p": 0, "s": 0, "v": "only", "n": 0}]),
    ("n > 5", []),
)
REFUSES = ("first-row", "deduplicate, vectors, sequence")
NAMES = [name for name in LAYOUTS if name not in REFUSES]


def check_replaced(name: str, cases: tuple[tuple[str, list[Row]], ...]) -> None:
    layout = LAYOUTS[name]
    store, _ = made(layout)
    for where, given in cases:
        table = catalog_over(copied(store), 1).table("db.t")
        before = rows_of(table)

        planned = table.overwrite(given, where=where, dry_run=True)
        report = table.overwrite(given, where=where)

        kept = deleted(before, where, table.schema)
        assert rows_of(table) == in_order([*kept, *given]), where
        hits = len(before) - len(kept)
        assert isinstance(planned, lc.RowChangeReport)
        assert isinstance(report, lc.RowChangeReport)
        assert report.rows_matched in (hits, None), where
        assert (report.rows_inserted, report.operation) == (len(given), "OVERWRITE")
        told = (report.rows_matched, report.rows_inserted, report.method, report.noop_reason)
        assert (planned.rows_matched, planned.rows_inserted, planned.method, planned.noop_reason) == told
        assert (planned.dry_run, planned.snapshot_id) == (True, None)
        assert table.snapshot(report.snapshot_id).operation == "OVERWRITE"
        assert sound(table), where


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", in_turn(5, NAMES))
def test_given_rows_come_in_place_of_those_that_satisfy_the_condition(name):
    check_replaced(name, CASES[list(LAYOUTS).index(name) % 4 :: 4])


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_given_rows_come_in_place_of_those_that_satisfy_any_condition(name):
    check_replaced(name, CASES)


@pytest.mark.parametrize("row", [{"v": "a"}, {"v": None}])
@pytest.mark.parametrize("name", ["append", "append, vectors", "deduplicate", "partial-update"])
def test_a_given_row_for_which_the_condition_is_false_or_null_is_refused_and_nothing_stays(name, row):
    store, table = made(LAYOUTS[name])
    keys = {info.key for info in store.list("")}
    fits = {"k": 5, "p": 1, "s": 1, "v": "b", "n": 1}

    for dry_run in (True, False):
        with pytest.raises(lc.InvalidRequest, match=re.escape(f"(v = {row['v']!r})")):
            table.overwrite([fits, {**fits, "k": 6, **row}], where="v = 'b'", dry_run=dry_run)

    assert {info.key for info in store.list("")} == keys


@pytest.mark.parametrize("name", ["first-row", "deduplicate, vectors"])
def test_readers_never_see_neither_the_old_nor_the_new_rows(name):
    options = {"sequence.field": "s"} if name == "deduplicate, vectors" else {}
    _, table = made(LAYOUTS[name], **options)

    with pytest.raises(lc.UnsupportedFeature, match="neither the old rows nor the new ones"):
        table.overwrite([], where="v = 'b'")


def test_a_dry_run_writes_nothing():
    store, table = made(LAYOUTS["deduplicate, dynamic"])
    keys = {info.key for info in store.list("")}

    report = table.overwrite([{"k": 5, "p": 1, "s": 1, "v": "b", "n": 1}], where="k = 5", dry_run=True)

    assert (report.dry_run, report.rows_matched, report.rows_inserted) == (True, 1, 1)
    assert {info.key for info in store.list("")} == keys


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"where": "k = 1", "partition": {"p": 1}}, "where and partition are both given"),
        ({"where": "k = 1", "dynamic": True}, "where and dynamic are both given"),
        ({"where": "k = 1", "isolation": "none"}, "isolation='none'"),
        ({"dry_run": True}, "that is for an overwrite by a condition"),
        ({"where": "zz = 1"}, "zz"),
    ],
)
def test_a_wrong_call_is_refused(arguments, error):
    _, table = made(LAYOUTS["append, partitions"])

    with pytest.raises(lc.InvalidRequest, match=error):
        table.overwrite([], **arguments)


ROW = {"k": 5, "p": 2, "s": 9, "v": "b", "n": 4}


def overtaken(name: str, data, other, where: str = "v = 'b'"):
    """Overwrite while another process acts between reading and committing; return the table."""
    store, _ = made(LAYOUTS[name])
    acted = []

    def act(call):
        if "/snapshot/snapshot-" in call.key and call.writes and not acted:
            acted.append(call)
            other(catalog_over(store, 2).table("db.t"))

    table = catalog_over(FaultyStore(store, on_call=act), 1).table("db.t")
    return store, lambda: table.overwrite(data(table), where=where)


@pytest.mark.parametrize("name", ["append", "append, vectors", "deduplicate", "partial-update"])
def test_rows_that_can_be_read_once_are_not_read_again(name):
    rows = pa.Table.from_pylist([ROW])
    store, overwrite = overtaken(name, lambda table: rows.to_reader(), lambda table: table.delete("v = 'b'"))
    before = deleted(rows_of(catalog_over(store, 3).table("db.t")), "v = 'b'", lc_schema(store))

    with pytest.raises(lc.CommitConflict, match="read only once"):
        overwrite()

    assert rows_of(catalog_over(store, 4).table("db.t")) == in_order(before)


def lc_schema(store):
    return catalog_over(store, 5).table("db.t").schema


@pytest.mark.parametrize("name", ["append", "append, vectors", "deduplicate"])
def test_no_row_is_lost_that_is_added_while_the_table_is_rewritten_from_itself(name):
    new = {**ROW, "k": 90}
    store, overwrite = overtaken(name, lambda table: table.scan(where="v = 'b'"), lambda table: table.write([new]))
    before = rows_of(catalog_over(store, 3).table("db.t"))

    assert overwrite().runs == 2

    assert rows_of(catalog_over(store, 4).table("db.t")) == in_order([*before, new])


@pytest.mark.parametrize("name", ["append, partitions", "deduplicate, partitions"])
@pytest.mark.parametrize("how", [{"dynamic": False}, {"partition": {"p": 1}}, {"dynamic": True}])
def test_no_row_is_lost_that_is_added_after_a_scan_was_planned_that_overwrites_its_table(name, how):
    _, table = made(LAYOUTS[name])
    scan = table.scan(where="p = 1")
    before = scan.count()
    table.write([{**ROW, "k": 90, "p": 1}])

    table.overwrite(scan, **how)

    assert table.scan(where="p = 1").count() == before + 1


def partition_table(**options: str) -> tuple[MemoryStore, lc.Table]:
    store = MemoryStore(clock=VirtualClock())
    catalog = catalog_over(store)
    catalog.create_database("db")
    columns = {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "STRING"}
    return store, catalog.create_table(
        "db.t", columns, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "2", **options}
    )


def rows_with(v: str, *keys: int, p: int = 1) -> list[Row]:
    return [{"p": p, "k": k, "v": v} for k in keys]


def test_a_key_keeps_one_bucket_where_a_compaction_left_only_the_hash_index_of_a_partition():
    store, table = partition_table(**{"bucket": "-1", "dynamic-bucket.target-row-num": "3"})
    table.write(rows_with("a", 0, 1, 2, 3, 4))
    table.delete("k >= 0")
    table.compact(full=True)

    table.overwrite(rows_with("b", 4, 3), where="p = 1")
    catalog_over(store, 1).table("db.t").write(rows_with("c", 3, 4))

    assert rows_of(table) == in_order(rows_with("c", 3, 4))
    assert sound(table)


def test_a_whole_partition_may_be_replaced_by_another_number_of_buckets():
    _, table = partition_table()
    table.write([*rows_with("a", 1, 2, 3), *rows_with("a", 1, 2, 3, p=2)])
    table.alter(lc.SetOption("bucket", "4"))

    with pytest.raises(lc.InvalidRequest, match="has files in 2 buckets"):
        table.overwrite(rows_with("b", 1), where="p = 1 AND k = 1")
    table.overwrite(rows_with("b", *range(9)), where="p = 1")

    assert rows_of(table) == in_order([*rows_with("b", *range(9)), *rows_with("a", 1, 2, 3, p=2)])
    assert sound(table)


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_readers_of_changes_get_the_rows_of_a_partition_that_was_empty(producer):
    _, table = partition_table(**{"changelog-producer": producer})
    table.write(rows_with("a", 1, p=2))
    table.compact(full=True)
    after = table.snapshots()[-1].id

    report = table.overwrite(rows_with("b", 1, 2), where="p = 1")
    table.compact(full=True)

    assert report.commit_kind == "APPEND"
    told = table.changes(after).to_arrow().to_pylist()
    assert sorted((row["k"], row["v"]) for row in told) == [(1, "b"), (2, "b")]


def test_rows_come_from_a_table_of_the_same_name_in_another_warehouse():
    _, table = partition_table()
    _, other = partition_table()
    for k in range(3):
        table.write(rows_with("a", k))
    other.write(rows_with("b", 7))

    report = table.overwrite(other.scan(), where="p = 1")

    assert (report.runs, rows_of(table)) == (1, rows_with("b", 7))


CHANGES = {
    "drop": lambda table: table.drop_partitions({"p": 1}),
    "delete": lambda table: table.delete("k = 1"),
    "update": lambda table: table.update({"v": "'new'"}, "k = 1"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "theirs"),
    each_with_one(
        ["append, vectors, partitions", "deduplicate, partitions", "deduplicate, dynamic, partitions"], CHANGES
    ),
)
def test_a_dynamic_overwrite_by_the_table_itself_brings_no_row_back_that_others_removed(name, theirs):
    store, _ = made(LAYOUTS[name])
    expected = rows_of(changed(copied(store), theirs))
    for moment in range(1, 100, 8):
        own, acted = copied(store), []

        def act(call, at=moment, own=own, acted=acted):
            if call.number == at and not acted:
                acted.append(at)
                changed(own, theirs)

        table = catalog_over(FaultyStore(own, on_call=act), 2).table("db.t")
        table.overwrite(table.scan(), dynamic=True)
        if not acted:
            return
        assert rows_of(catalog_over(own, 3).table("db.t")) == expected
    raise AssertionError("the overwrite took more calls than were tried")


def changed(store, theirs):
    table = catalog_over(store, 1).table("db.t")
    CHANGES[theirs](table)
    return table
