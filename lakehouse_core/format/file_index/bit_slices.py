"""Numbers of rows cut into bits, one bitmap a bit: comparing all rows with a number takes a few bitmap operations.

Source: O'Neil and Quass, "Improved Query Performance with Variant Indexes", as Paimon's bsi and range-bitmap use it.
"""

from collections.abc import Callable

from pyroaring import BitMap


class BitSlices:
    """`existence`: the rows that have a number. `slice_of(j)`: those whose bit j is set, asked for when needed."""

    def __init__(self, existence: BitMap, slice_count: int, slice_of: Callable[[int], BitMap]) -> None:
        self.existence = existence
        self._slice_count = slice_count
        self._slice_of = slice_of
        self._loaded: dict[int, BitMap] = {}

    def below(self, number: int) -> BitMap:
        """Return the rows whose number is less than `number`."""
        if number <= 0:
            return BitMap()
        if number >> self._slice_count:
            return self.existence
        less = BitMap()
        equal = self.existence
        for bit in reversed(range(self._slice_count)):
            rows = self._slice(bit)
            if number >> bit & 1:
                less |= equal - rows
                equal = equal & rows
            else:
                equal = equal - rows
        return less

    def between(self, low: int | None, high: int | None) -> BitMap:
        """Return the rows with low <= number < high; None: without that bound."""
        found = self.existence if high is None else self.below(high)
        return found if low is None or low <= 0 else found - self.below(low)

    def _slice(self, bit: int) -> BitMap:
        if bit not in self._loaded:
            self._loaded[bit] = self._slice_of(bit)
        return self._loaded[bit]
