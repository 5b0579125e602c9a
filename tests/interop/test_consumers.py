"""Consumers of derived tables: Java sees those that ours set and keeps what they need, and ours do so for Java's."""

from collections.abc import Iterator
from datetime import timedelta

import dagster as dg
import pyarrow as pa
import pytest

import lakehouse_core as lc
from lakehouse_dagster import Lake, TableSpec, commit_asset, ingest_asset
from lakehouse_dagster.pipeline import create_table
from lakehouse_dagster.testing import ReadyLake, ready_lake
from tests.interop.judge import VERSIONS, Judge

pytestmark = [pytest.mark.interop, pytest.mark.dagster]
FOLLOWED, DERIVED = "d.orders", "d.open_orders"
COMMON = {
    "database": "d",
    "comment": "T.",
    "columns": {"id": "BIGINT NOT NULL", "closed": "STRING"},
    "primary_key": ["id"],
    "runs_on": "process",
}
OPTIONS = {"bucket": "1", "changelog-producer": "input", "write-only": "true", "lakehouse.read.grace": "0 s"}


def nothing() -> pa.Table:
    """The followed table is written by the test."""
    return pa.table({"id": pa.array([], pa.int64())})


SPECS = [
    TableSpec.model_validate({**COMMON, **own})
    for own in (
        {"name": "orders", "write_mode": "upsert", "function": {"call": nothing}, "options": OPTIONS},
        {
            "name": "open_orders",
            "write_mode": "cdc",
            "changes_of": {"table": FOLLOWED, "while_null": ["closed"]},
            "options": {"bucket": "1"},
        },
    )
]
# By which the derived table holds the changes that it has yet to take.
CONSUMER = "changes.lake.d.open_orders"


@pytest.fixture(scope="module", params=VERSIONS)
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    with Judge(request.param) as java:
        yield java


@pytest.fixture
def ready() -> Iterator[ReadyLake]:
    with ready_lake(Lake(name="lake", tables=SPECS), resources={}) as made:
        create_table(lc.connect(made.warehouse), SPECS[0], {})
        yield made


def follow(ready: ReadyLake) -> None:
    """Let the derived table take the changes."""
    resources = {"lakehouse": (ready.definitions.resources or {})["lakehouse"]}
    made = [each(ready.lake, SPECS[1]) for each in (ingest_asset, commit_asset)]
    assert dg.materialize(made, instance=ready.instance, resources=resources).success


def java(judge: Judge, ready: ReadyLake, verb: str, **request: object) -> object:
    return judge.call(verb, table=FOLLOWED, warehouse=str(ready.warehouse), **request)


def written(judge: Judge, ready: ReadyLake, *ids: int) -> None:
    """Java commits each order in a snapshot of its own."""
    for number in ids:
        java(judge, ready, "write", rows=[{"id": number, "closed": None}])


def consumers(ready: ReadyLake) -> dict[str, int]:
    rows = ready.table(FOLLOWED).system("consumers").to_arrow().to_pylist()
    return {row["consumer_id"]: row["next_snapshot_id"] for row in rows}


def retained(ready: ReadyLake) -> list[int]:
    return [each.id for each in ready.table(FOLLOWED).snapshots()]


def test_java_reads_the_consumer_of_a_derived_table_and_its_expiry_keeps_what_is_not_taken(
    judge: Judge, ready: ReadyLake
) -> None:
    written(judge, ready, 0, 1)
    follow(ready)
    written(judge, ready, 2, 3, 4)
    assert java(judge, ready, "consumer") == consumers(ready) == {CONSUMER: 3}

    java(judge, ready, "expire", retainMax=1, retainMin=1)

    assert retained(ready) == [3, 4, 5]
    follow(ready)
    assert sorted(row["id"] for row in ready.table(DERIVED).scan().to_arrow().to_pylist()) == [0, 1, 2, 3, 4]
    assert java(judge, ready, "consumer") == consumers(ready) == {CONSUMER: 6}
    # With all changes taken nothing is held.
    java(judge, ready, "expire", retainMax=1, retainMin=1)
    assert retained(ready) == [5]
    assert ready.table(FOLLOWED).verify(data=True).findings == ()


def test_our_expiry_keeps_what_javas_consumer_and_a_derived_table_need(judge: Judge, ready: ReadyLake) -> None:
    written(judge, ready, 0, 1)
    follow(ready)
    written(judge, ready, 2, 3)
    java(judge, ready, "consumer", consumer="flink", nextSnapshot=2)
    assert java(judge, ready, "consumer") == consumers(ready) == {CONSUMER: 3, "flink": 2}

    ready.table(FOLLOWED).expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert retained(ready) == [2, 3, 4]

    # Java's reader is done: what is left is held for the derived table alone.
    java(judge, ready, "consumer", delete="flink")
    ready.table(FOLLOWED).expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert retained(ready) == [3, 4]
    follow(ready)
    assert java(judge, ready, "consumer") == consumers(ready) == {CONSUMER: 5}
    ready.table(FOLLOWED).expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert retained(ready) == [4]
    assert sorted(row["id"] for row in ready.table(DERIVED).scan().to_arrow().to_pylist()) == [0, 1, 2, 3]
