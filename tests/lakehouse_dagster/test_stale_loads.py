"""A run that died after it had staged, and is executed again after another run has loaded the same: newer rows stay."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from lakehouse_dagster import Lake, TableSpec, commit_asset, ingest_asset
from lakehouse_dagster.testing import ReadyLake, ready_lake

pytestmark = pytest.mark.dagster
T = "sales.sums"
ROOT_RUN = "lakehouse/root_run_id"
# What the source gives now.
VERSION = ["first"]
KEYS = {"partitions": {"static": {"keys": ["north", "south"], "column": "region"}}, "partition_by": ["region"]}
UPSERT = {"write_mode": "upsert", "primary_key": ["region", "id"], "options": {"bucket": "1"}}
OVERWRITE = {"write_mode": "overwrite", "options": {"bucket": "-1"}}
KINDS = {
    "upsert of partitions": {**UPSERT, **KEYS},
    "upsert": {**UPSERT, "function": {"call": f"{__name__}.whole"}},
    "overwrite of partitions": {**OVERWRITE, **KEYS},
    "overwrite": {**OVERWRITE, "function": {"call": f"{__name__}.whole"}},
}


def part(key: str) -> pa.Table:
    return pa.table({"region": [key], "id": pa.array([1], pa.int32()), "v": VERSION})


def whole() -> pa.Table:
    return part("north")


@pytest.fixture(autouse=True)
def first_version() -> None:
    VERSION[:] = ["first"]


@contextmanager
def lake_of(kind: str) -> Iterator[ReadyLake]:
    fields = {
        "database": "sales",
        "name": "sums",
        "comment": "Sums.",
        "columns": {"region": "STRING NOT NULL", "id": "INT NOT NULL", "v": "STRING"},
        "runs_on": "process",
        "function": {"call": part},
        **KINDS[kind],
    }
    with ready_lake(Lake(name="lake", tables=[TableSpec.model_validate(fields)]), resources={}) as ready:
        yield ready


def run(ready: ReadyLake, *assets: Any, key: str = "north", root: str | None = None) -> dg.ExecuteInProcessResult:
    """Materialize some assets of the table; `root`: the run that is executed again."""
    resources = {ready.lake.resource: ready.definitions.resources[ready.lake.resource]}
    (table,) = ready.lake.tables
    return dg.materialize(
        [make(ready.lake, table) for make in assets or (ingest_asset, commit_asset)],
        instance=ready.instance,
        resources=resources,
        partition_key=key if table.partitions is not None else None,
        tags={} if root is None else {ROOT_RUN: root},
        raise_on_error=False,
    )


def commit_alone(ready: ReadyLake, root: str, patch: pytest.MonkeyPatch) -> dg.ExecuteInProcessResult:
    """Execute the commit of a run again whose ingest is done, as Dagster does after a run died."""
    with patch.context() as patched:
        patched.setattr("lakehouse_dagster.assets.commit.stages_itself", lambda *_: False)
        return run(ready, commit_asset, root=root)


def rows(ready: ReadyLake) -> list[str]:
    return sorted(f"{row['region']} {row['v']}" for row in ready.table(T).scan().to_arrow().to_pylist())


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "is_whole"),
    [
        ("upsert of partitions", True),
        ("upsert", False),
        ("overwrite of partitions", False),
        ("overwrite", True),
    ],
)
def test_a_stale_load_is_read_again(kind: str, is_whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with lake_of(kind) as ready:
        dead = run(ready, ingest_asset)
        VERSION[:] = ["second"]
        assert run(ready).success
        VERSION[:] = ["third"]

        again = run(ready, root=dead.run_id) if is_whole else commit_alone(ready, dead.run_id, monkeypatch)

        assert again.success
        assert rows(ready) == ["north third"]
        assert ready.table(T).snapshots()[-1].run_id == again.run_id
        # Once more, it is a replay.
        VERSION[:] = ["fourth"]
        assert run(ready, root=dead.run_id).success
        assert rows(ready) == ["north third"]


def test_a_load_of_another_part_makes_nothing_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    with lake_of("upsert of partitions") as ready:
        dead = run(ready, ingest_asset)
        VERSION[:] = ["second"]
        assert run(ready, key="south").success

        assert commit_alone(ready, dead.run_id, monkeypatch).success
        assert rows(ready) == ["north first", "south second"]


def test_compactions_and_expiry_of_other_snapshots_make_nothing_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    with lake_of("upsert") as ready:
        for _ in range(3):
            assert run(ready).success
        dead = run(ready, ingest_asset)
        files = sorted(ready.warehouse.rglob("data-*"))
        ready.table(T).compact(full=True)
        ready.table(T).expire_snapshots(retain_max=2, retain_min=1)

        assert commit_alone(ready, dead.run_id, monkeypatch).success
        assert len(set(ready.warehouse.rglob("data-*")) - set(files)) == 1


def test_where_the_snapshots_since_are_expired_the_rows_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with lake_of("upsert") as ready:
        assert run(ready).success
        dead = run(ready, ingest_asset)
        VERSION[:] = ["second"]
        for _ in range(3):
            ready.table(T).write([{"region": "south", "id": 1, "v": "other"}])
        ready.table(T).expire_snapshots(retain_max=1, retain_min=1)

        assert commit_alone(ready, dead.run_id, monkeypatch).success
        assert rows(ready) == ["north second", "south other"]


def test_a_stale_load_whose_commit_cannot_read_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # As for the value of an asset, which the ingest alone loads.
    monkeypatch.setattr("lakehouse_dagster.assets.commit.rereads", lambda *_: False)
    with lake_of("upsert of partitions") as ready:
        dead = run(ready, ingest_asset)
        VERSION[:] = ["second"]
        newer = run(ready)

        refused = commit_alone(ready, dead.run_id, monkeypatch)

        (failed,) = (event for event in refused.all_events if event.is_step_failure)
        told = str(failed.step_failure_data.user_failure_data.description)
        assert "sales.sums: north: found rows that would replace newer ones: run " + newer.run_id[:8] in told
        assert "has loaded it since, as snapshot 1. Nothing was committed. Execute the run again with its" in told
        assert rows(ready) == ["north second"]
