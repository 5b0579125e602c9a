"""Queries in this process: what they read, and that what is pushed changes no answer."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.statements import prepared as module
from lakehouse_core.execution.engines.duckdb.query import DuckdbQuery
from lakehouse_core.execution.read.relation import Relation
from lakehouse_core.interchange.arrow_rows import ArrowRows
from lakehouse_core.planning.sql.pushing import Pushed
from tests.catalog.statements.query_tables import queries, rows_of
from tests.pairs import in_turn


@pytest.mark.parametrize("query", in_turn(4, queries()))
def test_what_is_pushed_changes_no_answer(catalog, query, monkeypatch):
    pushed = catalog.sql(query).to_arrow()
    analyse = module.analyse

    def without_pushing(parsed, tables, *, in_utc):
        found = analyse(parsed, tables, in_utc=in_utc)
        everything = {start: Pushed(tuple(field.name for field in tables[start].fields)) for start in found.pushed}
        return replace(found, pushed=everything)

    monkeypatch.setattr(module, "analyse", without_pushing)
    monkeypatch.setattr(module, "_key", lambda text, parameters: None)
    unpushed = catalog.sql(query).to_arrow()

    ordered = "ORDER BY" in query
    assert rows_of(pushed, ordered=ordered) == rows_of(unpushed, ordered=ordered)
    assert pushed.schema == unpushed.schema


def test_there_are_as_many_queries_as_promised():
    assert len(set(queries())) > 200


# The query, then for each of its tables the columns that are read and the condition that the scan tests.
PUSHED = [
    ("SELECT count(*) FROM s.orders", ["customer; none"]),
    ("SELECT id FROM s.orders WHERE amount > 10 AND upper(status) = 'NEW'", ["id, status, amount; amount > 10"]),
    ("SELECT f FROM s.numbers WHERE f > 1 AND d > 1.5", ["d, f; d > 1.5"]),
    ("SELECT id FROM s.orders WHERE day >= '2013-01-05'", ["id, day; day >= 2013-01-05"]),
    ("SELECT id FROM s.orders WHERE day >= '2013-1-5'", ["id, day; none"]),
    ("SELECT id FROM s.orders WHERE status LIKE 'n%'", ["id, status; status LIKE 'n%'"]),
    ("SELECT id FROM s.orders WHERE status LIKE '%n'", ["id, status; none"]),
    ("SELECT id FROM s.orders WHERE id = 1 OR status = 'new'", ["id, status; (id = 1 OR status = 'new')"]),
    ("SELECT id FROM s.orders WHERE id = '7'", ["id; none"]),
    ("SELECT id FROM s.orders WHERE id IN (1, 2) AND status IS NULL", ["id, status; id IN (1, 2) AND status IS NULL"]),
    ("SELECT id FROM s.orders WHERE 5 < id", ["id; id > 5"]),
    (
        "SELECT 1 FROM s.customers c LEFT JOIN s.orders o ON o.customer = c.id AND o.id > 3 WHERE c.id = 1",
        ["id; id = 1", "id, customer; id > 3"],
    ),
    (
        "SELECT 1 FROM s.customers c LEFT JOIN s.orders o ON o.customer = c.id AND c.id > 3 WHERE o.id = 1",
        ["id; none", "id, customer; id = 1"],
    ),
    (
        "SELECT 1 FROM s.customers c LEFT JOIN s.orders o ON o.customer = c.id WHERE o.id IS NULL",
        ["id; none", "id, customer; none"],
    ),
    (
        "SELECT 1 FROM s.customers c FULL JOIN s.orders o ON o.customer = c.id AND o.id > 3 WHERE c.id = 1",
        ["id; none", "id, customer; none"],
    ),
    (
        "SELECT 1 FROM s.customers c RIGHT JOIN s.orders o ON o.customer = c.id AND c.id > 3 WHERE o.id = 1",
        ["id; id > 3", "id, customer; id = 1"],
    ),
    (
        "SELECT name FROM s.customers c WHERE EXISTS (SELECT * FROM s.orders o WHERE o.customer = c.id AND o.id > 7)",
        ["id, name; none", "id, customer; id > 7"],
    ),
]


@pytest.mark.parametrize(("query", "read"), PUSHED)
def test_columns_and_conditions_reach_the_scans(catalog, query, read):
    lines = catalog.sql(f"EXPLAIN {query}").to_arrow().column("plan").to_pylist()

    columns = [line.removeprefix("  columns: ") for line in lines if line.startswith("  columns: ")]
    conditions = [line.removeprefix("  condition: ") for line in lines if line.startswith("  condition: ")]
    assert [f"{one}; {other}" for one, other in zip(columns, conditions, strict=True)] == read


def test_a_condition_skips_files_and_partitions(catalog):
    lines = catalog.sql("EXPLAIN SELECT * FROM s.customers WHERE region = 'east'").to_arrow().column("plan").to_pylist()

    assert lines[0] == "engine: duckdb"
    assert lines[1] == "table s.customers: snapshot 2, schema 0"
    assert lines[4].startswith("  files: 1 of ")


ANSWERS = [
    ("SELECT count(*) AS n FROM s.orders WHERE status = 'paid'", [{"n": 12}]),
    ("SELECT count(*) AS n FROM s.orders VERSION AS OF 1 WHERE status = 'paid'", [{"n": 0}]),
    (
        "SELECT sum(amount) AS t, avg(amount) AS a FROM s.orders WHERE id < 3",
        [{"t": Decimal("3.75"), "a": Decimal("1.250000")}],
    ),
    ("SELECT 7 / 2 AS a, 7 DIV 2 AS b, 2.50 / 3 AS c", [{"a": 3.5, "b": 3, "c": Decimal("0.833333")}]),
    ("SELECT sum(id) AS s FROM s.orders WHERE id < 4", [{"s": 6}]),
    ("SELECT day + INTERVAL 1 DAY AS d FROM s.orders WHERE id = 0", [{"d": date(2013, 1, 2)}]),
    ("SELECT Note FROM s.orders WHERE NOTE = 'note 3'", [{"Note": "note 3"}]),
    ("SELECT concat('a', NULL) AS x, 'a' || NULL AS y", [{"x": None, "y": None}]),
    ("SELECT a FROM s.numbers WHERE d > 1 ORDER BY a", [{"a": -7}, {"a": 3}]),
    ("SELECT id FROM s.orders WHERE at = TIMESTAMP '2013-03-02 01:00:00'", [{"id": 1}]),
]


@pytest.mark.parametrize(("query", "rows"), ANSWERS)
def test_an_answer_has_the_values_of_spark(catalog, query, rows):
    assert catalog.sql(query).to_arrow().to_pylist() == rows


def test_columns_have_the_names_of_the_query_or_those_of_spark(catalog):
    answer = catalog.sql("SELECT ID, Note AS Text, count(*), sum(amount), *, id + 1 FROM s.orders GROUP BY ALL LIMIT 0")

    assert answer.schema().names[:4] == ["ID", "Text", "count(1)", "sum(amount)"]
    assert answer.schema().names[-2:] == ["Note", "(id + 1)"]


def test_a_star_behind_a_struct_stands_for_its_fields(catalog):
    rows = [{"id": 1, "place": {"x": 1, "y": "a"}}, {"id": 2, "place": None}]

    for star in ("place.*", "t.place.*"):
        answer = catalog.sql(f"SELECT {star}, id FROM t ORDER BY id", tables={"t": rows}).to_arrow()
        assert answer.to_pylist() == [{"x": 1, "y": "a", "id": 1}, {"x": None, "y": None, "id": 2}]


def test_parameters_are_values_of_every_type(catalog):
    values = {
        "text": "it's; --",
        "whole": -5,
        "number": 0.1,
        "exact": Decimal("-1.50"),
        "day": date(2013, 1, 5),
        "local": datetime(2013, 1, 5, 6, 7, 8, 9),
        "instant": datetime(2013, 1, 5, 6, tzinfo=UTC),
        "flag": True,
        "nothing": None,
        "raw": b"\x00\xff",
    }

    row = catalog.sql(f"SELECT {', '.join(f':{name} AS {name}' for name in values)}", values).to_arrow().to_pylist()[0]

    assert row == values


def test_data_is_named_by_the_call_in_every_form(catalog):
    columns = {"id": [1, 2], "x": ["a", "b"]}
    forms = {
        "arrow": pa.table(columns),
        "batch": pa.record_batch(columns),
        "reader": pa.table(columns).to_reader(),
        "pandas": pandas.DataFrame(columns),
        "polars": polars.DataFrame(columns),
        "duck": duckdb.from_arrow(pa.table(columns)),
        "dicts": [{"id": 1, "x": "a"}, {"id": 2, "x": "b"}],
        "scan": catalog.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(id, x)"),
    }

    for name, data in forms.items():
        answer = catalog.sql("SELECT a.x FROM t a JOIN T b ON a.id = b.id ORDER BY 1", tables={"t": data})
        assert answer.to_arrow().column("x").to_pylist() == ["a", "b"], name
        assert answer.to_arrow().num_rows == 2, name


def test_a_column_of_data_without_values_is_text(catalog):
    nothing = pandas.DataFrame(columns=["id", "note"])
    one = pa.table({"id": pa.array([1], pa.int64())})

    joined = catalog.sql("SELECT o.id, n.note FROM o LEFT JOIN n USING (id)", tables={"o": one, "n": nothing})

    assert joined.schema().field("note").type == pa.string()
    assert joined.to_arrow().to_pylist() == [{"id": 1, "note": None}]


def test_a_part_of_a_column_of_data_without_values_is_text(catalog):
    rows = [{"id": 1, "l": [], "s": {"a": None, "b": [None]}}]

    answer = catalog.sql("SELECT * FROM t", tables={"t": rows})

    assert answer.to_arrow().to_pylist() == rows
    texts = pa.list_(pa.string())
    assert answer.schema().field("l").type.equals(texts)
    assert answer.schema().field("s").type.equals(pa.struct([("a", pa.string()), ("b", texts)]))


def test_variables_of_python_are_no_tables(catalog):
    hidden = pa.table({"x": [1]})
    assert hidden.num_rows == 1

    with pytest.raises(lc.InvalidRequest, match="'hidden' names no database"):
        catalog.sql("SELECT * FROM hidden")


def test_all_references_of_a_statement_read_the_snapshot_of_the_call(empty):
    table = empty.create_table("s.t", {"id": "INT"})
    table.write([{"id": 1}])

    answer = empty.sql("SELECT count(*) AS n FROM s.t a JOIN s.t b ON a.id = b.id")
    table.write([{"id": 1}])

    assert answer.to_arrow().to_pylist() == [{"n": 1}]
    assert empty.sql("SELECT count(*) AS n FROM s.t").to_arrow().to_pylist() == [{"n": 2}]


def test_time_travel_reads_by_the_schema_of_the_snapshot(empty):
    table = empty.create_table("s.t", {"id": "INT", "old": "STRING"})
    table.write([{"id": 1, "old": "a"}])
    table.create_tag("eod")
    table.alter(lc.RenameColumn("old", "new"), lc.AddColumn("more", "INT"))

    for version in ("1", "'eod'", ":v"):
        answer = empty.sql(f"SELECT * FROM s.t VERSION AS OF {version}", {"v": "eod"})
        assert answer.to_arrow().to_pylist() == [{"id": 1, "old": "a"}]
    now = empty.sql("SELECT * FROM s.t").to_arrow().to_pylist()
    assert now == [{"id": 1, "new": "a", "more": None}]
    time = datetime.fromtimestamp(table.snapshot(1).time_millis / 1000, UTC)
    for text in (f"'{time.isoformat()}'", ":at"):
        answer = empty.sql(f"SELECT old FROM s.t TIMESTAMP AS OF {text}", {"at": time})
        assert answer.to_arrow().num_rows == 1


def test_an_answer_is_read_anew_each_time_and_in_every_form(catalog):
    answer = catalog.sql("SELECT id, status FROM s.orders WHERE id < 3 ORDER BY id")

    assert answer.to_arrow() == answer.to_arrow()
    assert answer.to_reader().read_all() == answer.to_arrow()
    assert answer.to_pandas().shape == (3, 2)
    assert answer.to_polars().shape == (3, 2)
    assert duckdb.sql("SELECT count(*) FROM answer").fetchall() == [(3,)]
    assert answer.report is None
    assert "Answer('SELECT id" in repr(answer)
    assert "<strong>Answer" in answer._repr_html_()
    with pytest.raises(lc.InvalidRequest, match="not made on Spark"):
        answer.to_spark()


@pytest.mark.damage
def test_an_error_of_a_read_keeps_its_class(empty, tmp_path):
    table = empty.create_table("s.t", {"id": "INT"})
    table.write([{"id": 1}])
    answer = empty.sql("SELECT * FROM s.t")
    for file in (tmp_path / "s.db" / "t" / "bucket-0").iterdir():
        file.unlink()

    with pytest.raises(lc.CorruptTable, match=r"s\.t"):
        answer.to_arrow()


class Interrupted(ArrowRows):
    """Rows whose reader is interrupted before the second batch."""

    def schema(self):
        return pa.schema([("id", pa.int32())])

    def to_batches(self):
        yield pa.record_batch([[1]], schema=self.schema())
        raise KeyboardInterrupt


def test_an_interruption_of_a_read_is_no_error_of_the_query():
    relation = Relation(view="t", title="t", rows=Interrupted())

    with pytest.raises(KeyboardInterrupt):
        list(DuckdbQuery("SELECT id FROM t", [relation], ["id"]).batches())


@pytest.mark.parametrize(
    "value",
    [
        "1 / (id - 3)",
        "id % (id - 3)",
        "rank() OVER (ORDER BY 1 / (id - 3))",
        "count(*) OVER (PARTITION BY id DIV (id - 3))",
        "sum(1 / (id - 3)) OVER ()",
        "1 / sum(id - id) OVER ()",
    ],
)
def test_a_division_by_zero_is_told_as_such_wherever_it_is(catalog, value):
    answer = catalog.sql(f"SELECT {value} FROM s.orders")

    with pytest.raises(lc.InvalidRequest) as told:
        answer.to_arrow()

    assert re.fullmatch(r"SQL, line 1, column \d+: Division by zero\.", str(told.value))


def test_a_text_of_a_user_in_a_window_is_not_taken_for_a_division(catalog):
    answer = catalog.sql("SELECT rank() OVER (ORDER BY CAST('Division by zero' AS TINYINT)) FROM s.orders")

    with pytest.raises(lc.InvalidRequest, match="The text 'Division by zero' cannot be read as TINYINT"):
        answer.to_arrow()


def test_a_wide_query_reads_a_table_without_columns_of_it(catalog):
    assert catalog.sql("SELECT 1 AS x FROM s.orders").to_arrow().num_rows == 40
