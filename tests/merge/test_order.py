"""The order kernel against a row-wise sort: every key type, ties, nulls, extremes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.deduplicate import deduplicate
from lakehouse_core.merge.key_words import integer_words, key_words, sequence_words
from lakehouse_core.merge.order import KeyOrder, order_rows, order_runs, pack, retract_first_words
from tests.oracle import merge as oracle

KINDS = ("+I", "-U", "+U", "-D")

INT64_EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]
SHORT_STRINGS = st.text(alphabet="ab\0é\U0001f600", max_size=4)
# Long shared beginnings, differences at and around the borders of eight bytes, strings that end within another.
PREFIXED_STRINGS = st.builds(
    lambda length, tail: ("user-0000-shared-prefix-of-some-length-" * 2)[:length] + tail,
    st.integers(0, 60),
    st.text(alphabet="09\0", max_size=12),
)

KEY_TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "tinyint": (pa.int8(), st.integers(-128, 127)),
    "smallint": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": (pa.int64(), st.sampled_from(INT64_EXTREMES) | st.integers(-3, 3)),
    "float": (pa.float32(), st.sampled_from([-0.0, 0.0, float("nan")]) | st.floats(width=32)),
    "double": (pa.float64(), st.sampled_from([-0.0, 0.0, float("nan")]) | st.floats()),
    "decimal(10, 2)": (
        pa.decimal128(10, 2),
        st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    ),
    "decimal(38, 0)": (
        pa.decimal128(38, 0),
        st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal) | st.integers(-3, 3).map(Decimal),
    ),
    "date": (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    "time": (pa.time32("ms"), st.integers(0, 86_399_999)),
    "timestamp(3)": (pa.timestamp("ms"), st.integers(-(2**40), 2**40)),
    "timestamp(6)": (pa.timestamp("us"), st.integers(-(2**62), 2**62)),
    "timestamp_ltz(9)": (pa.timestamp("ns", "UTC"), st.integers(-(2**62), 2**62)),
    "string": (pa.string(), SHORT_STRINGS | PREFIXED_STRINGS),
    "large string": (pa.large_string(), SHORT_STRINGS),
    "binary": (pa.binary(), st.binary(max_size=3) | st.binary(min_size=6, max_size=20)),
    "fixed binary": (pa.binary(5), st.binary(min_size=5, max_size=5)),
    "long binary": (pa.binary(), st.binary(max_size=3).map(lambda head: head * 40)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), SHORT_STRINGS),
}


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(values, kind)


@st.composite
def keyed_columns(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[Any, ...]]]:
    """One to three key columns of any types, and rows whose values repeat often."""
    names = draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=3))
    pools = [draw(st.lists(KEY_TYPES[name][1], min_size=1, max_size=6)) for name in names]
    rows = draw(st.lists(st.tuples(*[st.sampled_from(pool) for pool in pools]), max_size=40))
    return [KEY_TYPES[name][0] for name in names], rows


def columns_of(types: list[pa.DataType], rows: list[tuple[Any, ...]], *, padding: int = 0) -> list[pa.Array]:
    """Arrays that begin at `padding` of a longer one, as slices of batches do."""
    if not rows:
        return [array(kind, []) for kind in types]
    padded = rows[:1] * padding + rows
    return [array(kind, [row[i] for row in padded]).slice(padding) for i, kind in enumerate(types)]


def check_against_oracle(order: KeyOrder, rows: list[tuple[Any, ...]]) -> None:
    versions = [oracle.Version(key=row, value=number) for number, row in enumerate(rows)]
    expected = [version.value for version in oracle.ordered(versions)]

    assert order.rows.tolist() == expected
    newest = [version.value for version in oracle.deduplicate(versions)]
    assert order.rows[order.ends].tolist() == newest
    assert [0, *(order.ends[:-1] + 1).tolist()][: len(newest)] == order.starts.tolist()


@given(keyed_columns(), st.integers(0, 3))
def test_rows_in_any_order_are_sorted_as_their_keys_compare(drawn, padding):
    types, rows = drawn

    order = order_rows(key_words(columns_of(types, rows, padding=padding)), len(rows))

    check_against_oracle(order, rows)


@given(keyed_columns(), st.integers(1, 4))
def test_sorted_runs_are_merged_and_ties_keep_the_order_of_the_runs(drawn, run_count):
    types, rows = drawn
    runs: list[list[oracle.Version]] = [[] for _ in range(run_count)]
    for number, row in enumerate(rows):
        runs[number % run_count].append(oracle.Version(key=row))
    laid = [version.key for run in runs for version in oracle.deduplicate(run)]

    order = order_runs(key_words(columns_of(types, laid)), len(laid))

    check_against_oracle(order, laid)


SEQUENCE_FIELDS = st.tuples(
    st.none() | st.integers(-2, 2), st.none() | st.sampled_from(["", "a", "a\0", "b"]) | st.just("zz" * 9)
)


@given(
    st.lists(st.tuples(st.integers(0, 2), SEQUENCE_FIELDS, st.integers(0, 2), st.sampled_from(KINDS)), max_size=30),
    st.booleans(),
    st.booleans(),
)
def test_versions_are_ordered_by_sequence_fields_then_number_then_retract_before_add(rows, descending, ignore_delete):
    versions = [
        oracle.Version(key=(key,), sequence=fields, number=number, kind=kind, value=position)
        for position, (key, fields, number, kind) in enumerate(rows)
    ]
    fields = [
        pa.array([v.sequence[0] for v in versions], pa.int64()),
        pa.array([v.sequence[1] for v in versions], pa.string()),
    ]
    numbers = np.array([v.number for v in versions], dtype=np.int64)
    kinds = np.array([KINDS.index(v.kind) for v in versions], dtype=np.int8)

    def ties(tied: Rows) -> list[Any]:
        taken = [field.take(pa.array(tied)) for field in fields]
        words = [word for field in taken for word in sequence_words(field, descending=descending)]
        return [*words, integer_words(numbers[tied]), retract_first_words(kinds[tied])]

    keys = key_words([pa.array([v.key[0] for v in versions], pa.int64())])
    order = order_rows(keys, len(versions), ties)

    assert order.rows.tolist() == [v.value for v in oracle.ordered(versions, descending=descending)]
    expected = oracle.deduplicate(versions, descending=descending, ignore_delete=ignore_delete)
    assert deduplicate(order, kinds, ignore_delete=ignore_delete).tolist() == [v.value for v in expected]


@pytest.mark.parametrize("descending", [False, True])
def test_a_null_sequence_is_the_oldest_in_both_directions(descending):
    words = sequence_words(pa.array([5, None, -(2**63), 2**63 - 1], pa.int64()), descending=descending)

    order = order_rows(words, 4)

    assert order.rows[0] == 1
    assert order.rows[1] == (3 if descending else 2)


def test_a_null_key_is_refused():
    with pytest.raises(InvalidRequest, match=r"key column 1 .* has 1 nulls in 2 rows"):
        key_words([pa.array([1, 2]), pa.array(["a", None])])


@pytest.mark.parametrize(
    ("columns", "word_count"),
    [
        ([pa.array([10**12, 10**12 + 5])], 1),
        ([pa.array(["tenant-1", "tenant-2"]), pa.array([7, 2**40])], 1),
        ([pa.array(["user-000000001234", "user-000000009999"])], 1),
        ([pa.array([3, 3, 3])], 0),
        ([pa.array([-(2**63), 2**63 - 1]), pa.array([0, 1])], 2),
    ],
    ids=["close numbers", "string and number", "shared prefix", "constant", "full range and one bit"],
)
def test_the_words_of_a_chunk_pack_into_as_few_as_their_range_needs(columns, word_count):
    assert len(pack(key_words(columns))) == word_count


def test_a_key_with_one_version_keeps_its_retract_and_one_of_retracts_alone_vanishes_under_ignore_delete():
    kinds = np.array([3, 3, 1, 0, 3], dtype=np.int8)
    order = order_rows(key_words([pa.array([1, 2, 2, 3, 3])]), 5)

    assert deduplicate(order, kinds).tolist() == [0, 2, 4]
    assert deduplicate(order, kinds, ignore_delete=True).tolist() == [0, 3]
