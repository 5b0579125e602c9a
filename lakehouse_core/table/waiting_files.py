"""Waiting files: the files of rows that wait for their buckets, by the writers that their names tell.

Rule: the rows of one writer have an order: its files by creation time, then by number. Writers have none among each
other in Java; here their files are in the order of their commits, as the manifests list them.
Source: docs/semantics/tables.md#postponed-buckets.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lakehouse_core.table.data_file import DataFile

# Java cuts names at these marks. Stored in names of data files. Never change.
_USER_MARK: Final = "-u-"
_NUMBER_MARK: Final = "-s-"
_END_MARK: Final = "-w-"
_PLAIN_USER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_COUNTER: Final = re.compile(r"-(\d+)\.[^.]+$")


@dataclass(frozen=True, slots=True)
class WriterId:
    """One writer of waiting rows: the commit user, and the number of its task."""

    commit_user: str
    number: int

    def prefix(self, prefix: str) -> str:
        """Return the beginning of the names of its files; `prefix`: that of other data files of the table."""
        return f"{prefix}{_USER_MARK}{_in_name(self.commit_user)}{_NUMBER_MARK}{self.number}{_END_MARK}"


def in_order(files: Iterable[DataFile]) -> list[DataFile]:
    """Return the waiting files of a partition in the order of their rows. `files`: in the order of their manifests."""
    listed = list(files)
    by_writer: dict[str, list[DataFile]] = defaultdict(list)
    for file in listed:
        by_writer[_writer_of(file)].append(file)
    # Each place in the list stays with its writer: clocks and time zones of different writers say nothing.
    next_of = {writer: iter(sorted(found, key=_age)) for writer, found in by_writer.items()}
    return [next(next_of[_writer_of(file)]) for file in listed]


def waiting_rows(count: int) -> str:
    """Return how many rows wait, as a clause: "1 row waits for its bucket"."""
    return "1 row waits for its bucket" if count == 1 else f"{count:,} rows wait for their buckets"


def _age(file: DataFile) -> tuple[int, int]:
    return file.creation_time_millis or 0, _number_of(file)


def _in_name(user: str) -> str:
    if _PLAIN_USER.fullmatch(user) and not any(mark in f"-{user}-" for mark in (_USER_MARK, _NUMBER_MARK, _END_MARK)):
        return user
    return hashlib.blake2b(user.encode(), digest_size=16).hexdigest()


def _writer_of(file: DataFile) -> str:
    """Return the name without the number of the file: the writer, and the attempt that wrote it."""
    return _COUNTER.sub("", file.file_name)


def _number_of(file: DataFile) -> int:
    found = _COUNTER.search(file.file_name)
    return 0 if found is None else int(found[1])
