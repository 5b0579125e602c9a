"""Hostile texts in every place that a caller fills: nothing happens but what was asked for."""

from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc
from tests.catalog.statements.test_refused import state

TEXTS = [
    "'",
    "''",
    "\\",
    "\\'",
    "'; DROP TABLE s.t; --",
    "\\'; DROP TABLE s.t; --",
    "x' OR '1' = '1",
    '"; DROP TABLE s.t; --',
    "`; DROP TABLE s.t; --",
    "` ; DROP TABLE `s`.`t",
    "*/ DROP TABLE s.t /*",
    "-- ",
    "/*",
    "${x}",
    "{{ x }}",
    ":p",
    "?",
    "$1",
    "%",
    "\n; DROP TABLE s.t;\n",
    "a\tb",
    "read_csv('/etc/passwd')",
    "') UNION SELECT * FROM read_text('/etc/passwd') --",
    "sleep(10)",
    "ATTACH '/tmp/x.db'",
    "é ü 漢字 🦆",
    "NULL",
    "a.b.c",
    "\u202e",
    "x" * 500,
]


def every_other(first: int) -> list[Any]:
    """Return the texts, of which `make test` takes every other one from this place on."""
    return [pytest.param(text, marks=[pytest.mark.long] * ((place - first) % 2)) for place, text in enumerate(TEXTS)]


@pytest.fixture
def filled(empty) -> lc.Catalog:
    empty.create_table("s.t", {"id": "INT", "text": "STRING"}).write([{"id": 1, "text": "a"}])
    return empty


@pytest.mark.parametrize("text", every_other(0))
def test_a_parameter_is_a_value(filled, text):
    before = state(filled)

    assert filled.sql("SELECT :p AS p", {"p": text}).to_arrow().to_pylist() == [{"p": text}]
    assert filled.sql("SELECT * FROM s.t WHERE text = :p", {"p": text}).to_arrow().num_rows == 0
    assert filled.sql("SELECT * FROM s.t WHERE concat(text, '') = :p", {"p": text}).to_arrow().num_rows == 0
    assert state(filled) == before
    filled.sql("INSERT INTO s.t VALUES (2, :p)", {"p": text})
    assert filled.sql("SELECT text FROM s.t WHERE text = :p", {"p": text}).to_arrow().to_pylist() == [{"text": text}]


@pytest.mark.parametrize("text", every_other(1))
def test_a_name_is_a_name(filled, text):
    before = state(filled)
    quoted = f"`{text.replace('`', '``')}`"

    for statement in (
        f"SELECT * FROM s.{quoted}",
        f"SELECT {quoted} FROM s.t",
        f"DROP TABLE s.{quoted}",
        f"DROP DATABASE {quoted}",
        f"CALL sys.compact(table => 's.{text}')",
    ):
        with pytest.raises(lc.LakehouseError):
            filled.sql(statement)
    assert filled.sql(f"SELECT id AS {quoted} FROM s.t").to_arrow().to_pylist() == [{text: 1}]
    assert state(filled) == before


@pytest.mark.parametrize("text", every_other(0))
def test_data_of_the_call_is_data(filled, text):
    before = state(filled)
    data = pa.table({text: [text], "id": [1]})

    assert filled.sql("SELECT * FROM d JOIN s.t USING (id)", tables={"d": data}).to_arrow().num_rows == 1
    assert filled.sql("SELECT d.* FROM d", tables={"d": data}).to_arrow() == data
    with pytest.raises(lc.InvalidRequest, match="is not a name"):
        filled.sql("SELECT 1", tables={f"{text} ": data})
    assert state(filled) == before


@pytest.mark.parametrize("text", [text for text in every_other(1) if text.values != ("\u202e",)])
def test_comments_and_properties_come_back_as_they_were_given(filled, text):
    string = "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    filled.sql(f"CREATE TABLE s.u (id INT COMMENT {string}) COMMENT {string}")

    made = filled.table("s.u").schema
    assert (made.comment, made.fields[0].description) == (text, text)
    statement = filled.sql("SHOW CREATE TABLE s.u").to_arrow().column("createtab_stmt")[0].as_py()
    filled.sql("DROP TABLE s.u")
    filled.sql(statement)
    again = filled.table("s.u").schema
    assert (again.comment, again.fields[0].description) == (text, text)
    with pytest.raises(lc.LakehouseError):
        filled.sql(f"ALTER TABLE s.u SET TBLPROPERTIES ({string} = 'x')")
    filled.sql(f"COMMENT ON TABLE s.u IS {string}")
    assert filled.sql("SELECT count(*) AS n FROM s.t").to_arrow().to_pylist() == [{"n": 1}]
