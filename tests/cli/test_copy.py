"""Copies of tables in another warehouse, in the shell."""

import json

import lakehouse_core as lc


def test_tables_that_match_are_copied_to_another_warehouse(shell, orders, home):
    answer = shell("copy", "sales.*", str(home / "copies"), "--snapshots", "1")

    assert answer.code == 0
    assert "sales.orders: copied with 1 snapshot to file://" in answer.out
    copy = lc.connect(home / "copies").table(orders)
    assert copy.scan().count() == lc.connect(home / "wh").table(orders).scan().count()


def test_snapshots_tags_and_branches_are_chosen(shell, orders, home):
    table = lc.connect(home / "wh").table(orders)
    table.create_tag("kept")
    table.create_tag("left")
    for name in ("kept", "left"):
        table.create_branch(name)

    chosen = ["--snapshots", "1", "--tag", "kept", "--branch", "kept"]
    answer = shell("copy", orders, str(home / "copies"), *chosen, "--json")

    told = json.loads(answer.out)
    assert (told["snapshot_ids"], told["tags"], told["branches"]) == ([table.snapshot().id], 1, 1)
    copy = lc.connect(home / "copies").table(orders)
    assert ([tag.name for tag in copy.tags()], [branch.name for branch in copy.branches()]) == (["kept"], ["kept"])
    wrong = shell("copy", orders, str(home / "copies"), "--as", "other.one", "--branch", "none")
    assert (wrong.code, "kept, left" in wrong.err) == (2, True)


def test_a_copy_is_told_as_json_with_its_name(shell, orders, home):
    answer = shell(
        "copy", orders, str(home / "copies"), "--as", "other.one", "--no-tags", "--no-branches", "--data", "--json"
    )

    told = json.loads(answer.out)
    assert (told["report"], told["table"], told["tags"], told["findings"]) == ("CopyReport", "other.one", 0, [])
    again = shell("copy", orders, str(home / "copies"), "--as", "other.one")
    assert (again.code, "exists already" in again.err) == (2, True)


def test_a_profile_is_a_target(shell, orders, home, monkeypatch):
    (home / "profiles.yaml").write_text(f"away: {{warehouse: {home / 'away'}}}\n")
    monkeypatch.setenv("LAKEHOUSE_PROFILES", str(home / "profiles.yaml"))

    assert shell("copy", orders, "--target-profile", "away").code == 0
    assert lc.connect(home / "away").tables("sales") == ["orders"]


def test_a_copy_without_one_target_or_with_two_choices_is_refused(shell, orders, home):
    for words in (
        [orders],
        [orders, str(home / "copies"), "--target-profile", "away"],
        ["sales.*", str(home / "copies"), "--as", "other.one"],
        [orders, str(home / "copies"), "--tag", "a", "--no-tags"],
    ):
        answer = shell("copy", *words)
        assert answer.code == 2
        assert len(answer.err.splitlines()) == 1
    assert not (home / "copies").exists()
