"""Whoever asks is told how far a verb is, and the log what it does; neither can change what becomes of the table."""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakehouse_core as lc

ROWS = pa.table({"id": list(range(100)), "v": ["secret row"] * 100})


@pytest.fixture
def table(tmp_path: Path) -> lc.Table:
    catalog = lc.connect(tmp_path)
    catalog.create_database("db")
    columns = {"id": "BIGINT NOT NULL", "v": "STRING"}
    return catalog.create_table("db.t", columns, primary_keys=["id"], options={"bucket": "1"})


def batches(count: int) -> Iterator[pa.RecordBatch]:
    yield from ROWS.to_batches(max_chunksize=100 // count)


VERBS: dict[str, Callable[[lc.Table, Any], object]] = {
    "write": lambda table, progress: table.write(ROWS, progress=progress),
    "overwrite": lambda table, progress: table.overwrite(ROWS, progress=progress),
    "stage": lambda table, progress: table.stage(ROWS, commit_user="u", commit_identifier=1, progress=progress),
    "compact": lambda table, progress: table.compact(full=True, progress=progress),
    "rewrite_file_index": lambda table, progress: table.rewrite_file_index(progress=progress),
    "expire_snapshots": lambda table, progress: table.expire_snapshots(progress=progress),
    "verify": lambda table, progress: table.verify(progress=progress),
    "verify data": lambda table, progress: table.verify(data=True, progress=progress),
}


def filled(table: lc.Table) -> lc.Table:
    table.write(ROWS)
    table.write(ROWS.slice(0, 10))
    return table


def test_a_write_tells_how_many_of_its_rows_have_passed_then_that_it_commits(table: lc.Table) -> None:
    told: list[lc.Progress] = []
    reader = pa.RecordBatchReader.from_batches(ROWS.schema, batches(4))

    table.write(reader, progress=told.append)

    assert told == [
        lc.Progress(table="db.t", phase="writing", done=0, unit="rows"),
        lc.Progress(table="db.t", phase="writing", done=25, unit="rows"),
        lc.Progress(table="db.t", phase="writing", done=50, unit="rows"),
        lc.Progress(table="db.t", phase="writing", done=75, unit="rows"),
        lc.Progress(table="db.t", phase="writing", done=100, unit="rows"),
        lc.Progress(table="db.t", phase="committing"),
        lc.Progress(table="db.t", phase="planning the compaction"),
    ]


def test_the_total_is_told_where_the_data_tells_it(table: lc.Table) -> None:
    told: list[lc.Progress] = []

    table.write(ROWS, progress=told.append)

    assert [one.total for one in told if one.phase == "writing"] == [100, 100]


def test_a_file_counts_as_indexed_also_if_its_index_stays(table: lc.Table) -> None:
    table.alter(lc.SetOption("file-index.bloom-filter.columns", "v"))
    filled(table)
    told: list[lc.Progress] = []

    assert table.rewrite_file_index(progress=told.append).files_indexed == 0

    counts = [(one.done, one.total) for one in told if one.phase == "indexing"]
    count = len(list(table.files()))
    assert (counts[0], counts[-1]) == ((0, count), (count, count))


@pytest.mark.parametrize("verb", VERBS)
def test_phases_come_one_after_the_other_and_none_goes_back(table: lc.Table, verb: str) -> None:
    filled(table)
    told: list[lc.Progress] = []
    threads = set()

    def listen(progress: lc.Progress) -> None:
        told.append(progress)
        threads.add(threading.current_thread())

    VERBS[verb](table, listen)

    phases = list(dict.fromkeys(one.phase for one in told))
    in_order = sorted(told, key=lambda one: (phases.index(one.phase), one.done))
    assert told == in_order
    assert all(one.total is None or one.done <= one.total for one in told)
    assert threads == {threading.current_thread()}


def test_an_expiry_counts_what_it_unlinks_and_what_it_deletes(table: lc.Table) -> None:
    table.alter(lc.SetOption("lakehouse.read.grace", "0 s"))
    table.overwrite(ROWS)
    table.overwrite(ROWS)
    told: list[lc.Progress] = []

    report = table.expire_snapshots(retain_max=1, retain_min=1, progress=told.append)

    last = {one.phase: (one.done, one.total, one.unit) for one in told}
    assert last["unlinking"] == (1, 1, "snapshots")
    assert last["deleting"] == (sum(report.files_deleted.values()),) * 2 + ("files",)


def test_all_tables_of_a_catalog_are_counted(table: lc.Table, tmp_path: Path) -> None:
    catalog = lc.connect(tmp_path)
    catalog.create_table("db.u", {"id": "BIGINT"})
    told: list[lc.Progress] = []

    catalog.compact(progress=told.append)

    tables = [(one.table, one.done, one.total) for one in told if one.phase == "compacting the tables"]
    assert tables == [("db.t", 0, 2), ("db.u", 1, 2)]


@pytest.mark.parametrize("verb", VERBS)
def test_a_listener_that_fails_is_logged_once_and_changes_nothing(
    table: lc.Table, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(table)
    calls = []

    def fail(progress: lc.Progress) -> None:
        calls.append(progress)
        raise RuntimeError("no terminal")

    VERBS[verb](table, fail)

    assert len(calls) == 1
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "db.t: progress= raised RuntimeError('no terminal'). The verb continues without calling it again."
    ]
    assert table.scan().count() == 100


@pytest.mark.parametrize("phase", ["writing", "committing", "planning the compaction"])
def test_an_interrupt_in_a_listener_ends_the_verb_before_or_after_its_commit(
    table: lc.Table, phase: str, tmp_path: Path
) -> None:
    filled(table)
    before = {path for path in (tmp_path / "db.db/t").rglob("*.parquet")}

    def interrupt(progress: lc.Progress) -> None:
        if progress.phase == phase:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.write(ROWS, progress=interrupt)

    assert table.scan().count() == 100
    assert len(table.snapshots()) == (2 if phase != "planning the compaction" else 3)
    if phase == "writing":
        assert {path for path in (tmp_path / "db.db/t").rglob("*.parquet")} == before


@pytest.mark.parametrize("verb", VERBS)
def test_what_cannot_be_called_is_refused_before_anything_is_done(table: lc.Table, verb: str) -> None:
    filled(table)

    with pytest.raises(lc.InvalidRequest, match="progress=7: expected a function of one argument, a Progress"):
        VERBS[verb](table, 7)

    assert table.snapshot() == filled_snapshot(table)


def filled_snapshot(table: lc.Table) -> object:
    return table.snapshot(2)


def test_the_log_has_a_line_for_each_verb_with_its_outcome(table: lc.Table, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakehouse_core"):
        table.write(ROWS)
        table.compact(full=True)
        table.compact(full=True)
        table.verify()
        with pytest.raises(lc.InvalidRequest):
            table.write([{"id": "secret row"}])

    lines = [(one.name, re.sub(r" (in )?\(?\d\.\d{3} s\)?$", "", one.getMessage())) for one in caplog.records]
    assert lines[:-1] == [
        ("lakehouse_core.write", "db.t: snapshot 1 (APPEND), 1 files added, 100 rows added"),
        (
            "lakehouse_core.compact",
            "db.t: snapshot 2 (COMPACT), 1 files upgraded",
        ),
        ("lakehouse_core.compact", "db.t: nothing was done: every bucket is one sorted run in its top level"),
        ("lakehouse_core.verify", "db.t: 0 findings"),
    ]
    assert lines[-1][0] == "lakehouse_core.write"
    assert caplog.messages[-1].startswith("db.t: failed after ")
    assert caplog.messages[-1].endswith(" s: InvalidRequest")


def test_what_becomes_of_tables_is_logged_and_what_is_staged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    catalog = lc.connect(tmp_path)
    with caplog.at_level(logging.INFO, "lakehouse_core"):
        catalog.create_database("db")
        made = catalog.create_table("db.t", {"id": "BIGINT"})
        staged = made.stage([{"id": 1}, {"id": 2}], commit_user="a\nb", commit_identifier=1)
        made.commit(staged)
        made.commit(staged)
        catalog.rename_table("db.t", "db.u")
        catalog.drop_table("db.u")

    lines = [
        re.split(r" in | \(\d", f"{one.name.removeprefix('lakehouse_core.')} {one.getMessage()}")[0]
        for one in caplog.records
    ]
    assert lines == [
        "create_database db: created",
        "create_table db.t: created with 1 columns",
        "stage db.t: 1 files and 2 rows staged",
        "commit db.t: snapshot 1 (APPEND), 1 files added, 2 rows added",
        r"commit db.t: nothing was done: 'a\nb has already committed 1'",
        "rename_table db.t: renamed to db.u",
        "drop_table db.u: dropped",
    ]


def test_no_row_is_logged_at_any_level(table: lc.Table, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "lakehouse_core"):
        filled(table)
        for call in VERBS.values():
            call(table, None)
        with pytest.raises(lc.InvalidRequest):
            table.write([{"id": "secret row"}])

    assert "writing" in caplog.text
    assert "secret" not in caplog.text


def test_a_program_that_asks_for_no_log_sees_none(table: lc.Table, capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("lakehouse_core")
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)

    table.write(ROWS, progress=lambda progress: 1 / 0)

    assert capfd.readouterr() == ("", "")
