"""A bloom filter over the keys of a file: of many keys at once it says which the file certainly does not hold.

One hash and many bits, instead of few bits and several hashes: it is made and asked in whole arrays, and its memory is
cheap beside the rows. Only of keys whose columns all have a fixed width, which their words tell apart.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lakehouse_core.merge.key_words import Words
from lakehouse_core.merge.positions import Flags
from lakehouse_core.merge.search import SortedKeys

# Odd numbers without a pattern: each product and shift lets every bit of a word tell on more of its hash.
_SPREADS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(2**32 - 1)
_MOST_BITS_PER_KEY: Final = 64
_MOST_BITS: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """`bits`, eight to a byte, lowest first: set where the hash of a key falls."""

    bits: npt.NDArray[np.uint8]
    bit_count: int

    def may_hold(self, keys: SortedKeys) -> Flags:
        """Return False for the keys that are certainly absent."""
        places = _places(keys, self.bit_count)
        found: Flags = (self.bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1 == 1
        return found


def key_filter(parts: Iterable[SortedKeys], key_count: int, *, false_positive_rate: float) -> KeyFilter | None:
    """Return a filter of the keys in `parts`, `key_count` of them, that takes so many absent ones for present.

    `false_positive_rate`: between 0 and 1; with 64 bits a key, the most, it is 0.016. None where a column of the keys
    has no fixed width.
    """
    bits_per_key = min(1 / false_positive_rate, _MOST_BITS_PER_KEY)
    bit_count = min(max(8, int(key_count * bits_per_key)), _MOST_BITS)
    bits = np.zeros(bit_count // 8 + 1, dtype=np.uint8)
    for keys in parts:
        if any(column.text is not None for column in keys.columns):
            return None
        places = _places(keys, bit_count)
        np.bitwise_or.at(bits, places >> 3, np.left_shift(np.uint8(1), (places & 7).astype(np.uint8)))
    return KeyFilter(bits, bit_count)


def _places(keys: SortedKeys, bit_count: int) -> npt.NDArray[np.int64]:
    hashes: Words = np.zeros(keys.row_count, dtype=np.uint64)
    for column in keys.columns:
        for word in column.words:
            hashes = hashes ^ word
            for spread in _SPREADS:
                hashes ^= hashes >> _HALF
                hashes *= spread
    hashes ^= hashes >> _HALF
    return (((hashes & _LOW) * np.uint64(bit_count)) >> _HALF).astype(np.int64)
