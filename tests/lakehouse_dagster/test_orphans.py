"""The job that removes orphans: from which tables, what it shows, and what happens when one of them fails."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster import LakehouseResource, SparkRuntime, orphans_job

pytestmark = pytest.mark.dagster

TABLES = ("sales.orders", "sales.returns", "web.visits")


@pytest.fixture
def left(tmp_path: Path) -> dict[str, Path]:
    """A warehouse of three tables with an old orphan each, by table."""
    catalog = lc.connect(tmp_path)
    found = {}
    for name in TABLES:
        database, table = name.split(".")
        catalog.create_database(database, exist_ok=True)
        catalog.create_table(name, {"id": "INT NOT NULL"}, options={"bucket": "-1"}).write([{"id": 1}])
        found[name] = tmp_path / f"{database}.db" / table / "manifest" / "manifest-left"
        found[name].write_bytes(b"left behind")
        os.utime(found[name], (0, 0))
    return found


class Runs:
    """The job, an instance of Dagster, and what the job showed there."""

    def __init__(self, warehouse: Path, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        resources = {"lakehouse": LakehouseResource(warehouse=str(warehouse), spark=SparkRuntime())}
        self._job = dg.Definitions(jobs=[orphans_job()], resources=resources).resolve_job_def("remove_orphans")

    def run(self, **config: Any) -> bool:
        """Run the job, and return whether it succeeded."""
        given = {"ops": {"remove_orphans_of_tables": {"config": config}}}
        return self._job.execute_in_process(instance=self._instance, run_config=given, raise_on_error=False).success

    def shown(self, table: str) -> dict[str, Any]:
        """Return the figures of the only observation of a table, none without one."""
        records = self._instance.fetch_observations(dg.AssetKey(["lake", *table.split(".")]), limit=2).records
        return {key: value.value for record in records for key, value in record.asset_observation.metadata.items()}


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Runs(tmp_path, instance)


def there(left: dict[str, Path]) -> list[str]:
    return [name for name, file in left.items() if file.exists()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("config", "stay"),
    [
        ({}, []),
        ({"databases": ["sales"]}, ["web.visits"]),
        ({"tables": ["sales.orders"]}, ["sales.returns", "web.visits"]),
        ({"dry_run": True}, [*TABLES]),
    ],
)
def test_a_run_removes_the_orphans_of_the_tables_that_it_is_asked_for(
    left: dict[str, Path], runs: Runs, config: dict[str, Any], stay: list[str]
) -> None:
    assert runs.run(**config)

    assert there(left) == stay
    shown = runs.shown("sales.orders")
    assert (shown["paimon/files_removed"], shown["paimon/bytes_removed"]) == (1, 11)


@pytest.mark.damage
def test_a_table_that_fails_stops_no_other_and_fails_the_run(left: dict[str, Path], runs: Runs) -> None:
    orders = left["sales.orders"].parents[1]
    (orders / "snapshot" / "snapshot-1").write_bytes(b"{")

    assert not runs.run()

    assert there(left) == ["sales.orders"]
    assert [runs.shown(name).get("paimon/files_removed") for name in TABLES] == [None, 1, 1]


def test_an_age_that_a_writer_may_need_is_refused(left: dict[str, Path], runs: Runs) -> None:
    assert not runs.run(older_than_hours=0.5)

    assert there(left) == [*TABLES]
