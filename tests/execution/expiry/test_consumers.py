"""Consumers: what a reader of the changes has yet to read stays, and a reader that is gone holds nothing for ever."""

from pathlib import Path

import pytest

import lakehouse_core as lc
from lakehouse_core.table.snapshot import serialize_consumer
from tests.execution.small_table import HOUR, SmallTable

DAY = 24 * HOUR
TWO_DAYS = {"consumer.expiration-time": "2 d"}


def held(*names: str, options: dict[str, str] = TWO_DAYS) -> SmallTable:
    """A table of six snapshots, whose consumers have yet to read the third."""
    table = SmallTable(options=options)
    for number in range(6):
        table.write({1: f"v{number}"})
    for name in names:
        table.store.write({f"consumer/consumer-{name}": serialize_consumer(3)})
    return table


def test_a_consumer_that_was_written_lately_holds_what_it_has_yet_to_read() -> None:
    table = held("mart")
    table.clock.advance(2 * DAY)

    result = table.expire(retain_max=1)

    assert table.ids() == [3, 4, 5, 6]
    assert result.reason == "snapshots 3 to 6 of 1 to 6 stay: consumer mart has yet to read 3"


@pytest.mark.parametrize("data", [serialize_consumer(3), b"torn"], ids=["readable", "not readable"])
def test_a_consumer_that_was_not_written_for_longer_is_removed_and_holds_nothing(data: bytes) -> None:
    table = held("gone")
    table.store.write({"consumer/consumer-gone": data})
    table.clock.advance(2 * DAY + 1)
    plan = table.expire(retain_max=1, dry_run=True)
    assert "consumer/consumer-gone" in table.objects()

    result = table.expire(retain_max=1)

    assert table.ids() == [6]
    assert "consumer/consumer-gone" not in table.objects()
    assert plan == result
    assert "consumer/consumer-gone" in result.deleted_keys
    assert result.reason.endswith("; removed by consumer.expiration-time: consumer gone")


def test_of_two_consumers_the_one_that_goes_on_holds() -> None:
    table = held("gone", "mart")
    table.clock.advance(2 * DAY + 1)
    table.store.write({"consumer/consumer-mart": serialize_consumer(5)})

    table.expire(retain_max=1)

    assert table.ids() == [5, 6]
    assert "consumer/consumer-mart" in table.objects()


def test_without_the_option_a_consumer_holds_for_ever() -> None:
    table = held("gone", options={})
    table.clock.advance(1000 * DAY)

    table.expire(retain_max=1)

    assert table.ids() == [3, 4, 5, 6]


@pytest.fixture
def orders(tmp_path: Path) -> lc.Table:
    catalog = lc.connect(tmp_path)
    catalog.create_database("shop")
    return catalog.create_table("shop.orders", {"id": "BIGINT NOT NULL"}, primary_keys=["id"], options={"bucket": "1"})


def test_the_position_of_a_consumer_is_set_moved_listed_and_deleted(orders: lc.Table) -> None:
    orders.set_consumer("mart", 3)
    orders.set_consumer("bi", 2)
    orders.set_consumer("mart", 7)

    assert orders.system("consumers").to_arrow().to_pylist() == [
        {"consumer_id": "bi", "next_snapshot_id": 2},
        {"consumer_id": "mart", "next_snapshot_id": 7},
    ]
    orders.delete_consumer("bi")
    assert orders.system("consumers").to_arrow().num_rows == 1
    with pytest.raises(lc.NotFound, match=r"Consumer 'bi' does not exist\. The consumers are: mart"):
        orders.delete_consumer("bi")


@pytest.mark.parametrize(
    ("name", "next_id", "told"),
    [
        ("mart", 0, "its next snapshot is 0, expected the id of a snapshot, from 1 on"),
        ("mart", 1 << 63, "its next snapshot is 9223372036854775808, expected the id of a snapshot, from 1 on"),
        ("mart", "3", "its next snapshot is '3', expected the id"),
        (" ", 1, "it is blank"),
        ("a/b", 1, "it contains a slash"),
        ("m" * 201, 1, "it has more than 200 bytes"),
        (5, 1, "Consumer 5: expected a text as its name"),
    ],
)
def test_a_position_that_cannot_be_is_refused(orders: lc.Table, name: str, next_id: int, told: str) -> None:
    with pytest.raises(lc.InvalidRequest, match=told):
        orders.set_consumer(name, next_id)

    assert orders.system("consumers").to_arrow().num_rows == 0
