"""Conflicts: decide whether file changes still fit the table's live files.

Rule: changes are compared with the files that are live now in their partitions. Two appends to one bucket never
conflict. A compaction with a conflict in one bucket may fit in the others, so each conflict names its bucket.
Source: docs/semantics/commit.md#conflict-detection.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lakehouse_core.errors import CommitConflict
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataType
from lakehouse_core.planning.partitions import bucket_name
from lakehouse_core.table.bucketing import Fixed
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, file_identifier
from lakehouse_core.table.schema import TableSchema

# The number of conflicts that one message shows.
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The reason why the file changes of one bucket do not fit any more.

    `bucket` None: the changes of the whole partition; `file_name`: the changes of this file only.
    """

    partition: bytes
    bucket: int | None
    reason: str
    file_name: str | None = None


def find_conflicts(
    live: Iterable[ManifestEntry], entries: Sequence[ManifestEntry], schema: TableSchema
) -> list[Conflict]:
    """Return the conflicts of the entries, in the order found. `live`: the live files of their partitions.

    A change that removes all files of a partition may bring another bucket count.
    """
    there = {file_identifier(entry): entry for entry in live}
    removed = {file_identifier(entry) for entry in entries if entry.kind is EntryKind.DELETE}
    found = bucket_counts((entry for identifier, entry in there.items() if identifier not in removed), entries)
    for entry in entries:
        identifier = file_identifier(entry)
        if entry.kind is EntryKind.DELETE:
            if there.pop(identifier, None) is None:
                found.append(_of(entry, f"{entry.file.file_name} at level {entry.file.level} is not there any more"))
        elif identifier in there:
            found.append(_of(entry, f"{entry.file.file_name} at level {entry.file.level} is there already"))
        else:
            there[identifier] = entry
    touched = {(entry.partition, entry.bucket) for entry in entries}
    return [*found, *_overlaps(there.values(), touched, [field.type for field in schema.key_fields])]


def unseen_files(
    changed: Iterable[tuple[CommitKind, Iterable[ManifestEntry]]], covers: Callable[[bytes], bool]
) -> list[ManifestEntry]:
    """Return the files that were added, after the overwrite was staged, to the partitions that it `covers`.

    `changed`: kind and delta of each snapshot since then. COMPACT snapshots are skipped: they add no new rows.
    """
    return [
        entry
        for kind, entries in changed
        if kind is not CommitKind.COMPACT
        for entry in entries
        if entry.kind is EntryKind.ADD and covers(entry.partition)
    ]


def conflict_error(conflicts: Sequence[Conflict], schema: TableSchema) -> CommitConflict:
    """Return the error that names the first conflicts."""
    in_order = sorted(conflicts, key=lambda one: (one.partition, -1 if one.bucket is None else one.bucket))
    shown = "; ".join(f"{bucket_name(one.partition, one.bucket, schema)}: {one.reason}" for one in in_order[:_SHOWN])
    more = f"; and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
    return CommitConflict(
        f"Another commit changed files that this one depends on. {shown}{more}. Nothing was applied: read the "
        "table again and repeat the work."
    )


def _of(entry: ManifestEntry, reason: str) -> Conflict:
    return Conflict(partition=entry.partition, bucket=entry.bucket, reason=reason, file_name=entry.file.file_name)


def bucket_counts(live: Iterable[ManifestEntry], entries: Iterable[ManifestEntry]) -> list[Conflict]:
    """Return the conflicts of partitions whose live files have another bucket count than the entries."""
    counts: dict[bytes, int] = {}
    for entry in live:
        if entry.total_buckets > 0:
            counts.setdefault(entry.partition, entry.total_buckets)
    found = {}
    for entry in entries:
        count = counts.get(entry.partition)
        if count is not None and 0 < entry.total_buckets != count:
            reason = (
                f"it has {count} buckets, the new files were written for {entry.total_buckets}: "
                "overwrite the whole partition"
            )
            found[entry.partition] = Conflict(partition=entry.partition, bucket=None, reason=reason)
    return list(found.values())


def older_counts(
    live: Iterable[ManifestEntry], entries: Iterable[ManifestEntry], schema: TableSchema
) -> list[Conflict]:
    """Return a conflict for each partition without live files whose new files have another bucket count than the option
    `bucket` says now: if they were committed, the next writer would be refused there until a rescale.
    """
    bucketing = schema.bucketing
    if not isinstance(bucketing, Fixed):
        return []
    found = {entry.partition: entry.total_buckets for entry in entries if 0 < entry.total_buckets != bucketing.count}
    there = {entry.partition for entry in live} if found else set()
    return [
        Conflict(
            partition=partition,
            bucket=None,
            reason=f"it has no files yet, and the new ones were written for {count} buckets, where the option bucket "
            f"is {bucketing.count} now",
        )
        for partition, count in found.items()
        if partition not in there
    ]


def _overlaps(
    entries: Iterable[ManifestEntry], touched: set[tuple[bytes, int]], key_types: Sequence[DataType]
) -> list[Conflict]:
    """Return the conflicts of buckets in which two files of one level above 0 would share keys."""
    if not key_types:
        return []
    levels: Mapping[tuple[bytes, int, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        if entry.file.level > 0 and (entry.partition, entry.bucket) in touched:
            levels[entry.partition, entry.bucket, entry.file.level].append(entry)
    found = {}
    for (partition, bucket, level), files in levels.items():
        ranges = sorted(
            (
                deserialize_row(entry.file.min_key, key_types),
                deserialize_row(entry.file.max_key, key_types),
                entry.file.file_name,
            )
            for entry in files
        )
        for (_, highest, name), (lowest, _, other) in pairwise(ranges):
            if highest >= lowest:
                reason = f"{name} and {other} would both hold keys of one range at level {level}"
                found[partition, bucket] = Conflict(partition=partition, bucket=bucket, reason=reason)
    return list(found.values())
