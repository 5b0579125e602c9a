"""Key filter: a bloom filter of a file's keys, which finds, for many keys at once, those that the file certainly lacks.

It has one hash and many bits instead of several hashes and few bits, which is faster on arrays; its memory is small
beside that of the rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_core.merge.key_words import Words, fixed_words, value_lengths, value_words
from lakehouse_core.merge.positions import Flags
from lakehouse_core.merge.search import SearchColumn, SortedKeys

# Odd numbers without a pattern: each product and shift spreads every bit of a word over more bits of the hash.
_SPREADS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(2**32 - 1)
_MOST_BITS_PER_KEY: Final = 64
_MOST_BITS: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """`bits`: eight to a byte, lowest first; the bit at the hash of each key is set."""

    bits: npt.NDArray[np.uint8]
    bit_count: int

    def may_hold(self, hashes: Words) -> Flags:
        """Return False for the keys, given by their `key_hashes`, that are certainly absent."""
        places = _places(hashes, self.bit_count)
        found: Flags = (self.bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1 == 1
        return found


def key_filter(parts: Iterable[SortedKeys], key_count: int, *, false_positive_rate: float) -> KeyFilter:
    """Return a filter of the `key_count` keys in `parts`. `false_positive_rate`: the fraction of absent keys that the
    filter does not exclude.

    The rate is between 0 and 1; with 64 bits per key, the maximum, it is 0.016.
    """
    return hash_filter(map(key_hashes, parts), key_count, false_positive_rate=false_positive_rate)


def hash_filter(parts: Iterable[Words], key_count: int, *, false_positive_rate: float) -> KeyFilter:
    """Return `key_filter` of keys that are given by their hashes."""
    bits_per_key = min(1 / false_positive_rate, _MOST_BITS_PER_KEY)
    bit_count = min(max(8, int(key_count * bits_per_key)), _MOST_BITS)
    bits = np.zeros(bit_count // 8 + 1, dtype=np.uint8)
    for hashes in parts:
        places = _places(hashes, bit_count)
        np.bitwise_or.at(bits, places >> 3, np.left_shift(np.uint8(1), (places & 7).astype(np.uint8)))
    return KeyFilter(bits, bit_count)


def key_hashes(keys: SortedKeys) -> Words:
    """Return a hash of each key, which depends on its values only, not on other keys."""
    return _hashes(keys.columns, keys.row_count)


def value_hashes(columns: Sequence[pa.Array]) -> Words:
    """Return a hash of the values of each row, in any order, as `key_hashes` does; that of a row with a null is
    arbitrary.
    """
    words = [fixed_words(column) for column in columns]
    found = [
        SearchColumn((), column) if fixed is None else SearchColumn(tuple(fixed))
        for fixed, column in zip(words, columns, strict=True)
    ]
    return _hashes(found, len(columns[0]))


def _hashes(columns: Sequence[SearchColumn], row_count: int) -> Words:
    hashes: Words = np.zeros(row_count, dtype=np.uint64)
    for column in columns:
        if column.text is None:
            for word in column.words:
                hashes = _mixed(hashes, word)
            continue
        for rows, word in value_words(column.text):
            # Half of the mixing is enough while more words of the same value follow.
            if len(rows) == row_count:
                hashes = _mixed(hashes, word, _SPREADS[:1])
            else:
                hashes[rows] = _mixed(hashes[rows], word, _SPREADS[:1])
        hashes = _mixed(hashes, value_lengths(column.text))
    hashes ^= hashes >> _HALF
    return hashes


def _places(hashes: Words, bit_count: int) -> npt.NDArray[np.int64]:
    return (((hashes & _LOW) * np.uint64(bit_count)) >> _HALF).astype(np.int64)


def _mixed(hashes: Words, word: Words, spreads: tuple[np.uint64, ...] = _SPREADS) -> Words:
    mixed = hashes ^ word
    for spread in spreads:
        mixed ^= mixed >> _HALF
        mixed *= spread
    return mixed
