"""Joined changelogs: changelog files that share one object; the name of each gives its byte range in the object.

A segment holds the bytes of one file, unchanged. The name of the first segment is the object's; the other names contain
it, its bucket and their range. Only names distinguish the manifest entries from those of single files.
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
    """Return the segment of the changelog file at `key`, None if the file is an object of its own.

    The object is in the bucket folder of its first segment, in the same partition as `key`.
    """
    if _PREFIX not in key:
        return None
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
    """Return the name of the object that holds a file: the file's own name unless it is a later segment."""
    match = _match(name)
    return name if match is None else _object_name(match)


def segment_format(name: str) -> str | None:
    """Return the format of a segment, None for the name of any other file."""
    match = _match(name)
    return None if match is None else match["format"]


def first_segment_name(uuid: str, *, bucket: int, length: int, file_format: str) -> str:
    """Return the name of an object whose first segment has `length` bytes and belongs to `bucket`, the object's
    folder.
    """
    return f"{_PREFIX}{uuid}${bucket}-{length}.{_FORMAT_PREFIX}{file_format}"


def segment_names(first: str, lengths: Iterable[int]) -> Iterator[str]:
    """Yield the names of the segments of the object `first`. `lengths`: the segments' lengths in bytes, in order."""
    stem, dot, ending = first.rpartition(".")
    offset = 0
    for length in lengths:
        yield f"{stem}-{offset}-{length}{dot}{ending}" if offset else first
        offset += length


def _match(name: str) -> re.Match[str] | None:
    # This is called for every file of a table, and hardly any is a segment.
    return _NAME.fullmatch(name) if name.startswith(_PREFIX) else None


def _object_name(match: re.Match[str]) -> str:
    return f"{match['first']}.{_FORMAT_PREFIX}{match['format']}"
