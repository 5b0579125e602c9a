"""The job that maintains a warehouse: tables without specifications, what it shows, and one that fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster import LakehouseResource, SparkRuntime, warehouse_maintenance_job

pytestmark = pytest.mark.dagster

TABLES = ("sales.orders", "sales.returns", "web.visits")
BUDGET = lc.Budget(bytes=1_000_000_000)
# So often that to compact small tables pays.
READS = dict.fromkeys(TABLES, 1000.0)


@pytest.fixture
def catalog(tmp_path: Path) -> lc.Catalog:
    """A warehouse of three tables, each with five sorted runs."""
    catalog = lc.connect(tmp_path)
    for name in TABLES:
        catalog.create_database(name.partition(".")[0], exist_ok=True)
        options = {"bucket": "1", "write-only": "true", "lakehouse.read.grace": "0 s"}
        table = catalog.create_table(name, {"id": "INT NOT NULL"}, primary_keys=["id"], options=options)
        for _ in range(5):
            table.write([{"id": number} for number in range(100)])
    return catalog


class Runs:
    """The job, an instance of Dagster, and what the job showed there."""

    def __init__(self, warehouse: Path, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._resources = {"lakehouse": LakehouseResource(warehouse=str(warehouse), spark=SparkRuntime())}

    def run(self, *, operations: list[str] | None = None, **config: Any) -> bool:
        """Run the job, and return whether it succeeded."""
        job = dg.Definitions(
            jobs=[warehouse_maintenance_job(BUDGET, reads=READS, operations=operations)], resources=self._resources
        ).resolve_job_def("maintain_warehouse")
        given = {"ops": {"maintain_warehouse_tables": {"config": config}}}
        return job.execute_in_process(instance=self._instance, run_config=given, raise_on_error=False).success

    def shown(self, *key: str) -> list[dict[str, Any]]:
        """Return the figures of the observations of an asset, the newest first."""
        records = self._instance.fetch_observations(dg.AssetKey(["lake", *key]), limit=20).records
        return [{name: value.value for name, value in record.asset_observation.metadata.items()} for record in records]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Runs(tmp_path, instance)


def files_of(catalog: lc.Catalog) -> list[int]:
    return [len(catalog.table(name).files()) for name in TABLES]


@pytest.mark.parametrize(
    ("config", "files"),
    [
        ({}, [1, 1, 1]),
        ({"databases": ["sales"]}, [1, 1, 5]),
        ({"tables": ["web.visits"]}, [5, 5, 1]),
        ({"dry_run": True}, [5, 5, 5]),
        ({"bytes": 0}, [5, 5, 5]),
        ({"reads": dict.fromkeys(TABLES, 0.01)}, [5, 5, 5]),
    ],
)
def test_a_run_maintains_the_tables_that_it_is_asked_for_within_its_budget(
    catalog: lc.Catalog, runs: Runs, config: dict[str, Any], files: list[int]
) -> None:
    assert runs.run(**config)

    assert files_of(catalog) == files
    (whole,) = runs.shown("maintenance")
    assert whole["paimon/tables"] == (2 if "databases" in config else 1 if "tables" in config else 3)
    assert (whole["paimon/operations_done"] > 0) == (min(files) == 1)
    shown = {step["paimon/operation"] for step in runs.shown("sales", "orders")}
    assert bool(shown) == (files[0] == 1)


def test_the_snapshots_say_which_run_made_them_and_another_run_finds_nothing_to_do(
    catalog: lc.Catalog, runs: Runs
) -> None:
    assert runs.run(operations=["compact_full"])
    snapshots = [catalog.table(name).snapshots()[-1] for name in TABLES]
    assert all(snapshot.run_id is not None and snapshot.commit_kind == "COMPACT" for snapshot in snapshots)

    assert runs.run(operations=["compact_full"])

    assert runs.shown("maintenance")[0]["paimon/operations_done"] == 0
    assert [catalog.table(name).snapshots()[-1].id for name in TABLES] == [snapshot.id for snapshot in snapshots]


@pytest.mark.damage
def test_a_table_whose_files_are_damaged_stops_no_other_and_fails_the_run(
    catalog: lc.Catalog, runs: Runs, tmp_path: Path
) -> None:
    for file in (tmp_path / "sales.db" / "orders" / "bucket-0").iterdir():
        file.write_bytes(b"damaged")

    assert not runs.run(operations=["compact_full"])

    assert files_of(catalog) == [5, 1, 1]
    assert runs.shown("maintenance")[0]["paimon/operations_failed"] == 1
    assert runs.shown("sales", "orders") == []


@pytest.mark.damage
def test_a_table_that_cannot_be_read_stops_no_other_and_fails_the_run(
    catalog: lc.Catalog, runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "sales.db" / "orders" / "snapshot" / "snapshot-5").write_bytes(b"{")

    assert not runs.run(operations=["compact_full"])

    assert [len(catalog.table(name).files()) for name in TABLES[1:]] == [1, 1]
    assert runs.shown("maintenance")[0]["paimon/tables_unreadable"] == 1


@pytest.mark.parametrize(
    ("config", "succeeds"), [({"reads": {"sales.gone": 10}}, True), ({"tables": ["sales.o"]}, False)]
)
def test_a_table_that_is_not_there_fails_a_run_that_asks_for_it(
    catalog: lc.Catalog, runs: Runs, config: dict[str, Any], succeeds: bool
) -> None:
    assert runs.run(**config) == succeeds

    assert files_of(catalog) == ([1, 1, 1] if succeeds else [5, 5, 5])


def test_a_job_needs_a_budget() -> None:
    with pytest.raises(lc.InvalidRequest, match=r"budget=5: expected a Budget, as in lakehouse_core\.Budget"):
        warehouse_maintenance_job(5)  # type: ignore[arg-type]


def test_an_empty_warehouse_has_nothing_to_maintain(runs: Runs) -> None:
    assert runs.run()

    assert runs.shown("maintenance") == []
