"""From reports to metadata: fixed keys, numbers always, also when nothing was done."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

import lakehouse_core as lc
from assets.lake import LAKE
from lakehouse_core.api.reports import CommitReport, CompactionReport
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.metadata import (
    batch_metadata,
    before_and_after,
    column_schema,
    commit_metadata,
    details,
    records,
    report_metadata,
    staged_metadata,
    state_metadata,
)
from lakehouse_dagster.pipeline.committing import CommittedBatch
from lakehouse_dagster.pipeline.staging import Staged
from lakehouse_dagster.pipeline.table_state import SnapshotFacts, TableState, read_state

DONE = CommitReport(
    table="ops.orders",
    snapshot_id=5,
    snapshot_id_before=4,
    commit_kind="APPEND",
    files_added=3,
    rows_added=10,
    bytes_added=2048,
    attempts=1,
    duration_seconds=0.25,
)
NOTHING = CommitReport(table="ops.orders", snapshot_id_before=5, noop_reason="no rows")


def test_a_report_that_did_nothing_has_the_same_keys_with_zeros():
    done, nothing = report_metadata([DONE]), report_metadata([NOTHING])

    assert done.keys() == nothing.keys()
    assert nothing["paimon/rows_added"] == 0
    assert nothing["paimon/noop_reason"] == "no rows"
    assert done["paimon/noop_reason"] == ""


def test_maintenance_shows_the_identifier_of_its_commit_and_none_where_it_made_none(tmp_path: Path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("ops")
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table("ops.orders", {"id": "INT NOT NULL"}, primary_keys=["id"], options=options)
    for _ in range(3):
        table.write([{"id": 1}, {"id": 2}])

    for verb in (partial(table.compact, full=True), table.compact_manifests):
        report = verb()
        assert report.snapshot_id is not None
        shown = {**report_metadata([report]), **details(report)}
        assert shown["paimon/commit_identifier"] == str(table.snapshot().commit_identifier)
        nothing = verb()
        assert nothing.noop_reason
        assert "paimon/commit_identifier" not in {**report_metadata([nothing]), **details(nothing)}


def test_recent_snapshots_show_how_each_changed_the_rows_in_files_and_a_compaction_makes_them_fewer(tmp_path: Path):
    catalog = lc.connect(tmp_path)
    catalog.create_database("ops")
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table("ops.orders", {"id": "INT NOT NULL"}, primary_keys=["id"], options=options)
    table.write([{"id": 1}, {"id": 2}])
    table.write([{"id": 2}, {"id": 3}, {"id": 4}])
    table.compact(full=True)

    shown = state_metadata(read_state(table))["paimon/recent_snapshots"].records

    assert [(each.data["kind"], each.data["change"]) for each in shown] == [
        ("COMPACT", "-1"),
        ("APPEND", "+3"),
        ("APPEND", "+2"),
    ]


def test_the_plot_of_the_snapshot_goes_on_when_none_was_made():
    assert report_metadata([NOTHING])["paimon/snapshot_id"] == 5


def test_the_commits_of_a_range_add_up():
    later = replace(DONE, snapshot_id=6, snapshot_id_before=5, rows_added=7)

    both = report_metadata([DONE, later])

    assert (both["paimon/rows_added"], both["paimon/files_added"]) == (17, 6)
    assert (both["paimon/snapshot_id_before"], both["paimon/snapshot_id"]) == ("4", 6)
    assert both["paimon/snapshots_made"] == 2


@pytest.mark.parametrize(
    ("reports", "most"),
    [
        ([], 0),
        ([NOTHING], 0),
        # A range of batches that no other writer disturbed plots like one batch.
        ([DONE] * 16, 1),
        ([DONE, replace(DONE, attempts=3)], 3),
        # A write that wrote over a partition and compacted it is two snapshots, each at its first attempt.
        ([replace(DONE, attempts=2, snapshot_ids=(5, 6))], 1),
        ([replace(DONE, attempts=4, snapshot_ids=(5, 6))], 3),
        # The compaction that followed counts its own.
        (
            [
                replace(
                    DONE,
                    attempts=2,
                    snapshot_ids=(5, 6),
                    compaction=CompactionReport(table="ops.orders", snapshot_id=6, attempts=1),
                )
            ],
            2,
        ),
    ],
)
def test_the_attempts_are_those_of_one_snapshot_so_their_plot_rises_with_other_writers_alone(
    reports: list[CommitReport], most: int
):
    assert report_metadata(reports)["paimon/attempts"] == most


def test_compactions_that_came_along_are_told_apart_from_the_rows():
    compaction = CompactionReport(table="ops.orders", snapshot_id=7, rows_added=9, files_removed=2, files_added=1)
    batches = [Batch(key=f"2013-01-0{n}", identifier=n) for n in (1, 2)]
    reports = [replace(DONE, compaction=compaction), DONE]

    shown = commit_metadata(
        [CommittedBatch(batch=one, report=report) for one, report in zip(batches, reports, strict=True)]
    )
    alone = commit_metadata([CommittedBatch(batch=batches[1], report=DONE)])

    assert (shown["paimon/rows_added"], shown["paimon/files_removed"], shown["paimon/snapshot_id"]) == (20, 0, 5)
    assert (shown["paimon/compaction_snapshot_id"], shown["paimon/compaction_files_removed"]) == ("7", 2)
    assert shown.keys() == alone.keys()
    assert alone["paimon/compaction_snapshot_id"] == ""


def test_a_batch_that_was_committed_before_counts_as_replayed():
    batches = [Batch(key=f"2013-01-0{n}", identifier=n) for n in (1, 2, 3)]
    committed = [
        CommittedBatch(batch=batches[0], report=DONE),
        CommittedBatch(batch=batches[1], report=replace(DONE, replayed=True)),
        CommittedBatch(batch=batches[2], report=None),
    ]

    metadata = commit_metadata(committed)

    # Text: their number as a plot would repeat that of the rows.
    assert (metadata["paimon/batches"], metadata["paimon/replayed"]) == ("2013-01-01 to 2013-01-03, 3 batches", 2)
    assert commit_metadata([CommittedBatch(batch=Batch(key=None, identifier=1), report=DONE)])["paimon/batches"] == (
        "whole load"
    )
    assert metadata["paimon/commit_identifier"] == "3"
    assert metadata["paimon/noop_reason"] == ""
    assert [(record.data["batch"], record.data["note"]) for record in metadata["paimon/commits"].records] == [
        ("2013-01-01", ""),
        ("2013-01-02", "committed before; no retained snapshot has it"),
        ("2013-01-03", "committed before; no retained snapshot has it"),
    ]


def test_a_replay_shows_the_snapshot_and_the_rows_of_the_original_commit():
    original = SnapshotFacts(
        id=3,
        kind="APPEND",
        time=datetime(2026, 11, 21, tzinfo=UTC),
        rows=10,
        change=7,
        run_id="",
        commit_user="flink-7",
        commit_identifier=1,
        batch="2013-01-02",
    )
    batch = Batch(key="2013-01-02", identifier=1)
    appended = CommittedBatch(batch=batch, report=None, original=original)
    replaced = CommittedBatch(batch=batch, report=None, original=replace(original, kind="OVERWRITE"))

    shown = batch_metadata(appended)

    assert (shown["paimon/snapshot_id"], shown["paimon/rows_added"], shown["dagster/partition_row_count"]) == (3, 7, 7)
    assert shown["paimon/noop_reason"] == "committed before by flink-7 as snapshot 3"
    assert commit_metadata([appended, appended])["paimon/noop_reason"] == shown["paimon/noop_reason"]
    # Its change is that of the rows added and removed.
    assert {"paimon/rows_added", "dagster/partition_row_count"}.isdisjoint(batch_metadata(replaced))


def test_what_is_staged_is_counted():
    batch = Batch(key="2013-01-01", identifier=0)

    assert staged_metadata([Staged(batch=batch, files=2, rows=10, bytes=100), Staged(batch=batch)]) == {
        "paimon/batches": "2013-01-01 to 2013-01-01, 2 batches",
        "paimon/rows_staged": 10,
        "paimon/files_staged": 2,
        "paimon/bytes_staged": 100,
    }


def test_every_value_is_one_that_dagster_can_plot_or_show(state: TableState):
    metadata = {**commit_metadata([]), **state_metadata(state), **before_and_after(state, state), **report_metadata([])}

    for name, value in metadata.items():
        assert name.startswith("paimon/")
        assert isinstance(value, int | float | str | dg.MetadataValue), name


def test_a_verbs_own_figures_are_shown_beside_the_common_ones():
    shown = details(CompactionReport(table="ops.orders", buckets_rewritten=3, bytes_rewritten=99))

    assert shown["paimon/buckets_rewritten"] == 3
    assert "paimon/rows_added" not in shown
    assert "paimon/snapshot_id" not in shown


def test_long_lists_are_cut():
    assert len(records(["n"], ((n,) for n in range(100))).records) == 20


def test_columns_show_key_and_partition():
    columns = {column.name: column for column in column_schema(LAKE.table("ops.flights")).columns}

    assert columns["flight_date"].constraints.other == ["primary key", "partition"]
    assert not columns["flight_date"].constraints.nullable
    assert columns["dest"].constraints.nullable
    assert all(column.description for column in columns.values())
