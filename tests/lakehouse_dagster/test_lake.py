"""A lake owns the keys of its assets, and refuses tables that it cannot fill."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

import lakehouse_core as lc
from lakehouse_dagster import (
    Lake,
    LakehouseIOManager,
    LakehouseResource,
    LakehouseTranslator,
    SparkRuntime,
    TableFacts,
    TableSpec,
    commit_asset,
    compact_full_asset,
    expire_asset,
    ingest_asset,
    load_specs,
    table_checks,
)
from lakehouse_dagster.testing import ready_lake
from tests.lakehouse_dagster.shop import ShopFeed, orders, shop_lake


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
        ([{}, {}], "sales.orders: sales.orders is specified twice in the lake mine. Keep one."),
        (
            [{"feed": {"source": "mail", "name": "orders"}}],
            "sales.orders: feed.source 'mail' is not known; there are shop.",
        ),
        (
            [{"feed": {"source": "shop", "name": "order"}}],
            "sales.orders: feed.name 'order' is not known; did you mean 'orders'?",
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


def test_a_lake_without_feeds_or_with_a_folder_in_place_of_tables_is_refused():
    with pytest.raises(
        lc.InvalidRequest, match=r"the lake mine has no feeds\. Give it one: Lake\(feeds=\{'shop': …\}\)\."
    ):
        Lake(name="mine", tables=(orders(),))
    with pytest.raises(lc.InvalidRequest, match=r"tables='tables': expected specifications\. Read them: load_specs"):
        Lake(name="mine", tables="tables")


def test_a_misspelled_argument_of_a_resource_is_refused():
    with pytest.raises(ValidationError, match="profil\n  Extra inputs are not permitted"):
        LakehouseResource(warehouse="a", profil="b", spark=SparkRuntime())
    with pytest.raises(ValidationError, match="lake\n  Extra inputs are not permitted"):
        LakehouseIOManager(lakehouse=LakehouseResource(warehouse="a", spark=SparkRuntime()), lake="b")


class Flat(LakehouseTranslator):
    """Another team's names."""

    def key(self, table: TableFacts) -> dg.AssetKey:
        return dg.AssetKey([f"{table.lake}_{table.name}"])

    def group_name(self, table: TableFacts) -> str:
        return "imported"

    def owners(self, table: TableFacts) -> list[str]:
        return [*table.owners, "team:data"]

    def tags(self, table: TableFacts) -> dict[str, str]:
        return {"source": table.lake}

    def kinds(self, table: TableFacts) -> set[str]:
        return {"table"}

    def description(self, table: TableFacts) -> str:
        return f"{table.comment} From {table.identifier}."


class OneKey(LakehouseTranslator):
    def key(self, table: TableFacts) -> dg.AssetKey:
        return dg.AssetKey(table.database)


@pytest.mark.dagster
def test_a_translator_names_the_assets_of_a_lake_and_changes_no_commit():
    lake = replace(shop_lake(orders(owners=["team:shop"])), translator=Flat())

    with ready_lake(lake, resources={"shop": ShopFeed()}) as ready:
        ready.ingest("2013-01-01", "2013-01-02")
        ready.maintain()
        users = {each.commit_user for each in ready.table("sales.orders").committers() if "feed" in each.commit_user}

        assert ready.table("sales.orders").scan().count() == 3
        ready.assert_metadata("sales.orders", {"dagster/row_count": 3})
        assert all(ready.checks("sales.orders").values())
        assert users == {"feed/shop/orders@v1/mine/sales/orders"}
        graph = ready.definitions.resolve_asset_graph()
        table, expire = graph.get(dg.AssetKey("mine_orders")), graph.get(dg.AssetKey(["mine_orders", "expire"]))
        assert (table.description, table.group_name, expire.group_name) == (
            "Orders. From sales.orders.",
            "imported",
            "imported",
        )
        assert (table.owners, table.kinds, table.tags["source"]) == (
            ["team:shop", "team:data"],
            {"table", "python"},
            "mine",
        )
        assert table.tags["lakehouse/table"] == "sales.orders"
        assert table.pools == {"mine/sales/orders"}


def test_a_translator_that_gives_two_tables_one_key_is_refused():
    lake = shop_lake(orders(), orders(name="carts"))

    with pytest.raises(lc.InvalidRequest) as refused:
        replace(lake, translator=OneKey())

    assert str(refused.value) == (
        "sales.carts: the translator of the lake mine gives sales.orders and sales.carts one key, sales. Give each "
        "table a key of its own."
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            "ingest: {schedule: 0 6 * * *, news: true}",
            "ingest.news: the feed 'shop', which has no `delivered`, does not",
        ),
        ("behind: {warn_above: 1}", "behind: the feed 'shop', which has no `delivered`, does not tell what is new, so"),
        ("ingest: {schedule: 0 6 * * *}", ""),
    ],
)
def test_what_a_feed_does_not_tell_is_refused_with_file_and_line(tmp_path: Path, line: str, fault: str):
    lines = ["database: sales", "name: orders", "comment: Orders.", "columns: {id: BIGINT NOT NULL}"]
    lines += ["write_mode: upsert", "primary_key: [id]", line, "feed: {source: shop, name: orders}"]
    (tmp_path / "orders.yaml").write_text("\n".join(lines))
    (spec,) = load_specs(tmp_path, root=tmp_path)

    with pytest.raises(lc.InvalidRequest) if fault else nullcontext() as refused:
        shop_lake(spec)

    if refused is not None:
        assert str(refused.value).startswith(f"orders.yaml:7: {fault}")


@pytest.mark.dagster
@pytest.mark.long
def test_a_compaction_after_which_a_tag_is_not_complete_warns_and_does_not_fail(capfd: pytest.CaptureFixture[str]):
    with ready_lake(
        shop_lake(orders(options={"bucket": "1", "write-only": "true"})), resources={"shop": ShopFeed()}
    ) as ready:
        ready.ingest("2013-01-01", "2013-01-02")
        table = ready.table("sales.orders")
        # Its file stands where the success files are to be.
        table.create_tag("success-file")
        table.alter(
            lc.SetOption("tag.automatic-creation", "process-time"), lc.SetOption("tag.create-success-file", "true")
        )
        ready.maintain()

    assert "sales.orders: compact_full: automatic tags are not complete: " in capfd.readouterr().err
