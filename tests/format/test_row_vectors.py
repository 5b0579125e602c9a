"""Rows made many at once have the bytes of rows made one by one, whatever the layout of the columns."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.format.binary_row import (
    encode_row,
    encode_rows,
    hash_bytes,
    hash_row,
    hash_rows,
    serialize_row,
    serialize_rows,
)
from lakehouse_core.format.binary_row.hashing import BLOCK_ROWS
from lakehouse_core.format.data_types import parse_type
from tests.vectors.values import column, section

NAMES = ("STRING", "DECIMAL(25, 2)", "BIGINT", "TIMESTAMP(6)", "BOOLEAN", "BYTES", "FLOAT")
TYPES = [parse_type(name) for name in NAMES]
ROWS = st.lists(
    st.tuples(
        st.none() | st.text(max_size=18),
        st.none() | st.integers(-(10**25) + 1, 10**25 - 1).map(lambda number: Decimal(number).scaleb(-2)),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.tuples(st.integers(-(2**50), 2**50), st.integers(0, 999).map(lambda micros: 1000 * micros)),
        st.none() | st.booleans(),
        st.none() | st.binary(max_size=25),
        st.none() | st.floats(width=32, allow_nan=False),
    ),
    max_size=8,
)


def columns(rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [column([row[index] for row in rows], type_) for index, type_ in enumerate(TYPES)]  # type: ignore[arg-type]


@given(ROWS, st.integers(0, 2))
def test_rows_made_together_are_the_rows_made_alone(rows: list[tuple[Any, ...]], skipped: int) -> None:
    sliced = [array.slice(skipped) for array in columns(rows)]

    assert encode_rows(sliced, TYPES).to_pylist() == [encode_row(row, TYPES) for row in rows[skipped:]]
    assert serialize_rows(sliced, TYPES).to_pylist() == [serialize_row(row, TYPES) for row in rows[skipped:]]


@pytest.mark.parametrize("arity", [1, 55, 56, 57, 120, 121])
def test_wide_rows_have_as_many_null_bits_as_they_need(arity: int) -> None:
    types = [parse_type("INT")] * arity
    values = [None if index % 3 else index for index in range(arity)]
    arrays = [pa.array([value], pa.int32()) for value in values]

    assert encode_rows(arrays, types).to_pylist() == [encode_row(values, types)]
    assert hash_rows(arrays, types).tolist() == [hash_row(encode_row(values, types))]


@pytest.mark.parametrize(
    "texts",
    [
        pa.array(["a", None, "a text beyond its slot"], pa.large_string()),
        pa.array(["a", None, "a text beyond its slot"]).dictionary_encode(),
        pa.chunked_array([["a"], [None, "a text beyond its slot"]]),
        pa.array(["x", "a", None, "a text beyond its slot"])[1:],
    ],
    ids=["large", "dictionary", "chunks", "slice"],
)
def test_the_layout_of_a_column_does_not_matter(texts: pa.Array) -> None:
    types = [parse_type("STRING")]
    rows = [encode_row([text], types) for text in ("a", None, "a text beyond its slot")]

    assert encode_rows([texts], types).to_pylist() == rows
    assert hash_rows([texts], types).tolist() == [hash_row(row) for row in rows]


@pytest.mark.parametrize("count", [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1])
def test_blocks_meet_without_a_seam(count: int) -> None:
    types = [parse_type("INT"), parse_type("STRING")]
    texts = pa.array(["y" * (index % 11) for index in range(count)], pa.string())
    arrays = [pa.array(range(count), pa.int32()), texts]
    checked = {0, count // 2, count - 1, BLOCK_ROWS - 1, BLOCK_ROWS} & set(range(count))

    hashes, rows = hash_rows(arrays, types), encode_rows(arrays, types)

    assert len(hashes) == len(rows) == count
    for index in checked:
        row = encode_row([index, "y" * (index % 11)], types)
        assert (hashes[index], rows[index].as_py()) == (hash_row(row), row)


def test_nested_columns_are_encoded_row_by_row() -> None:
    types = [parse_type("ARRAY<STRING>"), parse_type("INT")]
    arrays = [pa.array([["a", None], None]), pa.array([1, 2], pa.int32())]

    assert encode_rows(arrays, types).to_pylist() == [encode_row([("a", None), 1], types), encode_row([None, 2], types)]


@pytest.mark.parametrize("case", section("murmur32_bytes_seed42"), ids=lambda case: case["utf8"] or "empty")
def test_bytes_of_any_length_hash_as_in_java(case: dict[str, Any]) -> None:
    assert hash_bytes(case["utf8"].encode()) == case["hash"]


@given(st.binary(max_size=40).map(lambda data: data[: len(data) // 4 * 4]))
def test_both_hashes_agree_on_whole_words(data: bytes) -> None:
    assert hash_bytes(data) == hash_row(data)
