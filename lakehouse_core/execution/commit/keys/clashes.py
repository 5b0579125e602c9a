"""Key clashes of a commit in progress: keys that it and another commit, made since the rows were staged, put into
different places, where keys move between partitions.

Rule: a place to which another commit brought a key must be one that the staged rows know: they bring the row there too,
or delete it there. So each key is in one place after the commit.
Source: docs/semantics/tables.md#cross-partition-updates.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from lakehouse_core.errors import CorruptTable, NotFound, SnapshotExpired
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.key_places import key_source, placed_files
from lakehouse_core.merge.deduplicate import is_add
from lakehouse_core.merge.key_digests import Digests, joined_digests
from lakehouse_core.metadata.deltas import deltas_since, is_part
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.commit.conflicts import Conflict, conflict_error
from lakehouse_core.planning.commit.overwrites import overwritten
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import EntryKind
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.sorted_run import keyed_files
from lakehouse_core.table.staged_commit import Seen, StagedCommit, base_of
from lakehouse_core.tasks.keys.live import KeySource, PlacedFiles, live_keys
from lakehouse_core.tasks.write.keys.map import NOWHERE, KeyMap, KeyRun, sorted_run
from lakehouse_core.tasks.write.keys.places import PlaceNumbers


class KeyClashes:
    """Compares the keys of one commit with those of other commits, in each of its attempts.

    `parts`: the staged commits that `staged` joins, in the order in which their rows count.
    """

    def __init__(self, table: TableContext, staged: StagedCommit, parts: Sequence[StagedCommit] = ()) -> None:
        self._table = table
        self._parts = [part for part in parts or [staged] if any(message.new_files for message in part.messages)]
        # By what the parts saw, up to where their keys were compared.
        self._compared: dict[Seen, Seen] = {}
        self._places = PlaceNumbers()
        # The buckets of which the parts remove all files, and whether they do so in a whole partition.
        self._gone: tuple[set[tuple[bytes, int]], list[Callable[[bytes], bool]]] | None = None
        # Of the parts that saw the same: their keys, and the pairs of these with each place that they know.
        self._staged: dict[Seen, tuple[KeyRun, KeyRun]] = {}

    def check_at(self, latest: Snapshot | None, schema: TableSchema) -> None:
        """Raise CommitConflict if another commit up to `latest` put a key elsewhere; also CorruptTable,
        StorageUnavailable. REQUIRES: keys move between the partitions of the table.
        """
        if not self._parts:
            return
        if not self._compared:
            self._compared = {base_of(part): base_of(part) for part in self._parts}
            if len(self._parts) > 1:
                self._refuse(self._between_parts(schema), schema)
        if latest is None:
            return
        now = Seen(latest.id, latest.time_millis)
        for base, compared in self._compared.items():
            if compared != now:
                self._refuse(self._with_arrived(base, compared, latest, schema), schema)
                self._compared[base] = now

    def _refuse(self, clashes: Counter[int], schema: TableSchema) -> None:
        conflicts = [
            Conflict(
                partition=partition,
                bucket=bucket,
                reason=f"another commit put {count} of the keys there, and this one puts them elsewhere",
            )
            for place, count in clashes.items()
            for partition, bucket in [self._places.place(place)]
        ]
        if conflicts:
            raise conflict_error(conflicts, schema)

    def _between_parts(self, schema: TableSchema) -> Counter[int]:
        """Compare each part with those before it."""
        keys, clashes = KeyMap(), Counter[int]()
        for part in self._parts:
            every, pairs, ends = self._read([part], schema)
            before = keys.put_since(every.keys)
            here = np.flatnonzero(before != NOWHERE)
            known = every.keys.take(here).with_number(before[here].astype(np.uint64))
            clashes.update(before[here[~pairs.has(known)]].tolist())
            keys.put(ends.keys, ends.places)
        return clashes

    def _with_arrived(self, base: Seen, compared: Seen, latest: Snapshot, schema: TableSchema) -> Counter[int]:
        clashes: Counter[int] = Counter()
        try:
            for place, keys in self._arrived(compared, latest, schema):
                clashes.update(self._clashing(base, place, keys, schema))
        except (SnapshotExpired, _KeysMayReturn):
            source = key_source(self._table, schema, latest)
            clashes.clear()
            for split, keys in live_keys(source, self._table.store, self._table.compared.seed):
                if self._goes(split.partition, split.bucket, schema):
                    continue
                place = self._places.number(split.partition, split.bucket)
                clashes.update(self._clashing(base, place, keys, schema))
        return clashes

    def _goes(self, partition: bytes, bucket: int, schema: TableSchema) -> bool:
        """Return whether the commit removes all files of a bucket. What others added to it is another conflict."""
        if self._gone is None:
            messages = (message for part in self._parts for message in part.messages if message.deleted_files)
            covers = [found for part in self._parts if (found := overwritten(part, schema)) is not None]
            self._gone = {(message.partition, message.bucket) for message in messages}, covers
        places, covered = self._gone
        return (partition, bucket) in places or any(covers(partition) for covers in covered)

    def _clashing(self, base: Seen, place: int, keys: Digests, schema: TableSchema) -> dict[int, int]:
        """Return how many of the keys at a place the parts put elsewhere."""
        if base not in self._staged:
            every, pairs, _ = self._read([part for part in self._parts if base_of(part) == base], schema)
            self._staged[base] = every, pairs
        every, pairs = self._staged[base]
        common = keys.take(every.has(keys))
        count = int(np.count_nonzero(~pairs.has(common.with_number(np.full(len(common), place, np.uint64)))))
        return {place: count} if count else {}

    def _arrived(self, after: Seen, latest: Snapshot, schema: TableSchema) -> Iterator[tuple[int, Digests]]:
        """Yield the keys that other commits brought since then, and that no later one of them took away again. Raises
        SnapshotExpired if that is not known, and _KeysMayReturn.
        """
        if not is_part(self._table.snapshots, after, latest):
            raise SnapshotExpired(f"Snapshot {after.id} is not in the history of snapshot {latest.id}.")
        deltas = deltas_since(
            self._table.snapshots,
            self._table.manifests,
            after.id,
            latest.id,
            keep=lambda *_: True,
            without=CommitKind.COMPACT,
        )
        if any(kind is CommitKind.OVERWRITE for kind, _ in deltas):
            raise _KeysMayReturn
        folders = DataLayout(schema)
        types = [field.type for field in schema.key_fields]
        own = keyed_files((file for part in self._parts for each in part.messages for file in each.new_files), types)
        lowest, highest = min(file.min_key for file in own), max(file.max_key for file in own)
        commits = [
            [
                PlacedFiles(
                    partition=entry.partition,
                    bucket=entry.bucket,
                    folder=folders.bucket(entry.partition, entry.bucket),
                    files=(entry.file,),
                )
                for entry in entries
                if entry.kind is EntryKind.ADD
                for file in keyed_files([entry.file], types)
                if file.min_key <= highest and lowest <= file.max_key
            ]
            for _, entries in deltas
        ]
        try:
            yield from self._not_taken_away(commits, schema)
        except (CorruptTable, NotFound) as error:
            if self._table.snapshots.boundary.first_id() <= after.id + 1:
                raise
            raise SnapshotExpired(f"Snapshot {after.id + 1} expired while it was read.") from error

    def _not_taken_away(
        self, commits: Sequence[Sequence[PlacedFiles]], schema: TableSchema
    ) -> Iterator[tuple[int, Digests]]:
        """Yield the keys of commits by place, without those that a later commit deletes there. The oldest comes first
        in `commits`.
        """
        taken: dict[int, KeyRun] = {}
        for files in reversed(commits):
            deleted: dict[int, list[Digests]] = defaultdict(list)
            for place, keys, is_end in self._stored(files, schema):
                if not is_end:
                    deleted[place].append(keys)
                else:
                    yield place, keys.take(~taken[place].has(keys)) if place in taken else keys
            for place, found in deleted.items():
                taken[place] = _run(joined_digests([*found, taken[place].keys] if place in taken else found))

    def _read(self, parts: Iterable[StagedCommit], schema: TableSchema) -> tuple[KeyRun, KeyRun, KeyRun]:
        """Return the keys of parts, their pairs with places, and the last place of each key."""
        files = [placed for part in parts for placed in placed_files(part.messages, schema)]
        every: list[Digests] = []
        pairs: list[Digests] = []
        ends: dict[int, list[Digests]] = defaultdict(list)
        for place, keys, is_end in self._stored(files, schema):
            if is_end:
                ends[place].append(keys)
            every.append(keys)
            pairs.append(keys.with_number(np.full(len(keys), place, np.uint64)))
        last = KeyMap()
        for place, found in ends.items():
            keys = joined_digests(found).distinct()
            last.put(keys, np.full(len(keys), place, np.int32))
        whole = joined_digests(every).distinct()
        at = last.put_since(whole)
        is_there = at != NOWHERE
        return _run(whole), _run(joined_digests(pairs)), KeyRun(whole.take(is_there), at[is_there])

    def _stored(self, files: Sequence[PlacedFiles], schema: TableSchema) -> Iterator[tuple[int, Digests, bool]]:
        """Yield the keys of files by place; and whether their key may be there after the commit, and not a delete's."""
        ids = {file.schema_id for placed in files for file in placed.files}
        source = KeySource(
            store=self._table.store.spec,
            schema=schema,
            file_schemas={number: self._table.schemas.schema(number) for number in sorted(ids)},
        )
        # Where rows are combined, a delete leaves a row too.
        has_deletes = schema.table_options.merge_engine is MergeEngine.DEDUPLICATE
        for placed in files:
            place = self._places.number(placed.partition, placed.bucket)
            for keys, kinds in self._table.compared.of(source, placed, self._table.store):
                stays = is_add(kinds) if has_deletes else np.ones(len(keys), dtype=bool)
                for is_end in (True, False):
                    if len(some := keys.take(stays == is_end)):
                        yield place, some, is_end


class _KeysMayReturn(Exception):
    """A rollback removed the delete of a key, or its mark in a deletion vector: no new file has the key, yet it is
    there again. The changes of an overwrite look the same.
    """


def _run(keys: Digests) -> KeyRun:
    return sorted_run(keys, np.zeros(len(keys), np.int32))
