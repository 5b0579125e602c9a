"""Batches that a table must not take."""

from pathlib import Path

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster.feed import Feed, commit_user
from lakehouse_dagster.pipeline.staging import refuse_gap

DAYS = dg.DailyPartitionsDefinition(start_date="2013-01-01", end_date="2013-01-11", timezone="UTC")
FEED = Feed(key=dg.AssetKey("feed"), source=dg.AssetKey("source"), resource="shop", names=("orders",), batches=DAYS)


def user(version: str) -> str:
    return commit_user(table="lake/ops/t", feed="shop/orders", version=version, root_run_id="r1", is_batched=True)


@pytest.mark.parametrize("keys", [[], ["id"]])
def test_an_append_table_takes_its_batches_from_one_version_of_the_feed(tmp_path: Path, keys: list[str]):
    catalog = lc.connect(tmp_path)
    catalog.create_database("ops")
    bucket = "1" if keys else "-1"
    table = catalog.create_table("ops.t", {"id": "INT NOT NULL"}, primary_keys=keys, options={"bucket": bucket})
    table.commit(table.stage([{"id": 1}], commit_user=user("v1"), commit_identifier=0))

    def ingest(version: str) -> None:
        refuse_gap(table, [FEED.batch("2013-01-01")], FEED, lambda *_: False, commit_user=user(version))

    ingest("v1")
    if keys:
        ingest("v2")
    else:
        with pytest.raises(
            lc.InvalidRequest,
            match=r"ops\.t: found batches of feed/shop/orders@v2.* took them from feed/shop/orders@v1",
        ):
            ingest("v2")


def test_a_run_over_batches_with_one_missing_between_them_is_refused(tmp_path: Path):
    """Else the last one would hide it: what is older than the last committed batch counts as committed."""
    catalog = lc.connect(tmp_path)
    catalog.create_database("ops")
    table = catalog.create_table("ops.t", {"id": "INT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})
    table.commit(table.stage([{"id": 1}], commit_user=user("v1"), commit_identifier=0))

    def is_gap(after: str | None, before: str) -> bool:
        return FEED.batch(before).identifier > (0 if after is None else FEED.batch(after).identifier + 1)

    def ingest(*days: int) -> None:
        batches = [FEED.batch(f"2013-01-{day:02}") for day in days]
        refuse_gap(table, batches, FEED, is_gap, commit_user=user("v1"))

    ingest(1, 2, 3)
    with pytest.raises(lc.InvalidRequest, match=r"found batch 2013-01-04, but the batch before it is 2013-01-02"):
        ingest(1, 2, 4)
    with pytest.raises(lc.InvalidRequest, match=r"found batch 2013-01-04, but the last committed batch is 2013-01-01"):
        ingest(4)
