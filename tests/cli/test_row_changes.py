"""Row changes from the shell: what they print, and what they leave."""

import json

import pytest


def ids(shell, orders):
    return [json.loads(line)["id"] for line in shell("read", orders, "--json").lines]


def test_rows_are_updated_and_deleted(shell, orders):
    updated = shell(
        "update", orders, "--set", "status='paid'", "--set", "amount=amount * 2", "--where", "id = 1", "--json"
    )
    deleted = shell("delete", orders, "--where", "status = 'a,b'", "--json")

    assert (json.loads(updated.out)["rows_updated"], json.loads(deleted.out)["rows_deleted"]) == (1, 1)
    (row,) = [json.loads(line) for line in shell("read", orders, "--json").lines]
    assert (row["id"], row["status"], row["amount"]) == (1, "paid", "3.00")


def test_a_dry_run_changes_nothing(shell, orders):
    for words in (["delete", orders, "--where", "id > 0"], ["truncate", orders]):
        assert shell(*words, "--dry-run").code == 0
    assert sorted(ids(shell, orders)) == [1, 2]


def test_partitions_are_dropped_and_the_table_emptied(shell, orders):
    assert shell("drop-partitions", orders, "dt=2013-01-01").code == 0
    assert ids(shell, orders) == [2]
    assert shell("truncate", orders).code == 0
    assert ids(shell, orders) == []
    assert "nothing" in shell("truncate", orders).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["update", "--set", "status", "--where", "id = 1"], "expected COLUMN=SQL"),
        (["update", "--set", "status=1", "--set", "status=2", "--where", "id = 1"], "each column once"),
        (["update", "--set", "status=void", "--where", "id = 1"], "A text is in quotes"),
        (["update", "--set", "status=upper(status)", "--where", "id = 1"], "is not understood"),
        (["update", "--set", "id=2", "--where", "id = 1"], "part of the primary key"),
        (["delete", "--where", "nr = 1"], "nr"),
        (["drop-partitions", "day=1"], "day"),
    ],
)
def test_a_wrong_change_is_refused_and_changes_nothing(shell, orders, words, message):
    answer = shell(words[0], orders, *words[1:])

    assert answer.code == 2
    assert message in answer.err
    assert sorted(ids(shell, orders)) == [1, 2]
