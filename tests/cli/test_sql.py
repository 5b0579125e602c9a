"""lakehouse sql: statements from the command line, a file, standard input and the prompt."""

import io
import json
import sys

import pytest

import lakehouse_core as lc
from lakehouse_core.cli import statements


@pytest.fixture
def orders(tmp_path, monkeypatch):
    catalog = lc.connect(tmp_path / "lake")
    catalog.create_database("s")
    catalog.create_table("s.t", {"id": "INT", "text": "STRING"}).write([{"id": 1, "text": "a"}, {"id": 2}])
    monkeypatch.setenv("LAKEHOUSE_WAREHOUSE", str(tmp_path / "lake"))
    return catalog


def test_a_query_prints_a_table_or_json_or_a_file(shell, orders, tmp_path):
    query = "SELECT id, text FROM s.t ORDER BY id"

    assert shell("sql", query).out.splitlines() == ["id  text", "1   a", "2   NULL"]
    assert [json.loads(line) for line in shell("sql", query, "--json").out.splitlines()] == [
        {"id": 1, "text": "a"},
        {"id": 2, "text": None},
    ]
    assert shell("sql", query, "--format", "csv").out == "id,text\n1,a\n2,\n"
    assert shell("sql", "SHOW TABLES IN s").out.splitlines()[1].split() == ["s", "t", "false"]
    assert shell("sql", query, "--limit", "1", "--json").out.count("\n") == 1
    assert shell("sql", query, "-o", str(tmp_path / "rows.parquet")).code == 0
    assert (tmp_path / "rows.parquet").exists()


def test_a_command_prints_its_report(shell, orders):
    answer = shell("sql", "INSERT INTO s.t VALUES (3, 'c')")

    assert (answer.code, answer.out.splitlines()[0]) == (0, "s.t: snapshot 2 (APPEND)")
    assert json.loads(shell("sql", "CALL sys.compact('s.t')", "--json").out)["report"] == "CompactionReport"
    assert shell("sql", "CREATE TABLE s.u (id INT)").out == "done\n"


def test_parameters_and_the_database_come_from_options(shell, orders):
    answer = shell("sql", "--database", "s", "--parameter", "x=a", "SELECT id FROM t WHERE text = :x", "--json")

    assert answer.out == '{"id":1}\n'
    assert shell("sql", "--parameter", "x", "SELECT 1").code == 2


def test_the_statements_of_a_file_run_until_one_fails(shell, orders, tmp_path):
    file = tmp_path / "all.sql"
    file.write_text(
        "-- first; a comment\nUSE s;\nINSERT INTO t VALUES (5, 'x;y');\n"
        "SELECT * FROM nix;\nINSERT INTO t VALUES (6, 'z');\n"
    )

    answer = shell("sql", "-f", str(file))

    assert answer.code == 2
    assert answer.err == "lakehouse: SQL, line 4, column 15: Table 's.nix' does not exist. There are: t.\n"
    assert orders.sql("SELECT max(id) AS m FROM s.t").to_arrow().to_pylist() == [{"m": 5}]
    assert shell("sql", "-f", str(tmp_path / "none.sql")).code == 2
    assert shell("sql", "SELECT 1", "-f", str(file)).code == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELEC 1", "line 1, column 1"),
        ("SELECT 1; SELEC 1", "line 1, column 11"),
        ("SELECT 1;\nSELECT 2;\n\n  SELEC 3;\nSELECT 4", "line 4, column 3"),
        ("SELECT 1;\n-- none;\n;SELECT\n nix FROM s.t", "line 4, column 2"),
    ],
)
def test_a_fault_is_told_by_its_place_in_the_whole_text(shell, orders, text, place):
    assert shell("sql", text).err.startswith(f"lakehouse: SQL, {place}: ")


def test_settings_last_until_the_end_of_the_call(shell, orders):
    shell("sql", "CREATE TABLE s.p (id INT, d INT) PARTITIONED BY (d); INSERT INTO s.p VALUES (1, 1), (2, 2)")

    answer = shell(
        "sql",
        "SET spark.sql.sources.partitionOverwriteMode = dynamic; INSERT OVERWRITE s.p VALUES (9, 2);"
        " SELECT id FROM s.p ORDER BY id",
        "--json",
    )

    assert answer.out.splitlines()[-2:] == ['{"id":1}', '{"id":9}']


def test_standard_input_is_read(shell, orders, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT count(*) AS n FROM s.t;"))

    assert shell("sql", "-", "--json").out == '{"n":2}\n'


def test_the_prompt_runs_a_statement_at_its_semicolon_and_goes_on_after_an_error(shell, orders, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    lines = iter(
        [
            "",
            "SELECT id",
            "FROM s.t WHERE id = 1;",
            "SELEC 1;",
            "help",
            "USE s; SELECT 'a;b' AS x FROM t LIMIT 1;",
            "\\q",
        ]
    )
    prompts: list[str] = []

    def asked(prompt: str) -> str:
        prompts.append(prompt)
        return next(lines)

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(statements, "input", asked, raising=False)

    answer = shell("sql")

    assert answer.code == 0
    assert answer.out.split() == ["id", "1", "x", "a;b"]
    assert "'SELEC' does not begin a statement" in answer.err
    assert answer.err.count("A semicolon ends a statement") == 2  # at the beginning, and for `help`
    assert prompts == ["sql> ", "sql> ", "  -> ", "sql> ", "sql> ", "sql> ", "sql> "]


def test_a_warehouse_begins_with_create_database_and_with_no_query(shell, home):
    refused = shell("-w", "new", "sql", "SHOW DATABASES")
    shell("-w", str(home / "new"), "sql", "/* one */ CREATE DATABASE shop; CREATE TABLE shop.t (id INT)")

    assert refused.code == 2
    assert "does not exist. Check -w" in refused.err
    assert shell("-w", str(home / "new"), "tables").out == "shop.t\n"


@pytest.mark.parametrize("text", ["", ";", "/* nothing */"])
def test_a_text_without_a_statement_is_refused(shell, orders, text):
    answer = shell("sql", text)

    assert (answer.code, answer.err) == (2, "lakehouse: The SQL text has no statement. Write one, as in SELECT 1.\n")
