"""How rows come to their buckets: one of four kinds, by the option `bucket` and the keys of the table."""

import pytest

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.options import BucketFunction
from lakehouse_core.table.bucketing import (
    Bucketing,
    Dynamic,
    Fixed,
    Postpone,
    Unaware,
    bucketing_of,
    has_buckets,
    is_placed,
    is_waiting_room,
    moves_rows,
    total_buckets,
)
from lakehouse_core.table.schema import TableSchema, new_schema

COLUMNS = {"dt": "STRING NOT NULL", "id": "INT NOT NULL"}
HASHED, MODULO = BucketFunction.DEFAULT, BucketFunction.MOD


def a_schema(bucket: str, *keys: str, function: str = "default") -> TableSchema:
    """A schema as another engine may have made it: rules for new tables do not hold."""
    schema = new_schema(COLUMNS, partition_keys=["dt"], now_millis=0)
    options = {"bucket": bucket, "bucket-function.type": function}
    return TableSchema(
        id=0,
        fields=schema.fields,
        highest_field_id=schema.highest_field_id,
        partition_keys=("dt",),
        primary_keys=keys,
        options=options,
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (a_schema("-1"), Unaware()),
        (a_schema("-1", "dt", "id"), Dynamic(crosses_partitions=False)),
        (a_schema("-1", "id"), Dynamic(crosses_partitions=True)),
        (a_schema("-2", "dt", "id"), Postpone()),
        (a_schema("1"), Fixed(1, HASHED)),
        (a_schema("4", "dt", "id"), Fixed(4, HASHED)),
        (a_schema("4", "dt", "id", function="mod"), Fixed(4, MODULO)),
    ],
)
def test_option_and_keys_say_how_rows_come_to_their_buckets(schema: TableSchema, expected: Bucketing) -> None:
    assert schema.bucketing == expected


@pytest.mark.parametrize("bucket", [0, -3])
def test_other_values_mean_nothing(bucket: int) -> None:
    with pytest.raises(InvalidRequest, match=f"Option bucket is {bucket}: expected 1 or more, -1 or -2"):
        bucketing_of(bucket, HASHED, has_key=True, crosses_partitions=False)


@pytest.mark.parametrize(
    ("bucketing", "together", "total"),
    [
        (Fixed(4, HASHED), True, 4),
        (Unaware(), False, -1),
        (Dynamic(crosses_partitions=False), True, -1),
        (Postpone(), True, -2),
    ],
)
def test_entries_say_how_many_buckets_there_are(bucketing: Bucketing, together: bool, total: int) -> None:
    assert (has_buckets(bucketing), total_buckets(bucketing)) == (together, total)


@pytest.mark.parametrize(
    ("bucket", "placed", "waiting"), [(0, True, False), (7, True, False), (-1, False, False), (-2, False, True)]
)
def test_rows_of_a_negative_bucket_wait_to_be_placed(bucket: int, placed: bool, waiting: bool) -> None:
    assert (is_placed(bucket), is_waiting_room(bucket)) == (placed, waiting)


@pytest.mark.parametrize(
    ("old", "new", "expected"), [(4, 8, False), (-2, 4, False), (-1, 4, True), (4, -1, True), (-1, -2, True)]
)
def test_rows_move_where_buckets_come_or_go(old: int, new: int, expected: bool) -> None:
    assert moves_rows(old, new) is expected
