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
