"""Reads: how often a day a table is read is counted from the events of its reads, and decides what is maintained."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
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
    SparkRuntime,
    fleet_asset,
    reads_per_day,
    record_read,
    table_metadata,
)
from lakehouse_dagster import reads as module
from tests.lakehouse_dagster.shop import orders, shop_lake

pytestmark = pytest.mark.dagster
TABLES = [orders(), orders(name="returns")]
LAKE = shop_lake(*TABLES)
ORDERS = LAKE.table_key(TABLES[0])
REGIONS = dg.StaticPartitionsDefinition(["north", "south"])
BOTH = {"dagster/asset_partition_range_start": "north", "dagster/asset_partition_range_end": "south"}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def lakehouse(tmp_path: Path) -> LakehouseResource:
    """Two tables with six sorted runs each."""
    catalog = lc.connect(tmp_path)
    catalog.create_database("sales")
    for spec in TABLES:
        table = catalog.create_table(
            spec.identifier,
            {"region": "STRING NOT NULL", "id": "BIGINT NOT NULL"},
            primary_keys=["region", "id"],
            partition_keys=["region"],
            options={"bucket": "1", "write-only": "true"},
        )
        for number in range(6):
            table.write([{"region": "north", "id": number}])
    return LakehouseResource(name=LAKE.name, warehouse=str(tmp_path), spark=SparkRuntime())


@dg.asset(ins={"rows": dg.AssetIn(ORDERS)})
def report(rows: pa.Table) -> None:
    assert rows.num_rows == 6


@dg.asset(ins={"rows": dg.AssetIn(ORDERS)}, partitions_def=REGIONS, backfill_policy=dg.BackfillPolicy.single_run())
def regions(rows: pa.Table) -> None:
    assert rows.num_rows == 6


def in_a_week(instance: dg.DagsterInstance, later: timedelta = timedelta()) -> dict[str, float]:
    """The reads that are counted, as those of a whole week."""
    found = reads_per_day(instance, LAKE, LAKE.tables, now=datetime.now(UTC) + later)
    return {name: round(often * module.WINDOW.days, 3) for name, often in found.items()}


def test_each_input_and_each_recorded_read_of_the_last_week_counts(
    instance: dg.DagsterInstance, lakehouse: LakehouseResource
) -> None:
    resources = {"io_manager": LakehouseIOManager(lakehouse=lakehouse)}
    before = sorted(Path(lakehouse.warehouse).rglob("*"))
    for _ in range(3):
        dg.materialize([dg.AssetSpec(ORDERS), report], instance=instance, resources=resources)
    mapped = table_metadata(partition_map=KeyColumn(column="region"))
    parted = dg.AssetSpec(ORDERS, partitions_def=REGIONS, metadata=mapped)
    dg.materialize([parted, regions], instance=instance, resources=resources, tags=BOTH)
    assert in_a_week(instance) == {"sales.orders": 4}

    record_read(instance, LAKE, "sales.returns", snapshot_id=6, by="the report of the day")
    # What a replay tells is no read.
    instance.report_runless_asset_event(dg.AssetObservation(ORDERS, metadata={"paimon/snapshot_id": 6}))

    assert in_a_week(instance) == {"sales.orders": 4, "sales.returns": 1}
    assert in_a_week(instance, timedelta(days=7, seconds=1)) == {}
    assert sorted(Path(lakehouse.warehouse).rglob("*")) == before
    with pytest.raises(lc.InvalidRequest, match=r"there is no table sales\.none"):
        record_read(instance, LAKE, "sales.none")


def test_of_a_table_that_is_read_very_often_the_newest_reads_tell_how_often(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 3)
    monkeypatch.setattr(module, "_MOST", 6)
    for _ in range(10):
        record_read(instance, LAKE, "sales.orders")

    # Six reads in the last hour, as far as they are looked at.
    (often,) = reads_per_day(instance, LAKE, LAKE.tables, now=datetime.now(UTC) + timedelta(hours=1)).values()
    assert often == pytest.approx(6 * 24, rel=0.01)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, {"sales.orders": "2 reads", "sales.returns": "one read"}),
        ({"reads": {"sales.orders": 5000}}, {"sales.orders": "5,000 reads", "sales.returns": "one read"}),
    ],
)
def test_a_plan_weighs_the_reads_that_dagster_has_seen_and_says_so(
    instance: dg.DagsterInstance, lakehouse: LakehouseResource, config: dict[str, Any], told: dict[str, str]
) -> None:
    for _ in range(14):
        record_read(instance, LAKE, "sales.orders")
    record_read(instance, LAKE, "sales.returns")
    fleet = fleet_asset(LAKE, lc.Budget(bytes=10**9), operations=["compact"])
    run_config = {"ops": {LAKE.fleet_key.to_python_identifier(): {"config": {"dry_run": True, **config}}}}
    dg.materialize([fleet], instance=instance, resources={LAKE.resource: lakehouse}, run_config=run_config)

    (plan,) = instance.fetch_observations(LAKE.fleet_key, limit=1).records
    assert plan.asset_observation is not None
    choices = plan.asset_observation.metadata["paimon/choices"]
    assert isinstance(choices, dg.TableMetadataValue)
    found = {str(row.data["table"]): str(row.data["why"]) for row in choices.records}
    refused = plan.asset_observation.metadata["paimon/refusals"]
    assert isinstance(refused, dg.TableMetadataValue)
    found |= {str(row.data["table"]): str(row.data["why not"]) for row in refused.records}
    assert {name: text in found[name] for name, text in told.items()} == dict.fromkeys(told, True), found
