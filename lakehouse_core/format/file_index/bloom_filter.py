"""Bloom filters: whether a value may be among those of a file. Source: docs/format/file-index.md#bloom-filter."""

import math
import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from lakehouse_core.format.file_index.container import corrupt
from lakehouse_core.format.file_index.hashing import Hashes

_COUNT: Final = struct.Struct(">i")
# Positions of bits are 32-bit integers.
MOST_BYTES: Final = (2**31 - 1) // 8
# A byte for each bit is twenty times faster to write, as long as the memory does not matter.
_MOST_SPREAD_BITS: Final = 1 << 26
# So many rows at a time stay in the processor's cache.
_PIECE_ROWS: Final = 16 << 10


def filter_size(items: int, false_positive_rate: float) -> tuple[int, int]:
    """Return how many bytes of bits and how many hash functions keep the rate for so many distinct values."""
    wanted = int(-items * math.log(false_positive_rate) / math.log(2) ** 2)
    bits = wanted + (8 - wanted % 8)
    # Java rounds halves up.
    return bits // 8, max(1, math.floor(bits / items * math.log(2) + 0.5))


class GrowingBloomFilter:
    """A filter to which values are added; `to_bytes` gives what is stored."""

    def __init__(self, items: int, false_positive_rate: float) -> None:
        size_bytes, self._function_count = filter_size(items, false_positive_rate)
        self._bit_count = 8 * size_bytes
        self._is_spread = self._bit_count <= _MOST_SPREAD_BITS
        self._bits = np.zeros(self._bit_count if self._is_spread else size_bytes, np.uint8)

    def add(self, hashes: Hashes) -> None:
        for start in range(0, len(hashes), _PIECE_ROWS):
            piece = hashes[start : start + _PIECE_ROWS]
            for positions in _positions(piece, self._function_count, self._bit_count):
                if self._is_spread:
                    self._bits[positions] = 1
                else:
                    np.bitwise_or.at(self._bits, positions >> 3, (1 << (positions & 7)).astype(np.uint8))

    def to_bytes(self) -> bytes:
        packed = np.packbits(self._bits, bitorder="little") if self._is_spread else self._bits
        return _COUNT.pack(self._function_count) + packed.tobytes()


class BloomFilter:
    """A filter read back. Raises CorruptTable, naming `what`, unless the bytes are one."""

    def __init__(self, body: bytes, what: str) -> None:
        if not _COUNT.size < len(body) <= _COUNT.size + MOST_BYTES:
            raise corrupt(what, f"{len(body)} bytes are not a bloom filter")
        (self._function_count,) = _COUNT.unpack_from(body)
        # More functions than bits would never be chosen, and each costs time.
        if not 0 < self._function_count <= 8 * (len(body) - _COUNT.size):
            raise corrupt(what, f"a bloom filter of {self._function_count} hash functions")
        self._bits = np.frombuffer(body, np.uint8, offset=_COUNT.size)

    def may_contain(self, hashed: int) -> bool:
        """Return whether a value with this hash may be in the file; False is certain."""
        hashes = np.array([hashed], np.int64)
        return all(
            self._bits[int(position[0]) >> 3] >> (int(position[0]) & 7) & 1
            for position in _positions(hashes, self._function_count, 8 * len(self._bits))
        )


def _positions(hashes: Hashes, function_count: int, bit_count: int) -> list[npt.NDArray[np.int32]]:
    low = hashes.astype(np.int32)
    high = (hashes >> 32).astype(np.int32)
    divisor = np.int32(bit_count)
    positions = []
    combined = low
    for _ in range(function_count):
        combined = combined + high
        # Negative numbers are complemented; NumPy divides by one number many times faster than it takes the rest.
        folded = combined ^ (combined >> 31)
        positions.append(folded - folded // divisor * divisor)
    return positions
