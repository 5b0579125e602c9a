"""Commit order: of two commits to one bucket the later one wins, so its rows must have the higher sequence numbers.

Writers number their rows from the highest number that they see, so concurrent writers may use the same numbers. Rule:
numbers matter only if two files may hold the same key.
Source: docs/semantics/writing.md#sequence-numbers, docs/semantics/merge-engines.md#order-of-versions.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sorted_run import KeyedFile, keyed_files


def crossing_files(
    earlier: Iterable[DataFile], later: Sequence[DataFile], key_types: Sequence[DataType]
) -> Iterator[tuple[KeyedFile, list[KeyedFile]]]:
    """Yield those of the `later` files whose rows may lose to rows of `earlier` commits, each with the files that have
    them.

    All files are of one bucket. A row loses to a row of the same key with an equal or higher number. Raises
    CorruptTable for keys that cannot be decoded.
    """
    lowest = min((file.min_sequence_number for file in later), default=None)
    suspects = [file for file in earlier if lowest is not None and file.max_sequence_number >= lowest]
    if not suspects:
        return
    before = keyed_files(suspects, key_types)
    for each in keyed_files(later, key_types):
        if crossed := [one for one in before if _crosses(one, each)]:
            yield each, crossed


def needed_shifts(
    arrived: Sequence[DataFile],
    parts: Sequence[Sequence[DataFile]],
    key_types: Sequence[DataType],
    *,
    free_numbers: int = 0,
) -> list[int]:
    """Return for each part how much the sequence numbers of its files must rise; 0: they may stay.

    They then are above those of `arrived`, and above those that the parts before it have after their own rise.
    All files are of one bucket. The numbers of all files of a part rise by the same amount, which keeps their order.
    The first part that rises leaves `free_numbers` unused below it. Raises CorruptTable for keys that cannot be
    decoded.
    """
    highest = max((file.max_sequence_number for file in arrived), default=-1)
    if not _may_cross(highest, parts):
        return [0] * len(parts)
    earlier = keyed_files(arrived, key_types)
    later = [keyed_files(part, key_types) for part in parts]
    numbers = _HighestNumbers(chain(earlier, *later))
    for each in earlier:
        numbers.add(each, each.file.max_sequence_number)
    shifts = []
    for part in later:
        crosses = any(numbers.highest(each) >= each.file.min_sequence_number for each in part)
        shift = 0
        if crosses:
            shift = highest + 1 + free_numbers - min(each.file.min_sequence_number for each in part)
            free_numbers = 0
        for each in part:
            number = each.file.max_sequence_number + shift
            numbers.add(each, number)
            highest = max(highest, number)
        shifts.append(shift)
    return shifts


def _may_cross(highest: int, parts: Sequence[Sequence[DataFile]]) -> bool:
    """Return whether numbers of a part are not above all earlier ones, of which `highest` is that of arrived files."""
    for part in parts:
        if any(file.min_sequence_number <= highest for file in part):
            return True
        highest = max([highest, *(file.max_sequence_number for file in part)])
    return False


class _HighestNumbers:
    """The highest sequence number of the files that were added, by key: a tree over the ends of all key ranges, so that
    files are added and asked for in logarithmic time.
    """

    def __init__(self, files: Iterable[KeyedFile]) -> None:
        # Two ranges overlap if and only if one has an end of the other, so only the ends count.
        ends = sorted({end for each in files for end in (each.min_key, each.max_key)})
        self._places = {end: place for place, end in enumerate(ends)}
        # A power of two: then the parent of a node is that of a pair, at every height.
        self._leaf_count = 1 << max(len(ends) - 1, 0).bit_length()
        # By node: the highest number of the files whose range has all of its keys, and of those that have any.
        self._of_all = [-1] * (2 * self._leaf_count)
        self._of_any = [-1] * (2 * self._leaf_count)

    def add(self, file: KeyedFile, number: int) -> None:
        for node in self._whole_nodes(file):
            self._of_all[node] = max(self._of_all[node], number)
            self._of_any[node] = max(self._of_any[node], number)
        for node in self._above_ends(file):
            self._of_any[node] = max(self._of_any[node], number)

    def highest(self, file: KeyedFile) -> int:
        """Return the highest number of the added files whose key range overlaps that of `file`; -1 for none."""
        whole = (self._of_any[node] for node in self._whole_nodes(file))
        return max(chain(whole, (self._of_all[node] for node in self._above_ends(file))))

    def _whole_nodes(self, file: KeyedFile) -> Iterator[int]:
        """Yield nodes that together have the keys of the range of `file` and no others."""
        low = self._places[file.min_key] + self._leaf_count
        high = self._places[file.max_key] + self._leaf_count + 1
        while low < high:
            if low & 1:
                yield low
                low += 1
            if high & 1:
                high -= 1
                yield high
            low, high = low >> 1, high >> 1

    def _above_ends(self, file: KeyedFile) -> Iterator[int]:
        """Yield the nodes above the two ends of the range of `file`."""
        for end in {file.min_key, file.max_key}:
            node = (self._places[end] + self._leaf_count) >> 1
            while node:
                yield node
                node >>= 1


def _crosses(earlier: KeyedFile, later: KeyedFile) -> bool:
    return (
        earlier.file.max_sequence_number >= later.file.min_sequence_number
        and earlier.min_key <= later.max_key
        and later.min_key <= earlier.max_key
    )
