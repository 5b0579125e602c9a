"""Tables of a run: opened once for all its steps, as long as they are the same tables."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakehouse_core as lc
from lakehouse_core.metadata import lru
from lakehouse_dagster.pipeline.table_setup import table_of_run
from lakehouse_dagster.pipeline.table_state import pending_batches, read_state
from lakehouse_dagster.resources import LakehouseResource, SparkRuntime

COLUMNS = {"id": "BIGINT NOT NULL", "v": "INT"}


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("ops")
    made(catalog)
    return catalog


def made(catalog: lc.Catalog) -> lc.Table:
    return catalog.create_table("ops.orders", COLUMNS, primary_keys=["id"], options={"bucket": "1"})


def of_run(catalog: lc.Catalog, run_id: str) -> lc.Table:
    return table_of_run(run_id, catalog.uri, "ops.orders", lambda: catalog.table("ops.orders"), read_state)[0]


def test_the_steps_of_a_run_share_a_handle_and_other_runs_have_their_own(catalog: lc.Catalog) -> None:
    first = of_run(catalog, "run 1")

    assert of_run(catalog, "run 1") is first
    assert of_run(catalog, "run 2") is not first


def test_a_shared_handle_shows_what_others_committed_since(catalog: lc.Catalog) -> None:
    states = []
    for number in range(3):
        catalog.table("ops.orders").write([{"id": number, "v": 1}])
        states.append(read_state(of_run(catalog, "run 3")))

    assert [state.snapshot_id for state in states] == [1, 2, 3]
    assert [state.records_total for state in states] == [1, 2, 3]


def test_a_table_that_was_made_again_is_opened_anew(catalog: lc.Catalog) -> None:
    catalog.table("ops.orders").write([{"id": 1, "v": 1}])
    before = of_run(catalog, "run 4")
    old = read_state(before)

    catalog.drop_table("ops.orders")
    with pytest.raises(lc.NotFound):
        of_run(catalog, "run 4")
    made(catalog)
    now = of_run(catalog, "run 4")

    assert now is not before
    assert (old.snapshot_id, read_state(now).snapshot_id) == (1, None)
    assert old.incarnation != read_state(now).incarnation


@pytest.mark.parametrize(
    "other",
    [{"storage": {"endpoint": "http://other:9000"}}, {"profile": "other"}, {"metastore": "sqlite:///other.db"}],
)
def test_warehouses_of_one_uri_at_two_services_are_two_places(other: Mapping[str, Any]) -> None:
    here = {"warehouse": "s3://lake", "spark": SparkRuntime()}

    assert LakehouseResource(**here).place == LakehouseResource(**here).place
    assert LakehouseResource(**here).place != LakehouseResource(**here, **other).place


def test_one_batch_is_looked_for_alone(catalog: lc.Catalog) -> None:
    """Other runs may have staged a thousand."""
    table = catalog.table("ops.orders")
    found = pending_batches(table, "u", [1])

    table.keep_pending(table.stage([{"id": 1, "v": 1}], commit_user="u", commit_identifier=1))

    assert getattr(found(1), "commit_identifier", None) == 1


@pytest.mark.damage
def test_a_staged_commit_that_cannot_be_read_hides_no_other_one(catalog: lc.Catalog, tmp_path: Path) -> None:
    table = catalog.table("ops.orders")
    for number in (1, 2, 3):
        table.keep_pending(table.stage([{"id": number, "v": 1}], commit_user="u", commit_identifier=number))
    found = pending_batches(table, "u", range(4))
    assert [getattr(found(number), "commit_identifier", None) for number in (1, 2, 3, 4)] == [1, 2, 3, None]

    next(tmp_path.rglob("commit-u-2.json")).write_bytes(b"{")
    found = pending_batches(table, "u", range(4))

    assert [getattr(found(number), "commit_identifier", None) for number in (1, 3, 4)] == [1, 3, None]
    with pytest.raises(lc.CorruptTable):
        found(2)


def test_staged_commits_are_forgotten_together(catalog: lc.Catalog) -> None:
    table = catalog.table("ops.orders")
    staged = [table.stage([{"id": n, "v": 1}], commit_user="u", commit_identifier=n) for n in (1, 2, 3)]
    for each in staged:
        table.keep_pending(each)

    table.forget_pending(*staged[:2], *[each for each in table.pending_commits() if each.commit_identifier == 3])

    assert table.all_pending("u") == []


def test_what_the_handles_of_a_run_remember_is_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"ops.t{number}" for number in range(6)]
    catalog = lc.connect(str(tmp_path))
    catalog.create_database("ops")
    for name in names:
        table = catalog.create_table(name, COLUMNS, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
        for number in range(5):
            table.write([{"id": number, "v": 1}])

    def read(table: lc.Table) -> int:
        return sum(file.row_count for file in table.files())

    def of_each(run_id: str) -> list[int]:
        return [table_of_run(run_id, catalog.uri, name, partial(catalog.table, name), read)[1] for name in names]

    with monkeypatch.context() as nothing_remembered:
        nothing_remembered.setattr(lru.OF_PROCESS, "most_bytes", 0)
        assert of_each("run 6") == [5] * 6
        assert lru.OF_PROCESS.held_bytes == 0  # nor by handles of other tests
    assert of_each("run 7") == [5] * 6
    of_one = lru.OF_PROCESS.held_bytes // 6
    assert of_one > 10_000

    monkeypatch.setattr(lru.OF_PROCESS, "most_bytes", 2 * of_one)
    for _ in range(2):
        assert of_each("run 7") == [5] * 6
        assert lru.OF_PROCESS.held_bytes <= 2 * of_one
