"""Tables that load by themselves, with a real daemon: nobody starts a run."""

from pathlib import Path

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster.pipeline import open_table
from tests.lakehouse_dagster.plane import plane

pytestmark = [pytest.mark.dagster, pytest.mark.own_session, pytest.mark.slow]
ROWS = {"sales.orders": 3, "sales.open_orders": 3, "sales.visits": 1, "sales.rates": 1}


@pytest.mark.long
def test_a_daemon_loads_what_is_delivered_what_follows_it_files_and_what_is_due(tmp_path: Path):
    (tmp_path / "visits.csv").write_text("id\n7\n")
    catalog = lc.connect(str(tmp_path / "warehouse"))

    def loaded() -> bool:
        tables = {name: open_table(catalog, name) for name in ROWS}
        return {name: 0 if table is None else table.scan().count() for name, table in tables.items()} == ROWS

    with plane(tmp_path, module="tests.lakehouse_dagster.loading_location") as dagster:
        dagster.wait_for("all tables are loaded", loaded)

        made = [run for run in dagster.instance.get_runs() if "dagster/sensor_name" in run.tags]
        by = {run.tags.get("lakehouse/table", "several"): run.tags["dagster/sensor_name"] for run in made}
        assert by == {
            "sales.orders": "mine_shop_news",
            "sales.visits": "mine_news",
            "sales.open_orders": "mine_derived",
        }
        on_time = [run for run in dagster.instance.get_runs() if "dagster/schedule_name" in run.tags]
        assert {run.tags["lakehouse/table"] for run in on_time} == {"sales.rates"}
        (batches,) = (run for run in made if run.tags["lakehouse/table"] == "sales.orders")
        assert batches.tags["dagster/asset_partition_range_end"] == "2013-01-02"
        assert dg.DagsterRunStatus.FAILURE not in {run.status for run in dagster.instance.get_runs()}
