"""Moves: bring rows that wait for their buckets into them, within a compaction.

The tasks write files of level 0, which the compaction then treats as files of their buckets. One commit removes the
waiting files and adds what is left of the new ones. A partition is moved as a whole or not at all.
Source: docs/semantics/tables.md#postponed-buckets.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.compaction.placing import Move, moved_rows
from lakehouse_core.execution.compaction.plan import BucketCompaction, CompactionBase
from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.commit.conflicts import Conflict, conflict_error
from lakehouse_core.planning.compaction.append import AppendCompactionPlan
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.progress import Watch
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.table.bucketing import total_buckets
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_layout import DataLayout, partition_folder
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

_Place = tuple[bytes, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRows:
    """The new files of level 0, a message for each task and bucket, and the partitions whose rows are in them."""

    moves: tuple[BucketCompaction, ...] = ()
    messages: tuple[CommitMessage, ...] = ()

    @property
    def partitions(self) -> frozenset[bytes]:
        return frozenset(move.partition for move in self.moves)

    @property
    def file_names(self) -> frozenset[str]:
        return frozenset(file.file_name for message in self.messages for file in message.new_files)


def planned_moves(base: CompactionBase) -> tuple[BucketCompaction, ...]:
    """Return the move of each partition that has waiting rows, as the compaction of the bucket in which they wait."""
    schema = base.schema
    types = [field.type for field in schema.partition_fields]
    bucket = total_buckets(schema.bucketing)
    found = []
    for partition, files in base.waiting.items():
        values = deserialize_row(partition, types)
        found.append(
            BucketCompaction(
                partition=partition,
                bucket=bucket,
                total_buckets=bucket,
                folder=partition_folder(schema, values, bucket),
                values=named_values(values, schema),
                plan=AppendCompactionPlan(groups=(tuple(files),), reason="waiting rows"),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.rewritten_bytes, one.folder)))


def move_rows(
    table: TableContext,
    base: CompactionBase,
    moves: Sequence[BucketCompaction],
    *,
    emits_changelog: bool,
    watch: Watch,
) -> tuple[MovedRows, list[Conflict]]:
    """Write the waiting rows into their buckets; return the new files, and the conflicts of partitions whose waiting
    files others removed meanwhile.

    On an error no new file is left. Raises CommitConflict when others removed the files of all.
    """
    conflicts: list[Conflict] = []
    while True:
        try:
            made = _run(table, base, moves, emits_changelog=emits_changelog, watch=watch)
            return MovedRows(moves=tuple(moves), messages=made), conflicts
        except (CorruptTable, NotFound):
            lost = _lost(table, base, moves)
            if not lost:
                raise
            conflicts += lost
            gone = {conflict.partition for conflict in lost}
            moves = [move for move in moves if move.partition not in gone]
            if not moves:
                raise conflict_error(conflicts, base.schema) from None


def with_moved(base: CompactionBase, moved: MovedRows) -> CompactionBase:
    """Return the base with the new files in their buckets, without the partitions that had waiting rows and were not
    moved.
    """
    lost = base.waiting.keys() - moved.partitions
    files = {place: list(found) for place, found in base.files.items() if place[0] not in lost}
    for message in moved.messages:
        files.setdefault((message.partition, message.bucket, message.total_buckets), []).extend(message.new_files)
    return replace(base, files=files, waiting={})


def without(moved: MovedRows, partitions: Collection[bytes]) -> tuple[MovedRows, MovedRows]:
    """Return what is left without these partitions, and what goes with them."""

    def part(is_lost: bool) -> MovedRows:
        return MovedRows(
            moves=tuple(move for move in moved.moves if (move.partition in partitions) is is_lost),
            messages=tuple(message for message in moved.messages if (message.partition in partitions) is is_lost),
        )

    return part(False), part(True)


def joined(
    table: TableContext, schema: TableSchema, moved: MovedRows, rewritten: Iterable[CommitMessage]
) -> tuple[CommitMessage, ...]:
    """Return the messages of the whole compaction, and delete the new files that it has rewritten since.

    `rewritten`: one message for each bucket that was compacted, in which new files count as files of the bucket.
    """
    new: dict[_Place, list[CommitMessage]] = defaultdict(list)
    for message in moved.messages:
        new[message.partition, message.bucket].append(message)
    messages = []
    unneeded: list[str] = []
    folders = DataLayout(schema)
    for message in [*rewritten, *_untouched(new, rewritten)]:
        parts = new.pop((message.partition, message.bucket), [])
        made = [file for part in parts for file in part.new_files]
        names = {file.file_name for file in made}
        gone = {file.file_name for file in message.compact_before}
        stay = {file.file_name for file in message.compact_after}
        folder = folders.bucket(message.partition, message.bucket)
        for file in made:
            if file.file_name in gone - stay:
                unneeded += [f"{folder}/{name}" for name in file.all_names]
        messages.append(
            replace(
                message,
                compact_before=tuple(file for file in message.compact_before if file.file_name not in names),
                compact_after=(*(file for file in made if file.file_name not in gone), *message.compact_after),
                compact_changelog_files=(
                    *(file for part in parts for file in part.changelog_files),
                    *message.compact_changelog_files,
                ),
            )
        )
    clear_away(table.store, unneeded)
    return (*messages, *map(_emptied, moved.moves))


def discard_moved(table: TableContext, schema: TableSchema, moved: MovedRows) -> None:
    discard(table.store, schema, moved.messages, named_by="the compaction")


def _untouched(new: Mapping[_Place, list[CommitMessage]], rewritten: Iterable[CommitMessage]) -> list[CommitMessage]:
    """Return an empty message for each bucket that got rows and needs no further compaction."""
    known = {(message.partition, message.bucket) for message in rewritten}
    return [
        CommitMessage(partition=place[0], bucket=place[1], total_buckets=parts[0].total_buckets)
        for place, parts in new.items()
        if place not in known
    ]


def _emptied(move: BucketCompaction) -> CommitMessage:
    """Return the message that removes the waiting files of a partition."""
    return CommitMessage(
        partition=move.partition,
        bucket=move.bucket,
        total_buckets=move.total_buckets,
        compact_before=move.plan.files,
    )


def _run(
    table: TableContext,
    base: CompactionBase,
    moves: Sequence[BucketCompaction],
    *,
    emits_changelog: bool,
    watch: Watch,
) -> tuple[CommitMessage, ...]:
    numbers: dict[bytes, dict[int, int]] = defaultdict(dict)
    counts: dict[bytes, int] = {}
    for (partition, bucket, count), files in base.files.items():
        highest = max(file.max_sequence_number for file in files)
        numbers[partition][bucket] = max(highest + 1, numbers[partition].get(bucket, 0))
        counts[partition] = count
    asked = [
        Move(
            partition=move.partition,
            files=move.plan.files,
            bucket_count=counts.get(move.partition),
            next_numbers=numbers[move.partition],
        )
        for move in moves
    ]
    return moved_rows(
        table, base.schema, asked, emits_changelog=emits_changelog, named_by="the compaction", watch=watch
    )


def _lost(table: TableContext, base: CompactionBase, moves: Sequence[BucketCompaction]) -> list[Conflict]:
    """Return the partitions whose waiting files another commit removed since `base`, if its snapshot has expired."""
    if not table.snapshots.has_expired(base.snapshot):
        return []
    partitions = {move.partition for move in moves}

    def look(latest: Snapshot | None) -> set[tuple[bytes, str]]:
        if latest is None:
            return set()
        entries = table.manifests.live_entries(latest, keep=lambda partition, bucket, level: partition in partitions)
        return {(entry.partition, entry.file.file_name) for entry in entries}

    live = table.snapshots.of_latest(look)
    lost = []
    for move in moves:
        missing = [file.file_name for file in move.plan.files if (move.partition, file.file_name) not in live]
        if missing:
            reason = f"{missing[0]} is missing: another commit moved its rows, or removed them"
            lost.append(Conflict(partition=move.partition, bucket=None, reason=reason, file_name=missing[0]))
    return lost
