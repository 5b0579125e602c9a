"""Changelog files that share one object: their names say where in it the bytes of each lie.

What was a file of its own is a segment, as it was, byte for byte. The name of the first, which begins the object, is
the object's own; the others name it, its bucket and their range. Manifest entries are those of the single files but for
the name.
Source: docs/semantics/compaction.md#pre-commit-compaction; `CompactedChangelogPathResolver`, `ChangelogCompactTask` of
Java 2.0.0.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

# Stored in file names. Never change.
_PREFIX: Final = "compacted-changelog-"
_FORMAT_PREFIX: Final = "cc-"
_NAME: Final = re.compile(
    r"(?P<first>compacted-changelog-[^$./\\\0]+\$(?P<bucket>\d{1,10})-(?P<first_length>\d{1,19}))"
    r"(?:-(?P<offset>\d{1,19})-(?P<length>\d{1,19}))?"
    r"\.cc-(?P<format>[^./\\\0]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """`length` bytes from `offset` of the object at `key`."""

    key: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


def segment_of(key: str) -> Segment | None:
    """Return where the bytes of the changelog file at `key` lie, None when it is an object of its own.

    The object lies in the bucket of its first segment, beside the bucket that `key` is in.
    """
    folder, slash, name = key.rpartition("/")
    match = _match(name)
    if match is None:
        return None
    if match["offset"] is None:
        return Segment(key=key, offset=0, length=int(match["first_length"]))
    partition, between, _ = folder.rpartition("/")
    return Segment(
        key=f"{partition}{between}bucket-{match['bucket']}{slash}{_object_name(match)}",
        offset=int(match["offset"]),
        length=int(match["length"]),
    )


def object_name(name: str) -> str:
    """Return the name of the object in which the bytes of a file lie: its own unless it is a later segment."""
    match = _match(name)
    return name if match is None else _object_name(match)


def segment_format(name: str) -> str | None:
    """Return the format of a segment, None for the name of any other file."""
    match = _match(name)
    return None if match is None else match["format"]


def first_segment_name(uuid: str, *, bucket: int, length: int, file_format: str) -> str:
    """Return the name of an object that begins with `length` bytes of a file of `bucket`, in whose folder it lies."""
    return f"{_PREFIX}{uuid}${bucket}-{length}.{_FORMAT_PREFIX}{file_format}"


def segment_names(first: str, lengths: Iterable[int]) -> Iterator[str]:
    """Yield the names of the segments of the object `first`, whose lengths in bytes follow each other in `lengths`."""
    stem, dot, ending = first.rpartition(".")
    offset = 0
    for length in lengths:
        yield f"{stem}-{offset}-{length}{dot}{ending}" if offset else first
        offset += length


def _match(name: str) -> re.Match[str] | None:
    # Asked of every file of a table, of which hardly any is one.
    return _NAME.fullmatch(name) if name.startswith(_PREFIX) else None


def _object_name(match: re.Match[str]) -> str:
    return f"{match['first']}.{_FORMAT_PREFIX}{match['format']}"
