"""What a MERGE refuses, what it writes for columns that nobody names, and what its report says."""

from contextlib import suppress
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakehouse_core as lc
from lakehouse_core.storage import FaultyStore
from lakehouse_core.storage.faulty import Call
from tests.execution.row_changes.layouts import DYNAMIC, LAYOUTS, catalog_over, made, rows_of
from tests.execution.row_changes.test_races import copied, prepared

NEW = {"k": 70, "p": 1, "s": 1, "v": "new", "n": 7}
UPDATE, DELETE, INSERT = lc.WhenMatched(update={"v": "s.v"}), lc.WhenMatched(delete=True), lc.WhenNotMatched(insert="*")
BY_KEY = "t.k = s.k"
Clauses = tuple[Any, ...]
# The layout, the source, ON, the clauses, the error and a part of its text.
REFUSED: list[tuple[str, Any, Any, Clauses, type[lc.LakehouseError], str]] = [
    ("append", [NEW], BY_KEY, (), lc.InvalidRequest, "has no clause"),
    ("append", [NEW], BY_KEY, ("update",), lc.InvalidRequest, "expected WhenMatched"),
    ("append", [NEW], 7, (UPDATE,), lc.InvalidRequest, "on: 7: expected SQL text"),
    ("append", [NEW], "t.k = ", (UPDATE,), lc.InvalidRequest, "on, line 1"),
    ("append", [NEW], "t.k = s.kk", (UPDATE,), lc.InvalidRequest, "no column kk. Did you mean k"),
    ("append", [NEW], "k = 5", (UPDATE,), lc.InvalidRequest, "column k is in several tables"),
    ("append", [NEW], "t.k = x.k", (UPDATE,), lc.InvalidRequest, "x is not a table in reach. Tables: t, s"),
    ("append", [NEW], "t.k IN (SELECT 1)", (UPDATE,), lc.UnsupportedFeature, "a query inside a condition of MERGE"),
    ("append", [NEW], BY_KEY, (UPDATE, DELETE), lc.InvalidRequest, "a second WHEN MATCHED follows one without"),
    ("append", [NEW], BY_KEY, (lc.WhenMatched(),), lc.InvalidRequest, "has none of update and delete"),
    ("append", [NEW], BY_KEY, (lc.WhenMatched(update="*", delete=True),), lc.InvalidRequest, "has both of"),
    (
        "append",
        [NEW],
        BY_KEY,
        (lc.WhenMatched(update={}),),
        lc.InvalidRequest,
        "expected a dict from columns to values",
    ),
    ("append", [NEW], BY_KEY, (lc.WhenMatched(update="all"),), lc.InvalidRequest, "has the values 'all'"),
    ("append", [NEW], BY_KEY, (lc.WhenNotMatchedBySource(update="*"),), lc.InvalidRequest, "has the values '[*]'"),
    ("append", [NEW], BY_KEY, (lc.WhenMatched(update={"w": 1}),), lc.InvalidRequest, "has no column 'w'"),
    ("append", [NEW], BY_KEY, (lc.WhenMatched(update={"v": 1, "V": 2}),), lc.InvalidRequest, "sets column 'v' twice"),
    (
        "append",
        [NEW | {"k": 5}],
        BY_KEY,
        (lc.WhenMatched(update={"v": "s.v", "n": "'x'"}),),
        lc.InvalidRequest,
        "[Cc]olumn 'n'",
    ),
    (
        "append",
        [NEW],
        BY_KEY,
        (lc.WhenNotMatched(insert={"k": "t.k"}),),
        lc.InvalidRequest,
        "t is not a table in reach",
    ),
    ("append", [NEW], BY_KEY, (lc.WhenNotMatched(insert={"k": "s.k"}),), lc.InvalidRequest, "'p' is INT NOT NULL"),
    ("append", [{"k": 70}], BY_KEY, (INSERT,), lc.InvalidRequest, "the source has no column 'p'"),
    ("append", [NEW | {"K": 1}], BY_KEY, (INSERT,), lc.InvalidRequest, "has column 'K' more than once"),
    ("append", 7, BY_KEY, (INSERT,), lc.InvalidRequest, "The source is a?n? ?int: expected an object with an Arrow"),
    ("append", [{"k": 1}, {"k": "x"}], BY_KEY, (DELETE,), lc.InvalidRequest, "no common types"),
    ("append", [NEW | {"n": 2**40}], BY_KEY, (INSERT,), lc.InvalidRequest, "n"),
    (
        "append",
        [NEW | {"k": 5}, NEW | {"k": 5}],
        BY_KEY,
        (DELETE,),
        lc.InvalidRequest,
        "more than one row of the source",
    ),
    ("deduplicate", [NEW, NEW], BY_KEY, (INSERT,), lc.InvalidRequest, "k = 70 would be inserted more than once"),
    ("deduplicate", [NEW | {"k": 5}], "t.n = s.n", (INSERT,), lc.InvalidRequest, "k = 5 would be inserted, and"),
    ("deduplicate", [NEW], BY_KEY, (lc.WhenMatched(update={"k": "s.k + 1"}),), lc.InvalidRequest, "primary key"),
    ("deduplicate", [NEW], "t.n = s.n", (lc.WhenMatched(update="*"),), lc.InvalidRequest, "primary key"),
    ("deduplicate, ignore-delete", [NEW], BY_KEY, (DELETE,), lc.UnsupportedFeature, "ignore-delete = true"),
    ("deduplicate, sequence", [NEW | {"k": 5}], BY_KEY, (lc.WhenMatched(update="*"),), lc.InvalidRequest, "older"),
    (
        "partial-update",
        [NEW],
        BY_KEY,
        (DELETE,),
        lc.UnsupportedFeature,
        "merge-engine = partial-update, which takes no",
    ),
    (
        "partial-update",
        [NEW | {"k": 5, "v": None}],
        BY_KEY,
        (lc.WhenMatched(update="*"),),
        lc.InvalidRequest,
        "the new value is null",
    ),
    ("aggregation", [NEW], BY_KEY, (UPDATE,), lc.UnsupportedFeature, "merge-engine = aggregation"),
    ("aggregation", [NEW], BY_KEY, (DELETE,), lc.UnsupportedFeature, "takes no deletes"),
    ("first-row", [NEW], BY_KEY, (UPDATE,), lc.UnsupportedFeature, "merge-engine = first-row"),
]


