"""Whose time is over, row by row and by the smallest value of a file, counted in whole seconds as Java counts."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.data_types import DataField, parse_type
from lakehouse_core.table.record_expiry import RecordExpiry, expired_rows, is_expired, record_expiry
from lakehouse_core.table.schema import TableSchema, new_schema

NOW = 1_700_000_000_999


def table(kind: str, **options: str) -> TableSchema:
    defaults = {"bucket": "1", "record-level.expire-time": "1 h", "record-level.time-field": "t"}
    return new_schema({"k": "INT", "t": kind}, primary_keys=["k"], options={**defaults, **options}, now_millis=0)


def expiry(kind: str) -> RecordExpiry:
    found = record_expiry(table(kind), now_millis=NOW)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "arrow", "last_over", "first_kept"),
    [
        ("INT", pa.int32(), 1_699_996_399, 1_699_996_400),
        ("BIGINT", pa.int64(), 1_699_996_399, 1_699_996_400),
        ("BIGINT", pa.int64(), 1_699_996_399_999, 1_699_996_400_000),
        ("TIMESTAMP(3)", pa.timestamp("ms"), 1_699_996_399_999, 1_699_996_400_000),
        ("TIMESTAMP(6)", pa.timestamp("us"), 1_699_996_399_999_999, 1_699_996_400_000_000),
        ("TIMESTAMP(9)", pa.timestamp("ns"), 1_699_996_399_999_999_999, 1_699_996_400_000_000_000),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", pa.timestamp("us", "UTC"), 1_699_996_399_999_999, 1_699_996_400_000_000),
    ],
)
def test_a_row_goes_when_its_second_lies_further_back_than_the_age(kind, arrow, last_over, first_kept):
    column = pa.array([None, last_over, first_kept], pa.int64()).cast(arrow)

    over = expired_rows(pa.RecordBatch.from_arrays([column], names=["t"]), expiry(kind))

    assert over.tolist() == [False, True, False]


@pytest.mark.parametrize("kind", ["INT", "BIGINT"])
def test_an_integer_of_an_int_column_is_never_milliseconds(kind):
    column = pa.array([0, -5], pa.int32() if kind == "INT" else pa.int64())

    assert expired_rows(pa.RecordBatch.from_arrays([column], names=["t"]), expiry(kind)).tolist() == [True, True]


moments = st.one_of(
    st.none(),
    st.integers(-(2**40), 2**60),
    st.integers(1_699_996_400_000 - 2_000, 1_699_996_400_000 + 2_000),
    st.integers(1_699_996_400 - 2, 1_699_996_400 + 2),
)


@given(st.lists(moments, min_size=1, max_size=20))
def test_a_value_alone_and_a_column_of_them_are_judged_alike(values):
    numbers = pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["t"])
    kept = [None if value is None or not -(2**40) <= value <= 2**42 else value for value in values]
    times = pa.RecordBatch.from_arrays([pa.array(kept, pa.timestamp("ms"))], names=["t"])

    assert expired_rows(numbers, expiry("BIGINT")).tolist() == [is_expired(one, expiry("BIGINT")) for one in values]
    assert expired_rows(times, expiry("TIMESTAMP(3)")).tolist() == [
        is_expired(None if one is None else (one, 0), expiry("TIMESTAMP(3)")) for one in kept
    ]


def test_a_table_without_the_option_keeps_all():
    schema = new_schema({"k": "INT"}, primary_keys=["k"], options={"bucket": "1"}, now_millis=0)

    assert record_expiry(schema, now_millis=NOW) is None


def test_the_deadline_is_the_age_before_now():
    deadline = datetime.datetime(2023, 11, 14, 21, 13, 20, tzinfo=datetime.UTC)

    assert expiry("INT") == RecordExpiry(
        field=DataField(1, "t", parse_type("INT")), deadline_seconds=int(deadline.timestamp())
    )


@pytest.mark.parametrize(
    ("fields", "keys", "options", "says"),
    [
        ({"k": "INT"}, ["k"], {}, "record-level.expire-time is set and record-level.time-field is not"),
        (
            {"k": "INT"},
            ["k"],
            {"record-level.time-field": "t"},
            "record-level.time-field names 't', which is not a col",
        ),
        ({"k": "INT", "t": "STRING"}, ["k"], {"record-level.time-field": "t"}, "names t, a STRING: expected INT or"),
        ({"k": "INT"}, [], {"record-level.time-field": "k", "bucket": "-1"}, "needs a primary key"),
    ],
)
def test_a_table_that_cannot_tell_a_rows_age_is_not_made(fields, keys, options, says):
    with pytest.raises(InvalidRequest, match=says):
        new_schema(
            fields,
            primary_keys=keys,
            options={"bucket": "1", "record-level.expire-time": "1 d", **options},
            now_millis=0,
        )


@pytest.mark.parametrize(
    ("name", "says"), [("s", "names s, a STRING: expected INT or"), ("t", "names 't', which is not a column")]
)
def test_a_time_field_holds_times_also_where_nothing_expires_yet(name, says):
    options = {"bucket": "1", "record-level.time-field": name}

    with pytest.raises(InvalidRequest, match=says):
        new_schema({"k": "INT", "s": "STRING"}, primary_keys=["k"], options=options, now_millis=0)
