"""Branches that we make, as Java reads and writes them, and the reverse; expiry by either leaves both readable."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from tests.interop.judge import Judge

pytestmark = pytest.mark.interop

OPTIONS = {"bucket": "2", "snapshot.num-retained.min": "1", "lakehouse.read.grace": "0 s"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "key": (["k"], OPTIONS),
    "key, changelog": (["k"], {**OPTIONS, "changelog-producer": "input"}),
    "append": ([], {**OPTIONS, "bucket": "-1"}),
}
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge("2.0.0") as java:
        yield java


class Lines:
    """A table with the tag `t`, and its lines as both engines read them."""

    def __init__(self, judge: Judge, warehouse: Path, kind: str) -> None:
        keys, options = KINDS[kind]
        self._judge, self._warehouse = judge, warehouse
        catalog = lc.connect(warehouse)
        catalog.create_database("db")
        self.table = catalog.create_table(
            "db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=keys, options=options
        )
        self.table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "a"}])
        self.table.write([{"k": 3, "v": "b"}])
        self.table.create_tag("t")

    def java(self, verb: str, line: str = "", **request: Any) -> Any:
        name = f"db.t$branch_{line}" if line else "db.t"
        return self._judge.call(verb, table=name, warehouse=str(self._warehouse), **request)

    def ours(self, line: str) -> lc.Table:
        return self.table.branch(line) if line else self.table

    def rows(self, line: str = "") -> Rows:
        """Return the rows of a line, which are the same in both engines; so is its soundness."""
        found = sorted((row["k"], row["v"]) for row in self.ours(line).scan().to_arrow().to_pylist())
        assert found == sorted((row["k"], row["v"]) for row in self.java("read", line)["rows"]), line
        assert self.table.verify(data=True).findings == (), line
        return found

    def spend(self) -> None:
        """Replace all rows of main, in both engines."""
        self.table.overwrite([{"k": 9, "v": "z"}], dynamic=False)
        self.java("write", rows=[{"k": 8, "v": "y"}])
        self.table.write([{"k": 7, "v": "x"}])

    def expire(self, line: str, *, by_java: bool) -> None:
        if by_java:
            self.java("expire", line, retainMax=1, retainMin=1, retainMillis=1)
        else:
            self.ours(line).expire_snapshots(retain_max=1, older_than=timedelta(0))


@pytest.mark.parametrize("by_java", [False, True], ids=["we expire", "java expires"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_read_and_write_a_branch_whoever_makes_it(judge: Judge, tmp_path: Path, kind: str, by_java: bool) -> None:
    lines = Lines(judge, tmp_path, kind)
    first = lines.rows()
    lines.table.create_branch("ours", at=lc.AtTag("t"))
    lines.java("create-branch", branch="javas", tag="t")
    assert [(branch.name, branch.snapshot_id) for branch in lines.table.branches()] == [("javas", 2), ("ours", 2)]
    assert sorted(each["name"] if isinstance(each, dict) else each for each in lines.java("snapshots")["branches"]) == [
        "javas",
        "ours",
    ]
    expected = {}
    for line in ("ours", "javas"):
        assert lines.rows(line) == first
        lines.java("write", line, rows=[{"k": 20, "v": "java"}])
        lines.ours(line).write([{"k": 30, "v": "ours"}])
        lines.java("compact", line, strategy="full")
        expected[line] = sorted([*first, (20, "java"), (30, "ours")])
        assert lines.rows(line) == expected[line]
    lines.spend()
    main = lines.rows()

    lines.expire("", by_java=by_java)
    for line in ("ours", "javas"):
        lines.expire(line, by_java=by_java)
        assert {each: lines.rows(each) for each in expected} == expected
    assert lines.rows() == main

    lines.table.rename_branch("javas", "renamed")
    assert lines.rows("renamed") == expected["javas"]
    lines.table.delete_branch("ours")
    lines.java("write", "renamed", rows=[{"k": 40, "v": "java"}])
    # Java's deletion of a tag would delete the files of the branch.
    lines.table.delete_tag("t")
    assert lines.rows("renamed") == sorted([*expected["javas"], (40, "java")])
    assert lines.rows() == main


@pytest.mark.parametrize("kind", KINDS)
def test_a_branch_of_a_tag_whose_snapshot_java_expired_holds_nothing_up(
    judge: Judge, tmp_path: Path, kind: str
) -> None:
    lines = Lines(judge, tmp_path, kind)
    first = lines.rows()
    lines.spend()
    lines.expire("", by_java=True)
    lines.table.create_branch("ours", at=lc.AtTag("t"))
    lines.java("create-branch", branch="javas", tag="t")
    main = lines.rows()

    for line in ("ours", "javas"):
        assert lines.rows(line) == first
        lines.java("write", line, rows=[{"k": 50, "v": "java"}])
        lines.expire(line, by_java=False)
        lines.table.write([{"k": 60, "v": line}])
        lines.expire("", by_java=False)

    assert {each: lines.rows(each) for each in ("ours", "javas")} == dict.fromkeys(
        ("ours", "javas"), sorted([*first, (50, "java")])
    )
    assert lines.rows()[: len(main)] != []


@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_what_we_forward_and_goes_on_in_both_lines(judge: Judge, tmp_path: Path, kind: str) -> None:
    lines = Lines(judge, tmp_path, kind)
    lines.table.create_branch("ours", at=lc.AtTag("t"))
    lines.java("create-branch", branch="javas", tag="t")
    for line in ("ours", "javas"):
        lines.java("write", line, rows=[{"k": 20, "v": f"java to {line}"}])
        lines.ours(line).write([{"k": 30, "v": f"ours to {line}"}])
        lines.java("compact", line, strategy="full")
    lines.ours("javas").alter(lc.AddColumn("w", "INT"))

    lines.table.fast_forward("javas")

    expected = lines.rows("javas")
    assert lines.rows() == expected
    for snapshot in lines.table.snapshots():
        ours = sorted(map(str, lines.table.scan(at=lc.AtSnapshot(snapshot.id)).to_arrow().to_pylist()))
        theirs = lines.java("read", options={"scan.snapshot-id": str(snapshot.id)})["rows"]
        assert len(ours) == len(theirs), snapshot.id
    with pytest.raises(lc.CommitConflict, match="the table has changed since"):
        lines.table.fast_forward("ours")
    lines.java("write", rows=[{"k": 40, "v": "java", "w": 1}])
    lines.java("compact", strategy="full")
    lines.table.write([{"k": 41, "v": "ours", "w": 2}])
    assert lines.rows() == sorted([*expected, (40, "java"), (41, "ours")])
    assert lines.rows("javas") == expected
    with pytest.raises(lc.CommitConflict, match="the table has changed since"):
        lines.table.fast_forward("javas")
    lines.expire("javas", by_java=False)
    lines.expire("", by_java=False)
    lines.table.delete_branch("javas")
    assert lines.rows() == sorted([*expected, (40, "java"), (41, "ours")])


@pytest.mark.parametrize("kind", KINDS)
def test_java_deletes_no_file_that_came_back_in_a_later_fast_forward(judge: Judge, tmp_path: Path, kind: str) -> None:
    lines = Lines(judge, tmp_path, kind)
    lines.table.create_branch("b", at=lc.AtTag("t"))
    lines.table.delete_tag("t")
    branch = lines.ours("b")
    first = lines.rows("b")
    branch.overwrite([{"k": 5, "v": "other"}], dynamic=False)
    lines.table.fast_forward("b")
    branch.rollback_to(branch.snapshots()[0].id)
    lines.table.fast_forward("b")
    assert lines.rows() == first
    # Java's expiry knows no roots of branches.
    lines.table.delete_branch("b")

    lines.table.write([{"k": 50, "v": "e"}])
    for retained in (3, 2, 1):
        lines.java("expire", retainMax=retained, retainMin=1)
        assert lines.rows() == sorted([*first, (50, "e")]), retained


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_java_forwarded_is_read_written_and_sound(judge: Judge, tmp_path: Path, kind: str) -> None:
    """Java deletes the later snapshots of main, and gives their ids to those of the branch."""
    lines = Lines(judge, tmp_path, kind)
    lines.table.create_branch("b", at=lc.AtTag("t"))
    lines.java("write", "b", rows=[{"k": 20, "v": "java"}])
    lines.ours("b").write([{"k": 30, "v": "ours"}])
    lines.table.write([{"k": 60, "v": "lost"}])
    lines.table.write([{"k": 61, "v": "lost"}])
    staged = lines.table.stage([{"k": 70, "v": "late"}], commit_user="late", commit_identifier=1)
    lines.table.set_consumer("reader", 4)
    opened = lc.connect(tmp_path).table("db.t")
    opened.scan().to_arrow()
    expected = lines.rows("b")

    lines.java("fast-forward", branch="b")

    assert lines.rows() == expected
    assert sorted((row["k"], row["v"]) for row in opened.scan().to_arrow().to_pylist()) == expected
    assert opened.fast_forward("b").noop_reason is not None
    opened.commit(staged)
    lines.java("write", rows=[{"k": 80, "v": "java"}])
    assert lines.rows() == sorted([*expected, (70, "late"), (80, "java")])
    lines.expire("b", by_java=False)
    lines.expire("", by_java=False)
    lines.table.delete_branch("b")
    assert lines.rows() == sorted([*expected, (70, "late"), (80, "java")])
