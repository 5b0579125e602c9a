"""The fleet of a lake: a budget of maintenance is spent by one asset, and shown on the pages of the tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_core.api import table_maintenance
from lakehouse_dagster import LakehouseResource, SparkRuntime, fleet_definitions, lake_definitions
from lakehouse_dagster.assets.fleet import begun
from lakehouse_dagster.automation.fleet import urgent_requests
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake, shop_resources

pytestmark = pytest.mark.dagster

NAMES = ("orders", "returns")
TABLES = tuple(
    orders(name=name, options={"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"})
    for name in NAMES
)
LAKE = shop_lake(*TABLES)
BUDGET = lc.Budget(bytes=10**9)
READS = dict.fromkeys((table.identifier for table in TABLES), 1e6)
NODE = LAKE.fleet_key.to_python_identifier()


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables with ten sorted runs each, at which writers should wait."""
    folder = tmp_path_factory.mktemp("written") / "lake"
    catalog = lc.connect(folder)
    catalog.create_database("sales")
    for table in TABLES:
        made = catalog.create_table(
            table.identifier,
            {"id": "BIGINT NOT NULL"},
            primary_keys=["id"],
            options={**table.options, "write-only": "true"},
        )
        for number in range(10):
            made.write([{"id": number}, {"id": 100}])
    return folder


@pytest.fixture
def warehouse(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "lake")


def definitions(warehouse: Path, **change: Any) -> dg.Definitions:
    resource = LakehouseResource(name=LAKE.name, warehouse=str(warehouse), spark=SparkRuntime(), **change)
    return lake_definitions(LAKE, resources={"lakehouse": resource, "shop": ShopFeed()}, fleet=BUDGET)


def run(
    warehouse: Path,
    instance: dg.DagsterInstance,
    *,
    raises: bool = True,
    resource: Mapping[str, Any] | None = None,
    **config: Any,
) -> dg.ExecuteInProcessResult:
    job = definitions(warehouse, **(resource or {})).resolve_job_def("mine_fleet")
    given = {"ops": {NODE: {"config": {"reads": READS, **config}}}}
    return job.execute_in_process(instance=instance, run_config=given, raise_on_error=raises)


def shown(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, Any]:
    event = instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    found = event.asset_materialization.metadata
    return {name: value if isinstance(value, dg.TableMetadataValue) else value.value for name, value in found.items()}


def rows(records: Any) -> list[dict[str, Any]]:
    return [dict(record.data) for record in records.records]


def test_a_budget_is_spent_and_every_operation_is_shown_where_its_own_run_would_show_it(
    warehouse: Path, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    result = run(warehouse, instance, resource={"health_pages": str(tmp_path / "pages")})

    fleet = shown(instance, LAKE.fleet_key)
    assert fleet["paimon/operations_chosen"] == fleet["paimon/operations_done"] == 6
    assert fleet["paimon/operations_failed"] == 0
    assert {row["operation"] for row in rows(fleet["paimon/choices"])} == {"compact", "compact-manifests", "expire"}
    assert all(row["outcome"] for row in rows(fleet["paimon/choices"]))
    assert "<h1>Maintenance of 2 tables</h1>" in Path(fleet["paimon/health_page"]).read_text()
    for table in TABLES:
        compacted = shown(instance, LAKE.operation_key(table, "compact_full"))
        assert compacted["paimon/outcome"] == "10 files removed, 1 file added"
        assert (compacted["paimon/files_before"], compacted["paimon/files_after"]) == (10, 1)
        page = shown(instance, LAKE.table_key(table))
        assert page["paimon/files_total"] == 1
        assert "compact_full: 10 files removed, 1 file added; compact_manifests: " in page["paimon/last_maintenance"]
        assert "not run yet" not in page["paimon/last_maintenance"]
        snapshots = lc.connect(warehouse).table(table.identifier).snapshots()
        assert {snapshot.run_id for snapshot in snapshots[-2:]} == {result.run_id}
        checks = [dg.AssetCheckKey(LAKE.table_key(table), "verify")]
        (check,) = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks).values()
        # Once after all operations of the table, not after each.
        assert len(instance.event_log_storage.get_asset_check_execution_history(checks[0], limit=9)) == 1
        assert check.evaluation is not None
        assert check.evaluation.passed


