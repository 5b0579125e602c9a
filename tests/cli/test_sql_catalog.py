"""The shell on a catalog in a SQL database: the names of tables come from there."""

import json
import shutil
from pathlib import Path

import pytest

import lakehouse_core as lc


@pytest.fixture
def names(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = f"sqlite:///{home}/names.db"
    monkeypatch.setenv("LAKEHOUSE_METASTORE", address)
    return address


def test_tables_are_made_listed_maintained_and_dropped_by_their_names_in_the_database(shell, home, names, orders):
    catalog = lc.connect(home / "wh", metastore=names)
    assert catalog.tables("sales") == ["orders"]
    assert shell("tables").out == "sales.orders\n"
    assert shell("compact", "sales.*", "--full").code == 0
    assert shell("fleet", "run", "--budget", "1gb").code == 0
    assert shell("rename", orders, "sales.old").code == 0
    assert shell("read", "sales.old", "--format", "csv").lines[1:] == ["2013-01-01,1,new,1.50", '2013-01-02,2,"a,b",']
    assert shell("drop", "sales.old", "--yes").code == 0
    assert catalog.tables("sales") == []


def test_names_and_files_that_disagree_are_listed_with_exit_code_1(shell, home, names, orders):
    assert (shell("tables", "--check").code, shell("tables", "--check").out) == (0, "")
    shutil.rmtree(home / "wh" / "sales.db" / "orders")

    answer = shell("tables", "--check", "--json")

    assert answer.code == 1
    assert "the catalog lists it, but" in json.loads(answer.out)["finding"]
    assert shell("describe", orders).code == 5
    assert shell("tables", "sales.*", "--check").code == 2


def test_options_of_the_metastore_are_given_before_the_verb(shell, home, names, orders):
    words = ("--metastore", names, "--metastore-option", "catalog-key=other", "--metastore-option", "lock.enabled=true")

    assert shell(*words, "tables").out == ""
    for wrong, says in ((("lock.enabled",), "expected KEY=VALUE"), (("lock=1",), "there is no option 'lock'")):
        answer = shell("--metastore-option", *wrong, "tables")
        assert answer.code == 2
        assert says in answer.err


def test_a_password_is_in_no_message_of_the_shell(shell, home, monkeypatch):
    monkeypatch.setenv("LAKEHOUSE_METASTORE", "postgresql://ann:canary-pw@127.0.0.1:1/names")

    answer = shell("tables")

    assert answer.code == 4
    assert "postgresql://ann@127.0.0.1:1/names: the database of the catalog did not answer" in answer.err
    assert "canary-pw" not in answer.err + answer.out
