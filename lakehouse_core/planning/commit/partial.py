"""Partial commits: choose the compactions of a commit that have no conflict with a concurrent commit.

Source: docs/semantics/commit.md#conflict-detection.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TypeAlias

from lakehouse_core.planning.commit.conflicts import Conflict
from lakehouse_core.planning.commit.file_changes import FileChanges, compact_changes, conflicts_of
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.joined_changelog import object_name, segment_format
from lakehouse_core.table.manifest import IndexManifestEntry, ManifestEntry
from lakehouse_core.table.schema import TableSchema

# By partition and bucket.
NumberedAbove: TypeAlias = Mapping[tuple[bytes, int], int]
# By partition and bucket (None: all), the names of the files in conflicts; among them None: all files.
_Hits: TypeAlias = Mapping[tuple[bytes, int | None], Set[str | None]]


def changes_that_fit(
    messages: Sequence[CommitMessage],
    live: Sequence[ManifestEntry],
    schema: TableSchema,
    indexes: Sequence[IndexManifestEntry] = (),
    overtaken: Sequence[Conflict] = (),
) -> tuple[FileChanges, list[Conflict]]:
    """Return the changes of the compactions that fit the `live` files of their partitions and the table's index files,
    and the conflicts of the others. `overtaken`: conflicts that are known already.
    """
    found = list(overtaken)
    left = without_conflicts(messages, found)
    while True:
        changes = compact_changes(left)
        conflicts = conflicts_of(changes, live, schema, indexes) if left else []
        if not conflicts:
            return changes, found
        conflicts += _torn(left, conflicts)
        conflicts += _with_moves(left, conflicts)
        found.extend(conflicts)
        left = without_conflicts(left, conflicts)


def overtaken_moves(
    messages: Iterable[CommitMessage], live: Iterable[ManifestEntry], numbered_above: NumberedAbove
) -> list[Conflict]:
    """Return a conflict for each partition whose waiting rows are moved and to whose buckets others added rows
    meanwhile, which may have the numbers of the moved ones.

    `live`: the live files of the partitions. `numbered_above`: as in `CompactStep`; a bucket that it does not name was
    empty. A file of numbers up to that one has rows of the files that the move has seen: others compacted them.
    """
    moved = {message.partition for message in messages if not is_placed(message.bucket)}
    found: dict[bytes, Conflict] = {}
    for entry in live:
        if entry.partition not in moved or not is_placed(entry.bucket):
            continue
        if entry.file.max_sequence_number > numbered_above.get((entry.partition, entry.bucket), -1):
            reason = f"{entry.file.file_name} was added to its buckets while waiting rows were moved there"
            found.setdefault(entry.partition, Conflict(partition=entry.partition, bucket=None, reason=reason))
    return list(found.values())


def _with_moves(messages: Iterable[CommitMessage], conflicts: Sequence[Conflict]) -> list[Conflict]:
    """Return a conflict for the whole of each partition with one whose waiting rows are moved: without all of its
    messages, rows would be there twice, or not at all.
    """
    moved = {message.partition for message in messages if not is_placed(message.bucket)}
    hit = {conflict.partition: conflict for conflict in conflicts if conflict.partition in moved}
    return [Conflict(partition=one.partition, bucket=None, reason=one.reason) for one in hit.values()]


def without_conflicts(messages: Iterable[CommitMessage], conflicts: Iterable[Conflict]) -> list[CommitMessage]:
    """Return the messages that none of the conflicts concerns."""
    hits = _by_place(conflicts)
    return [message for message in messages if not _is_hit(message, hits)]


def _by_place(conflicts: Iterable[Conflict]) -> _Hits:
    found: dict[tuple[bytes, int | None], set[str | None]] = defaultdict(set)
    for conflict in conflicts:
        found[conflict.partition, conflict.bucket].add(conflict.file_name)
    return found


def _is_hit(message: CommitMessage, hits: _Hits) -> bool:
    """Return whether a conflict concerns the message; in an append table many messages share one bucket."""
    places = ((message.partition, None), (message.partition, message.bucket))
    names = [hits[place] for place in places if place in hits]
    if not names or any(None in found for found in names):
        return bool(names)
    own = {file.file_name for file in (*message.compact_before, *message.compact_after)}
    own |= {file.file_name for file in (*message.compact_new_index_files, *message.compact_deleted_index_files)}
    return not all(own.isdisjoint(found) for found in names)


def _torn(messages: Iterable[CommitMessage], conflicts: Sequence[Conflict]) -> list[Conflict]:
    """Return a conflict for each message that shares a changelog object with a message in `conflicts`.

    Other engines keep an object because of the entry of its first segment; without that entry it is an orphan for them.
    """
    hits = _by_place(conflicts)
    lost: set[tuple[bytes, str]] = set()
    spared = []
    for message in messages:
        objects = _shared_objects(message)
        if _is_hit(message, hits):
            lost |= objects
        elif objects:
            spared.append((message, objects))
    found: list[Conflict] = []
    while torn := [each for each in spared if not each[1].isdisjoint(lost)]:
        spared = [each for each in spared if each[1].isdisjoint(lost)]
        lost = set().union(*(objects for _, objects in torn))
        found += [
            Conflict(
                partition=message.partition,
                bucket=message.bucket,
                reason="its changelog is in one file with that of a bucket that another commit changed",
            )
            for message, _ in torn
        ]
    return found


def _shared_objects(message: CommitMessage) -> set[tuple[bytes, str]]:
    names = (file.file_name for file in message.compact_changelog_files)
    return {(message.partition, object_name(name)) for name in names if segment_format(name) is not None}
