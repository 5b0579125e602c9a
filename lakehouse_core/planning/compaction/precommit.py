"""Pre-commit compaction: choose the small files of a staged commit to combine, by partition, in the order of buckets.

Changelog files of a key table are concatenated in one object; data files of an append table without buckets are
rewritten as one.
Source: docs/semantics/compaction.md#pre-commit-compaction; the coordinators of Flink's sink in Java 2.0.0.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakehouse_core.options import TableOptions
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.joined_changelog import segment_names


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file of the message at `index`; `of_compaction`: it is one of the message's compaction."""

    index: int
    of_compaction: bool
    file: DataFile


Group: TypeAlias = tuple[NewFile, ...]


def changelog_groups(messages: Sequence[CommitMessage], options: TableOptions) -> list[Group]:
    """Return the groups of changelog files that will share an object, each of two or more files.

    Files of a compaction belong to another snapshot than those of the rows, and expire with it, so the two never share
    an object. Files of two formats never do, because each segment's name gives the format of the object.
    """
    small = min(_small_bytes(options), options.precommit.buffer_bytes)
    found = (
        (
            (messages[index].partition, of_compaction, file.format),
            NewFile(index=index, of_compaction=of_compaction, file=file),
        )
        for index in _by_bucket(messages)
        for of_compaction, file in _changelog_files(messages[index])
        # A segment without bytes would have the same offset as the next one.
        if 0 < file.file_size < small and _is_alone(file)
    )
    return list(_groups(found, _target_bytes(options)))


def data_file_groups(messages: Sequence[CommitMessage], options: TableOptions) -> list[Group]:
    """Return the groups of new data files of an append table without buckets that will be rewritten as one, each of two
    or more files.
    """
    small = _small_bytes(options)
    found = (
        (messages[index].partition, NewFile(index=index, of_compaction=False, file=file))
        for index in _by_bucket(messages)
        for file in messages[index].new_files
        if file.file_size < small
    )
    return list(_groups(found, _target_bytes(options)))


def with_segments(messages: Sequence[CommitMessage], joined: Mapping[str, Group]) -> tuple[CommitMessage, ...]:
    """Return the messages with the files of each group as segments of its object, by the name of its first segment."""
    renamed: dict[tuple[int, bool, str], DataFile] = {}
    for first, group in joined.items():
        names = segment_names(first, (new.file.file_size for new in group))
        for name, new in zip(names, group, strict=True):
            renamed[new.index, new.of_compaction, new.file.file_name] = replace(new.file, file_name=name)

    def files(index: int, of_compaction: bool, before: Iterable[DataFile]) -> tuple[DataFile, ...]:
        return tuple(renamed.get((index, of_compaction, file.file_name), file) for file in before)

    return tuple(
        replace(
            message,
            changelog_files=files(index, False, message.changelog_files),
            compact_changelog_files=files(index, True, message.compact_changelog_files),
        )
        for index, message in enumerate(messages)
    )


def with_packed(
    messages: Sequence[CommitMessage], packed: Iterable[tuple[Group, Sequence[DataFile]]]
) -> tuple[CommitMessage, ...]:
    """Return the messages with each group of new files replaced by its rewritten files."""
    gone: set[tuple[int, str]] = set()
    came: dict[int, tuple[DataFile, ...]] = {}
    for group, files in packed:
        gone.update((new.index, new.file.file_name) for new in group)
        came[group[0].index] = (*came.get(group[0].index, ()), *files)
    changed = (
        replace(
            message,
            new_files=(
                *(file for file in message.new_files if (index, file.file_name) not in gone),
                *came.get(index, ()),
            ),
        )
        for index, message in enumerate(messages)
    )
    return tuple(after for after, before in zip(changed, messages, strict=True) if after.new_files or after == before)


def _changelog_files(message: CommitMessage) -> Iterator[tuple[bool, DataFile]]:
    yield from ((False, file) for file in message.changelog_files)
    yield from ((True, file) for file in message.compact_changelog_files)


def _is_alone(file: DataFile) -> bool:
    """Return whether the file is in its bucket folder and has no extra files that would have to be renamed, too."""
    return not file.extra_files and file.external_path is None


def _by_bucket(messages: Sequence[CommitMessage]) -> list[int]:
    # Tasks end in any order; sorting makes the same objects of the same rows.
    return sorted(range(len(messages)), key=lambda index: (messages[index].partition, messages[index].bucket))


def _groups(found: Iterable[tuple[Hashable, NewFile]], target_bytes: int) -> Iterator[Group]:
    """Yield the groups of files with the same key, each ended at the target size; the last group of a key is the
    rest.
    """
    waiting: dict[Hashable, list[NewFile]] = {}
    weights: dict[Hashable, int] = {}
    for key, new in found:
        waiting.setdefault(key, []).append(new)
        weights[key] = weights.get(key, 0) + new.file.file_size
        if weights[key] >= target_bytes:
            del weights[key]
            yield tuple(waiting.pop(key))
    yield from (tuple(group) for group in waiting.values() if len(group) > 1)


def _target_bytes(options: TableOptions) -> int:
    # As in Java, which treats a key table as an append table here.
    return options.target_file_size_bytes(has_key=False)


def _small_bytes(options: TableOptions) -> int:
    return int(_target_bytes(options) * options.compaction.small_file_ratio)
