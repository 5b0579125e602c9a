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
    "'; DELETE FROM s.t; --",
    "1; DELETE FROM s.t",
    "') OR EXISTS (SELECT * FROM s.t) --",
    "' || (SELECT text FROM s.t) || '",
    "admin'--",
    "’ OR ’1’ = ’1",
    "\\u0027 OR 1 = 1",
    "%27%20OR%201=1",
    "&#39;",
    "``",
    '""',
    "$$ DROP TABLE s.t $$",
    "r'\\'",
    "X'41'",
    "\r\n",
    "\x00",
    "a\x00'b",
    "\ufeff",
    "\u200b",
    "../../etc/passwd",
    "t$filez",
    "t$branch_b",
    "lakehouse_sql_0",
    "lakehouse merge target",
    "{lakehouse_sql_0}",
    "{0.__class__}",
    "${jndi:ldap://x}",
    ":d00000",
    "DEFAULT",
    "*",
]
# `make test` takes one of so many texts in each place.
STEP = 11


def some(first: int) -> list[Any]:
    """Return the texts, of which `make test` takes some, from this place on."""
    return [
        pytest.param(text, marks=[pytest.mark.long] * bool((place - first) % STEP)) for place, text in enumerate(TEXTS)
    ]


def written(text: str) -> str:
    """Return the text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"


def quoted(text: str) -> str:
    """Return the text as a name of SQL."""
    return f"`{text.replace('`', '``')}`"


def test_there_are_as_many_texts_as_promised():
    assert len(set(TEXTS)) >= 60


@pytest.fixture
def filled(empty) -> lc.Catalog:
    empty.create_table("s.t", {"id": "INT", "text": "STRING"}).write([{"id": 1, "text": "a"}])
    return empty


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", some(0))
def test_a_parameter_is_a_value(filled, text):
    before = state(filled)

    assert filled.sql("SELECT :p AS p", {"p": text}).to_arrow().to_pylist() == [{"p": text}]
    assert filled.sql("SELECT * FROM s.t WHERE text = :p", {"p": text}).to_arrow().num_rows == 0
    assert filled.sql("SELECT * FROM s.t WHERE concat(text, '') = :p", {"p": text}).to_arrow().num_rows == 0
    assert state(filled) == before
    filled.sql("DELETE FROM s.t WHERE text = :p", {"p": text})
    filled.sql("DELETE FROM s.t WHERE concat(text, :p) = :p OR text IN (SELECT :p)", {"p": text})
    assert filled.table("s.t").scan().to_arrow().num_rows == 1
    filled.sql("INSERT INTO s.t VALUES (2, :p)", {"p": text})
    assert filled.sql("SELECT text FROM s.t WHERE text = :p", {"p": text}).to_arrow().to_pylist() == [{"text": text}]


@pytest.mark.parametrize("text", some(1))
def test_a_name_is_a_name(filled, text):
    before = state(filled)
    name = quoted(text)

    for statement in (
        f"SELECT * FROM s.{name}",
        f"SELECT {name} FROM s.t",
        f"DROP TABLE s.{name}",
        f"DROP DATABASE {name}",
        f"CALL sys.compact(table => 's.{text}')",
    ):
        with pytest.raises(lc.LakehouseError):
            filled.sql(statement)
    assert filled.sql(f"SELECT id AS {name} FROM s.t").to_arrow().to_pylist() == [{text: 1}]
    assert state(filled) == before


@pytest.mark.parametrize("text", some(2))
def test_a_text_in_a_comment_is_no_part_of_the_statement(filled, text):
    before = state(filled)
    # What ends a comment, or begins one inside it, is taken apart.
    block = f"/* {text.replace('*/', '* /').replace('/*', '/ *')} */"
    line = f"-- {' '.join(text.split())}\n"

    for comment in (block, line):
        statement = f"{comment}SELECT id {comment}FROM s.t {comment}WHERE text = 'a' {comment}"
        assert filled.sql(statement).to_arrow().to_pylist() == [{"id": 1}]
        assert filled.sql(f"SHOW {comment}TABLES IN s {comment}").to_arrow().num_rows == 1
        assert filled.sql(f"DELETE FROM s.t {comment}WHERE id = 2 {comment}").report.rows_deleted == 0
    assert state(filled) == before


@pytest.mark.parametrize("text", some(0))
def test_data_of_the_call_is_data(filled, text):
    before = state(filled)
    data = pa.table({text: [text], "id": [1]})

    if "\0" in text:
        with pytest.raises(lc.InvalidRequest, match="has the character NUL in its name"):
            filled.sql("SELECT d.* FROM d", tables={"d": data})
        return
    assert filled.sql("SELECT * FROM d JOIN s.t USING (id)", tables={"d": data}).to_arrow().num_rows == 1
    assert filled.sql("SELECT d.* FROM d", tables={"d": data}).to_arrow() == data
    with pytest.raises(lc.InvalidRequest, match="is not a name"):
        filled.sql("SELECT 1", tables={f"{text} ": data})
    assert state(filled) == before


@pytest.mark.parametrize("text", [text for text in some(1) if text.values != ("\u202e",)])
def test_comments_and_properties_come_back_as_they_were_given(filled, text):
    string = written(text)
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", some(2))
def test_a_property_is_a_text(filled, text):
    before = state(filled)

    filled.sql("CREATE DATABASE u")
    filled.sql(f"CREATE TABLE u.u (id INT, v STRING DEFAULT {written(text)})")

    assert filled.table("u.u").schema.field("v").default_value == text
    filled.sql("INSERT INTO u.u VALUES (1, DEFAULT)")
    assert filled.sql("SELECT v FROM u.u").to_arrow().to_pylist() == [{"v": text}]
    for statement in (
        f"CREATE DATABASE v WITH DBPROPERTIES ({written(text)} = {written(text)})",
        f"ALTER TABLE u.u SET TBLPROPERTIES ('bucket' = {written(text)})",
        f"ALTER TABLE u.u SET TBLPROPERTIES ({written(text)} = 'x')",
        f"SHOW TBLPROPERTIES u.u ({written(text)})",
    ):
        with pytest.raises(lc.LakehouseError):
            filled.sql(statement)
    filled.sql("DROP DATABASE u CASCADE")
    assert state(filled) == before


@pytest.mark.parametrize("text", some(3))
def test_a_tag_or_a_branch_is_a_name_or_refused(filled, text):
    before, table = state(filled), filled.table("s.t")

    for statement in (f"ALTER TABLE s.t CREATE TAG {quoted(text)}", f"CALL sys.create_tag('s.t', {written(text)})"):
        try:
            filled.sql(statement)
        except lc.InvalidRequest:
            assert table.tags() == []
        else:
            assert [tag.name for tag in table.tags()] == [text]
            assert filled.sql(f"SELECT id FROM s.t VERSION AS OF {written(text)}").to_arrow().num_rows == 1
            filled.sql(f"ALTER TABLE s.t DELETE TAG {quoted(text)}")
    try:
        filled.sql(f"CALL sys.create_branch('s.t', {written(text)})")
    except lc.InvalidRequest:
        assert table.branches() == []
    else:
        assert [branch.name for branch in table.branches()] == [text]
        table.delete_branch(text)
    for statement in (
        f"ALTER TABLE s.t DELETE TAG {quoted(text)}",
        f"CALL sys.rollback('s.t', {written(text)})",
        f"CALL sys.fast_forward('s.t', {written(text)})",
        f"SELECT * FROM s.t VERSION AS OF {written(text)}",
        f"SELECT * FROM paimon_incremental_query('s.t', {written(text)}, {written(text)})",
        f"CALL sys.compact(table => 's.t', where => {written(text + ' OR')})",
    ):
        with pytest.raises(lc.LakehouseError):
            filled.sql(statement)
    assert state(filled) == before


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", some(2))
def test_a_text_in_a_query_inside_a_statement_is_a_value(filled, text):
    data = pa.table({"text": [text]})

    for statement in (
        f"EXPLAIN DELETE FROM s.t WHERE text IN (SELECT {written(text)})",
        f"DELETE FROM s.t WHERE text IN (SELECT {written(text)}) OR text = (SELECT max(text) FROM d)",
        f"UPDATE s.t SET text = {written(text)} WHERE EXISTS (SELECT 1 FROM d WHERE text = {written(text)})",
        "UPDATE s.t SET text = (SELECT text FROM d)",
    ):
        filled.sql(statement, tables={"d": data})

    assert filled.table("s.t").scan().to_arrow().to_pylist() == [{"id": 1, "text": text}]
