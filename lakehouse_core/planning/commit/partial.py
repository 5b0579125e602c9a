"""Partial commits: choose the compactions of a commit that have no conflict with a concurrent commit.

Source: docs/semantics/commit.md#conflict-detection.
"""

from collections.abc import Iterable, Sequence

from lakehouse_core.planning.commit.conflicts import Conflict
from lakehouse_core.planning.commit.file_changes import compact_changes, conflicts_of
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.joined_changelog import object_name, segment_format
from lakehouse_core.table.manifest import IndexManifestEntry, ManifestEntry
from lakehouse_core.table.schema import TableSchema


def compactions_that_fit(
    messages: Sequence[CommitMessage],
    live: Sequence[ManifestEntry],
    schema: TableSchema,
    indexes: Sequence[IndexManifestEntry] = (),
) -> tuple[list[CommitMessage], list[Conflict]]:
    """Return the compactions that fit the `live` files of their partitions and the table's index files, and the
    conflicts of the others.
    """
    left, found = list(messages), []
    while left:
        conflicts = conflicts_of(compact_changes(left), live, schema, indexes)
        if not conflicts:
            break
        conflicts += _torn(left, conflicts)
        found.extend(conflicts)
        left = [message for message in left if not any(_is_hit(message, conflict) for conflict in conflicts)]
    return left, found


def _is_hit(message: CommitMessage, conflict: Conflict) -> bool:
    """Return whether the conflict concerns the message; in an append table many messages share one bucket."""
    if message.partition != conflict.partition or conflict.bucket not in (None, message.bucket):
        return False
    names = {file.file_name for file in (*message.compact_before, *message.compact_after)}
    names |= {file.file_name for file in (*message.compact_new_index_files, *message.compact_deleted_index_files)}
    return conflict.file_name is None or conflict.file_name in names


def _torn(messages: Iterable[CommitMessage], conflicts: Sequence[Conflict]) -> list[Conflict]:
    """Return a conflict for each message that shares a changelog object with a message in `conflicts`.

    Other engines keep an object because of the entry of its first segment; without that entry it is an orphan for them.
    """
    hit: list[CommitMessage] = []
    spared: list[CommitMessage] = []
    for message in messages:
        (hit if any(_is_hit(message, conflict) for conflict in conflicts) else spared).append(message)
    found: list[Conflict] = []
    while torn := [each for each in spared if not _shared_objects([each]).isdisjoint(_shared_objects(hit))]:
        hit += torn
        spared = [message for message in spared if message not in torn]
        found += [
            Conflict(
                partition=message.partition,
                bucket=message.bucket,
                reason="its changelog is in one file with that of a bucket that another commit changed",
            )
            for message in torn
        ]
    return found


def _shared_objects(messages: Iterable[CommitMessage]) -> set[tuple[bytes, str]]:
    files = ((message.partition, file.file_name) for message in messages for file in message.compact_changelog_files)
    return {(partition, object_name(name)) for partition, name in files if segment_format(name) is not None}
