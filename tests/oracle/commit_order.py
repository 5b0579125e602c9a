"""Commit order, part by part and pair by pair: the numbers of a part rise above all earlier ones if they have to."""

from collections.abc import Sequence
from dataclasses import replace

from lakehouse_core.format.data_types import DataType
from lakehouse_core.planning.commit_order import crossing_files
from lakehouse_core.table.data_file import DataFile


def shifts_by_pairs(
    arrived: Sequence[DataFile], parts: Sequence[Sequence[DataFile]], key_types: Sequence[DataType]
) -> list[int]:
    """Return for each part by how much its numbers must rise."""
    earlier, shifts = list(arrived), []
    for part in parts:
        shift = 0
        if any(crossing_files(earlier, part, key_types)):
            shift = max(file.max_sequence_number for file in earlier) + 1
            shift -= min(file.min_sequence_number for file in part)
        shifts.append(shift)
        earlier += [
            replace(
                file,
                min_sequence_number=file.min_sequence_number + shift,
                max_sequence_number=file.max_sequence_number + shift,
            )
            for file in part
        ]
    return shifts
