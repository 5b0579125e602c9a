"""The health page that maintenance writes, where the lakehouse resource names a folder."""

from pathlib import Path

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster import LakehouseResource, SparkRuntime, lake_definitions
from lakehouse_dagster.assets.maintain import write_page
from tests.lakehouse_dagster.shop import ShopFeed, shop_lake

pytestmark = pytest.mark.dagster


def maintained(folder: Path, instance: dg.DagsterInstance, pages: str) -> dg.AssetMaterialization:
    """Load a day, maintain, and return the event of the compaction."""
    lake = shop_lake()
    resource = LakehouseResource(
        name=lake.name, warehouse=str(folder / "warehouse"), spark=SparkRuntime(), health_pages=pages
    )
    definitions = lake_definitions(lake, resources={"lakehouse": resource, "shop": ShopFeed()})
    day = {f"dagster/asset_partition_range_{end}": "2013-01-01" for end in ("start", "end")}
    for job, tags in (("ingest", day), ("maintain", {})):
        assert definitions.resolve_job_def(lake.scoped(job)).execute_in_process(instance=instance, tags=tags).success
    key = lake.operation_key(lake.tables[0], "compact_full")
    return instance.get_latest_materialization_event(key).asset_materialization


def test_maintenance_writes_the_page_and_shows_its_path(tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        made = maintained(tmp_path, instance, str(tmp_path / "pages"))

    page = Path(made.metadata["paimon/health_page"].value)
    assert page == tmp_path / "pages" / "sales.orders.html"
    assert "<h1>Health of sales.orders</h1>" in page.read_text()


def test_without_a_folder_there_is_no_page_and_a_bad_one_fails_no_run(tmp_path, capfd):
    (tmp_path / "a file").write_text("")

    with dg.DagsterInstance.ephemeral() as instance:
        assert "paimon/health_page" not in maintained(tmp_path / "none", instance, "").metadata
        assert "paimon/health_page" not in maintained(tmp_path / "bad", instance, str(tmp_path / "a file")).metadata

    assert "sales.orders: its health page " in capfd.readouterr().err


def test_a_page_that_cannot_be_made_of_a_table_fails_no_step(tmp_path):
    warnings = []

    def text():
        raise lc.CorruptTable("manifest-1: cut off")

    assert write_page(str(tmp_path), "sales.orders", text, warnings.append) == {}
    assert [line.endswith("cannot be written (manifest-1: cut off).") for line in warnings] == [True]
