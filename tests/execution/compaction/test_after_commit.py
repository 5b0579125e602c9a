"""Writes that bring along a compaction: when, what its changelog says, and that nothing is lost where it fails."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.execution.compaction import compact as compaction
from lakehouse_core.storage.local import LocalStore
from lakehouse_core.tasks.runtime import TaskRuntime

COLUMNS = {"k": "INT NOT NULL", "v": "INT"}


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("db")
    return catalog


def table_of(catalog: lc.Catalog, name: str = "t", **options: str) -> lc.Table:
    named = {key.replace("__", "-"): value for key, value in options.items()}
    return catalog.create_table(f"db.{name}", COLUMNS, primary_keys=["k"], options={"bucket": "1", **named})


def row(k: int, v: int) -> dict[str, Any]:
    return {"k": k, "v": v}


def kinds(table: lc.Table) -> str:
    return "".join(snapshot.commit_kind.value[0] for snapshot in table.snapshots())


def told(table: lc.Table, after: int = 0) -> list[tuple[str, int, int]]:
    return [(each["rowkind"], each["k"], each["v"]) for each in table.changes(after=after).to_arrow().to_pylist()]


def commit(table: lc.Table, identifier: int, *rows: dict[str, Any]) -> lc.CommitReport:
    return table.commit(table.stage(list(rows), commit_user="job", commit_identifier=identifier))


def test_the_strategy_picks_at_the_fifth_sorted_run(catalog: lc.Catalog) -> None:
    table = table_of(catalog)
    for number in range(5):
        table.write([row(1, number)])

    assert kinds(table) == "AAAAAC"
    assert [file.level for file in table.files()] == [5]
    assert table.scan().to_arrow().to_pylist() == [row(1, 4)]


def test_a_write_only_table_leaves_all_compaction_to_others(catalog: lc.Catalog) -> None:
    table = table_of(catalog, write__only="true", changelog__producer="lookup")
    for number in range(7):
        table.write([row(1, number)])

    assert kinds(table) == "A" * 7
    assert told(table) == []


def test_a_lookup_changelog_comes_with_the_write(catalog: lc.Catalog) -> None:
    table = table_of(catalog, changelog__producer="lookup")

    report = table.write([row(1, 1)])
    assert (report.snapshot_ids, report.changelog_rows_added) == ((1, 2), 0)
    assert report.compaction is not None
    assert (report.compaction.snapshot_id, report.compaction.changelog_rows_added) == (2, 1)

    table.write([row(1, 2), row(2, 2)])
    assert told(table, after=2) == [("-U", 1, 1), ("+U", 1, 2), ("+I", 2, 2)]


def test_a_report_has_the_figures_of_the_rows_and_those_of_the_compaction_beside_them(catalog: lc.Catalog) -> None:
    table = table_of(catalog, changelog__producer="lookup")
    table.write([row(key, 1) for key in range(4)])
    report = table.write([row(key, 2) for key in range(3)])
    compaction = report.compaction

    assert (report.snapshot_id, report.commit_kind, report.rows_added, report.rows_removed) == (3, "APPEND", 3, 0)
    assert (report.files_added, report.files_removed, report.attempts) == (1, 0, 1)
    assert compaction is not None
    assert (compaction.snapshot_id, compaction.snapshot_id_before, compaction.commit_kind) == (4, 3, "COMPACT")
    assert (compaction.rows_added, compaction.rows_removed) == (4, 7)
    assert (compaction.files_before, compaction.files_after, compaction.buckets_rewritten) == (2, 1, 1)
    assert report.snapshot_ids == (3, 4)
    assert json.loads(json.dumps(report.to_dict()))["compaction"]["snapshot_id"] == 4


def test_a_repeated_commit_answers_with_the_snapshot_of_its_rows(catalog: lc.Catalog) -> None:
    table = table_of(catalog, changelog__producer="lookup")
    staged = table.stage([row(1, 1)], commit_user="u", commit_identifier=1)
    first, again = table.commit(staged), table.commit(staged)

    assert (again.snapshot_id, again.snapshot_ids, again.compaction) == (1, (1, 2), None)
    assert (first.snapshot_id, first.snapshot_ids) == (1, (1, 2))
    assert again.replayed


def test_without_waiting_the_changelog_comes_with_the_next_compaction_and_misses_nothing(catalog: lc.Catalog) -> None:
    waiting = table_of(catalog, "waiting", changelog__producer="lookup")
    lagging = table_of(catalog, "lagging", changelog__producer="lookup", lookup__wait="false")
    for table in (waiting, lagging):
        table.write([row(1, 1), row(2, 1)])
        table.write([row(1, 2)])

    assert kinds(lagging) == "AA"
    assert told(lagging) == []

    # Another process, which knows of the table only what is stored.
    lc.connect(waiting.uri.rsplit("/db.db", 1)[0]).table("db.lagging").compact()

    assert kinds(lagging) == "AAC"
    assert told(lagging) == [("+I", 1, 2), ("+I", 2, 1)]
    assert told(waiting) == [("+I", 1, 1), ("+I", 2, 1), ("-U", 1, 1), ("+U", 1, 2)]


def test_a_forced_compaction_waits_for_lookups_whatever_lookup_wait_says(catalog: lc.Catalog) -> None:
    options = {"changelog-producer": "lookup", "lookup-wait": "false", "commit.force-compact": "true"}
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": "1", **options})

    table.write([row(1, 1)])

    assert told(table) == [("+I", 1, 1)]


def test_lookups_that_may_lag_are_waited_for_once_too_many_runs_have_piled_up(catalog: lc.Catalog) -> None:
    stop = {"num-sorted-run.compaction-trigger": "2", "num-sorted-run.stop-trigger": "3"}
    options = {"bucket": "1", "changelog-producer": "lookup", "lookup-wait": "false", **stop}
    columns = {"p": "INT NOT NULL", **COLUMNS}
    table = catalog.create_table("db.t", columns, primary_keys=["p", "k"], partition_keys=["p"], options=options)
    for number in range(3):
        table.write([{"p": 0, **row(1, number)}, {"p": 1, **row(1, number)}])
    assert kinds(table) == "AAA"

    table.write([{"p": 1, **row(1, 3)}])

    assert kinds(table) == "AAAAC"
    assert told(table) == [("+I", 1, 3)]
    assert sorted((file.partition["p"], file.level == 0) for file in table.files()) == [("0", True)] * 3 + [
        ("1", False)
    ]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction", "input"])
@pytest.mark.parametrize("upgrade", ["true", "false"])
def test_an_overwrite_tells_nothing_and_writes_no_changelog_file(
    catalog: lc.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, producer: str, upgrade: str
) -> None:
    table = table_of(catalog, changelog__producer=producer, overwrite__upgrade=upgrade)
    table.write([row(1, 1), row(2, 1)])
    before = table.snapshot().id
    deleted: list[str] = []
    delete = LocalStore.delete

    def noted(store: LocalStore, keys: Iterable[str]) -> Sequence[str]:
        deleted.extend(listed := list(keys))
        return delete(store, listed)

    monkeypatch.setattr(LocalStore, "delete", noted)
    table.overwrite([row(1, 2), row(3, 2)])

    assert told(table, after=before) == []
    assert deleted == []
    assert table.scan().to_arrow().sort_by("k").to_pylist() == [row(1, 2), row(3, 2)]
    named = {file.file_name for snapshot in table.snapshots() for file in table.files(at=lc.AtSnapshot(snapshot.id))}
    lying = {path.name for path in tmp_path.rglob("*.parquet") if not path.name.startswith("changelog")}
    assert lying <= named
    assert len(list(tmp_path.rglob("changelog-*.parquet"))) == 1


def test_every_so_many_th_commit_is_followed_by_a_full_compaction_of_all_that_was_written(catalog: lc.Catalog) -> None:
    options = {"bucket": "2", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"}
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options=options)

    commit(table, 1, row(1, 1), row(2, 1), row(3, 1))
    commit(table, 2, row(1, 2))
    assert told(table) == []

    commit(table, 3, row(2, 3))
    assert kinds(table) == "AAAC"
    assert sorted(told(table)) == [("+I", 1, 2), ("+I", 2, 3), ("+I", 3, 1)]
    assert {file.level for file in table.files()} == {5}


def test_a_compaction_that_fails_takes_no_row_with_it_and_the_next_tells_everything(
    catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(catalog, changelog__producer="lookup")
    with monkeypatch.context() as patched:

        def fail(task: object, runtime: TaskRuntime) -> str:
            raise lc.StorageFull("no space left for the compaction")

        patched.setattr(compaction, "run_rewrite", fail)
        report = commit(table, 1, row(1, 1))

    assert report.snapshot_ids == (1,)
    assert report.compaction_failure == "no space left for the compaction"
    assert table.scan().to_arrow().to_pylist() == [row(1, 1)]

    commit(table, 2, row(2, 2))
    assert told(table) == [("+I", 1, 1), ("+I", 2, 2)]


@pytest.mark.parametrize("stages_again", [False, True], ids=["the same", "staged again"])
def test_a_commit_repeated_after_its_compaction_was_lost_makes_up_for_it(
    catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch, stages_again: bool
) -> None:
    table = table_of(catalog, changelog__producer="lookup")
    staged = table.stage([row(1, 1)], commit_user="job", commit_identifier=1)
    with monkeypatch.context() as patched:

        def die(task: object, runtime: TaskRuntime) -> str:
            raise KeyboardInterrupt

        patched.setattr(compaction, "run_rewrite", die)
        with pytest.raises(KeyboardInterrupt):
            table.commit(staged)

    if stages_again:
        staged = table.stage([row(1, 1)], commit_user="job", commit_identifier=1)
    report = table.commit(staged)

    assert report.replayed
    assert kinds(table) == "AC"
    assert told(table) == [("+I", 1, 1)]


def test_first_rows_are_visible_after_the_write_that_brought_them(catalog: lc.Catalog) -> None:
    table = table_of(catalog, merge__engine="first-row", changelog__producer="lookup")
    table.write([row(1, 1), row(1, 2)])
    table.write([row(1, 3), row(2, 3)])

    assert table.scan().to_arrow().sort_by("k").to_pylist() == [row(1, 1), row(2, 3)]
    assert told(table) == [("+I", 1, 1), ("+I", 2, 3)]


def test_a_compaction_that_another_overtakes_is_planned_again(
    catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(catalog, changelog__producer="lookup", lookup__wait="false")
    table.write([row(1, 1)])
    table.alter(lc.SetOption("lookup-wait", "true"))
    real = compaction.run_rewrite
    overtaking = [table.compact]

    def overtaken(task: object, runtime: TaskRuntime) -> str:
        answer = real(task, runtime)
        if overtaking:
            overtaking.pop()()
        return answer

    monkeypatch.setattr(compaction, "run_rewrite", overtaken)
    report = table.write([row(1, 2), row(2, 2)])

    assert report.compaction_failure is None
    assert table.verify().findings == ()
    assert table.scan().to_arrow().sort_by("k").to_pylist() == [row(1, 2), row(2, 2)]
    assert {kind for kind, k, v in told(table) if (k, v) == (2, 2)} == {"+I"}


def test_a_commit_repeated_after_its_compaction_compacts_nothing_twice(catalog: lc.Catalog) -> None:
    table = table_of(catalog, changelog__producer="lookup")
    staged = table.stage([row(1, 1)], commit_user="job", commit_identifier=1)
    table.commit(staged)
    table.alter(lc.SetOption("lookup-wait", "false"))
    table.write([row(2, 2)])
    table.alter(lc.SetOption("lookup-wait", "true"))

    report = table.commit(staged)

    assert report.replayed
    assert told(table) == [("+I", 1, 1), ("+I", 2, 2)]
    assert table.verify().findings == ()


def appended(catalog: lc.Catalog, **options: str) -> lc.Table:
    key = {} if options.get("bucket") == "-1" else {"bucket": "1", "bucket-key": "k"}
    return catalog.create_table("db.t", COLUMNS, options=key | options)


def rows_of_files(table: lc.Table) -> list[int]:
    return [file.row_count for file in sorted(table.files(), key=lambda file: file.min_sequence_number)]


def test_the_write_that_makes_the_fifth_file_of_a_bucket_copies_all_into_one_in_their_order(
    catalog: lc.Catalog,
) -> None:
    table = appended(catalog)
    seen = []
    for number in range(10):
        table.write([row(number, 2 * number), row(number, 2 * number + 1)])
        seen.append(rows_of_files(table))

    assert seen[3:6] == [[2, 2, 2, 2], [10], [10, 2]]
    assert seen[-1] == [18, 2]
    assert kinds(table) == "AAAAACAAAACA"
    assert table.scan().to_arrow()["v"].to_pylist() == list(range(20))


def test_only_the_buckets_written_to_are_looked_at(catalog: lc.Catalog) -> None:
    table = catalog.create_table("db.t", COLUMNS, options={"bucket": "2", "bucket-key": "k", "write-only": "true"})
    one, other = next((1, k) for k in range(2, 99) if bucket_of(table, k) != bucket_of(table, 1))
    for number in range(6):
        table.write([row(one, number), row(other, number)])
    table.alter(lc.SetOption("write-only", "false"))

    table.write([row(other, 6)])

    assert sorted(file.row_count for file in table.files()) == [1, 1, 1, 1, 1, 1, 1, 1, 5]


def bucket_of(table: lc.Table, k: int) -> int:
    (message,) = table.stage([row(k, 0)], commit_user="asks", commit_identifier=0).messages
    return message.bucket


@pytest.mark.parametrize("options", [{"write-only": "true"}, {"bucket": "-1"}], ids=["write-only", "no-buckets"])
def test_writes_to_append_tables_that_leave_compaction_to_others(catalog: lc.Catalog, options: dict[str, str]) -> None:
    table = appended(catalog, **options)
    for number in range(7):
        table.write([row(1, number)])

    assert kinds(table) == "A" * 7


def test_an_append_table_may_be_compacted_in_full_at_every_so_many_th_commit(catalog: lc.Catalog) -> None:
    table = appended(catalog, **{"full-compaction.delta-commits": "3"})
    for number in range(1, 7):
        commit(table, number, row(1, number))

    assert kinds(table) == "AAACAAAC"
    assert rows_of_files(table) == [6]


def test_a_compaction_that_fails_after_an_append_leaves_the_rows_and_the_next_write_makes_up_for_it(
    catalog: lc.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = appended(catalog, **{"compaction.min.file-num": "2"})
    table.write([row(1, 1)])
    with monkeypatch.context() as patched:

        def fail(task: object, runtime: TaskRuntime) -> str:
            raise lc.StorageFull("no space left for the compaction")

        patched.setattr(compaction, "run_rewrite", fail)
        report = table.write([row(1, 2)])

    assert report.compaction_failure == "no space left for the compaction"
    assert rows_of_files(table) == [1, 1]

    table.write([row(1, 3)])
    assert rows_of_files(table) == [2, 1]


def test_what_a_write_brings_along_asks_for_no_time_of_partitions(catalog: lc.Catalog) -> None:
    options = {"partition.expiration-time": "1 d", "compaction.skip-expired-partitions": "true"}
    table = catalog.create_table(
        "db.t",
        {"k": "INT NOT NULL", "dt": "STRING NOT NULL"},
        primary_keys=["dt", "k"],
        partition_keys=["dt"],
        options={"bucket": "1", "changelog-producer": "lookup", **options},
    )
    table.write([{"k": 1, "dt": "2013-01-01"}])

    assert kinds(table) == "AC"
    assert table.compact(full=True).noop_reason == ("every partition is past partition.expiration-time")
    assert [report.noop_reason for report in catalog.compact("t", full=True)] == [
        "every partition is past partition.expiration-time"
    ]
