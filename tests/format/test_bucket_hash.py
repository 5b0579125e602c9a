"""Hashing many rows at once gives what hashing each row's bytes gives; the row-wise codec is the oracle."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import InvalidRequest, UnsupportedFeature
from lakehouse_core.format.binary_row import encode_row, hash_row, hash_rows
from lakehouse_core.format.bucket_hash import bucket_of, buckets
from lakehouse_core.format.data_types import AtomicType, DataType, parse_type
from tests.vectors.values import column, comparable, section

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": st.text(max_size=20),
    "VARBINARY(30)": st.binary(max_size=20),
    "DECIMAL(12, 2)": st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    "DECIMAL(25, 4)": st.integers(-(10**25) + 1, 10**25 - 1).map(lambda n: Decimal(n).scaleb(-4)),
    "DATE": st.integers(-(10**6), 10**6),
    "TIMESTAMP(3)": st.tuples(st.integers(-(2**50), 2**50), st.just(0)),
    "TIMESTAMP(6)": st.tuples(st.integers(-(2**50), 2**50), st.integers(0, 999).map(lambda micros: micros * 1000)),
    "TIMESTAMP(9)": st.tuples(st.integers(-(2**42), 2**42), st.integers(0, 999_999)),
}
NO_HIVE = {"TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)"}


@st.composite
def tables(draw: st.DrawFn, names: list[str]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Draw one to four column types and some rows, nulls included."""
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    row = st.tuples(*(st.none() | VALUES[name] for name in chosen))
    return chosen, draw(st.lists(row, max_size=12))


def columns(names: list[str], rows: list[tuple[Any, ...]]) -> tuple[list[Any], list[DataType]]:
    types = [parse_type(name) for name in names]
    arrays = [
        column([row[index] for row in rows], type_)
        for index, type_ in enumerate(types)
        if isinstance(type_, AtomicType)
    ]
    return arrays, types


@given(tables(list(VALUES)), st.integers(0, 3))
def test_rows_hash_together_as_they_hash_alone(table: tuple[list[str], list[tuple[Any, ...]]], skipped: int) -> None:
    names, rows = table
    arrays, types = columns(names, rows)
    # Slices have an offset into their buffers, which reading raw buffers must honour.
    sliced = [array.slice(skipped) for array in arrays]

    hashed = hash_rows(sliced, types)

    assert hashed.tolist() == [hash_row(encode_row(row, types)) for row in rows[skipped:]]


@given(
    tables([name for name in VALUES if name not in NO_HIVE]),
    st.sampled_from(["default", "hive"]),
    st.integers(1, 1000),
)
def test_rows_fall_together_into_the_buckets_of_each(
    table: tuple[list[str], list[tuple[Any, ...]]], function: str, count: int
) -> None:
    names, rows = table
    arrays, types = columns(names, rows)

    found = buckets(arrays, types, count, function)

    assert found.tolist() == [bucket_of(row, types, count, function) for row in rows]


@given(st.lists(st.none() | VALUES["BIGINT"]), st.integers(1, 1000))
def test_mod_is_the_floored_remainder(values: list[int | None], count: int) -> None:
    types: list[DataType] = [parse_type("BIGINT")]

    found = buckets([column(values, AtomicType(types[0].root))], types, count, "mod")  # type: ignore[union-attr]

    assert found.tolist() == [bucket_of([value], types, count, "mod") for value in values]


def test_every_vector_of_plain_columns_hashes_as_java_does() -> None:
    wrong, checked = [], 0
    for case in section("binary_row"):
        types = [parse_type(text) for text in case["types"]]
        plain = [type_ for type_ in types if isinstance(type_, AtomicType) and type_.root not in ("VARIANT", "BLOB")]
        if not types or len(plain) < len(types):
            continue
        values = [comparable(value, type_) for value, type_ in zip(case["values"], types, strict=True)]
        if any(isinstance(value, tuple) and abs(value[0]) > 2**43 for value in values):
            continue  # Beyond what Arrow's nanoseconds hold.
        checked += 1
        arrays = [column([value], type_) for value, type_ in zip(values, plain, strict=True)]
        if hash_rows(arrays, types)[0] != case["hash"]:
            wrong.append(case["name"])

    assert checked > 150
    assert wrong == []


def test_what_cannot_be_hashed_is_refused_by_its_type() -> None:
    with pytest.raises(InvalidRequest, match=r"ARRAY<INT>.*plain type"):
        hash_rows([pa.array([[1]])], [parse_type("ARRAY<INT>")])
    with pytest.raises(InvalidRequest, match="one INT or BIGINT"):
        bucket_of(["x"], [parse_type("STRING")], 3, "mod")
    with pytest.raises(UnsupportedFeature, match="hive cannot hash TIMESTAMP"):
        bucket_of([(1, 0)], [parse_type("TIMESTAMP(3)")], 3, "hive")
