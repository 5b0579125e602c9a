"""The tags of runs: one table has its name and its operations, several have none; a group keeps its first run."""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse_dagster import lake_definitions
from lakehouse_dagster.run_tags import root_run_id, table_tags
from tests.lakehouse_dagster.shop import orders, shop_lake, shop_resources


def asset(table: str, operation: str) -> dict[str, str]:
    return {"lakehouse/table": table, "lakehouse/operation": operation, "lakehouse/database": "sales"}


FEED = {"dagster/kind/python": ""}

CASES = {
    "one operation": ([asset("sales.a", "expire")], {"lakehouse/table": "sales.a", "lakehouse/operation": "expire"}),
    "two operations, whatever their order": (
        [asset("sales.a", "ingest"), asset("sales.a", "commit")],
        {"lakehouse/table": "sales.a", "lakehouse/operation": "commit+ingest"},
    ),
    "a feed counts for nothing": (
        [FEED, asset("sales.a", "ingest")],
        {"lakehouse/table": "sales.a", "lakehouse/operation": "ingest"},
    ),
    "two tables": ([asset("sales.a", "ingest"), asset("sales.b", "ingest")], {}),
    "a whole lake": ([FEED, {"lakehouse/operation": "fleet"}], {"lakehouse/operation": "fleet"}),
    "a whole lake and a table": ([{"lakehouse/operation": "fleet"}, asset("sales.a", "ingest")], {}),
    "no table": ([FEED], {}),
    "nothing": ([], {}),
}


@pytest.mark.parametrize(("assets", "expected"), CASES.values(), ids=CASES.keys())
def test_a_run_of_a_single_table_says_so(assets: list[dict[str, str]], expected: dict[str, str]):
    assert table_tags(assets) == expected


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({}, "mine"),
        ({"dagster/root_run_id": "first"}, "first"),
        ({"lakehouse/root_run_id": "first", "dagster/root_run_id": "carried"}, "first"),
    ],
    ids=["a run of its own", "executed again", "a carried-on run, executed again by hand"],
)
def test_the_first_run_of_a_group_is_found_through_every_re_execution(tags: dict[str, str], expected: str):
    assert root_run_id("mine", tags) == expected


@pytest.mark.dagster
@pytest.mark.parametrize(
    ("tables", "table"), [(["orders"], "sales.orders"), (["orders", "carts"], None)], ids=["one table", "two tables"]
)
def test_an_instance_without_our_queue_has_the_tags_of_a_table_too(
    tmp_path: Path, tables: list[str], table: str | None
):
    lake = shop_lake(*(orders(name=name) for name in tables))
    defs = lake_definitions(lake, resources=shop_resources(tmp_path, lake))

    with dg.DagsterInstance.ephemeral() as instance:
        tags = {"dagster/partition": "2013-01-01"}
        ended = defs.resolve_job_def("mine_ingest").execute_in_process(instance=instance, tags=tags)
        run = instance.get_run_by_id(ended.run_id)

    assert run is not None
    assert run.tags.get("lakehouse/table") == table
    assert run.tags["lakehouse/operation"] == "ingest", "of the job"
