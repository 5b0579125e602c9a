"""BinaryRow bytes, hashes and buckets are exactly Java's, and damaged bytes are never believed."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.binary_row import (
    decode_row,
    deserialize_row,
    encode_array,
    encode_row,
    hash_row,
    serialize_row,
    whole_number_rows,
)
from lakehouse_core.format.bucket_hash import bucket_of
from lakehouse_core.format.data_types import parse_type
from tests.vectors.values import comparable, section

ROWS = section("binary_row")
by_row = pytest.mark.parametrize("case", ROWS, ids=[f"{index}-{case['name']}" for index, case in enumerate(ROWS)])


@by_row
def test_a_row_has_the_bytes_and_the_hash_that_java_gives_it(case: dict[str, Any]) -> None:
    types = [parse_type(text) for text in case["types"]]
    values = [comparable(value, type_) for value, type_ in zip(case["values"], types, strict=True)]

    row = encode_row(values, types)

    assert row.hex() == case["row_hex"]
    assert serialize_row(values, types).hex() == case["serialized_hex"]
    assert hash_row(row) == case["hash"]
    assert encode_row(deserialize_row(bytes.fromhex(case["serialized_hex"]), types), types) == row


@pytest.mark.parametrize(
    ("function", "key"), [("default", "buckets"), ("mod", "mod_buckets"), ("hive", "hive_buckets")]
)
def test_a_row_falls_into_the_bucket_that_java_chooses(function: str, key: str) -> None:
    cases = [(case, int(count), bucket) for case in ROWS for count, bucket in (case.get(key) or {}).items()]
    wrong = []
    for case, count, bucket in cases:
        types = [parse_type(text) for text in case["types"]]
        values = [comparable(value, type_) for value, type_ in zip(case["values"], types, strict=True)]
        if bucket_of(values, types, count, function) != bucket:
            wrong.append((case["name"], count))

    assert cases
    assert wrong == []


@pytest.mark.parametrize("case", [case for case in ROWS if not case["same_in_0_9"]], ids=lambda case: case["name"])
def test_a_null_that_reserved_no_space_is_read_like_one_that_did(case: dict[str, Any]) -> None:
    types = [parse_type(text) for text in case["types"]]
    values = tuple(comparable(value, type_) for value, type_ in zip(case["values"], types, strict=True))

    assert decode_row(bytes.fromhex(case["v0_9_serializer_row_hex"]), types) == values


@pytest.mark.parametrize("case", section("binary_array_bigint"), ids=lambda case: str(case["values"]))
def test_an_array_has_the_bytes_that_java_gives_it(case: dict[str, Any]) -> None:
    assert encode_array(case["values"], parse_type("BIGINT")).hex() == case["hex"]


TYPES = [parse_type(text) for text in ("INT", "STRING", "DECIMAL(30, 3)", "TIMESTAMP(9)", "ARRAY<STRING>")]
GOOD = serialize_row([7, "a text of more than seven bytes", None, (1, 2), ["x", None]], TYPES)


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("nothing", b""),
        ("another arity", struct.pack(">i", 4) + GOOD[4:]),
        ("no slots", GOOD[:16]),
        ("a string beyond the end", GOOD[:-60]),
        ("a string that is not UTF-8", GOOD.replace(b"text", b"\xff\xff\xff\xff")),
    ],
)
def test_damaged_bytes_are_refused(what: str, data: bytes) -> None:
    with pytest.raises(CorruptTable):
        deserialize_row(data, TYPES)


@given(st.integers(0, len(GOOD) * 8 - 1))
def test_a_flipped_bit_gives_values_or_a_refusal_and_nothing_else(position: int) -> None:
    flipped = bytearray(GOOD)
    flipped[position // 8] ^= 1 << position % 8

    try:
        values = deserialize_row(bytes(flipped), TYPES)
    except CorruptTable:
        return
    assert len(values) == len(TYPES)


@given(
    st.tuples(
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.text(),
        st.none() | st.decimals(min_value=-(10**27) + 1, max_value=10**27 - 1, places=3),
        st.none() | st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 999_999)),
        st.none() | st.lists(st.none() | st.text(max_size=20)).map(tuple),
    )
)
def test_what_was_written_is_read_back(values: tuple[Any, ...]) -> None:
    assert deserialize_row(serialize_row(values, TYPES), TYPES) == values


WHOLE_NUMBERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "DATE": 32, "TIME(3)": 32, "BIGINT": 64}


@given(st.data())
def test_rows_of_whole_numbers_are_read_fast_with_the_same_values_or_not_at_all(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from([*WHOLE_NUMBERS, "STRING"]), min_size=1, max_size=70))
    types = tuple(map(parse_type, names))
    values = [
        "text" if name == "STRING" else data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
        for name in names
        for bits in [WHOLE_NUMBERS.get(name, 0)]
    ]
    row = serialize_row(values, types)
    read = whole_number_rows(types)

    assert read(row) == (None if "STRING" in names else tuple(values))
    # The values are in the last bytes, and any bits of them are values.
    flipped = bytearray(row)
    flipped[data.draw(st.integers(0, len(row) - 8 * len(types) - 1))] ^= data.draw(st.integers(1, 255))
    assert read(bytes(flipped)) is None
    assert read(row + b"x") is read(row[:-1]) is None
    assert read(serialize_row([None, *values[1:]], types)) is None
