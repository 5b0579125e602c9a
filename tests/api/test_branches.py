"""Branches, as a user sees them: made from a state, read and written by name, renamed, deleted; what they keep."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc

OPTIONS = {"bucket": "1", "lakehouse.read.grace": "0 s", "snapshot.num-retained.min": "1"}


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db", exist_ok=True)
    return catalog


@pytest.fixture
def table(catalog: lc.Catalog) -> lc.Table:
    table = catalog.create_table("db.t", {"k": "INT NOT NULL", "v": "STRING"}, primary_keys=["k"], options=OPTIONS)
    table.write([{"k": 1, "v": "a"}])
    table.write([{"k": 2, "v": "b"}])
    table.create_tag("eod")
    return table


def rows(table: lc.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"])


def test_a_branch_begins_with_a_tag_a_snapshot_or_nothing(catalog: lc.Catalog, table: lc.Table) -> None:
    assert table.create_branch("tagged", at=lc.AtTag("eod")).branch_snapshot_id == 2
    assert table.create_branch("first", at=1).branch_snapshot_id == 1
    assert table.create_branch("empty").branch_snapshot_id is None

    assert rows(catalog.table("db.t$branch_tagged")) == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
    assert [tag.name for tag in table.branch("tagged").tags()] == ["eod"]
    assert rows(table.branch("first")) == [{"k": 1, "v": "a"}]
    assert rows(table.branch("empty")) == []
    assert [(one.name, one.snapshot_id, one.schema_id) for one in table.branches()] == [
        ("empty", None, 0),
        ("first", 1, 0),
        ("tagged", 2, 0),
    ]
    names = catalog.system_table("db.t$branches").to_arrow().column("branch_name").to_pylist()
    assert names == ["empty", "first", "tagged"]
    assert rows(catalog.table("db.t$branch_main")) == rows(table)


def test_what_is_done_on_a_branch_stays_there(catalog: lc.Catalog, table: lc.Table) -> None:
    table.create_branch("trial", at=lc.AtTag("eod"))
    trial = catalog.table("db.t$branch_trial")

    trial.alter(lc.AddColumn("w", "INT"))
    trial.write([{"k": 3, "v": "c", "w": 7}])
    trial.compact(full=True)
    trial.create_tag("mine")
    staged = trial.stage([{"k": 4, "v": "d", "w": 8}], commit_user="job", commit_identifier=1)
    trial.keep_pending(staged)

    assert [row["k"] for row in rows(trial)] == [1, 2, 3]
    assert [row["k"] for row in rows(table)] == [1, 2]
    assert table.schema.column_names == ("k", "v")
    assert [tag.name for tag in table.tags()] == ["eod"]
    assert table.pending("job", 1) is None
    with pytest.raises(lc.InvalidRequest, match=r"found a commit staged for db\.t\$branch_trial"):
        table.commit(staged)
    assert trial.commit(trial.pending("job", 1)).rows_added == 1
    system = catalog.system_table("db.t$branch_trial$snapshots")
    assert system.to_arrow().column("snapshot_id").to_pylist() == [each.id for each in trial.snapshots()]
    assert (table.verify(data=True).findings, trial.verify(data=True).findings) == ((), ())


def test_a_branch_keeps_its_files_while_the_table_loses_everything(table: lc.Table) -> None:
    table.create_branch("trial", at=lc.AtTag("eod"))
    before = rows(table.branch("trial"))
    table.delete_tag("eod")
    table.overwrite([{"k": 9, "v": "z"}], dynamic=False)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, older_than=timedelta(0))

    assert rows(table.branch("trial")) == before
    assert table.verify(data=True).findings == ()


def test_the_table_keeps_its_files_while_a_branch_loses_everything(table: lc.Table) -> None:
    table.create_branch("trial", at=lc.AtTag("eod"))
    trial, before = table.branch("trial"), rows(table)
    trial.delete_tag("eod")
    trial.overwrite([{"k": 9, "v": "z"}], dynamic=False)
    trial.expire_snapshots(retain_max=1, older_than=timedelta(0))
    table.delete_branch("trial")

    assert rows(table) == before
    assert [rows_at(table, tag.name) for tag in table.tags()] == [before]
    assert table.verify(data=True).findings == ()


def rows_at(table: lc.Table, tag: str) -> list[dict[str, Any]]:
    return sorted(table.scan(at=lc.AtTag(tag)).to_arrow().to_pylist(), key=lambda row: row["k"])


def test_the_files_of_a_deleted_branch_are_deleted_with_it_as_its_dry_run_says(table: lc.Table) -> None:
    root = Path(table.uri.removeprefix("file://"))
    there = {path for path in root.rglob("*") if path.is_file()}
    table.create_branch("trial", at=lc.AtTag("eod"))
    trial = table.branch("trial")
    trial.write([{"k": 3, "v": "c"}])
    trial.keep_pending(trial.stage([{"k": 4, "v": "d"}], commit_user="job", commit_identifier=1))
    trial.compact(full=True)

    planned = table.delete_branch("trial", dry_run=True)
    deleted = table.delete_branch("trial")

    assert planned.files_deleted == deleted.files_deleted > 0
    left = {path for path in root.rglob("*") if path.is_file()} - there
    # What was staged and never committed is named by nobody, and the record of the name stays.
    assert sorted(path.parent.name for path in left) == ["branches", "bucket-0"]
    with pytest.raises(lc.NotFound, match="the branch was deleted or renamed"):
        trial.write([{"k": 5, "v": "e"}])
    with pytest.raises(lc.NotFound, match=r"Branch 'trial' does not exist\. The table has no branches"):
        table.branch("trial")


def test_a_renamed_branch_has_all_that_it_had(table: lc.Table) -> None:
    table.create_branch("trial", at=lc.AtTag("eod"))
    trial = table.branch("trial")
    trial.write([{"k": 3, "v": "c"}])
    trial.set_consumer("reader", 2)
    before = rows(trial)

    assert table.rename_branch("trial", "tried").branch == "tried"

    tried = table.branch("tried")
    assert rows(tried) == before
    assert tried.system("consumers").to_arrow().column("consumer_id").to_pylist() == ["reader"]
    assert [branch.name for branch in table.branches()] == ["tried"]
    tried.write([{"k": 4, "v": "d"}])
    assert table.verify(data=True).findings == ()


def test_no_commit_is_kept_for_a_branch_that_was_renamed(table: lc.Table) -> None:
    table.create_branch("trial", at=lc.AtTag("eod"))
    trial = table.branch("trial")
    staged = trial.stage([{"k": 3, "v": "c"}], commit_user="job", commit_identifier=1)
    table.rename_branch("trial", "tried")

    with pytest.raises(lc.NotFound, match="the branch was deleted or renamed before this call ended"):
        trial.keep_pending(staged)

    assert not list(Path(table.uri.removeprefix("file://")).glob("lakehouse/pending/*"))


def test_files_wait_for_readers_as_long_as_their_own_branch_says(table: lc.Table) -> None:
    table.create_branch("trial", at=lc.AtTag("eod"))
    table.alter(lc.SetOption("lakehouse.read.grace", "1 h"))
    table.overwrite([{"k": 9, "v": "z"}], dynamic=False)
    table.write([{"k": 8, "v": "y"}])
    table.compact(full=True)
    waiting = table.expire_snapshots(retain_max=1).files_waiting
    trial = table.branch("trial")
    trial.write([{"k": 3, "v": "c"}])
    trial.expire_snapshots(retain_max=1)

    assert waiting > 0
    assert table.expire_snapshots(retain_max=1, dry_run=True).files_waiting == waiting
    table.alter(lc.SetOption("lakehouse.read.grace", "0 s"))
    assert sum(table.expire_snapshots(retain_max=1).files_deleted.values()) == waiting


def test_a_branch_of_a_branch_belongs_to_the_table(table: lc.Table) -> None:
    table.create_branch("one")
    one = table.branch("one")
    one.write([{"k": 7, "v": "x"}])
    one.create_branch("two", at=1)
    table.delete_branch("one")

    assert rows(table.branch("two")) == [{"k": 7, "v": "x"}]
    assert table.verify(data=True).findings == ()


def test_a_branch_with_a_damaged_schema_can_be_opened_and_verified(tmp_path: Path, table: lc.Table) -> None:
    table.create_branch("b", at=2)
    (schema,) = tmp_path.glob("**/branch-b/schema/schema-0")
    content = schema.read_bytes()
    schema.write_bytes(content[:-20])
    branch = table.branch("b")

    assert [finding.promise.value for finding in branch.verify().findings] == ["I23"]
    with pytest.raises(lc.CorruptTable, match="schema-0"):
        branch.write([{"k": 3, "v": "c"}])
    schema.write_bytes(content)
    assert rows(branch) == rows(table)


def test_a_name_is_used_once(table: lc.Table) -> None:
    table.create_branch("trial", at=lc.AtTag("eod"))
    table.rename_branch("trial", "tried")
    table.delete_branch("tried")
    table.create_branch("third")
    for name in ("trial", "tried"):
        with pytest.raises(lc.InvalidRequest, match=rf"Branch '{name}': .*Use another name, such as '{name}-2'\."):
            table.create_branch(name)
        with pytest.raises(lc.InvalidRequest, match="A name is used once"):
            table.rename_branch("third", name)

    assert [branch.name for branch in table.branches()] == ["third"]
    assert table.verify().findings == ()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda table: table.create_branch("main"), lc.InvalidRequest, "the name of the table's own history"),
        (lambda table: table.create_branch("12"), lc.InvalidRequest, "it has digits only"),
        (lambda table: table.create_branch(" "), lc.InvalidRequest, "it is blank"),
        (lambda table: table.create_branch("a/b"), lc.InvalidRequest, "slash"),
        (lambda table: table.create_branch(".."), lc.InvalidRequest, r"Branch '\.\.': it is the name of a folder"),
        (lambda table: table.create_branch("a$b"), lc.InvalidRequest, r"contains '\$'"),
        (lambda table: table.create_branch(5), lc.InvalidRequest, "expected a text"),
        (lambda table: table.create_branch("b", at=9), lc.NotFound, "does not exist yet"),
        (lambda table: table.create_branch("b", at=lc.AtTag("none")), lc.NotFound, "The tags are: eod"),
        (lambda table: table.create_branch("there"), lc.InvalidRequest, "exists already"),
        (lambda table: table.rename_branch("there", "there"), lc.InvalidRequest, "exists already"),
        (lambda table: table.rename_branch("none", "b"), lc.NotFound, "The branches are: there"),
        (lambda table: table.delete_branch("none"), lc.NotFound, "The branches are: there"),
        (lambda table: table.delete_branch(".."), lc.NotFound, "does not exist"),
    ],
)
def test_a_refused_call_changes_nothing(table: lc.Table, call: Any, error: type[Exception], message: str) -> None:
    table.create_branch("there")
    root = Path(table.uri.removeprefix("file://"))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    with pytest.raises(error, match=message):
        call(table)

    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_tables_are_dropped_renamed_and_copied_as_a_whole(catalog: lc.Catalog, table: lc.Table) -> None:
    table.create_branch("trial")
    for call in (
        lambda: catalog.drop_table("db.t$branch_trial"),
        lambda: catalog.rename_table("db.t$branch_trial", "db.u"),
        lambda: catalog.create_table("db.u$branch_trial", {"k": "INT"}),
        lambda: catalog.copy_table(table.branch("trial"), "db.copy"),
    ):
        with pytest.raises(lc.InvalidRequest, match="branch"):
            call()

    renamed = catalog.rename_table("db.t", "db.u")
    assert [branch.name for branch in renamed.branches()] == ["trial"]


def test_sql_reads_and_changes_a_branch(catalog: lc.Catalog, table: lc.Table) -> None:
    table.create_branch("trial", at=lc.AtTag("eod"))

    catalog.sql("INSERT INTO db.`t$branch_trial` VALUES (3, 'c')")
    catalog.sql("UPDATE db.`t$branch_trial` SET v = 'd' WHERE k = 1")
    found = catalog.sql("SELECT k, v FROM db.`t$branch_trial` ORDER BY k").to_arrow().to_pylist()

    assert [(row["k"], row["v"]) for row in found] == [(1, "d"), (2, "b"), (3, "c")]
    assert [row["v"] for row in rows(table)] == ["a", "b"]
