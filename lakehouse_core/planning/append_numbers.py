"""Sequence numbers of append tables with buckets, whose rows have none of their own: a file's range orders the files.

Rule: tasks that wrote one bucket at once began at the same number, so their files are numbered one after the other.
Source: docs/semantics/writing.md#sequence-numbers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakehouse_core.table.commit_message import CommitMessage


def numbered(messages: Iterable[CommitMessage], next_numbers: Mapping[tuple[bytes, int], int]) -> list[CommitMessage]:
    """Return the messages with the new files of each bucket numbered in their order, from its next number on.

    `next_numbers`: by (serialized partition, bucket); buckets that are not there begin at 0.
    """
    upcoming = dict(next_numbers)
    found = []
    for message in messages:
        place = (message.partition, message.bucket)
        files = []
        for file in message.new_files:
            first = upcoming.get(place, 0)
            upcoming[place] = first + file.row_count
            files.append(replace(file, min_sequence_number=first, max_sequence_number=first + file.row_count - 1))
        found.append(replace(message, new_files=tuple(files)))
    return found
