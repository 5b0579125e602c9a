"""Commit order: the order of commits decides which row of a key is the newest. If other commits came after the rows
were staged, write the staged files anew with higher sequence numbers; so too for the parts of one commit, in their
order. `planning/commit_order` chooses the files.

Rule: the staged files stay until the commit is applied, because the caller may have to commit them again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from lakehouse_core.errors import CommitConflict, CorruptTable, SnapshotExpired, TaskFailed
from lakehouse_core.execution.commit.live_files import live_in
from lakehouse_core.execution.commit.staged_files import discard
from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.data_types import DataType
from lakehouse_core.metadata.deltas import LONGEST_CATCH_UP, deltas_since, is_part
from lakehouse_core.metadata.look import Look
from lakehouse_core.planning.commit.file_changes import append_changes, check_new_files, new_files
from lakehouse_core.planning.commit_order import needed_shifts
from lakehouse_core.storage.outcomes import named_by_nobody
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.commit_json import messages_from_json
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import EntryKind, ManifestEntry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import Seen, StagedCommit, base_of
from lakehouse_core.tasks.renumber import RenumberTask, run_renumber

_Place: TypeAlias = tuple[bytes, int]

# Numbers that are left free for each commit that comes before: as many as it may have rows. If it has more, the files
# are written once more.
_FREE_NUMBERS: Final = 1_000


class CommitOrder:
    """The commit messages of one commit in progress, with the state that an attempt leaves to the next.

    `parts`: the staged commits that `staged` joins, in the order in which their rows count.
    """

    def __init__(self, table: TableContext, staged: StagedCommit, parts: Sequence[StagedCommit] = ()) -> None:
        self._table = table
        self._staged = staged
        # By bucket, the indexes of the messages with files of it, for each part.
        self._places: Mapping[_Place, list[list[int]]] = defaultdict(list)
        first = 0
        parts = parts or [staged]
        for part in parts:
            of_part: Mapping[_Place, list[int]] = defaultdict(list)
            for index, message in enumerate(part.messages, first):
                if message.new_files and is_placed(message.bucket):
                    of_part[message.partition, message.bucket].append(index)
            for place, indexes in of_part.items():
                self._places[place].append(indexes)
            first += len(part.messages)
        self._new: Mapping[_Place, list[DataFile]] = defaultdict(list)
        for message in staged.messages:
            if message.new_files and is_placed(message.bucket):
                self._new[message.partition, message.bucket] += message.new_files
        self._arrived = _Arrived(table, parts, self._new)
        # The files written in place of the new files of a message, by the index of the message.
        self._written: dict[int, tuple[DataFile, ...]] = {}
        self._messages = staged.messages
        # A message for each group of such files that a later attempt replaced, so that they can be deleted.
        self._superseded: list[CommitMessage] = []
        # The schema by which the files were written. Loading it may fail, and nothing may fail once the commit is
        # applied.
        self._schema: TableSchema | None = None

    def messages_at(
        self, latest: Snapshot | None, schema: TableSchema, *, look: Look | None = None, commits_ahead: int = 0
    ) -> tuple[CommitMessage, ...]:
        """Return messages with sequence numbers above those of every commit up to `latest`. `look`: the one that found
        `latest`.

        `commits_ahead`: how many commits will most likely come before this one. Files that must be written anew leave
        numbers for their rows, so that they need not be written anew after each of them.
        REQUIRES: messages returned by an earlier call certainly were not committed. Raises CommitConflict when a staged
        file is in the table already, or is missing; also raises the errors of tasks.
        """
        if not self._new:
            return self._messages
        arrived = self._arrived.at(latest, schema, look)
        self._refuse_known()
        if schema.is_append:
            # Rows without keys have no order.
            return self._messages
        types = [field.type for field in schema.key_fields]
        shifts = {
            index: shift
            for place, parts in self._places.items()
            if len(parts) > 1 or place in arrived
            for index, shift in self._shifts(arrived.get(place, ()), parts, types, commits_ahead).items()
        }
        if shifts:
            self._write(shifts, schema)
        return self._messages

    def end(self, *, applied: bool) -> None:
        """Delete the staged files that were written anew or, if the commit was not applied, the files written in their
        place.

        Staged files stay unless every snapshot since staging was read: an unread snapshot may name them.
        """
        messages = self._staged.messages
        if self._schema is not None:
            discard(self._table.store, self._schema, self._superseded, named_by="the commit")
        self._superseded.clear()
        gone = (
            replace(_bare(messages[index]), new_files=messages[index].new_files if applied else files)
            for index, files in self._written.items()
        )
        if self._schema is not None and (self._arrived.is_complete or not applied):
            discard(self._table.store, self._schema, gone, named_by="the commit")
        self._written.clear()

    def _shifts(
        self,
        arrived: Sequence[DataFile],
        parts: Sequence[Sequence[int]],
        types: Sequence[DataType],
        commits_ahead: int,
    ) -> dict[int, int]:
        """Return by how much the staged numbers of messages of one bucket must rise, for those that must be written
        anew.
        """
        free_numbers = commits_ahead * _FREE_NUMBERS
        now = [[file for index in indexes for file in self._messages[index].new_files] for indexes in parts]
        shifts: dict[int, int] = {}
        needed = needed_shifts(arrived, now, types, free_numbers=free_numbers)
        for indexes, files, shift in zip(parts, now, needed, strict=True):
            if shift:
                staged = (file for index in indexes for file in self._staged.messages[index].new_files)
                shifts |= dict.fromkeys(indexes, shift + _lowest(files) - _lowest(staged))
        return shifts

    def _refuse_known(self) -> None:
        if names := self._arrived.names & {file.file_name for files in self._new.values() for file in files}:
            raise CommitConflict(
                f"{self._staged.commit_user}/{self._staged.commit_identifier}: the table has {min(names)} "
                "already: another user or identifier committed the same file. Nothing was applied; do not "
                "commit it again."
            )

    def _write(self, shifts: Mapping[int, int], schema: TableSchema) -> None:
        """Write the staged files of these messages anew. What an earlier attempt wrote for them is deleted at the end,
        when no other commit waits for this one.
        """
        self._schema = schema
        folders = DataLayout(schema)
        tasks = {
            index: RenumberTask(
                store=self._table.store.spec,
                folder=folders.bucket(message.partition, message.bucket),
                message=_bare(message),
                shift=shifts[index],
                file_schemas={file.schema_id: self._table.schemas.schema(file.schema_id) for file in message.new_files},
            )
            for index, message in enumerate(self._staged.messages)
            if index in shifts
        }
        made = self._run(tasks, folders, schema)
        self._superseded += [
            replace(_bare(self._staged.messages[index]), new_files=self._written[index])
            for index in made.keys() & self._written.keys()
        ]
        self._written |= made
        self._messages = tuple(
            replace(message, new_files=self._written.get(index, message.new_files))
            for index, message in enumerate(self._staged.messages)
        )

    def _run(
        self, tasks: Mapping[int, RenumberTask], folders: DataLayout, schema: TableSchema
    ) -> dict[int, tuple[DataFile, ...]]:
        """Return the files that the tasks wrote, by the index of their message. If a task fails, delete the outputs of
        all.
        """
        indexes = {frozenset(task.message.new_files): index for index, task in tasks.items()}
        answers: list[CommitMessage] = []

        def take(text: str) -> None:
            answers.extend(messages_from_json(text))

        try:
            with named_by_nobody():
                self._table.engine().run_at_once(run_renumber, list(tasks.values()), take)
        except BaseException as error:
            made = [replace(_bare(answer), new_files=answer.compact_after) for answer in answers]
            discard(self._table.store, schema, made, named_by="the commit")
            if isinstance(error, CorruptTable | TaskFailed):
                files = tuple(new_files(append_changes(self._staged), folders))
                check_new_files(files, self._table.store.infos(file.key for file in files))
            raise
        return {indexes[frozenset(answer.compact_before)]: answer.compact_after for answer in answers}


class _Arrived:
    """The files that other commits added to some buckets since staging, extended from attempt to attempt.

    `names`: of these files, also of those with lower sequence numbers. `is_complete`: files that were added and removed
    again are included; in `names` they are as long as the snapshots that added them are retained.
    """

    def __init__(
        self, table: TableContext, parts: Iterable[StagedCommit], new: Mapping[_Place, Sequence[DataFile]]
    ) -> None:
        self._table = table
        # What the parts saw, the earliest first.
        self._seen = sorted(map(base_of, parts), key=lambda seen: seen.id)
        self._lowest = {place: _lowest(files) for place, files in new.items()}
        self._files: Mapping[_Place, list[DataFile]] = defaultdict(list)
        self.names: set[str] = set()
        self.is_complete = True

    def at(
        self, latest: Snapshot | None, schema: TableSchema, look: Look | None = None
    ) -> Mapping[_Place, list[DataFile]]:
        """Return, by bucket, the added files whose sequence numbers are not below all staged ones."""
        if latest is None or self._seen == [Seen(latest.id, latest.time_millis)]:
            return self._files
        # What was seen in another history, which the table had before it was rolled back, is not in this one.
        snapshots = self._table.snapshots
        first_id = self._seen[0].id
        if latest.id - first_id <= LONGEST_CATCH_UP:
            look = snapshots.looked_up(first_id, latest.id, look)
        after_id = first_id if all(is_part(snapshots, one, latest, look) for one in self._seen) else 0
        try:
            entries = self._since(after_id, latest, look)
        except SnapshotExpired:
            entries = self._live(latest, schema)
            self.is_complete = False
            self.names.update(self._table.added.since(after_id, latest, keep=self._keep))
        for entry in entries:
            self.names.add(entry.file.file_name)
            place = entry.partition, entry.bucket
            if entry.kind is EntryKind.ADD and entry.file.max_sequence_number >= self._lowest[place]:
                self._files[place].append(entry.file)
        self._seen = [Seen(latest.id, latest.time_millis)]
        return self._files

    def _since(self, after_id: int, latest: Snapshot, look: Look | None) -> list[ManifestEntry]:
        if latest.id - after_id > LONGEST_CATCH_UP:
            raise SnapshotExpired(f"Snapshot {after_id} is too far from {latest.id}.")
        deltas = deltas_since(
            self._table.snapshots, self._table.manifests, after_id, latest.id, keep=self._keep, look=look
        )
        return [entry for _, entries in deltas for entry in entries]

    def _live(self, latest: Snapshot, schema: TableSchema) -> list[ManifestEntry]:
        partitions = {partition for partition, _ in self._lowest}
        return live_in(self._table, latest, partitions, schema, keep=self._keep)

    def _keep(self, partition: bytes, bucket: int, level: int) -> bool:
        return (partition, bucket) in self._lowest


def _lowest(files: Iterable[DataFile]) -> int:
    return min(file.min_sequence_number for file in files)


def _bare(message: CommitMessage) -> CommitMessage:
    """Return the message with its new files alone."""
    return CommitMessage(
        partition=message.partition,
        bucket=message.bucket,
        total_buckets=message.total_buckets,
        new_files=message.new_files,
    )
