"""Bucket index: the buckets of keys in a table with dynamic buckets, from the index files of its partitions, and the
new index files of a write.

Rule: a known hash keeps its bucket. Memory holds the hashes of this write and one index file, or a few small ones.
Source: docs/semantics/tables.md#dynamic-buckets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from lakehouse_core.data_files.hash_index import read_hashes, write_hashes
from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.hash_index import Hashes, distinct
from lakehouse_core.merge.positions import Flags
from lakehouse_core.planning.bucket_assignment import Assigners, Buckets, assigned_buckets, buckets_of_rows
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.storage.outcomes import clear_away
from lakehouse_core.storage.overlap import Sinks
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.index_file import IndexFile
from lakehouse_core.table.layout import INDEX_FOLDER
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.write.keys.placer import KeyPlaces
from lakehouse_core.tasks.write.router import BucketPath

# By serialized partition and bucket, the index files that hold the bucket's hashes: one in the table, several where
# staged commits came before that each have one.
KnownIndexes: TypeAlias = Mapping[tuple[bytes, int], Sequence[IndexFile]]

# Index files that are kept in memory between two buffers of rows.
_KEPT_BYTES: Final = 32 << 20
_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """What a write task knows of the buckets of keys. `assigners`: those among which new keys are shared. `bucket`: the
    one that has all keys already, None where they are looked for in the indexes. `places`: where keys move between
    partitions, which have no indexes.
    """

    files: KnownIndexes = field(default_factory=dict)
    assigners: Assigners = field(default_factory=Assigners)
    bucket: int | None = None
    places: KeyPlaces | None = None


class OneBucket:
    """The bucket of keys that are stored in it: its index stays as it is."""

    def __init__(self, bucket: int) -> None:
        self._bucket = bucket

    def buckets(self, partition: bytes, hashes: Hashes) -> Buckets:
        return np.full(len(hashes), self._bucket, np.int32)

    def write(self, place: BucketPath) -> tuple[Sequence[IndexFile], Sequence[IndexFile]]:
        return (), ()

    def delete(self) -> None:
        """Nothing was written."""


class BucketIndex:
    """Finds and remembers the bucket of each key of one write task."""

    def __init__(
        self, schema: TableSchema, known: KeyIndex, store: StoreReader, sinks: Sinks, new_name: Callable[[], str]
    ) -> None:
        self._options = schema.table_options.dynamic_buckets
        self._assigners = known.assigners
        self._files = known.files
        self._store = store
        self._sinks = sinks
        self._new_name = new_name
        self._folders = DataLayout(schema)
        self._partitions: dict[bytes, _Partition] = {}
        self._kept: dict[str, Hashes] = {}
        self._kept_bytes = 0
        self._written: list[str] = []

    def buckets(self, partition: bytes, hashes: Hashes) -> Buckets:
        """Return the bucket of each row by the hash of its key; new hashes get theirs now.

        Raises CorruptTable for an index file that is damaged, and for a hash in two buckets; InvalidRequest if no
        bucket is left.
        """
        if not len(hashes):
            return np.empty(0, np.int32)
        keys = distinct(hashes)
        state = self._partition(partition)
        buckets = state.known(keys)
        sought = _Sought(keys, self._other_assigners(keys))
        for bucket, files in state.files.items():
            for file in files:
                self._look_in(partition, bucket, file, sought, buckets)
        if (is_new := buckets == _UNKNOWN).any():
            new = keys if is_new.all() else keys[is_new]
            buckets[is_new] = found = assigned_buckets(new, state.counts, self._options, self._assigners)
            state.add(new, found)
        return buckets_of_rows(hashes, keys, buckets)

    def write(self, place: BucketPath) -> tuple[Sequence[IndexFile], Sequence[IndexFile]]:
        """Return the index files that hold the bucket's hashes so far, and the new one that replaces them; none if the
        bucket has no new hashes.
        """
        state = self._partition(place.partition)
        old, new = state.files.get(place.bucket, ()), state.new(place.bucket)
        if not len(new):
            return old, ()
        folder = self._folder(place.partition, place.bucket)
        hashes = distinct(np.concatenate([*(self._hashes(folder, file) for file in old), new])) if old else new
        name = self._new_name()
        self._written.append(f"{folder}/{name}")
        return old, (write_hashes(self._sinks, folder, name, hashes),)

    def delete(self) -> None:
        """Delete the index files that were written."""
        clear_away(self._sinks, self._written)

    def _partition(self, partition: bytes) -> "_Partition":
        if partition not in self._partitions:
            files = {bucket: files for (of, bucket), files in self._files.items() if of == partition}
            self._partitions[partition] = _Partition(dict(sorted(files.items())))
        return self._partitions[partition]

    def _other_assigners(self, keys: Hashes) -> Flags | None:
        """Return for each assigner whether it has none of the keys; None if each has some."""
        if self._assigners.count == 1:
            return None
        is_other: Flags = np.bincount(self._assigners.of(keys), minlength=self._assigners.count) == 0
        return is_other if is_other.any() else None

    def _look_in(self, partition: bytes, bucket: int, file: IndexFile, sought: "_Sought", buckets: Buckets) -> None:
        """Set the bucket of the keys whose hash is in the file."""
        folder, keys = self._folder(partition, bucket), sought.keys
        known = self._hashes(folder, file)
        if sought.is_other is not None and (is_foreign := sought.is_other[self._assigners.of(known)]).any():
            # Many files have keys of other assigners only: hashes between those of the keys, and none of them.
            known = known[~is_foreign]
        hits = positions_in(known, keys)
        found = buckets[hits]
        if (doubled := (found != _UNKNOWN) & (found != bucket)).any():
            at = hits[np.flatnonzero(doubled)[0]]
            raise CorruptTable(
                f"{folder}/{file.file_name}: it has the key hash {keys[at]} for bucket {bucket}, and the index of "
                f"bucket {buckets[at]} has it too: two writers of another engine may have put one key into both. "
                "Rescale the partition, which gives each key one bucket."
            )
        buckets[hits] = bucket

    def _hashes(self, folder: str, file: IndexFile) -> Hashes:
        kept = self._kept.get(file.file_name)
        if kept is None:
            kept = read_hashes(self._store, folder, file)
            if self._kept_bytes + kept.nbytes <= _KEPT_BYTES:
                self._kept[file.file_name] = kept
                self._kept_bytes += kept.nbytes
        return kept

    def _folder(self, partition: bytes, bucket: int) -> str:
        return self._folders.index_folder(partition, bucket) or INDEX_FOLDER


@dataclass(frozen=True, slots=True)
class _Sought:
    """Keys whose buckets are sought. `is_other` tells of each assigner whether it has none of them; None: all have."""

    keys: Hashes
    is_other: Flags | None


class _Partition:
    """One partition: its index files by bucket, and the hashes that this write added."""

    def __init__(self, files: Mapping[int, Sequence[IndexFile]]) -> None:
        self.files = files
        self.counts = {bucket: sum(file.row_count for file in of_bucket) for bucket, of_bucket in files.items()}
        self._added: Hashes = np.empty(0, np.int32)
        self._buckets: Buckets = np.empty(0, np.int32)

    def known(self, keys: Hashes) -> Buckets:
        """Return the buckets of the hashes that this write added, and `_UNKNOWN` for others."""
        buckets: Buckets = np.full(len(keys), _UNKNOWN, np.int32)
        if len(self._added):
            places = np.minimum(np.searchsorted(self._added, keys), len(self._added) - 1)
            is_there = self._added[places] == keys
            buckets[is_there] = self._buckets[places[is_there]]
        return buckets

    def add(self, new: Hashes, buckets: Buckets) -> None:
        for bucket, count in _counted(buckets):
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        if len(self._added):
            new, buckets = np.concatenate([self._added, new]), np.concatenate([self._buckets, buckets])
            order = np.argsort(new, kind="stable")
            new, buckets = new[order], buckets[order]
        self._added, self._buckets = new, buckets

    def new(self, bucket: int) -> Hashes:
        of_bucket = self._buckets == bucket
        new: Hashes = self._added if of_bucket.all() else self._added[of_bucket]
        return new


def positions_in(known: Hashes, keys: Hashes) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Return the positions in `keys` of those that are in `known`. Both are distinct and rising."""
    if not len(known) or not len(keys):
        return np.empty(0, np.intp)
    first, last = np.searchsorted(keys, (known[0], known[-1]), side="left")
    keys = keys[first : last + 1]
    if np.array_equal(known, keys):
        # All rows of a table are often loaded again.
        return np.arange(first, first + len(keys))
    if len(known) < len(keys):
        # The shorter side is looked up: each of many index files has a part of the keys.
        places = np.minimum(np.searchsorted(keys, known), len(keys) - 1)
        hits: np.ndarray[tuple[int], np.dtype[np.intp]] = places[keys[places] == known] + first
    else:
        places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        hits = np.flatnonzero(known[places] == keys) + first
    return hits


def _counted(buckets: Buckets) -> Iterator[tuple[int, int]]:
    if (buckets == buckets[0]).all():
        yield int(buckets[0]), len(buckets)
        return
    counts = np.bincount(buckets)
    yield from ((bucket, int(counts[bucket])) for bucket in np.flatnonzero(counts).tolist())
