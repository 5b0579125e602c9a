"""Commit order: of two commits to one bucket the later one wins, so its rows must have the higher sequence numbers.

Writers number their rows from the highest number that they see, so concurrent writers may use the same numbers. Rule:
numbers matter only if two files may hold the same key.
Source: docs/semantics/writing.md#sequence-numbers, docs/semantics/merge-engines.md#order-of-versions.
"""

from collections.abc import Iterable, Sequence

from lakehouse_core.format.data_types import DataType
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.sorted_run import KeyedFile, keyed_files


def crossed_files(
    earlier: Iterable[DataFile], later: Sequence[DataFile], key_types: Sequence[DataType]
) -> tuple[DataFile, DataFile] | None:
    """Return a file of the `earlier` commits and one of the `later` ones whose rows may lose to it; None if there is no
    such pair.

    All files are of one bucket. A row loses to a row of the same key with an equal or higher number. Raises
    CorruptTable for keys that cannot be decoded.
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
    """Return the amount by which the numbers of the `new` files must rise to be above those of `arrived`; 0: they may
    stay.

    All files are of one bucket. The numbers of all new files rise by the same amount, which keeps their order.
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