def test_the_asset_knows_how_often_tables_are_read_and_what_not_to_do(
    warehouse: Path, instance: dg.DagsterInstance
) -> None:
    resource = LakehouseResource(name=LAKE.name, warehouse=str(warehouse), spark=SparkRuntime())
    made = fleet_definitions(LAKE, BUDGET, reads={"sales.orders": 1e6}, operations=["compact_manifests"])
    job = dg.Definitions.merge(made, dg.Definitions(resources={"lakehouse": resource})).resolve_job_def("mine_fleet")

    assert job.execute_in_process(instance=instance).success
    choices = rows(shown(instance, LAKE.fleet_key)["paimon/choices"])
    assert [(row["table"], row["operation"]) for row in choices] == [("sales.orders", "compact-manifests")]
    config = {"ops": {NODE: {"config": {"reads": READS, "operations": ["compact"]}}}}
    assert job.execute_in_process(instance=instance, run_config=config).success
    choices = rows(shown(instance, LAKE.fleet_key)["paimon/choices"])
    assert {(row["table"], row["operation"]) for row in choices} == {(name, "compact") for name in READS}
    with pytest.raises(lc.InvalidRequest, match=r"there is no table sales\.none"):
        fleet_definitions(LAKE, BUDGET, reads={"sales.none": 1})


def test_the_time_of_the_plan_counts_against_the_limit_of_the_run(warehouse: Path) -> None:
    plan = lc.connect(warehouse).plan_maintenance(budget=lc.Budget(bytes=9, seconds=60))

    assert [begun(plan, seconds).budget.seconds for seconds in (20.0, 90.0)] == [40.0, 0.0]
    assert begun(plan, 20.0).budget.bytes == 9


def test_a_run_from_the_page_of_the_asset_has_its_operation(warehouse: Path, instance: dg.DagsterInstance) -> None:
    job = definitions(warehouse).resolve_implicit_global_asset_job_def()

    ended = job.execute_in_process(instance=instance, asset_selection=[LAKE.fleet_key])

    made = instance.get_run_by_id(ended.run_id)
    assert made is not None
    assert made.tags["lakehouse/operation"] == "fleet"
    assert "lakehouse/table" not in made.tags


def test_no_load_can_put_the_asset_out_of_date(tmp_path: Path) -> None:
    graph = definitions(tmp_path).resolve_asset_graph()

    assert graph.get(LAKE.fleet_key).parent_keys == set()


def test_an_operation_has_the_metadata_of_a_run_of_its_own(warehouse: Path, instance: dg.DagsterInstance) -> None:
    run(warehouse, instance, tables=["sales.orders"])
    first, second = (LAKE.operation_key(table, "compact_full") for table in TABLES)
    job = definitions(warehouse).resolve_job_def("mine_maintain")
    assert job.execute_in_process(instance=instance, asset_selection=[second]).success

    assert shown(instance, first).keys() == shown(instance, second).keys()
    assert instance.get_latest_materialization_event(LAKE.operation_key(TABLES[1], "expire")) is None


def test_a_dry_run_shows_the_plan_and_changes_nothing(warehouse: Path, instance: dg.DagsterInstance) -> None:
    run(warehouse, instance, dry_run=True, seconds=60.0)

    assert instance.get_latest_materialization_event(LAKE.fleet_key) is None
    (record,) = instance.fetch_observations(LAKE.fleet_key, limit=1).records
    observation = record.event_log_entry.asset_observation
    assert observation is not None
    assert str(observation.description).startswith("dry run: 6 operations on 2 tables")
    assert [len(lc.connect(warehouse).table(name).snapshots()) for name in READS] == [10, 10]


@pytest.mark.damage
def test_a_table_that_fails_fails_the_run_after_the_others_were_maintained(
    warehouse: Path, instance: dg.DagsterInstance
) -> None:
    broken = lc.connect(warehouse).table("sales.orders")
    (warehouse / "sales.db" / "orders" / broken.files()[0].path).write_bytes(b"PAR1")

    result = run(warehouse, instance, raises=False)

    assert not result.success
    failure = next(event for event in result.all_events if event.is_step_failure)
    assert failure.step_failure_data.error is not None
    told = failure.step_failure_data.error.message
    assert "2 problems in 6 operations: failed: sales.orders: compact" in told
    assert "not shown: sales.orders: " in told
    assert shown(instance, LAKE.table_key(TABLES[1]))["paimon/files_total"] == 1
    (record,) = instance.fetch_observations(LAKE.fleet_key, limit=1).records
    observation = record.event_log_entry.asset_observation
    assert observation is not None
    # A page that cannot be written takes nothing from what was done.
    assert observation.metadata["paimon/operations_done"].value == 5
    assert observation.metadata["paimon/operations_failed"].value == 1


