"""Commit order: of two commits to one bucket the later one wins, so its rows must have the higher sequence numbers.

Writers number their rows from the highest number that they see; two that saw the same give the same. Rule: numbers
matter only where two files may hold the same key.
Source: docs/semantics/writing.md#sequence-numbers, docs/semantics/merge-engines.md#order-of-versions.
"""

from collections.abc import Iterable, Sequence

from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sorted_run import KeyedFile, keyed_files


def crossed_files(
    earlier: Iterable[DataFile], later: Sequence[DataFile], key_types: Sequence[DataType]
) -> tuple[DataFile, DataFile] | None:
    """Return a file of the `earlier` commits and one of the `later` with rows that may lose to it, None without.

    All are of one bucket. A row loses where another of its key has an equal or higher number. Raises CorruptTable for
    keys that cannot be decoded.
    """
    lowest = min((file.min_sequence_number for file in later), default=None)
    if lowest is None:
        return None
    suspects = [file for file in earlier if file.max_sequence_number >= lowest]
    if not suspects:
        return None
    before, after = keyed_files(suspects, key_types), keyed_files(later, key_types)
    pairs = ((one.file, other.file) for one in before for other in after if _crosses(one, other))
    return next(pairs, None)


def needed_shift(arrived: Sequence[DataFile], new: Sequence[DataFile], key_types: Sequence[DataType]) -> int:
    """Return by how much the numbers of the `new` files must rise to lie above all of `arrived`; 0: they may stay.

    All are of one bucket. The new files rise together, for some of them may be later than others.
    """
    if crossed_files(arrived, new, key_types) is None:
        return 0
    highest = max(file.max_sequence_number for file in arrived)
    return highest + 1 - min(file.min_sequence_number for file in new)


def _crosses(earlier: KeyedFile, later: KeyedFile) -> bool:
    return (
        earlier.file.max_sequence_number >= later.file.min_sequence_number
        and earlier.min_key <= later.max_key
        and later.min_key <= earlier.max_key
    )
