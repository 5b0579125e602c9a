"""Hash indexes of a commit: the keys that staged rows bring to dynamic buckets, united with those of other commits.

Rule: a hash is in one bucket of its partition. If two commits put one hash into two buckets, the later one has a
conflict. Source: docs/semantics/tables.md#dynamic-buckets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from lakehouse_core.format.hash_index import Hashes, distinct
from lakehouse_core.planning.commit.conflicts import Conflict
from lakehouse_core.planning.commit.index_files import index_file_of
from lakehouse_core.planning.commit.overwrites import overwritten
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.manifest import HASH_INDEX, IndexManifestEntry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.staged_commit import StagedCommit

Place: TypeAlias = tuple[bytes, int]
LiveIndexes: TypeAlias = Mapping[Place, IndexFile]


def live_indexes(indexes: Iterable[IndexManifestEntry], partitions: frozenset[bytes] | None = None) -> LiveIndexes:
    """Return the hash index of each bucket in `partitions` (None: in all)."""
    return {
        (entry.partition, entry.bucket): index_file_of(entry)
        for entry in indexes
        if entry.index_type == HASH_INDEX and (partitions is None or entry.partition in partitions)
    }


def known_indexes(
    indexes: Iterable[IndexManifestEntry], behind: Iterable[StagedCommit], schema: TableSchema
) -> dict[Place, tuple[IndexFile, ...]]:
    """Return the hash indexes of each bucket after the commits `behind`, which are staged and not yet committed."""
    found: dict[Place, tuple[IndexFile, ...]] = {place: (file,) for place, file in live_indexes(indexes).items()}
    for staged in behind:
        covers = overwritten(staged, schema)
        if covers is not None:
            found = {place: files for place, files in found.items() if not covers(place[0])}
        for message in staged.messages:
            new = hash_files(message.new_index_files)
            if new:
                place = message.partition, message.bucket
                gone = hash_files(message.deleted_index_files)
                found[place] = (*(file for file in found.get(place, ()) if file not in gone), *new)
    return found


def hash_files(files: Iterable[IndexFile]) -> tuple[IndexFile, ...]:
    return tuple(file for file in files if file.index_type == HASH_INDEX)


def fits(messages: Iterable[CommitMessage], live: LiveIndexes) -> bool:
    """Return whether the messages change the live indexes of their buckets as they are, each at most once."""
    changed: set[Place] = set()
    for message in messages:
        place = message.partition, message.bucket
        new = hash_files(message.new_index_files)
        read = hash_files((*message.deleted_index_files, *message.read_index_files))
        if read != ((live[place],) if place in live else ()) or (new and place in changed):
            return False
        if new:
            changed.add(place)
    return True


def claims_of(message: CommitMessage) -> tuple[IndexFile, ...]:
    """Return the indexes that hold the keys of the message's rows, and maybe others of its bucket; none if it has no
    index, as no writer of these tables leaves it.
    """
    return hash_files(message.new_index_files) or hash_files(message.read_index_files)


def united(
    claimed: Iterable[tuple[Place, Hashes]], present: Iterable[tuple[Place, Hashes]]
) -> tuple[dict[Place, Hashes], list[Conflict]]:
    """Return the hashes of each bucket that lacks some of those that a commit brings, with all that it has; and the
    conflicts of hashes that would be in two buckets.

    `claimed`: the hashes that the commit brings, of one bucket maybe several times. `present`: the live indexes of its
    partitions, of which one at a time is kept. Hashes are distinct and rising.
    """
    of_partition: dict[bytes, dict[int, Hashes]] = {}
    conflicts: list[Conflict] = []
    for (partition, bucket), hashes in claimed:
        buckets = of_partition.setdefault(partition, {})
        conflicts += _conflicts(partition, bucket, hashes, buckets.items())
        earlier = buckets.get(bucket)
        buckets[bucket] = hashes if earlier is None else distinct(np.concatenate([earlier, hashes]))
    grown: dict[Place, Hashes] = {}
    there: set[Place] = set()
    for place, known in present:
        partition, bucket = place
        buckets = of_partition.get(partition, {})
        for other, hashes in buckets.items():
            conflicts += _conflicts(partition, other, hashes, [(bucket, known)])
        if bucket in buckets:
            there.add(place)
            whole = distinct(np.concatenate([known, buckets[bucket]]))
            if len(whole) > len(known):
                grown[place] = whole
    for partition, buckets in of_partition.items():
        for bucket, hashes in buckets.items():
            if (partition, bucket) not in there and len(hashes):
                grown[partition, bucket] = hashes
    return grown, conflicts


def _conflicts(
    partition: bytes, bucket: int, hashes: Hashes, others: Iterable[tuple[int, Hashes]]
) -> Iterator[Conflict]:
    for other, known in others:
        if other != bucket and (count := len(np.intersect1d(hashes, known, assume_unique=True))):
            yield Conflict(
                partition=partition,
                bucket=bucket,
                reason=f"another commit put {count} of its keys into bucket {other}",
            )


def with_indexes(
    messages: Sequence[CommitMessage], live: LiveIndexes, made: Mapping[Place, IndexFile]
) -> tuple[CommitMessage, ...]:
    """Return the messages with the index files `made` in place of their own; the first message of a bucket has them."""
    left = dict(made)
    changed = []
    for message in messages:
        place = message.partition, message.bucket
        new = left.pop(place, None)
        gone = live.get(place) if new is not None else None
        changed.append(
            replace(
                message,
                new_index_files=(*_others(message.new_index_files), *(() if new is None else (new,))),
                deleted_index_files=(*_others(message.deleted_index_files), *(() if gone is None else (gone,))),
            )
        )
    return tuple(changed)


def _others(files: Iterable[IndexFile]) -> tuple[IndexFile, ...]:
    return tuple(file for file in files if file.index_type != HASH_INDEX)
