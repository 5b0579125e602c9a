"""Hash indexes of a commit in progress: united with those that other commits brought since the rows were staged.
`planning/commit/hash_indexes` decides.

Rule: the staged index files stay until the commit is applied, because the caller may have to commit them again.
Source: docs/semantics/tables.md#dynamic-buckets.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from lakehouse_core.data_files.hash_index import read_hashes, write_hashes
from lakehouse_core.errors import CommitConflict, CorruptTable, InvalidRequest
from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.hash_index import Hashes, distinct
from lakehouse_core.metadata.deltas import is_part
from lakehouse_core.planning.commit.conflicts import Conflict, conflict_error
from lakehouse_core.planning.commit.hash_indexes import (
    LiveIndexes,
    Place,
    claims_of,
    fits,
    hash_files,
    live_indexes,
    united,
    with_indexes,
)
from lakehouse_core.planning.partitions import bucket_name
from lakehouse_core.storage.outcomes import clear_away, named_by_nobody
from lakehouse_core.storage.overlap import DirectSinks
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.manifest import IndexManifestEntry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.staged_commit import StagedCommit, base_of
from lakehouse_core.tasks.keys.hashes import key_hashes
from lakehouse_core.tasks.merge_scan import BucketFiles

_KEPT_BYTES: Final = 32 << 20


class HashIndexes:
    """The hash indexes of one commit, with the state that an attempt leaves to the next."""

    def __init__(self, table: TableContext, staged: StagedCommit) -> None:
        self._table = table
        self._staged = staged
        # What the last attempt was given, and its answer.
        self._given: tuple[tuple[CommitMessage, ...], LiveIndexes] | None = None
        self._messages = staged.messages
        # The keys of the index files that this commit wrote.
        self._written: set[str] = set()
        self._kept: dict[str, Hashes] = {}
        self._kept_bytes = 0
        self._folders: DataLayout | None = None

    def messages_at(
        self, messages: tuple[CommitMessage, ...], latest: Snapshot | None, schema: TableSchema
    ) -> tuple[CommitMessage, ...]:
        """Return the messages with index files that hold all hashes of their buckets at `latest` too.

        REQUIRES: the buckets of the table have such indexes. Raises CommitConflict when another commit put one of the
        keys into another bucket; InvalidRequest for rows without an index.
        """
        partitions = frozenset(message.partition for message in messages if message.new_files)
        if not partitions:
            return messages
        self._folders = self._folders or DataLayout(schema)
        entries = () if latest is None else self._table.manifests.index_entries(latest)
        live = live_indexes(entries, partitions)
        if self._given is None or self._given[0] is not messages or self._given[1] != live:
            self._check_indexed(messages, schema)
            as_staged = fits(messages, live) and self._is_unchanged(live, partitions, latest)
            self._messages = messages if as_staged else self._united(messages, live, schema)
            self._given = messages, live
        return self._messages

    def clash_at(
        self, latest: Snapshot | None, entries: Iterable[IndexManifestEntry], schema: TableSchema
    ) -> CommitConflict | None:
        """Return the conflict of the staged rows at `latest`, whose live index files are `entries`; None if there is
        none. Writes nothing. REQUIRES: as for `messages_at`.
        """
        rows = [message for message in self._staged.messages if message.new_files]
        partitions = frozenset(message.partition for message in rows)
        if not rows:
            return None
        self._folders = self._folders or DataLayout(schema)
        live = live_indexes(entries, partitions)
        if fits(rows, live) and self._is_unchanged(live, partitions, latest):
            return None
        _, conflicts, _ = self._grown(rows, live)
        return conflict_error(conflicts, schema) if conflicts else None

    def end(self, *, applied: bool) -> None:
        """Delete the index files that this commit does not need: all that it wrote if it was not applied, else those
        that were replaced.
        """
        if self._folders is None:
            return
        gone = self._written
        if applied:
            gone = (gone | self._keys_of(self._staged.messages)) - self._keys_of(self._messages)
        clear_away(self._table.store, sorted(gone))
        self._written.clear()

    def _check_indexed(self, messages: tuple[CommitMessage, ...], schema: TableSchema) -> None:
        for message in messages:
            if message.new_files and not claims_of(message):
                raise InvalidRequest(
                    f"{bucket_name(message.partition, message.bucket, schema)}: the commit adds rows without the index "
                    "of their keys, which a table with dynamic buckets needs. Stage the data again."
                )

    def _is_unchanged(self, live: LiveIndexes, partitions: frozenset[bytes], latest: Snapshot | None) -> bool:
        """Return whether the writer certainly saw the indexes that are live now in its partitions."""
        base = base_of(self._staged)
        if base.id == 0 or latest is None:
            return not live
        if not is_part(self._table.snapshots, base, latest):
            return False
        if base.id == latest.id:
            return True
        snapshot = self._table.snapshots.found(base.id)
        if snapshot is None:
            return False
        if snapshot.index_manifest == latest.index_manifest:
            return True
        try:
            return live_indexes(self._table.manifests.index_entries(snapshot), partitions) == live
        except CorruptTable:
            # The snapshot may expire while it is read. The caller then compares the hashes, which is slower.
            return False

    def _united(
        self, messages: tuple[CommitMessage, ...], live: LiveIndexes, schema: TableSchema
    ) -> tuple[CommitMessage, ...]:
        rows = [message for message in messages if message.new_files]
        grown, conflicts, is_by_index = self._grown(rows, live)
        if conflicts:
            raise conflict_error(conflicts, schema)
        # A staged index has only hashes of the united one; if it has as many, it is the united one.
        staged = {
            (message.partition, message.bucket, file.row_count): file
            for message in (rows if is_by_index else ())
            for file in hash_files(message.new_index_files)
        }
        made = {
            place: staged.get((*place, len(hashes))) or self._write(place, hashes) for place, hashes in grown.items()
        }
        return with_indexes(messages, live, made)

    def _grown(
        self, rows: Sequence[CommitMessage], live: LiveIndexes
    ) -> tuple[dict[Place, Hashes], list[Conflict], bool]:
        """Return the hashes of each bucket with those of the staged rows, the conflicts, and whether the staged indexes
        gave the hashes of the rows: if they conflict, the data files give them.
        """
        grown, conflicts = self._united_with(live, rows, self._indexed_keys)
        if not conflicts:
            return grown, conflicts, True
        # An index also has keys that the rows do not have, and another commit may have moved those.
        return *self._united_with(live, rows, self._keys), False

    def _united_with(
        self, live: LiveIndexes, rows: Sequence[CommitMessage], keys_of: Callable[[CommitMessage], Hashes]
    ) -> tuple[dict[Place, Hashes], list[Conflict]]:
        return united(
            (((message.partition, message.bucket), keys_of(message)) for message in rows),
            ((place, self._read(place, file)) for place, file in live.items()),
        )

    def _indexed_keys(self, message: CommitMessage) -> Hashes:
        """Return the hashes of the keys of staged rows, and others of their bucket."""
        try:
            files = claims_of(message)
            return distinct(np.concatenate([self._read((message.partition, message.bucket), file) for file in files]))
        except CorruptTable:
            # Other commits replaced the index that the writer read, and it has expired.
            return self._keys(message)

    def _keys(self, message: CommitMessage) -> Hashes:
        """Return the hashes of the keys of staged rows, as their files have them."""
        assert self._folders is not None
        source = BucketFiles(
            store=self._table.store,
            folder=self._folders.bucket(message.partition, message.bucket),
            schemas={file.schema_id: self._table.schemas.schema(file.schema_id) for file in message.new_files},
        )
        return key_hashes(source, message.new_files, self._table.schemas.schema(self._staged.schema_id))

    def _read(self, place: Place, file: IndexFile) -> Hashes:
        kept = self._kept.get(file.file_name)
        if kept is None:
            kept = read_hashes(self._table.store, self._folder(place), file)
            if self._kept_bytes + kept.nbytes <= _KEPT_BYTES:
                self._kept[file.file_name] = kept
                self._kept_bytes += kept.nbytes
        return kept

    def _write(self, place: Place, hashes: Hashes) -> IndexFile:
        folder, name = self._folder(place), f"index-{self._table.clock.uuid()}-0"
        # Also a file whose answer was lost is deleted.
        self._written.add(f"{folder}/{name}")
        with named_by_nobody():
            return write_hashes(DirectSinks(self._table.store), folder, name, hashes)

    def _keys_of(self, messages: tuple[CommitMessage, ...]) -> set[str]:
        return {
            f"{self._folder((message.partition, message.bucket))}/{file.file_name}"
            for message in messages
            for file in hash_files(message.new_index_files)
        }

    def _folder(self, place: Place) -> str:
        assert self._folders is not None
        return self._folders.index_folder(*place) or INDEX_FOLDER
