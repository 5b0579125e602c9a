"""Which dead runs are carried on, and as what: each case of a failed run, without a daemon."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster import lake_definitions
from lakehouse_dagster.automation.dead_runs import GRACE, MEMORY, Death, carried_tags, is_claimed, is_forgotten
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake, shop_resources

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def death(**change: Any) -> Death:
    fields: dict[str, Any] = {
        "run_id": "dead",
        "ended": NOW - GRACE,
        "tags": {"dagster/will_retry": "true"},
        "retries": 0,
        "child": False,
    }
    return Death(**{**fields, **change})


CASES = {
    "died and not executed again": (death(), True),
    "Dagster tried to retry it and failed": (death(tags={"dagster/will_retry": "false"}), True),
    "started too late": (death(tags={"dagster/failure_reason": "START_TIMEOUT"}), True),
    "executed again": (death(child=True), False),
    "a step failed": (death(tags={"dagster/failure_reason": "STEP_FAILURE"}), False),
    "Dagster may still do it": (death(ended=NOW - GRACE + SECOND), False),
    "of yesterday": (death(ended=NOW - MEMORY - SECOND), False),
    "executed again as often as it may": (death(retries=1), False),
    "may be executed again oftener": (death(retries=1, tags={"dagster/max_retries": "2"}), True),
    "may not be executed again": (death(tags={"dagster/max_retries": "0"}), False),
    "carried on once, twice allowed": (
        death(retries=1, tags={"dagster/max_retries": "0", "lakehouse/max_retries": "2"}),
        True,
    ),
    "a number of retries that is none": (death(tags={"dagster/max_retries": "many"}), True),
}


@pytest.mark.parametrize(("dead", "expected"), CASES.values(), ids=CASES.keys())
def test_a_run_is_forgotten_when_nobody_executes_it_again(dead: Death, expected: bool):
    assert is_forgotten(dead, max_retries=1, now=NOW) is expected


def test_the_claim_on_a_run_does_not_hold_for_a_run_that_copied_its_tags():
    tags = {"lakehouse/carry_on": "dead"}

    assert is_claimed(death(tags=tags))
    assert not is_claimed(death(tags=tags, run_id="copy"))


def test_a_carried_run_is_of_the_group_of_the_dead_one_and_does_the_same():
    dead = death(
        tags={
            "dagster/partition": "2013-01-01",
            "lakehouse/table": "sales.orders",
            "dagster/will_retry": "true",
            "dagster/run_key": "k",
            "lakehouse/carry_on": "dead",
            ".dagster/grpc_info": "{}",
        }
    )

    assert carried_tags(dead, max_retries=1) == {
        "dagster/partition": "2013-01-01",
        "lakehouse/table": "sales.orders",
        "dagster/parent_run_id": "dead",
        "dagster/root_run_id": "dead",
        "lakehouse/root_run_id": "dead",
        "dagster/max_retries": "0",
        "lakehouse/max_retries": "1",
    }


def test_what_is_carried_on_twice_keeps_its_first_run_and_its_number_of_retries():
    once = carried_tags(death(tags={"dagster/max_retries": "3"}), max_retries=1)

    twice = carried_tags(death(run_id="child", tags=once), max_retries=1)

    assert twice == {**once, "dagster/parent_run_id": "child"}
    assert twice["lakehouse/max_retries"] == "3"


class WholeFeed(ShopFeed):
    """All rows at once."""

    def rows(self, feed: str, batch: str | None) -> Any:
        return super().rows(feed, "2013-01-05")

    def expected_rows(self, feed: str, through: str | None) -> int:
        return 2


@pytest.mark.dagster
def test_a_whole_load_that_was_committed_before_its_run_died_is_not_loaded_again(tmp_path: Path):
    """Each run of it is a new load; a carried-on run is the same one."""
    whole = orders(
        write_mode="append",
        primary_key=(),
        options={"bucket": "-1"},
        feed={"source": "shop", "name": "orders", "batches": False},
    )
    lake = shop_lake(whole)
    resources = {**shop_resources(tmp_path / "warehouse", lake), "shop": WholeFeed()}
    ingest = lake_definitions(lake, resources=resources).resolve_job_def("mine_ingest")
    table = lambda: lc.connect(str(tmp_path / "warehouse")).table("sales.orders")  # noqa: E731

    with dg.DagsterInstance.ephemeral() as instance:
        dead = ingest.execute_in_process(instance=instance)
        tags = carried_tags(death(run_id=dead.run_id, tags=dead.dagster_run.tags), max_retries=1)
        again = ingest.execute_in_process(instance=instance, tags=tags)
        rows_of_one_load = table().scan().count()
        ingest.execute_in_process(instance=instance)

    assert again.success
    assert rows_of_one_load == 2
    assert table().scan().count() == 4
