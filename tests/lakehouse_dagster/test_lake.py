"""A lake owns the keys of its assets, and refuses tables that it cannot fill."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

import lakehouse_core as lc
from lakehouse_dagster import (
    TableSpec,
    commit_asset,
    compact_full_asset,
    expire_asset,
    ingest_asset,
    table_checks,
)
from tests.lakehouse_dagster.shop import orders, shop_lake


def test_the_keys_of_a_table_begin_with_the_name_of_its_lake():
    spec = orders()

    assert shop_lake(name="a").scoped("ingest") == "a_ingest"
    assert shop_lake(name="a").table_key(spec) == dg.AssetKey(["a", "sales", "orders"])
    assert shop_lake(name="b").operation_key(spec, "expire") == dg.AssetKey(["b", "sales", "orders", "expire"])


def test_a_table_is_found_by_its_name_and_another_is_refused_with_those_there_are():
    lake = shop_lake(orders(), orders(name="carts"))

    assert lake.table("sales.carts").name == "carts"
    with pytest.raises(
        lc.InvalidRequest, match=r"lake mine: there is no table sales\.cart; there are sales\.orders, sales\.carts\."
    ):
        lake.table("sales.cart")


@pytest.mark.parametrize(
    ("foreign", "fault"),
    [
        (orders(name="carts"), "lake mine: there is no table sales.carts; there are sales.orders. Specify it, or"),
        (orders(comment="Other."), "lake mine: it specifies sales.orders differently. Pass the specification that it"),
    ],
)
@pytest.mark.parametrize("build", [ingest_asset, commit_asset, compact_full_asset, expire_asset, table_checks])
def test_a_table_of_another_lake_is_refused(foreign: TableSpec, fault: str, build: Callable[..., object]):
    with pytest.raises(lc.InvalidRequest) as refused:
        build(shop_lake(), foreign)

    assert str(refused.value).startswith(fault)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ([{}, {}], "lake mine: sales.orders is specified twice. Keep one."),
        (
            [{"feed": {"source": "mail", "name": "orders"}}],
            "lake mine: sales.orders is fed by 'mail', expected one of shop. Add the feed, or change feed.source.",
        ),
        (
            [{"feed": None, "changes_of": {"table": "sales.carts", "while_null": ["id"]}}],
            "lake mine: there is no table sales.carts; there are sales.orders. Specify it, or name one of these.",
        ),
    ],
)
def test_a_lake_that_cannot_be_filled_is_refused(changes: list[dict[str, Any]], fault: str):
    with pytest.raises(lc.InvalidRequest) as refused:
        shop_lake(*(orders(**change) for change in changes))

    assert str(refused.value) == fault