@pytest.mark.parametrize("case", REFUSED, ids=[f"{case[0]}: {case[-1]}" for case in REFUSED])
def test_a_refused_merge_says_why_and_changes_nothing(case):
    layout, source, on, clauses, error, text = case
    store = copied(prepared(layout))
    table = catalog_over(store, 1).table("db.t")
    objects = {info.key for info in store.list("")}

    with pytest.raises(error, match=text):
        table.merge(source, on, *clauses)

    assert {info.key for info in store.list("")} == objects


def test_a_column_that_insert_leaves_out_gets_its_default_as_does_one_that_is_null():
    _, table = made(LAYOUTS["deduplicate"])
    table.alter(lc.UpdateColumnDefault("v", "none"))
    values = {"k": "k", "p": "p"}
    source = [NEW | {"k": key, "v": None} for key in (70, 71, 72, 5)]

    table.merge(
        source,
        BY_KEY,
        lc.WhenMatched(update={"v": "DEFAULT"}),
        lc.WhenNotMatched(insert=values, where="k = 70"),
        lc.WhenNotMatched(insert={**values, "v": "DEFAULT"}, where="k = 71"),
        lc.WhenNotMatched(insert="*"),
    )

    found = {row["k"]: row["v"] for row in rows_of(table)}
    assert {key: found[key] for key in (70, 71, 72, 5)} == {70: "none", 71: "none", 72: "none", 5: "none"}


def test_a_value_is_computed_for_the_rows_of_its_clause_alone():
    _, table = made(LAYOUTS["append"])
    source = [{"k": 1, "d": 0}, {"k": 2, "d": 2}]

    table.merge(
        source,
        BY_KEY,
        lc.WhenMatched(delete=True, where="s.d = 0"),
        lc.WhenMatched(update={"n": "CAST(8 / s.d AS INT)"}),
    )

    assert {row["k"]: row["n"] for row in rows_of(table) if row["k"] < 3} == {2: 4}


