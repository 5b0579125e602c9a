"""Deletion vectors as bytes: those that Java wrote, both ways, and damage is never believed."""

import hashlib
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable, InvalidRequest
from lakehouse_core.format.deletion_vector import (
    VectorSpan,
    check_index_file,
    decode_vector,
    encode_index_file,
    encode_vector,
)
from tests.vectors.values import section

CASES = section("deletion_vectors")
INDEX_FILES = [case for case in section("index_files") if "deletion vector" in case["meaning"]]


def positions_of(case):
    return case["positions"] if "positions" in case else list(range(0, 10000, 2))


@pytest.mark.parametrize("case", CASES)
def test_a_vector_has_the_bytes_that_java_writes(case):
    data = encode_vector(positions_of(case), bits64=case["bitmap64"])
    _, (span,) = encode_index_file([data])

    assert len(data) == case["serialized_bytes"]
    assert span == VectorSpan(1, case["meta_length_f2"])
    if "hex" in case:
        assert data.hex() == case["hex"]
    else:
        assert hashlib.sha256(data).hexdigest() == case["sha256"]


@pytest.mark.parametrize("case", [case for case in CASES if "hex" in case])
def test_the_bytes_that_java_wrote_are_read(case):
    data = bytes.fromhex(case["hex"])

    assert decode_vector(data, case["meta_length_f2"], "v").tolist() == case["positions"]
    assert decode_vector(data + b"the next vector", case["meta_length_f2"], "v").tolist() == case["positions"]


@pytest.mark.parametrize("case", INDEX_FILES, ids=lambda case: case["name"])
def test_an_index_file_has_the_bytes_that_java_writes(case):
    bits64 = case["name"].endswith("true")
    data, (span,) = encode_index_file([encode_vector([3, 7], bits64=bits64)])

    assert data.hex() == case["hex"]
    check_index_file(data, "index")
    assert decode_vector(data[span.offset :], span.length, "v", cardinality=2).tolist() == [3, 7]


@given(
    st.lists(
        st.lists(st.one_of(st.integers(0, 200_000), st.integers(0, 2**31 - 1), st.integers(65_000, 66_000))), max_size=4
    ),
    st.booleans(),
)
def test_every_vector_of_an_index_file_is_read_as_it_was_written(vectors, bits64):
    data, spans = encode_index_file(encode_vector(vector, bits64=bits64) for vector in vectors)

    for vector, span in zip(vectors, spans, strict=True):
        stored = data[span.offset : span.offset + span.most_bytes]
        assert decode_vector(stored, span.length, "v", cardinality=len(set(vector))).tolist() == sorted(set(vector))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2**35)))
def test_positions_beyond_32_bits_fit_the_wide_form(positions):
    data = encode_vector(positions, bits64=True)

    assert decode_vector(data, len(data), "v").tolist() == sorted(set(positions))


@pytest.mark.parametrize(
    ("positions", "bits64"), [([-1], False), ([-1, 3], True), ([2**31], False), ([1, 2**40], False)]
)
def test_a_position_that_the_form_cannot_hold_is_refused(positions, bits64):
    with pytest.raises(InvalidRequest, match="cannot be marked as deleted"):
        encode_vector(positions, bits64=bits64)


@pytest.mark.parametrize("bits64", [False, True])
def test_no_damaged_byte_is_believed(bits64):
    data = encode_vector(np.arange(0, 300, 3), bits64=bits64)
    _, (span,) = encode_index_file([data])

    for place in range(len(data)):
        spoiled = bytearray(data)
        spoiled[place] ^= 0x40
        with pytest.raises(CorruptTable, match="index-1: the deletion vector cannot be trusted"):
            decode_vector(bytes(spoiled), span.length, "index-1")


def framed(body: bytes) -> bytes:
    """A vector whose frame is right, whatever its data is."""
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


BITMAP = encode_vector([1], bits64=False)[8:-4]
NARROW, WIDE = bytes.fromhex("5e43f2d0"), bytes.fromhex("d1d33964")


@pytest.mark.parametrize(
    ("data", "length", "found"),
    [
        (b"", 22, "magic number is missing"),
        (encode_vector([1], bits64=False)[:-1], 22, "it ends after 29 bytes, expected 30"),
        (encode_vector([1], bits64=False), 30, "is 22 bytes long, its index manifest says 30"),
        (encode_vector([1], bits64=True), 34, "is 42 bytes long, its index manifest says 34"),
        (framed(NARROW + b"no bitmap"), 13, "its bitmap cannot be read"),
        (framed(NARROW + BITMAP + b"more"), 26, "4 bytes follow its bitmap"),
        (framed(WIDE + b"\2" + bytes(7) + bytes(4) + BITMAP), 42, "its bitmap cannot be read"),
        (framed(WIDE + b"\2" + bytes(7) + 2 * (bytes(4) + BITMAP)), 64, "bitmap 0 comes after 0"),
        (framed(WIDE + b"\1" + bytes(7) + 2 * (bytes(4) + BITMAP)), 64, "22 bytes follow"),
        (framed(WIDE + b"\xff" * 8), 20, "it counts -1 bitmaps"),
    ],
)
def test_a_vector_that_is_none_says_what_is_wrong(data, length, found):
    with pytest.raises(CorruptTable, match=found):
        decode_vector(data, length, "index-1")


def test_a_vector_of_another_size_than_recorded_is_not_believed():
    data = encode_vector([1, 2, 3], bits64=False)

    with pytest.raises(CorruptTable, match="has 3 positions, its index manifest says 4"):
        decode_vector(data, len(data) - 8, "index-1", cardinality=4)


@pytest.mark.parametrize("start", [b"", b"\2"])
def test_an_index_file_of_another_version_is_refused(start):
    with pytest.raises(CorruptTable, match="expected the version 1"):
        check_index_file(start, "index-1")
