"""What is remembered of a query changes no answer, whatever has changed when the same text is asked again.

Each test asks the text before the change as well, so that something is remembered.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.statements import prepared as module
from tests.catalog.statements.query_tables import queries

ALL = "SELECT * FROM s.t"


@pytest.fixture
def table(empty) -> lc.Table:
    found = empty.create_table("s.t", {"id": "INT", "x": "INT"})
    found.write([{"id": 1, "x": 10}])
    return found


def rows(catalog: lc.Catalog, text: str = ALL, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = catalog.sql(text, *arguments, **named).to_arrow().to_pylist()
    return found


def parsed(catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], Any]) -> int:
    """Return how many texts are parsed while `ask` runs."""
    texts: list[str] = []
    parse_query = module.parse_query

    def counted(text: Any, parameters: Any) -> Any:
        texts.append(text.sql.text)
        return parse_query(text, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(module, "parse_query", counted)
        ask()
    return len(texts)


def test_a_text_is_parsed_once_also_after_a_commit(empty, table, monkeypatch):
    def ask() -> None:
        empty.sql("SELECT id AS once FROM s.t").to_arrow()

    assert parsed(empty, monkeypatch, ask) == 1
    table.write([{"id": 2, "x": 20}])
    assert parsed(empty, monkeypatch, ask) == 0
    assert len(rows(empty, "SELECT id AS once FROM s.t")) == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lc.AddColumn("y", "STRING"), {"id": 1, "x": 10, "y": None}),
        (lc.DropColumn("x"), {"id": 1}),
        (lc.RenameColumn("x", "y"), {"id": 1, "y": 10}),
        (lc.UpdateColumnType("x", "BIGINT"), {"id": 1, "x": 10}),
    ],
    ids=["add", "drop", "rename", "type"],
)
def test_an_altered_table_is_read_with_its_new_columns(empty, table, change, expected):
    before = empty.sql(ALL).to_arrow()
    table.alter(change)

    after = empty.sql(ALL).to_arrow()
    assert (before.to_pylist(), after.to_pylist()) == ([{"id": 1, "x": 10}], [expected])
    assert after.schema == empty.table("s.t").scan().to_arrow().schema
    assert rows(empty, f"{ALL} VERSION AS OF 1") == [{"id": 1, "x": 10}]


def test_a_column_that_was_dropped_is_refused(empty, table):
    assert rows(empty, "SELECT x FROM s.t") == [{"x": 10}]
    table.alter(lc.DropColumn("x"))

    with pytest.raises(lc.InvalidRequest, match="line 1, column 8: there is no column x"):
        empty.sql("SELECT x FROM s.t")


def test_a_table_that_was_created_again_is_the_new_one(empty, table):
    assert rows(empty) == [{"id": 1, "x": 10}]
    empty.drop_table("s.t")
    with pytest.raises(lc.NotFound):
        empty.sql(ALL)

    empty.create_table("s.t", {"id": "STRING"}).write([{"id": "new"}])
    assert rows(empty) == [{"id": "new"}]


def test_a_renamed_table_is_not_found_under_its_old_name(empty, table):
    assert rows(empty) == [{"id": 1, "x": 10}]
    empty.rename_table("s.t", "s.u")

    with pytest.raises(lc.NotFound):
        empty.sql(ALL)
    assert rows(empty, "SELECT id FROM s.u") == [{"id": 1}]


def test_what_another_process_does_to_a_table_is_read(empty, table, tmp_path):
    """The other catalog has nothing in common with the first but the warehouse."""
    other = lc.connect(tmp_path)
    assert rows(empty) == [{"id": 1, "x": 10}]

    other.table("s.t").alter(lc.AddColumn("y", "STRING"))
    assert rows(empty) == [{"id": 1, "x": 10, "y": None}]
    other.table("s.t").alter(lc.SetOption("scan.snapshot-id", "1"))
    other.table("s.t").write([{"id": 2, "x": 20}])
    assert len(rows(empty)) == 1
    other.table("s.t").alter(lc.RemoveOption("scan.snapshot-id"))
    assert len(rows(empty)) == 2
    other.drop_database("s", cascade=True)
    with pytest.raises(lc.NotFound):
        empty.sql(ALL)
    other.create_database("s")
    other.create_table("s.t", {"id": "INT", "x": "INT"}).write([{"id": 3, "x": 30}])
    assert rows(empty) == [{"id": 3, "x": 30}]


def test_a_copy_that_takes_the_place_of_its_source_is_read_with_its_own_snapshots(empty, table):
    """Both have the same bytes as schema, and a snapshot 2."""
    empty.copy_table(table, "s.copy")
    empty.table("s.copy").write([{"id": 2, "x": 20}])
    table.write([{"id": 3, "x": 30}])
    texts = [f"SELECT id FROM s.{name} ORDER BY id" for name in ("t", "copy")]
    assert [[row["id"] for row in rows(empty, text)] for text in texts] == [[1, 3], [1, 2]]

    for source, target in (("s.t", "s.u"), ("s.copy", "s.t"), ("s.u", "s.copy")):
        empty.rename_table(source, target)
    assert [[row["id"] for row in rows(empty, text)] for text in texts] == [[1, 2], [1, 3]]


def test_catalogs_of_one_process_have_their_own_tables_of_one_name(empty, table, tmp_path):
    other = lc.connect(tmp_path / "other")
    other.create_database("s")
    other.create_table("s.t", {"id": "INT", "x": "INT"}).write([{"id": 5, "x": 50}])

    for _ in range(2):
        assert [rows(catalog, "SELECT id FROM s.t")[0]["id"] for catalog in (empty, other)] == [1, 5]


def test_a_text_names_the_newest_snapshot_unless_it_says_another(empty, table):
    texts = [ALL, f"{ALL} VERSION AS OF 1"]
    assert [len(rows(empty, text)) for text in texts] == [1, 1]
    table.write([{"id": 2, "x": 20}])

    assert [len(rows(empty, text)) for text in texts] == [2, 1]
    table.rollback_to(1)
    assert [len(rows(empty, text)) for text in texts] == [1, 1]


def test_a_tag_that_names_another_snapshot_is_read_anew(empty, table):
    table.create_tag("t", at=1)
    assert len(rows(empty, f"{ALL} VERSION AS OF 't'")) == 1
    table.write([{"id": 2, "x": 20}])
    table.replace_tag("t", at=2)

    assert len(rows(empty, f"{ALL} VERSION AS OF 't'")) == 2


def test_a_branch_is_not_taken_for_its_table(empty, table):
    table.create_branch("b", at=1)
    table.branch("b").write([{"id": 2, "x": 20}])
    on_branch = "SELECT * FROM s.`t$branch_b`"

    assert [(len(rows(empty)), len(rows(empty, on_branch))) for _ in range(2)] == [(1, 2)] * 2
    table.branch("b").alter(lc.AddColumn("y", "INT"))
    assert (len(rows(empty)[0]), len(rows(empty, on_branch)[0])) == (2, 3)


def test_values_that_are_equal_in_python_have_their_own_types(empty):
    at = datetime(2013, 1, 1, 12)
    values = [1, True, 1.0, Decimal("1"), Decimal("1.00"), "1", b"1", None, at, at.replace(tzinfo=UTC)]
    values.append(datetime(2013, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))))

    for _ in range(2):
        found = [empty.sql("SELECT :p AS p", {"p": value}).to_arrow() for value in values]
        assert [one.to_pylist() for one in found] == [[{"p": value}] for value in values]
        assert [str(one.schema.field("p").type) for one in found[:4]] == ["int32", "bool", "double", "int32"]


def test_a_value_as_a_point_in_time_is_that_of_the_call(empty, table):
    table.write([{"id": 2, "x": 20}])

    text = f"{ALL} VERSION AS OF :at"
    assert [len(rows(empty, text, {"at": at})) for at in (1, 2, 1, 2)] == [1, 2, 1, 2]


def test_data_by_name_is_that_of_the_call(empty):
    text = "SELECT a FROM given"
    given = [pa.table({"a": [1]}), pa.table({"a": ["x"]}), pa.table({"a": pa.array(["x"]).dictionary_encode()})]
    given.append(pa.table({"a": [2], "b": [3]}))

    for _ in range(2):
        assert [rows(empty, text, tables={"given": one})[0]["a"] for one in given] == [1, "x", "x", 2]


def test_the_default_database_is_that_of_the_call(empty, table):
    empty.create_database("other")
    empty.create_table("other.t", {"id": "INT", "x": "INT"}).write([{"id": 5, "x": 50}])

    for _ in range(2):
        assert [rows(empty, "SELECT id FROM t", database=name)[0]["id"] for name in ("s", "other")] == [1, 5]


@pytest.mark.parametrize(
    "text",
    [
        "WITH lakehouse_sql_0 AS (SELECT 7 AS id) SELECT t.id FROM s.t, lakehouse_sql_0",
        "WITH LAKEHOUSE_SQL_0 AS (SELECT 7 AS id), lakehouse_sql__0 AS (SELECT 8 AS id) SELECT t.id FROM s.t",
        "SELECT lakehouse_sql_0.id FROM s.t AS lakehouse_sql_0",
        "/* WITH */ WITH x AS (SELECT id FROM s.t) SELECT id FROM x",
        "(WITH x AS (SELECT id FROM s.t) SELECT id FROM x)",
    ],
)
def test_a_name_of_the_text_is_never_that_of_a_view(empty, table, text):
    assert [row["id"] for row in rows(empty, text)] == [1]


def test_a_value_that_looks_like_a_view_stays_a_value(empty, table):
    value = '"lakehouse_sql_0" lakehouse_sql_0'

    assert rows(empty, "SELECT id, :p AS p FROM s.t", {"p": value}) == [{"id": 1, "p": value}]


def test_threads_that_query_at_once_have_their_own_answers(catalog):
    texts = [text for text in queries() if "ORDER BY" in text][:12]
    expected = {text: rows(catalog, text) for text in texts}
    start = Barrier(4)

    def ask(offset: int) -> list[bool]:
        start.wait()
        turn = texts[offset:] + texts[:offset]
        return [repr(rows(catalog, text)) == repr(expected[text]) for text in turn * 2]

    with ThreadPoolExecutor(4) as pool:
        assert all(all(found) for found in pool.map(ask, range(4)))


def test_threads_read_one_answer_at_once(empty, table):
    table.write([{"id": number, "x": number} for number in range(2, 5000)])
    answer = empty.sql("SELECT sum(x) AS s, count(*) AS n FROM s.t")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: answer.to_arrow().to_pylist(), range(16)))
    assert found == [[{"s": 10 + sum(range(2, 5000)), "n": 4999}]] * 16