def test_the_report_and_the_snapshot_say_what_was_done():
    _, table = made(LAYOUTS["append, vectors"])
    source = [NEW, NEW | {"k": 5}, NEW | {"k": 9}, NEW | {"k": 10}]
    clauses = (lc.WhenMatched(delete=True, where="t.k = 9"), lc.WhenMatched(update="*", where="t.k = 10"), INSERT)

    planned = table.merge(source, BY_KEY, *clauses, dry_run=True)
    report = table.merge(source, BY_KEY, *clauses, properties={"by": "test"})

    assert (planned.snapshot_id, planned.dry_run, report.dry_run) == (None, True, False)
    for each in (planned, report):
        counts = each.rows_matched, each.rows_updated, each.rows_deleted, each.rows_inserted
        # The table has key 5 three times, and keys 9 and 10 once.
        assert counts == (5, 1, 1, 1)
        assert (each.operation, each.method, each.noop_reason, each.runs) == ("MERGE", "marks", None, 1)
    snapshot = table.snapshots()[-1]
    assert (snapshot.id, snapshot.operation, snapshot.properties["by"]) == (report.snapshot_id, "MERGE", "test")


@pytest.mark.parametrize("layout", ["append", "deduplicate"])
def test_a_merge_that_changes_nothing_makes_no_snapshot(layout):
    store = copied(prepared(layout))
    table = catalog_over(store, 1).table("db.t")
    before = len(table.snapshots())

    report = table.merge([NEW], BY_KEY, UPDATE)

    assert (report.snapshot_id, report.noop_reason) == (None, "no row falls under a clause")
    assert len(table.snapshots()) == before


def test_an_empty_table_takes_all_rows_of_the_source():
    for name in ("append", "deduplicate", "deduplicate, dynamic"):
        _, table = made(LAYOUTS[name])
        table.truncate()

        report = table.merge([NEW, NEW | {"k": 71}], BY_KEY, UPDATE, INSERT)

        assert report.rows_inserted == len(rows_of(table)) == 2


PLAIN: list[tuple[str, tuple[Any, ...]]] = [
    ("t.k = s.k", (lc.WhenMatched(update="*"), INSERT)),
    ("s.k = t.k AND t.v = s.v", (lc.WhenMatched(update={"n": "s.n", "s": "t.k"}),)),
    ("t.v = s.v", (lc.WhenNotMatched(insert={"k": "k", "p": "k", "v": "DEFAULT"}),)),
    ("t.p = s.p AND t.k = s.k", (DELETE,)),
    ("t.n = s.n", (lc.WhenMatched(update={"v": "s.v", "n": "s.n"}),)),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("on", "clauses"), PLAIN, ids=[on for on, _ in PLAIN])
@pytest.mark.parametrize("layout", ["append", "append, vectors, partitions", "deduplicate, dynamic"])
def test_a_merge_that_computes_nothing_leaves_what_a_query_would(layout, on, clauses):
    """A condition has the rows joined by the engine of SQL. Without one this process joins them itself."""
    integers, texts = pa.array([5, 2, 70, 9, 11, 71, 10, 3]), pa.array(["z", None, "new", "b", "z", "a", "b", "ä"])
    source = pa.table(
        {
            # Wider, narrower and encoded, as a frame of another library may have them.
            "k": integers.dictionary_encode(),
            "p": pc.subtract(integers, pc.multiply(pc.divide(integers, 3), 3)).cast(pa.int16()),
            "s": pa.array([9] * 8),
            "v": texts.cast(pa.string_view()),
            "n": pa.array([-5, 2, None, 33, 2**31 - 1, None, None, 9], pa.int64()),
        }
    )
    if not any(isinstance(clause, lc.WhenNotMatched) for clause in clauses):
        source = pa.concat_tables([source, source.slice(2, 1).set_column(0, "k", pa.array([None], source[0].type))])

    def left(**where: str) -> Any:
        _, table = made(LAYOUTS[layout])
        counts = None
        # The table has keys that would be inserted.
        with suppress(lc.InvalidRequest):
            report = table.merge(source, on, *(replace(clause, **where) for clause in clauses))
            counts = report.rows_matched, report.rows_updated, report.rows_deleted, report.rows_inserted
        return counts, rows_of(table)

    found = left()

    assert (found[0] is None) == (layout == "deduplicate, dynamic" and on == "t.v = s.v")
    assert found[0] is None or any(found[0])
    assert found == left(where="TRUE")


