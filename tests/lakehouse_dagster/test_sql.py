"""A table that is fed by a SQL query: each row once, whatever happens to a run, and no secret is told."""

import re
import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import lakehouse_core as lc
from lakehouse_dagster import Lake, LakehouseResource, SparkRuntime, TableSpec, ingest_asset, lake_definitions
from lakehouse_dagster.pipeline.cursors import Cursor, CursorValue, NewRows
from lakehouse_dagster.testing import ReadyLake, ready_lake

T = "sales.orders"
QUERY = "SELECT id, changed, note FROM orders WHERE note <> ':no'"


class Shop:
    """A database of orders and a lake that takes them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.run("CREATE TABLE orders (id INTEGER, changed INTEGER, note TEXT)")

    def run(self, statement: str, *values: object) -> None:
        connection = sqlite3.connect(self.file)
        with connection:
            connection.execute(statement, values)
        connection.close()

    def add(self, *rows: tuple[int, int | None]) -> None:
        for row in rows:
            self.run("INSERT INTO orders VALUES (?, ?, 'new')", *row)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path / "shop.sqlite")
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///{made.file}")
    return made


def spec(**change: Any) -> TableSpec:
    fields = {
        "database": "sales",
        "name": "orders",
        "comment": "Orders.",
        "columns": {"id": "BIGINT", "changed": "BIGINT", "note": "STRING"},
        "options": {"bucket": "-1"},
        "write_mode": "append",
        "runs_on": "process",
        "sql": {"connection": "SHOP_DATABASE", "query": QUERY, "cursor": "changed"},
    }
    return TableSpec.model_validate({**fields, **change})


@pytest.fixture
def ready(shop: Shop) -> Iterator[ReadyLake]:
    with ready_lake(Lake(name="lake", tables=[spec()]), resources={}) as lake:
        yield lake


def ids(ready: ReadyLake) -> list[int]:
    return sorted(row["id"] for row in ready.table(T).scan().to_arrow().to_pylist())


def stage_only(ready: ReadyLake) -> None:
    resources = {ready.lake.resource: ready.definitions.resources[ready.lake.resource]}
    ingest = ingest_asset(ready.lake, ready.lake.tables[0])
    assert dg.materialize([ingest], instance=ready.instance, resources=resources).success


def told_by_refusal(ready: ReadyLake) -> str:
    job = ready.definitions.resolve_job_def("lake_ingest")
    result = job.execute_in_process(instance=ready.instance, raise_on_error=False)
    assert not result.success
    return "\n".join(str(entry) for entry in ready.instance.all_logs(result.run_id))


@pytest.mark.dagster
def test_each_row_is_taken_once_also_those_that_come_late_with_the_last_value(ready: ReadyLake, shop: Shop):
    shop.add((1, 10), (2, 20), (3, 20))
    ready.ingest()
    shop.add((4, 20), (3, 20), (5, 30))
    ready.ingest()
    before = ready.table(T).snapshot()
    ready.ingest()

    # Order 3 is there twice, and both rows are the same.
    assert ids(ready) == [1, 2, 3, 3, 4, 5]
    assert ready.table(T).snapshot() == before
    assert all(ready.checks(T).values())
    assert "source_row_count" in ready.checks(T)


@pytest.mark.dagster
def test_a_run_that_died_between_staging_and_commit_is_continued_with_the_same_rows(ready: ReadyLake, shop: Shop):
    shop.add((1, 10), (2, 20))
    stage_only(ready)
    shop.add((3, 20))
    stage_only(ready)
    assert ids(ready) == []
    shop.add((4, 30))

    ready.ingest()

    assert ids(ready) == [1, 2, 3, 4]
    assert all(ready.checks(T).values())
    ready.ingest()
    assert ids(ready) == [1, 2, 3, 4]


@pytest.mark.dagster
def test_staged_rows_whose_files_are_gone_are_told_and_not_passed_over(ready: ReadyLake, shop: Shop):
    shop.add((1, 10))
    ready.ingest()
    shop.add((2, 20))
    stage_only(ready)
    staged = max((ready.warehouse / "sales.db" / "orders").rglob("data-*"), key=lambda path: path.stat().st_mtime_ns)
    kept = staged.read_bytes()
    staged.unlink()

    told = told_by_refusal(ready)

    assert "the rows of delivery 1 are staged, and what is staged cannot be committed: files are missing" in told
    assert ids(ready) == [1]
    staged.write_bytes(kept)
    ready.ingest()
    assert ids(ready) == [1, 2]


@pytest.mark.dagster
def test_a_table_that_was_dropped_takes_all_rows_anew(ready: ReadyLake, shop: Shop):
    shop.add((1, 10))
    ready.ingest()
    ready.catalog.drop_table(T)

    ready.ingest()

    assert ids(ready) == [1]


@pytest.mark.dagster
def test_changed_rows_are_merged_by_their_key(shop: Shop):
    upsert = spec(
        write_mode="upsert",
        primary_key=["id"],
        options={"bucket": "1"},
        columns={"id": "BIGINT NOT NULL", "note": "STRING"},
    )
    with ready_lake(Lake(name="lake", tables=[upsert]), resources={}) as ready:
        shop.add((1, 10), (2, 20))
        ready.ingest()
        shop.run("UPDATE orders SET note = 'paid', changed = 21 WHERE id = 1")
        ready.ingest()

        rows = ready.table(T).scan().to_arrow().to_pylist()

    assert sorted((row["id"], row["note"]) for row in rows) == [(1, "paid"), (2, "new")]


@pytest.mark.dagster
def test_a_query_of_change_data_removes_keys(shop: Shop):
    query = "SELECT id, changed, CASE WHEN note = 'gone' THEN '-D' ELSE '+U' END AS op FROM orders"
    cdc = spec(
        write_mode="cdc",
        rowkind_column="op",
        primary_key=["id"],
        options={"bucket": "1"},
        columns={"id": "BIGINT NOT NULL"},
        sql={"connection": "SHOP_DATABASE", "query": query, "cursor": "changed"},
    )
    with ready_lake(Lake(name="lake", tables=[cdc]), resources={}) as ready:
        shop.add((1, 10), (2, 20))
        ready.ingest()
        shop.run("UPDATE orders SET note = 'gone', changed = 21 WHERE id = 1")
        ready.ingest()

        assert ids(ready) == [2]


@pytest.mark.dagster
def test_two_lakes_of_one_warehouse_take_the_rows_of_one_query_each(shop: Shop, tmp_path: Path):
    lakes = [
        Lake(name=name, tables=[spec(name=f"orders_{name}")], resource=f"{name}_lakehouse") for name in ("one", "two")
    ]
    defs = dg.Definitions.merge(
        *(
            lake_definitions(
                lake,
                resources={
                    lake.resource: LakehouseResource(
                        name=lake.name, warehouse=str(tmp_path / "warehouse"), spark=SparkRuntime()
                    )
                },
            )
            for lake in lakes
        )
    )
    shop.add((1, 10))
    with dg.DagsterInstance.ephemeral() as instance:
        for name in ("one", "two", "one"):
            assert defs.resolve_job_def(f"{name}_ingest").execute_in_process(instance=instance).success
            shop.run("INSERT INTO orders SELECT 2, 20, 'new' WHERE NOT EXISTS (SELECT 1 FROM orders WHERE id = 2)")

    catalog = lc.connect(tmp_path / "warehouse")
    assert [catalog.table(f"sales.orders_{name}").scan().count() for name in ("one", "two")] == [2, 2]
    assert catalog.table("sales.row_cursors").scan().count() == 2


@pytest.mark.one_in(3)
@pytest.mark.dagster
@pytest.mark.parametrize(
    ("sql", "rows", "told"),
    [
        ({"query": "SELECT id FRM orders"}, [(1, 1)], "the database refused sql.query: near"),
        ({"cursor": "chanched"}, [(1, 1)], "sql.cursor names 'chanched', but the query gives id, changed, note."),
        ({}, [(1, 1), (2, None)], "cursor 'changed': found a row where it is null, which has no place in the order."),
        (
            {"query": "SELECT id, changed, note AS remark FROM orders"},
            [(1, 1)],
            "the query gives a column 'remark', but the table has id, changed, note.",
        ),
        (
            {"query": "SELECT 'x' AS id, changed FROM orders"},
            [(1, 1)],
            "column 'id': found values that do not fit its type int64",
        ),
        ({"connection": "SHOP_DATABASES"}, [], "the environment variable SHOP_DATABASES, which is not set. Set it to"),
        ({"connection": "NO_ADDRESS"}, [], "the environment variable NO_ADDRESS: found no such address, expected an"),
        ({"connection": "NO_FOLDER"}, [], "no connection by NO_FOLDER: unable to open database file. Check the"),
    ],
)
def test_a_query_that_cannot_be_taken_is_told_in_one_sentence(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, sql: dict[str, str], rows: list[tuple[int, int | None]], told: str
):
    monkeypatch.setenv("NO_ADDRESS", "s3cret")
    monkeypatch.setenv("NO_FOLDER", "sqlite:////nowhere/s3cret.sqlite")
    shop.add(*rows)
    given = {"connection": "SHOP_DATABASE", "query": QUERY, "cursor": "changed", **sql}
    monkeypatch.setattr("lakehouse_dagster.failures.MOST_RETRIES", 0)
    with ready_lake(Lake(name="lake", tables=[spec(sql=given)]), resources={}) as ready:
        found = told_by_refusal(ready)

    assert told in found
    assert "s3cret" not in found


@pytest.mark.dagster
def test_a_cursor_that_goes_back_is_told_and_a_query_without_rows_is_not(ready: ReadyLake, shop: Shop):
    shop.add((1, 10), (2, 20))
    ready.ingest()
    shop.run("DELETE FROM orders WHERE id = 2")

    assert "found 10 as its highest value, but rows up to 20 were taken: the cursor went back." in told_by_refusal(
        ready
    )
    shop.run("DELETE FROM orders")
    ready.ingest()
    shop.add((3, 30))
    ready.ingest()
    assert ids(ready) == [1, 2, 3]


@pytest.mark.dagster
@pytest.mark.parametrize(
    ("first", "later"),
    [
        (("a", "A"), ()),
        pytest.param(("A", "a"), (), marks=pytest.mark.long),
        pytest.param(("b",), ("B",), marks=pytest.mark.long),
        (("B",), ("b",)),
    ],
)
def test_texts_that_the_database_takes_for_one_value_are_refused_and_no_row_is_taken_twice(
    shop: Shop, first: tuple[str, ...], later: tuple[str, ...]
):
    shop.run("DROP TABLE orders")
    shop.run("CREATE TABLE orders (id INTEGER, changed TEXT COLLATE NOCASE, note TEXT)")
    for number, text in enumerate(first):
        shop.run("INSERT INTO orders VALUES (?, ?, 'new')", number, text)
    columns = {"id": "BIGINT", "changed": "STRING", "note": "STRING"}
    with ready_lake(Lake(name="lake", tables=[spec(columns=columns)]), resources={}) as ready:
        ready.ingest()
        for number, text in enumerate(later, start=5):
            shop.run("INSERT INTO orders VALUES (?, ?, 'new')", number, text)
        if later:
            # Before the tie nothing is wrong: the row is new.
            job = ready.definitions.resolve_job_def("lake_ingest")
            job.execute_in_process(instance=ready.instance, raise_on_error=False)

        told = told_by_refusal(ready)

        assert "which are one value to the database, so that rows would be taken twice" in told
        assert len(ids(ready)) == len({*ids(ready)})
        changed = QUERY.replace("changed", "changed COLLATE BINARY AS changed")
        mended = spec(columns=columns, sql={"connection": "SHOP_DATABASE", "query": changed, "cursor": "changed"})
        lake = lake_definitions(Lake(name="lake", tables=[mended]), resources=ready.definitions.resources)
        lc.connect(ready.warehouse).drop_table(T)
        for _ in range(2):
            assert lake.resolve_job_def("lake_ingest").execute_in_process(instance=ready.instance).success
        assert len(ids(ready)) == len({*ids(ready)}) == 2


@pytest.mark.dagster
def test_a_query_that_was_changed_goes_on_beyond_the_last_value(shop: Shop):
    shop.add((1, 10), (2, 20))
    with ready_lake(Lake(name="lake", tables=[spec()]), resources={}) as ready:
        ready.ingest()
        changed = {"connection": "SHOP_DATABASE", "query": "SELECT id, changed FROM orders", "cursor": "changed"}
        lake = Lake(name="lake", tables=[spec(sql=changed)])
        shop.add((3, 30))
        resources = {lake.resource: ready.definitions.resources[lake.resource]}
        ingest = ingest_asset(lake, lake.tables[0])
        run = dg.materialize([ingest], instance=ready.instance, resources=resources)
        ready.ingest()

        assert ids(ready) == [1, 2, 3]
        logs = [str(entry.user_message) for entry in ready.instance.all_logs(run.run_id)]
        assert [line for line in logs if "the query has changed. Its rows are taken from beyond changed = 20" in line]


def taken(new: NewRows, *rows: tuple[int, str]) -> list[str]:
    places = new.places([value for value, _ in rows], lambda places: [rows[place] for place in places])
    return [rows[place][1] for place in places]


def test_equal_rows_are_counted_and_the_cursor_survives_its_text():
    first = NewRows(Cursor(), "c")
    assert taken(first, (1, "a"), (2, "b"), (2, "b")) == ["a", "b", "b"]
    second = NewRows(Cursor.from_json(first.cursor.to_json()), "c")

    assert taken(second, (2, "b"), (2, "b"), (2, "c")) == ["c"]
    assert taken(second, (2, "b"), (3, "d")) == ["b", "d"]
    cursor = second.cursor
    assert (cursor.value, cursor.rows, list(cursor.taken.values())) == (3, 6, [1])


@pytest.mark.parametrize(
    "value", [5, 2.5, "x", Decimal("1.10"), date(2013, 1, 2), datetime(2013, 1, 2, 3, 4, 5, 6, tzinfo=UTC)]
)
def test_a_cursor_of_each_type_is_the_same_after_it_was_stored(value: CursorValue):
    cursor = Cursor(value=value, taken={"ab": 2}, rows=7, query="q")

    assert Cursor.from_json(cursor.to_json()) == cursor


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1, None], "cursor 'c': found a row where it is null"),
        ([1, "2"], "cursor 'c': found '2' after 1, expected values of one type."),
        ([2, 1], "cursor 'c': found 1 after 2, but rows are taken in its order."),
        ([True], "cursor: found True, expected a number, a text, a date or a time."),
        ([float("nan")], "cursor: found nan, expected a number, a text, a date or a time."),
    ],
)
def test_values_that_are_no_place_in_an_order_are_refused(values: list[Any], told: str):
    with pytest.raises(lc.InvalidRequest) as refused:
        NewRows(Cursor(), "c", is_sorted=True).places(values, lambda places: [values[place] for place in places])

    assert str(refused.value).startswith(told)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=6), max_size=5),
    st.integers(1, 3),
)
def test_each_row_is_new_exactly_once(arrivals: list[list[tuple[int, str]]], size: int):
    """Rows arrive with at least the value of the cursor; each pass sees all rows from the cursor on, in its order."""
    cursor, there, seen = Cursor(), [], []
    for arrived in arrivals:
        there += [row for row in arrived if cursor.value is None or row[0] >= cursor.value]
        new = NewRows(cursor, "c", is_sorted=True)
        asked = sorted(row for row in there if cursor.value is None or row[0] >= cursor.value)
        for first in range(0, len(asked), size):
            part = asked[first : first + size]
            seen += [
                part[place]
                for place in new.places([row[0] for row in part], lambda at, part=part: [part[p] for p in at])
            ]
        cursor = new.cursor

    assert sorted(seen) == sorted(there)
    assert cursor.rows == len(there)


BY_DAY: dict[str, Any] = {
    "columns": {"dt": "STRING NOT NULL", "id": "BIGINT", "note": "STRING"},
    "partition_by": ["dt"],
    "write_mode": "overwrite",
    "partitions": {"time": {"every": "day", "start": "2013-01-01", "end": "2013-01-05", "columns": {"dt": "%Y-%m-%d"}}},
}
# Every way to say the rows of a day.
SELECTIONS = [
    "substr(at, 1, 10) = :partition_key",
    "at >= :partition_start AND at < :partition_end AND note <> ':partition'",
]


def rows_of_days(ready: ReadyLake) -> list[tuple[str, int]]:
    return sorted((row["dt"], row["id"]) for row in ready.table(T).scan().to_arrow().to_pylist())


@pytest.mark.dagster
@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_query_without_a_cursor_replaces_the_rows_of_each_partition_by_those_that_it_selects(
    shop: Shop, selection: str
):
    shop.run("CREATE TABLE visits (id INTEGER, at TEXT, note TEXT)")
    for number, time in enumerate(["2013-01-01 08:00:00", "2013-01-02 00:00:00", "2013-01-02 23:59:59"]):
        shop.run("INSERT INTO visits VALUES (?, ?, 'new')", number, time)
    query = f"SELECT substr(at, 1, 10) AS dt, id, note FROM visits WHERE {selection};"
    table = spec(**BY_DAY, sql={"connection": "SHOP_DATABASE", "query": query})
    with ready_lake(Lake(name="lake", tables=[table]), resources={}) as ready:
        ready.ingest("2013-01-01", "2013-01-03")
        assert rows_of_days(ready) == [("2013-01-01", 0), ("2013-01-02", 1), ("2013-01-02", 2)]
        shop.run("DELETE FROM visits WHERE id = 1")
        shop.run("INSERT INTO visits VALUES (3, '2013-01-01 09:00:00', 'late')")

        ready.ingest("2013-01-02")

        assert rows_of_days(ready) == [("2013-01-01", 0), ("2013-01-02", 2)]
        shop.run("DELETE FROM visits")
        ready.ingest("2013-01-01", "2013-01-02")
        assert rows_of_days(ready) == []


@pytest.mark.dagster
def test_a_query_without_a_cursor_and_partitions_replaces_the_table_in_each_run(shop: Shop):
    table = spec(write_mode="overwrite", sql={"connection": "SHOP_DATABASE", "query": QUERY})
    with ready_lake(Lake(name="lake", tables=[table]), resources={}) as ready:
        shop.add((1, 10), (2, 20))
        ready.ingest()
        shop.run("DELETE FROM orders WHERE id = 1")
        ready.ingest()

        assert ids(ready) == [2]
        assert "source_row_count" not in ready.checks(T)


KEYED = "SELECT id FROM orders WHERE note = :partition_key"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {**BY_DAY, "query": "SELECT 1 AS id"},
            "sql.query selects the same rows for each partition. Use :partition_key",
        ),
        ({"write_mode": "overwrite", "query": KEYED}, "sql.query uses :partition_key, but the table has no partitions"),
        (
            {**BY_DAY, "query": KEYED.replace("key", "end"), "partitions": {"static": {"keys": ["a"], "column": "dt"}}},
            "sql.query uses :partition_end, which is for time. Use :partition_key",
        ),
        ({"query": "SELECT 1 AS id"}, "each run would add all rows of the sql again"),
        ({**BY_DAY, "query": KEYED, "cursor": "id"}, "write_mode is 'overwrite', but sql with a cursor gives new rows"),
    ],
)
def test_queries_and_partitions_that_do_not_fit_are_refused(change: dict[str, Any], told: str):
    sql = {"connection": "SHOP_DATABASE", **{name: change[name] for name in ("query", "cursor") if name in change}}
    others = {name: value for name, value in change.items() if name not in sql}

    with pytest.raises(ValidationError, match=re.escape(told)):
        spec(**others, sql=sql)
