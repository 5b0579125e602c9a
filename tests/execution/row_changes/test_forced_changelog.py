"""`delete.force-produce-changelog`: a DELETE of whole partitions is told to readers of changes, other verbs are not."""

from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest

import lakehouse_core as lc
from lakehouse_core.catalog.catalog import Catalog
from lakehouse_core.storage import MemoryStore
from tests.execution.row_changes.layouts import LAYOUTS, Layout, catalog_over, made
from tests.pairs import in_turn

FORCED = {"delete.force-produce-changelog": "true"}
KEYS = (("p", "k"), ("p",))
# By name: the options of a table, and whether a delete of its rows is told.
TABLES: Mapping[str, tuple[Mapping[str, str], bool]] = {
    "none": ({}, True),
    "input": ({"changelog-producer": "input"}, True),
    "lookup": ({"changelog-producer": "lookup"}, True),
    "full-compaction": ({"changelog-producer": "full-compaction"}, True),
    "dynamic": ({"bucket": "-1", "changelog-producer": "input"}, True),
    "postponed": ({"bucket": "-2", "changelog-producer": "input"}, True),
    "first-row": ({"merge-engine": "first-row", "changelog-producer": "lookup"}, False),
    "ignore-delete": ({"ignore-delete": "true", "changelog-producer": "input"}, False),
}


def made_with(options: Mapping[str, str]) -> tuple[MemoryStore, lc.Table]:
    store, table = made(Layout({"bucket": "2", **options}, *KEYS), **FORCED)
    table.compact(full=True)
    return store, table


def told(table: lc.Table, after: int) -> dict[int, int]:
    """Return how many rows of each partition were told as deleted since a snapshot."""
    table.compact(full=True)
    found: dict[int, int] = {}
    for row in table.changes(after=after).to_arrow().to_pylist():
        assert row["rowkind"] == "-D"
        found[row["p"]] = found.get(row["p"], 0) + 1
    return found


def last(table: lc.Table) -> int:
    snapshot = table.snapshot()
    assert snapshot is not None
    return snapshot.id


@pytest.mark.parametrize("name", in_turn(3, TABLES))
def test_a_delete_of_a_partition_is_told_where_the_table_takes_deletes(name: str) -> None:
    options, is_told = TABLES[name]
    _, table = made_with(options)
    before = last(table)
    count = table.scan(where="p = 2").count()

    report = table.delete("p = 2")

    assert table.scan(where="p = 2").count() == 0
    assert report.method == ("records" if is_told else "partitions")
    assert told(table, before) == ({2: count} if is_told else {})


def test_a_delete_without_a_condition_is_told_too() -> None:
    store, table = made_with({"changelog-producer": "input"})
    before, count = last(table), table.scan().count()

    catalog_over(store, 1).sql("DELETE FROM db.t")

    assert sum(told(table, before).values()) == count


@pytest.mark.parametrize(
    "verb",
    [
        lambda catalog: catalog.table("db.t").truncate(),
        lambda catalog: catalog.table("db.t").drop_partitions({"p": 2}),
        lambda catalog: catalog.sql("TRUNCATE TABLE db.t"),
        lambda catalog: catalog.sql("ALTER TABLE db.t DROP PARTITION (p = 2)"),
        lambda catalog: catalog.table("db.t").overwrite([], where="p = 2"),
        lambda catalog: catalog.table("db.t").expire_partitions(timedelta(0), strategy="update-time"),
    ],
)
def test_verbs_of_whole_partitions_are_not_told(verb: Callable[[Catalog], object]) -> None:
    store, table = made_with({"changelog-producer": "input"})
    before = last(table)

    verb(catalog_over(store, 1))

    assert table.scan(where="p = 2").count() == 0
    assert told(table, before) == {}


def test_without_the_option_a_delete_of_a_partition_removes_its_files() -> None:
    _, table = made(Layout({"bucket": "2"}, *KEYS))

    assert table.delete("p = 2").method == "partitions"
    _, append = made(LAYOUTS["append, partitions"], **FORCED)
    assert append.delete("p = 2").method == "partitions"
