"""The staged commits that a table keeps, in the shell."""

import json

import pytest

import lakehouse_core as lc


def staged(home) -> lc.Table:
    table = lc.connect(home / "wh").table("sales.orders")
    for number in (1, 2):
        rows = [{"dt": "2013-01-05", "id": number}]
        table.keep_pending(table.stage(rows, commit_user="pipeline/feed", commit_identifier=number))
    return table


@pytest.mark.damage
def test_staged_commits_are_listed_with_why_they_cannot_be_committed(shell, orders, home):
    table = staged(home)
    (file,) = (home / "wh").rglob(table.pending("pipeline/feed", 2).messages[0].new_files[0].file_name)
    file.unlink()
    (damaged,) = (home / "wh").rglob("commit-pipeline%2Ffeed-1.json")
    damaged.write_text("{}")

    one, two = (json.loads(line) for line in shell("pending", "list", orders, "--json").lines)

    assert (one["commit_user"], one["commit_identifier"], one["row_count"]) == ("pipeline/feed", 1, None)
    assert "expected a staged commit" in one["reason"]
    assert (two["commit_identifier"], two["row_count"], two["file_count"]) == (2, 1, 1)
    assert "the commit adds it, but it is missing" in two["reason"]


def test_a_staged_commit_is_removed_by_its_name(shell, orders, home):
    table = staged(home)

    answer = shell("pending", "forget", orders, "pipeline/feed", "1")

    assert answer.out == "sales.orders: the staged commit pipeline/feed 1 is removed\n"
    assert [each.commit_identifier for each in table.pending_commits()] == [2]
    again = shell("pending", "forget", orders, "pipeline/feed", "1")
    assert again.code == 2
    assert again.err == (
        "lakehouse: sales.orders: no commit of pipeline/feed 1 is staged. There are: pipeline/feed 2.\n"
    )