def test_a_table_that_is_not_created_yet_is_left_out_and_one_of_another_lake_is_refused(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    lc.connect(tmp_path).create_database("sales")
    assert run(tmp_path, instance, reads={}).success
    assert shown(instance, LAKE.fleet_key)["paimon/tables"] == 0
    with pytest.raises(lc.InvalidRequest, match=r"lake mine: there is no table sales.none"):
        run(tmp_path, instance, reads={}, tables=["sales.none"])


def test_the_sensor_starts_what_is_urgent_and_says_why_it_starts_nothing(
    warehouse: Path, instance: dg.DagsterInstance
) -> None:
    defs = definitions(warehouse)
    repository = defs.get_repository_def()
    sensor = repository.get_sensor_def("mine_urgent_maintenance")

    def tick() -> Any:
        with dg.build_sensor_context(instance=instance, resources=shop_resources(warehouse, LAKE)) as context:
            return sensor.evaluate_tick(context)

    asked = tick()

    (request,) = asked.run_requests or []
    assert request.tags["lakehouse/reason"].startswith("sales.orders: a bucket has 10 sorted runs, and beyond 8")
    job = defs.resolve_job_def("mine_fleet")
    assert job.execute_in_process(instance=instance, run_config=request.run_config).success
    # The other table has a run and a key of its own.
    (other,) = tick().run_requests or []
    assert (request.run_key, other.run_key) == tuple(f"urgent:{name}#{request.run_key[-11:]}" for name in READS)
    assert job.execute_in_process(instance=instance, run_config=other.run_config).success
    assert [len(lc.connect(warehouse).table(name).files()) for name in READS] == [1, 1]
    # Only what is urgent: manifests and snapshots wait for the night.
    assert [len(lc.connect(warehouse).table(name).snapshots()) for name in READS] == [11, 11]
    assert tick().skip_message == "sales.orders: nothing urgent\nsales.returns: nothing urgent"


def test_the_same_urgent_need_is_requested_once_an_hour(warehouse: Path) -> None:
    found = lc.connect(warehouse).plan_maintenance(budget=BUDGET, only_urgent=True).choices
    first, second, later = (
        urgent_requests(LAKE, found, BUDGET, now=datetime(2026, 11, 23, hour, minute, tzinfo=UTC))[0].run_key
        for hour, minute in ((9, 0), (9, 59), (10, 0))
    )

    assert first == second == "urgent:sales.orders#h2026112309"
    assert later != first
    assert urgent_requests(LAKE, [], BUDGET, now=datetime(2026, 11, 23, tzinfo=UTC)) == []


def test_urgent_tables_have_a_run_each_so_those_that_fail_stop_no_other(warehouse: Path) -> None:
    choice = lc.connect(warehouse).plan_maintenance(budget=BUDGET, only_urgent=True).choices[0]
    found = [replace(choice, table=f"sales.t{number:02}") for number in range(12)]

    requests = urgent_requests(LAKE, found, BUDGET, now=datetime(2026, 11, 23, tzinfo=UTC))

    configs = [request.run_config["ops"][NODE]["config"] for request in requests]
    assert [config["tables"] for config in configs] == [[f"sales.t{number:02}"] for number in range(12)]
    # Each run has the budget that the sensor is given, not that of the night.
    assert {config["bytes"] for config in configs} == {BUDGET.bytes}


def test_the_sensor_says_what_is_urgent_and_too_large_for_the_budget(
    warehouse: Path, instance: dg.DagsterInstance
) -> None:
    resource = LakehouseResource(name=LAKE.name, warehouse=str(warehouse), spark=SparkRuntime())
    defs = lake_definitions(LAKE, resources={"lakehouse": resource, "shop": ShopFeed()}, fleet=lc.Budget(bytes=100))
    sensor = defs.get_repository_def().get_sensor_def("mine_urgent_maintenance")

    with dg.build_sensor_context(instance=instance, resources=shop_resources(warehouse, LAKE)) as context:
        told = str(sensor.evaluate_tick(context).skip_message)

    assert told.startswith("sales.orders: compact: urgent, and the budget of 100 B is too small: ")
    assert told.endswith("than the budget of 100 B. Raise it")


@pytest.mark.damage
def test_a_table_that_cannot_be_read_is_counted_and_comes_first(warehouse: Path, instance: dg.DagsterInstance) -> None:
    (warehouse / "sales.db" / "orders" / "schema" / "schema-0").write_bytes(b"{broken")

    run(warehouse, instance, reads={})

    fleet = shown(instance, LAKE.fleet_key)
    assert fleet["paimon/tables_unreadable"] == 1
    assert "1 table cannot be read" in fleet["paimon/outcome"]
    assert rows(fleet["paimon/refusals"])[0]["operation"] == "any operation"


def test_without_a_budget_a_lake_has_no_fleet(tmp_path: Path) -> None:
    resources = shop_resources(tmp_path, LAKE)

    without = lake_definitions(LAKE, resources=resources).get_repository_def()
    assert LAKE.fleet_key not in without.asset_graph.get_all_asset_keys()
    assert not without.has_job("mine_fleet")
    with_budget = lake_definitions(LAKE, resources=resources, fleet=BUDGET).get_repository_def()
    assert with_budget.get_schedule_def("mine_nightly_fleet").job_name == "mine_fleet"


def told(file: Path) -> list[str]:
    """Return the events of lineage: their kind and job, in order."""
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [f"{event['eventType']} {event['job']['name']}" for event in events]


def test_an_operation_is_told_when_it_begins_and_when_it_ends(
    warehouse: Path, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events.jsonl"
    seen: list[list[str]] = []
    expired = table_maintenance.expire_snapshots

    def expire(*arguments: Any, **named: Any) -> Any:
        seen.append(told(file))
        return expired(*arguments, **named)

    monkeypatch.setattr(table_maintenance, "expire_snapshots", expire)
    run(warehouse, instance, resource={"lineage": str(file)})

    events = told(file)
    jobs = [f"sales.{name}.{verb}" for name in NAMES for verb in ("compact_full", "compact_manifests", "expire")]
    assert sorted(events) == sorted(f"{kind} {job}" for job in jobs for kind in ("START", "COMPLETE"))
    assert all(events.index(f"START {job}") < events.index(f"COMPLETE {job}") for job in jobs)
    # Not when all is done: what a killed run was at is known.
    assert {"COMPLETE sales.orders.compact_full", "COMPLETE sales.returns.compact_full"} <= set(seen[-1])
    assert seen[-1][-1].startswith("START ")


def test_a_failed_operation_of_a_plan_is_told_with_its_error(
    warehouse: Path, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events.jsonl"

    def expire(*_: Any, **__: Any) -> Any:
        raise lc.StorageUnavailable("the store is away")

    monkeypatch.setattr(table_maintenance, "expire_snapshots", expire)
    assert not run(warehouse, instance, raises=False, resource={"lineage": str(file)}).success

    events = told(file)
    assert {f"FAIL sales.{name}.expire" for name in NAMES} <= set(events)
    assert {f"COMPLETE sales.{name}.compact_full" for name in NAMES} <= set(events)


def test_what_a_run_has_done_before_it_is_interrupted_is_shown(
    warehouse: Path, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events.jsonl"

    def expire(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(table_maintenance, "expire_snapshots", expire)
    with pytest.raises(KeyboardInterrupt):
        run(warehouse, instance, resource={"lineage": str(file)})

    for table in TABLES:
        compacted = shown(instance, LAKE.operation_key(table, "compact_full"))
        assert compacted["paimon/outcome"] == "10 files removed, 1 file added"
        assert shown(instance, LAKE.table_key(table))["paimon/files_total"] == 1
    events = told(file)
    assert [event for event in events if event.startswith("ABORT")] == [events[-1]]
    assert instance.get_latest_materialization_event(LAKE.fleet_key) is None
