"""Lineage: find the commits that brought the rows of a file, through the compactions that rewrote them.

Rule: a compaction has all files that it removed from the bucket as inputs, because the metadata do not tell which of
them a row was in. So the commits found are those that may have brought a row; other commits did not.
Source: docs/lineage.md#how-it-is-found.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.manifest import EntryKind, ManifestEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketChange:
    """The names of the files that a snapshot made in a bucket, and of those that it removed from it.

    A file that only changed its level is in neither.
    """

    partition: bytes
    bucket: int
    made: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChange:
    """The file changes of one snapshot. `rescales`: it brought no rows, but others in the partitions' buckets.

    `returned`: the files, made by earlier snapshots, that a rollback brought back.
    """

    snapshot_id: int
    kind: CommitKind
    buckets: tuple[BucketChange, ...]
    rescales: bool = False
    returned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the rows of a file come from.

    `snapshot_id` is the snapshot that made the file, None if that snapshot is not known. `inputs` are the files that a
    compaction or a rescale merged into it. `source_ids` are the snapshots that may have brought its rows, rising.
    `lost` are the files, sorted, at which the trail ends because no known snapshot made them.
    """

    file_name: str
    snapshot_id: int | None
    inputs: tuple[str, ...]
    source_ids: tuple[int, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sources:
    ids: frozenset[int]
    lost: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Made:
    snapshot_id: int
    inputs: tuple[str, ...]
    sources: _Sources


def snapshot_change(
    snapshot_id: int,
    kind: CommitKind,
    entries: Iterable[ManifestEntry],
    *,
    rescales: bool = False,
    rolls_back: bool = False,
) -> SnapshotChange:
    """Return the change of a snapshot from the entries of its delta. `rolls_back`: the files that it adds are old."""
    returned: dict[str, None] = {}
    added: dict[tuple[bytes, int], dict[str, None]] = {}
    deleted: dict[tuple[bytes, int], dict[str, None]] = {}
    for entry in entries:
        if rolls_back and entry.kind is EntryKind.ADD:
            returned[entry.file.file_name] = None
            continue
        side = added if entry.kind is EntryKind.ADD else deleted
        side.setdefault((entry.partition, entry.bucket), {})[entry.file.file_name] = None
    nothing: dict[str, None] = {}
    return SnapshotChange(
        snapshot_id=snapshot_id,
        kind=kind,
        rescales=rescales,
        returned=tuple(returned),
        buckets=tuple(
            BucketChange(
                partition=place[0],
                bucket=place[1],
                made=tuple(name for name in added.get(place, nothing) if name not in deleted.get(place, nothing)),
                removed=tuple(name for name in deleted.get(place, nothing) if name not in added.get(place, nothing)),
            )
            for place in {**added, **deleted}
        ),
    )


class Lineage:
    """The origins of the files of a table, as far as the `changes` of its snapshots tell. Snapshot ids differ."""

    def __init__(self, changes: Iterable[SnapshotChange]) -> None:
        self._changes = {change.snapshot_id: change for change in changes}
        self._made: dict[str, _Made] = {}
        self._removed: set[str] = set()
        # An input is made before it is merged, so each file's sources are known when they are needed.
        for snapshot_id in sorted(self._changes):
            self._take(self._changes[snapshot_id])

    def knows(self, file_name: str) -> bool:
        """Return whether a known snapshot made or removed the file."""
        return file_name in self._made or file_name in self._removed

    def brought_by(self, snapshot_id: int) -> tuple[str, ...]:
        """Return the files that a snapshot made, or brought back; none for a snapshot that is not known."""
        change = self._changes.get(snapshot_id)
        if change is None:
            return ()
        return (*(name for bucket in change.buckets for name in bucket.made), *change.returned)

    def origin(self, file_name: str) -> Origin:
        """Return the origin of a file of the table. Its trail ends in itself if no known snapshot made it."""
        made = self._made.get(file_name)
        if made is None:
            return Origin(file_name=file_name, snapshot_id=None, inputs=(), source_ids=(), lost=(file_name,))
        return Origin(
            file_name=file_name,
            snapshot_id=made.snapshot_id,
            inputs=made.inputs,
            source_ids=tuple(sorted(made.sources.ids)),
            lost=tuple(sorted(made.sources.lost)),
        )

    def trail(self, file_names: Sequence[str]) -> tuple[Origin, ...]:
        """Return the origins of the files and of all that they were merged from: each file once, nearer ones first."""
        found: dict[str, Origin] = {}
        current = list(dict.fromkeys(file_names))
        while current:
            found.update({name: self.origin(name) for name in current})
            inputs = dict.fromkeys(each for name in current for each in found[name].inputs)
            current = [name for name in inputs if name not in found]
        return tuple(found.values())

    def _take(self, change: SnapshotChange) -> None:
        for bucket in change.buckets:
            inputs = self._inputs(change, bucket) if change.kind is CommitKind.COMPACT or change.rescales else ()
            # The files of a compaction share one value: a bucket may have thousands of each.
            made = _Made(change.snapshot_id, inputs, self._sources(inputs) if inputs else _own(change.snapshot_id))
            self._made.update(dict.fromkeys(bucket.made, made))
        for bucket in change.buckets:
            self._removed.update(bucket.removed)

    def _inputs(self, change: SnapshotChange, bucket: BucketChange) -> tuple[str, ...]:
        """Return the removed files of the bucket, and the removed files of its partition that wait for a bucket or, in
        a rescale, that were in another one.
        """
        if not bucket.made:
            return ()
        others = (
            name
            for other in change.buckets
            if other is not bucket and other.partition == bucket.partition
            if change.rescales or not is_placed(other.bucket)
            for name in other.removed
        )
        return (*bucket.removed, *others)

    def _sources(self, inputs: Sequence[str]) -> _Sources:
        known: Mapping[str, _Made] = self._made
        each = [known[name].sources if name in known else _lost(name) for name in inputs]
        return _Sources(
            frozenset().union(*(sources.ids for sources in each)),
            frozenset().union(*(sources.lost for sources in each)),
        )


_NOTHING: Final[frozenset[str]] = frozenset()


def _own(snapshot_id: int) -> _Sources:
    return _Sources(frozenset((snapshot_id,)), _NOTHING)


def _lost(file_name: str) -> _Sources:
    return _Sources(frozenset(), frozenset((file_name,)))
