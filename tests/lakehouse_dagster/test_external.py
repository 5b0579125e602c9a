"""Tables that others write: their assets, and what is reported of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_dagster import (
    KeyColumn,
    LakehouseIOManager,
    LakehouseResource,
    LakehouseTranslator,
    SparkRuntime,
    TableFacts,
    external_table,
    external_tables_sensor,
    table_metadata,
)

pytestmark = pytest.mark.dagster
ORDERS = external_table("sales.orders", comment="Orders.", owners=["team:shop"], tags={"tier": "gold"})


class Flat(LakehouseTranslator):
    """Another team's names."""

    def key(self, table: TableFacts) -> dg.AssetKey:
        return dg.AssetKey([f"{table.database}_{table.name}"])

    def group_name(self, table: TableFacts) -> str:
        return "imported"

    def kinds(self, table: TableFacts) -> set[str]:
        return {"paimon", "spark"}

    def owners(self, table: TableFacts) -> list[str]:
        return [*table.owners, "team:data"]

    def tags(self, table: TableFacts) -> dict[str, str]:
        return {"source": table.lake}

    def description(self, table: TableFacts) -> str:
        return f"{table.comment} From {table.identifier}."


@pytest.fixture
def lakehouse(tmp_path: Path) -> LakehouseResource:
    return LakehouseResource(warehouse=str(tmp_path), spark=SparkRuntime())


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def orders(tmp_path: Path) -> lc.Table:
    catalog = lc.connect(tmp_path)
    catalog.create_database("sales")
    return catalog.create_table("sales.orders", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})


def tick(sensor: dg.SensorDefinition, lakehouse: LakehouseResource, instance: dg.DagsterInstance) -> Any:
    """One tick; what it reports is stored, as the daemon stores it."""
    with dg.build_sensor_context(instance=instance, resources={"lakehouse": lakehouse}) as context:
        found = sensor.evaluate_tick(context)
    for event in found.asset_events:
        instance.report_runless_asset_event(event)
    return found


def test_the_asset_of_an_external_table_is_named_after_it():
    assert ORDERS.key == dg.AssetKey(["lake", "sales", "orders"])
    assert (ORDERS.description, ORDERS.group_name, ORDERS.owners) == ("Orders.", "lake__sales__orders", ["team:shop"])
    assert (ORDERS.kinds, ORDERS.tags["tier"], ORDERS.tags["lakehouse/database"]) == ({"paimon"}, "gold", "sales")
    assert ORDERS.metadata["dagster/table_name"] == "sales.orders"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (external_table("sales.a_b"), external_table("sales_a.b")),
        (external_table("sales.orders", lake="one"), external_table("sales.orders", lake="two")),
    ],
)
def test_different_tables_are_different_groups(one: dg.AssetSpec, other: dg.AssetSpec):
    assert one.group_name != other.group_name


def test_the_group_of_a_table_has_no_character_that_groups_cannot_have():
    assert external_table("sales.web-orders", lake="my-lake").group_name == "my_lake__sales__web_orders"


def test_a_translator_gives_other_names_and_the_table_is_still_found(
    orders: lc.Table, lakehouse: LakehouseResource, instance: dg.DagsterInstance
):
    spec = external_table("sales.orders", comment="Orders.", owners=["team:shop"], translator=Flat())
    orders.write([{"id": 1}])
    seen = []

    @dg.asset(ins={"orders": dg.AssetIn(key="sales_orders")})
    def report(orders: pa.Table) -> None:
        seen.append(orders.num_rows)

    manager = LakehouseIOManager(lakehouse=lakehouse)
    defs = dg.Definitions(assets=[spec, report], resources={"io_manager": manager})
    defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)

    assert seen == [1]
    assert (spec.description, spec.group_name) == ("Orders. From sales.orders.", "imported")
    assert (spec.owners, spec.kinds, spec.tags["source"]) == (["team:shop", "team:data"], {"paimon", "spark"}, "lake")


def test_what_others_wrote_is_reported_once_and_a_compaction_never(
    orders: lc.Table, lakehouse: LakehouseResource, instance: dg.DagsterInstance
):
    condition = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())

    @dg.asset(deps=[ORDERS], automation_condition=condition.since_last_handled())
    def report() -> None: ...

    defs = dg.Definitions(assets=[ORDERS, report])
    sensor = external_tables_sensor([ORDERS])
    requested: list[int] = []
    reported: list[int] = []
    cursor = None
    for write in (None, {"id": 1}, None, "compact", {"id": 2}):
        if write == "compact":
            assert orders.compact(full=True).snapshot_id == 2
        elif write is not None:
            orders.write([write])
        reported.append(len(tick(sensor, lakehouse, instance).asset_events))
        evaluated = dg.evaluate_automation_conditions(defs, instance=instance, cursor=cursor)
        cursor = evaluated.cursor
        requested.append(evaluated.total_requested)

    assert reported == [1, 1, 0, 0, 1]
    assert requested[1:] == [1, 0, 0, 1]
    event = instance.get_latest_materialization_event(ORDERS.key)
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["dagster/row_count"].value == 2


def test_a_table_that_is_not_there_hides_no_other(
    orders: lc.Table, lakehouse: LakehouseResource, instance: dg.DagsterInstance
):
    sensor = external_tables_sensor([external_table("sales.carts"), ORDERS])

    assert [event.asset_key for event in tick(sensor, lakehouse, instance).asset_events] == [ORDERS.key]
    assert "sales.carts" in tick(sensor, lakehouse, instance).skip_message


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: external_table("orders"), "external_table('orders'): expected the name of a table, 'database.name'."),
        (lambda: external_table("a.b.c"), "external_table('a.b.c'): expected the name of a table, 'database.name'."),
        (
            lambda: external_table("sales.orders$branch_test"),
            "external_table: found 'sales.orders$branch_test', a branch; Dagster shows tables, not their branches. "
            "Name its table, 'sales.orders'.",
        ),
        (
            lambda: external_table("sales.orders$files"),
            "external_table: found 'sales.orders$files', a system table, expected a table. Name 'sales.orders'.",
        ),
        (
            lambda: table_metadata(table="sales.orders$branch_test"),
            "table_metadata: found 'sales.orders$branch_test', a branch; Dagster shows tables, not their branches.",
        ),
        (
            lambda: external_tables_sensor([ORDERS, ORDERS]),
            "external_tables_sensor: found lake/sales/orders, expected each table of the lake lake once, as",
        ),
        (lambda: external_tables_sensor([ORDERS], lake="other"), "found lake/sales/orders, expected each table of the"),
        (lambda: external_tables_sensor([dg.AssetSpec("x")]), "external_tables_sensor: found x, expected each table"),
        (lambda: external_table("a.b", partition_map="dt"), "partition_map: found 'dt', expected KeyColumn, TimeC"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_a_table_of_the_lake_is_refused(make: Any, told: str):
    with pytest.raises(lc.InvalidRequest) as refused:
        make()

    assert told in str(refused.value)


def test_partitions_of_an_external_table_have_a_map():
    regions = dg.StaticPartitionsDefinition(["north"])
    spec = external_table("a.b", partitions_def=regions, partition_map=KeyColumn(column="region"))

    assert spec.partitions_def == regions
    assert spec.metadata["partition_map"].value == {"kind": "key", "column": "region", "values": None}
