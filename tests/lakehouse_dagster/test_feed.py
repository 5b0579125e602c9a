"""Batches and the identity of their commits."""

import dagster as dg
import pytest

from lakehouse_dagster.feed import Feed, batches_of, commit_user, first_range

DAYS = dg.DailyPartitionsDefinition(start_date="2013-01-01", end_date="2013-01-11", timezone="UTC")
FEED = Feed(key=dg.AssetKey("feed"), source=dg.AssetKey("source"), resource="shop", names=("orders",), batches=DAYS)


def test_the_identifier_of_a_batch_is_its_ordinal():
    assert [FEED.batch(key).identifier for key in ("2013-01-01", "2013-01-10")] == [0, 9]
    assert FEED.batch_key(9) == "2013-01-10"
    assert FEED.batch_key(10) is None


@pytest.mark.parametrize(
    ("first", "last", "identifiers"), [("2013-01-03", "2013-01-05", [2, 3, 4]), ("2013-01-10", "2013-01-10", [9])]
)
def test_a_range_is_its_batches_oldest_first(first: str, last: str, identifiers: list[int]):
    found: list[int] = []

    @dg.asset(partitions_def=DAYS, backfill_policy=dg.BackfillPolicy.single_run())
    def taken(context: dg.AssetExecutionContext) -> None:
        found.extend(batch.identifier for batch in batches_of(context, FEED))

    dg.materialize(
        [taken], tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    )

    assert found == identifiers


def user(**change: object) -> str:
    return commit_user(
        **{"table": "lake/ops/t", "feed": "shop/orders", "version": "v1", "root_run_id": "r1", "is_batched": True}
        | change
    )


def test_a_batch_has_one_identity_whichever_run_takes_it():
    assert user(root_run_id="r1") == user(root_run_id="r2") == "feed/shop/orders@v1/lake/ops/t"
    assert user(version="v2") != user()


def test_a_whole_load_has_the_identity_of_its_root_run():
    assert user(is_batched=False) == user(is_batched=False, version="v2") == "run/r1/lake/ops/t"
    assert user(is_batched=False, root_run_id="r2") != user(is_batched=False)


# Batches that wait, in their order; partitions in the order of Dagster → the first range of Dagster.
RANGES = """
123  123    123
123  321    321
23   132    32
24   1234   2
123  1x23   1
13   1x3    1
12   21x    21
134  4x31   31
234  1423   423
-    123    -
"""


@pytest.mark.parametrize("case", RANGES.strip().splitlines())
def test_a_run_takes_the_oldest_batches_that_are_one_range_of_dagster(case: str):
    wanted, order, found = (text.replace("-", "") for text in case.split())

    assert "".join(first_range([*wanted], [*order])) == found
