"""The tags of runs: one table has its name and its operations, several have none; a group keeps its first run."""

import pytest

from lakehouse_dagster.run_tags import root_run_id, table_tags


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
