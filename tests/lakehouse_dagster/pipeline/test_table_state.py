"""What the assets know of a table: also when another engine has committed to it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_dagster.pipeline.table_state import (
    TableState,
    committed_identifier,
    last_identifier,
    position,
    read_state,
)

USER = "feed/shop/orders@v1/lake/ops/orders"


@pytest.fixture
def table(tmp_path: Path) -> lc.Table:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("ops")
    columns = {"id": "BIGINT NOT NULL", "v": "INT"}
    return catalog.create_table("ops.orders", columns, primary_keys=["id"], options={"bucket": "1"})


def commit(table: lc.Table, identifier: int) -> None:
    rows = [{"id": identifier, "v": 1}]
    table.commit(table.stage(rows, commit_user=USER, commit_identifier=identifier))


def compacted_by_another_engine(table: lc.Table, warehouse: Path) -> None:
    """Add the snapshot that Apache Paimon would: it carries on nothing that is ours."""
    folder = warehouse / "ops.db" / "orders" / "snapshot"
    latest = table.snapshot()
    assert latest is not None
    foreign = json.loads((folder / f"snapshot-{latest.id}").read_text())
    foreign |= {"id": latest.id + 1, "commitKind": "COMPACT", "commitUser": "java", "commitIdentifier": 2**63 - 1}
    del foreign["properties"], foreign["lakehouseCrc32"]
    (folder / f"snapshot-{latest.id + 1}").write_text(json.dumps(foreign))
    (folder / "LATEST").write_text(str(latest.id + 1))


@pytest.mark.damage  # The other engine's snapshot is forged.
def test_a_commit_of_another_engine_does_not_hide_which_batches_are_in(table: lc.Table, tmp_path: Path):
    commit(table, 31)
    commit(table, 32)
    compacted_by_another_engine(table, tmp_path)

    assert committed_identifier(table, USER) == 32
    assert last_identifier(table, "lake/ops/orders") == 32
    assert read_state(table).content_version.endswith("/main@2")


def test_a_table_without_snapshots_has_zeros(table: lc.Table):
    state = read_state(table)

    assert (state.snapshot_id, state.files_total, state.small_files, state.sorted_runs) == (None, 0, 0, 0)
    assert state.content_version.endswith("/main@0")
    assert committed_identifier(table, USER) is None


def test_the_figures_say_what_a_compaction_would_merge(table: lc.Table):
    for identifier in (1, 2, 3):
        commit(table, identifier)
    before = read_state(table, recent=2)
    table.compact(full=True)
    after = read_state(table, recent=0)

    assert (before.files_total, before.small_files, before.sorted_runs) == (3, 3, 3)
    assert (after.files_total, after.small_files, after.sorted_runs) == (1, 0, 1)
    assert [fact.id for fact in before.recent] == [3, 2]
    assert after.recent == ()


def test_the_data_version_follows_content_and_not_compactions(state: TableState):
    assert state.content_version == "1700000000000/main@10"
    assert replace(state, snapshot_id=13).content_version == state.content_version
    assert replace(state, incarnation="1700000000001").content_version != state.content_version


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"tags": 5}, False),
        ({"snapshot_id": 13}, False),
        ({"snapshot_id": 11}, False),
        ({"files_total": 2}, False),
        ({"earliest_snapshot_id": 12}, False),
        ({"incarnation": "1800000000000"}, False),
        ({"snapshot_id": None}, False),
    ],
    ids=str,
)
def test_commits_expiry_rollback_and_tags_change_the_place_of_a_table_in_its_history(
    state: TableState, change: dict[str, Any], is_same: bool
):
    assert (position(replace(state, **change)) == position(state)) is is_same
