"""Hash index files: the bytes are those of Java, and the hashes come out distinct and rising."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.hash_index import decode_hashes, distinct, encode_hashes

HASHES = st.lists(st.integers(-(2**31), 2**31 - 1))


def of(hashes: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(hashes, np.int32)


def test_a_hash_takes_four_bytes_the_highest_first() -> None:
    assert encode_hashes(of([1, -2])) == bytes.fromhex("00000001fffffffe")
    assert decode_hashes(bytes.fromhex("00000001fffffffe"), "f").tolist() == [-2, 1]


def test_an_index_without_keys_is_an_empty_file() -> None:
    assert encode_hashes(of([])) == b""
    assert decode_hashes(b"", "f").tolist() == []


@given(HASHES)
def test_what_is_written_is_read_in_rising_order_and_each_hash_once(hashes: list[int]) -> None:
    assert decode_hashes(encode_hashes(of(hashes)), "f").tolist() == sorted(set(hashes))
    assert distinct(of(hashes)).tolist() == sorted(set(hashes))


@pytest.mark.parametrize("highest", [2**31, 2**24, 4])
def test_more_hashes_than_are_sorted_in_one_piece_come_out_like_few(highest: int) -> None:
    hashes = np.random.default_rng(1).integers(-highest, highest, 200_001).astype(np.int32)
    before = hashes.copy()

    assert distinct(hashes).tolist() == np.unique(hashes).tolist()
    assert hashes.tolist() == before.tolist()


def test_half_a_hash_is_damage() -> None:
    with pytest.raises(CorruptTable, match="index/f: it has 6 bytes, expected hashes of 4 bytes each"):
        decode_hashes(b"123456", "index/f")
