"""The job that copies tables into another warehouse: what it copies and shows, and how a run goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_core.tasks import copy as copy_task
from lakehouse_dagster import LakehouseResource, SparkRuntime, copy_job

pytestmark = pytest.mark.dagster

TABLES = ("sales.orders", "sales.returns", "web.visits")


class Lakes:
    """A warehouse with three tables, an empty one, and an instance of Dagster."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        self.folder, self.instance = folder, instance
        self.here, self.there = lc.connect(folder / "lake"), lc.connect(folder / "archive")
        for name in TABLES:
            self.here.create_database(name.split(".")[0], exist_ok=True)
            made = self.here.create_table(name, {"id": "INT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})
            for number in range(3):
                made.write([{"id": number}])
            made.create_tag("first")

    @property
    def copies(self) -> list[str]:
        return [f"{database}.{table}" for database in self.there.databases() for table in self.there.tables(database)]

    def run(self, *, target: str = "archive", root: str | None = None, **config: Any) -> dg.ExecuteInProcessResult:
        """Run the job. `root`: the run that it executes again."""
        spark = SparkRuntime()
        resources = {
            "lakehouse": LakehouseResource(warehouse=str(self.folder / "lake"), spark=spark),
            "archive": LakehouseResource(name=target, warehouse=str(self.folder / "archive"), spark=spark),
        }
        job = dg.Definitions(jobs=[copy_job("lakehouse", "archive")], resources=resources).resolve_job_def("copy")
        return job.execute_in_process(
            instance=self.instance,
            run_config={"ops": {"copy_tables": {"config": config}}},
            tags={} if root is None else {"dagster/root_run_id": root, "dagster/parent_run_id": root},
            raise_on_error=False,
        )

    def shown(self, name: str) -> dict[str, Any]:
        event = self.instance.get_latest_materialization_event(dg.AssetKey(["archive", *name.split(".")]))
        assert event is not None
        assert event.asset_materialization is not None
        return {name: value.value for name, value in event.asset_materialization.metadata.items()}


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[Lakes]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Lakes(tmp_path, instance)


def failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = (event for event in result.all_node_events if event.is_step_failure)
    told = event.step_failure_data.user_failure_data
    return "" if told is None else told.description or ""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("config", "copied"),
    [
        ({}, [*TABLES]),
        ({"databases": ["sales"]}, ["sales.orders", "sales.returns"]),
        ({"tables": ["web.visits"]}, ["web.visits"]),
        ({"tables": ["web.visits", "sales.orders"], "databases": ["web"]}, ["sales.orders", "web.visits"]),
        ({"tables": ["web.visits"], "names": {"web.visits": "old.visits"}}, ["old.visits"]),
    ],
)
def test_the_tables_that_are_asked_for_are_copied_and_shown(
    lakes: Lakes,
    config: dict[str, Any],
    copied: list[str],
) -> None:
    assert lakes.run(**config).success

    assert lakes.copies == copied
    for name in copied:
        found = lakes.shown(name)
        assert found["paimon/copied_from"].endswith(name.replace("old.", "web.").replace(".", ".db/"))
        assert (found["paimon/snapshots_retained"], found["paimon/tags"], found["paimon/findings_count"]) == (3, 1, 0)
        assert lakes.there.table(name).scan().to_arrow().num_rows == 3


def test_snapshots_and_tags_are_chosen_and_the_files_are_read(lakes: Lakes) -> None:
    assert lakes.run(tables=["sales.orders"], snapshots=1, tags=[], data=True).success

    copy = lakes.there.table("sales.orders")
    assert ([each.id for each in copy.snapshots()], copy.tags()) == ([3], [])
    assert lakes.shown("sales.orders")["paimon/snapshots_retained"] == 1


def test_a_table_that_fails_stops_no_other_and_fails_the_run(lakes: Lakes) -> None:
    lakes.there.create_database("sales")
    lakes.there.create_table("sales.orders", {"x": "INT"})
    result = lakes.run()

    assert not result.success
    assert failure(result) == "Table 'sales.orders' exists already. Copy to another name."
    assert lakes.copies == [*TABLES]
    assert lakes.there.table("sales.orders").scan().to_arrow().schema.names == ["x"]


def dies(*_: Any) -> Any:
    raise RuntimeError("the process died")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("where", "is_complete"),
    [
        ("lakehouse_core.execution.copying._write_roots", False),
        ("lakehouse_core.catalog.copying.end_copy", True),
        ("lakehouse_dagster.automation.copying.read_state", True),
    ],
)
def test_a_run_that_died_is_executed_again_and_goes_on(
    lakes: Lakes,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    is_complete: bool,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(where, dies)
        assert not lakes.run(tables=["sales.orders"]).success
    assert lakes.copies == (["sales.orders"] if is_complete else [])
    (dead,) = lakes.instance.get_runs()

    assert lakes.run(root=dead.run_id).success

    assert lakes.copies == [*TABLES]
    assert lakes.shown("sales.orders")["paimon/findings_count"] == 0
    assert lakes.there.table("sales.orders").scan().to_arrow().num_rows == 3
    # A new run does not know whose the table is.
    refused = lakes.run(tables=["sales.orders"])
    assert failure(refused) == "Table 'sales.orders' exists already. Copy to another name."


@pytest.mark.damage
def test_what_the_verification_finds_fails_the_run_and_is_shown(lakes: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = copy_task._copy_file

    def loses_rows(source: Any, target: Any, file: Any) -> int:
        return (file.size or 0) if "/data-" in file.key else copied(source, target, file)

    monkeypatch.setattr(copy_task, "_copy_file", loses_rows)
    result = lakes.run(tables=["sales.orders"])

    assert failure(result).startswith("1 copies are there and are damaged: sales.orders: ")
    assert lakes.shown("sales.orders")["paimon/findings_count"] > 0


def test_a_table_that_another_made_is_no_copy_of_an_earlier_attempt(lakes: Lakes) -> None:
    lakes.there.create_database("sales")
    lakes.there.create_table("sales.orders", {"x": "INT"})

    assert failure(lakes.run(root="0", tables=["sales.orders"])).endswith("Copy to another name.")


def test_two_warehouses_of_one_name_are_refused(lakes: Lakes) -> None:
    told = failure(lakes.run(target="lake"))

    assert told == (
        "The resources of both warehouses are named 'lake', so copies would be shown as their tables. Give the target "
        "a `name` of its own."
    )
    assert lakes.there.databases() == []
