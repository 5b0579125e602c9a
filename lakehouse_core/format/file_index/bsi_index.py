"""Bit-slice indexes of whole numbers, which older tables have. Read only: range-bitmap took their place.

Source: docs/format/file-index.md#bit-sliced-index.
"""

import struct
from collections.abc import Sequence
from typing import Final

from pyroaring import BitMap

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.file_index.bit_slices import BitSlices
from lakehouse_core.format.file_index.container import corrupt
from lakehouse_core.format.file_index.keys import KeyForm, KeyRange
from lakehouse_core.format.file_index.roaring import parse_rows

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">Bi")
_SIGN: Final = struct.Struct(">?")
_BOUNDS: Final = struct.Struct(">Bqq")
_COUNT: Final = struct.Struct(">i")
# A magnitude has at most 63 bits; Java's would wrap beyond.
_MOST_SLICES: Final = 63


class BsiIndex:
    """An index read back. Raises CorruptTable, naming `what`, where the bytes are none."""

    def __init__(self, body: bytes, form: KeyForm, what: str) -> None:
        self._body = body
        self._what = what
        try:
            version, self.row_count = _HEAD.unpack_from(body)
            if version != _VERSION:
                raise UnsupportedFeature(
                    f"{what}: a bsi index of version {version}; {_VERSION} is known. Set file-index.read.enabled to "
                    "false to read without it."
                )
            positive, position = self._numbers(_HEAD.size)
            negative, _ = self._numbers(position)
        except struct.error as error:
            raise corrupt(what, f"the bsi index cannot be decoded ({error})") from error
        self._positive = positive
        self._negative = negative

    def non_null(self) -> BitMap:
        """Return the rows that have a value."""
        return self._positive.existence | self._negative.existence

    def rows_in(self, ranges: Sequence[KeyRange]) -> BitMap:
        """Return the rows whose number lies in one of the ranges."""
        found = BitMap()
        for low, high in ranges:
            assert not isinstance(low, bytes), low
            assert not isinstance(high, bytes), high
            if high is None or high > 0:
                found |= self._positive.between(low, high)
            if low is None or low < 0:
                # -9 <= n < -3 are the magnitudes above 3 up to 9.
                least = 1 if high is None or high >= 0 else 1 - high
                found |= self._negative.between(least, None if low is None else 1 - low)
        return found

    def _numbers(self, position: int) -> tuple[BitSlices, int]:
        """Return the numbers of one sign, and where they end."""
        (is_there,) = _SIGN.unpack_from(self._body, position)
        position += _SIGN.size
        if not is_there:
            return BitSlices(BitMap(), 0, lambda _: BitMap()), position
        version, minimum, _ = _BOUNDS.unpack_from(self._body, position)
        if version != _VERSION or minimum != 0:
            raise corrupt(self._what, f"a bit-slice index of version {version} that begins at {minimum}")
        existence, position = self._bitmap(position + _BOUNDS.size)
        (slice_count,) = _COUNT.unpack_from(self._body, position)
        if not 0 <= slice_count <= _MOST_SLICES:
            raise corrupt(self._what, f"a bit-slice index of {slice_count} bits")
        position += _COUNT.size
        slices = []
        for _ in range(slice_count):
            rows, position = self._bitmap(position)
            slices.append(rows)
        return BitSlices(existence, slice_count, slices.__getitem__), position

    def _bitmap(self, position: int) -> tuple[BitMap, int]:
        """Bitmaps lie one behind the other without their lengths."""
        rows = parse_rows(self._body, position, len(self._body) - position, self.row_count, self._what)
        return rows, position + portable_size(self._body, position)


_WITH_RUNS: Final = 12347
_ARRAY_MOST: Final = 4096
_FEW_CONTAINERS: Final = 4


def portable_size(data: bytes, start: int) -> int:
    """Return how many bytes a valid bitmap in the portable form takes. Source: the Roaring format specification."""
    cookie = int.from_bytes(data[start : start + 4], "little")
    position = start + 4
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = data[position : position + (count + 7) // 8]
        position += len(flags)
        has_offsets = count >= _FEW_CONTAINERS
    else:
        count = int.from_bytes(data[position : position + 4], "little")
        position += 4
        flags = bytes((count + 7) // 8)
        has_offsets = True
    sizes = [struct.unpack_from("<HH", data, position + 4 * at)[1] + 1 for at in range(count)]
    position += 4 * count + (4 * count if has_offsets else 0)
    for at, size in enumerate(sizes):
        if flags[at // 8] >> (at % 8) & 1:
            position += 2 + 4 * int.from_bytes(data[position : position + 2], "little")
        else:
            position += 2 * size if size <= _ARRAY_MOST else 8192
    return position - start