TYPES = {"id": "BIGINT NOT NULL", "d": "DATE", "m": "DECIMAL(12, 2)", "v": "STRING"}
ROW = {"id": 1, "d": date(2013, 1, 5), "m": Decimal("1.50"), "v": "a"}
SOURCES = {
    "a list of dicts": [ROW],
    "a table": pa.Table.from_pylist([ROW]),
    "a stream": lambda: pa.Table.from_pylist([ROW]).to_reader(),
    "texts by number": pa.table(
        {**{name: [value] for name, value in ROW.items()}, "v": pa.array(["a"]).dictionary_encode()}
    ),
    "a pandas frame": pd.DataFrame([ROW]),
    "a polars frame": pl.DataFrame([ROW]),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_source_is_whatever_write_takes(tmp_path, source):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", TYPES, primary_keys=["id"], options={"bucket": "1"})
    table.write([{"id": 1}])

    table.merge(source() if callable(source) else source, "t.id = s.id", lc.WhenMatched(update="*"))

    assert table.scan().to_arrow().to_pylist() == [ROW]


def test_a_column_of_nulls_fits_every_type(tmp_path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", TYPES, primary_keys=["id"], options={"bucket": "1"})
    table.write([ROW])

    table.merge(
        [{"id": 1, "d": None, "m": None}], "t.id = s.id", lc.WhenMatched(update={"d": "s.d", "m": "s.m", "v": "NULL"})
    )

    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "d": None, "m": None, "v": None}]


@pytest.mark.parametrize("step", [12, pytest.param(4, marks=pytest.mark.long)])
def test_a_merge_of_the_table_with_itself_changes_the_snapshot_that_it_read(step):
    """The source is a query of the table. Another update between the two reads must not be lost."""
    text = (
        "MERGE INTO db.t USING (SELECT k, n + 1 AS n FROM db.t) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = s.n"
    )
    for moment in range(1, 200, step):
        store = copied(prepared("deduplicate"))
        moved: list[int] = []

        def act(call: Call, at: int = moment, store: Any = store, moved: list[int] = moved) -> None:
            if call.number == at and not moved:
                moved.append(at)
                catalog_over(store, 2).table("db.t").update({"n": 100}, "k = 5")

        catalog_over(FaultyStore(store, on_call=act), 1).sql(text)

        if not moved:
            break
        left = {row["k"]: row["n"] for row in rows_of(catalog_over(store, 9).table("db.t"))}
        assert left[5] in (100, 101), moment
        assert left[6] == 19
    assert moment > 20


def test_two_merges_that_insert_one_key_by_another_column_leave_it_once():
    """ON says nothing about the key, and buckets are dynamic: each of the two could give the key another bucket."""
    layout = LAYOUTS["deduplicate, dynamic"]
    source = made(layout, **{**DYNAMIC, "dynamic-bucket.target-row-num": "1"})[0]

    def merge(table: lc.Table) -> None:
        table.merge([NEW | {"n": -100}], "t.n = s.n", lc.WhenNotMatched(insert={"k": "s.k + 100", "p": "p", "n": "n"}))

    for moment in range(1, 200, 7):
        store = copied(source)
        moved: list[int] = []

        def act(call: Call, at: int = moment, store: Any = store, moved: list[int] = moved) -> None:
            if call.number == at and not moved:
                moved.append(at)
                catalog_over(store, 2).table("db.t").write([NEW | {"k": 170}, NEW | {"k": 171}])

        # Where the write came first, the key is there.
        with suppress(lc.InvalidRequest):
            merge(catalog_over(FaultyStore(store, on_call=act), 1).table("db.t"))
        if not moved:
            break
        table = catalog_over(store, 9).table("db.t")
        assert [row["k"] for row in rows_of(table) if row["k"] == 170] == [170]
        assert table.verify(data=True).findings == ()
    assert moment > 20
