"""Replayed files: the live files of one history after a replay of its deltas, and findings for entries that do not fit.

Rule: a step takes time in proportion to its changes, not to the table. Only a finding makes it check a whole bucket.
Source: docs/reliability/invariants.md#i7-deltas-replay.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from lakehouse_core.errors import CorruptTable
from lakehouse_core.format.data_types import DataType
from lakehouse_core.planning.commit_order import crossing_files
from lakehouse_core.planning.findings import KEEP_EVIDENCE, Finding, Invariant, key_range
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.manifest import EntryKind, Identifier, ManifestEntry, file_identifier
from lakehouse_core.table.sorted_run import KeyedFile

Bucket: TypeAlias = tuple[bytes, int]
_Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A new file of a bucket, and the live files that may have keys of it with an equal or higher sequence number."""

    bucket: Bucket
    later: KeyedFile
    earlier: tuple[KeyedFile, ...]


class ReplayedFiles:
    """The live files, by identifier. `key_types`: the types of the table's key columns, empty without a key.

    `is_sound`: every applied entry fitted the state before it.
    """

    def __init__(self, key_types: Sequence[DataType]) -> None:
        self.entries: dict[Identifier, ManifestEntry] = {}
        self.row_count = 0
        self.is_sound = True
        self._key_types = key_types
        self._buckets: defaultdict[Bucket, _BucketFiles] = defaultdict(_BucketFiles)
        # By partition and bucket count, the number of files that were written with this bucket count.
        self._totals: defaultdict[bytes, Counter[int]] = defaultdict(Counter)

    def apply(self, key: str, entries: Iterable[ManifestEntry]) -> list[Finding]:
        """Apply the entries of `key` in order; skip entries that do not fit the state, and return findings for them."""
        findings = []
        for entry in entries:
            identifier = file_identifier(entry)
            added = entry.kind is EntryKind.ADD
            if added == (identifier in self.entries):
                findings.append(_delta(key, entry, added=added))
                self.is_sound = False
            elif added:
                self._add(identifier, entry)
            else:
                self._remove(identifier)
        return findings

    def differences(self, key: str, state: Mapping[Identifier, ManifestEntry]) -> list[Finding]:
        """Return the differences between the replay and `state`, the files that the manifests of `key` list."""
        missing = [self.entries[identifier] for identifier in self.entries.keys() - state.keys()]
        surplus = [state[identifier] for identifier in state.keys() - self.entries.keys()]
        findings = []
        for entries, found in ((missing, "does not list"), (surplus, "lists")):
            if entries:
                names = sorted(entry.file.file_name for entry in entries)
                findings.append(
                    Finding(
                        promise=Invariant.CONSISTENT_DELTAS,
                        object=key,
                        found=f"its base {found} {len(names)} files that the snapshot before it"
                        f" {'has' if entries is missing else 'does not have'}, the first is {names[0]}",
                        expected="exactly the files of the snapshot before it",
                        advice=KEEP_EVIDENCE,
                    )
                )
        return findings

    def by_bucket(self) -> dict[Bucket, list[DataFile]]:
        """Return the live files of each bucket that has any, in the order of partitions and buckets."""
        found = {place: [entry.file for entry in files.entries.values()] for place, files in self._buckets.items()}
        return {place: found[place] for place in sorted(found) if found[place]}

    def row_counts(self, partition: bytes, bucket: int) -> dict[str, int]:
        """Return the rows of each live file of a bucket, by its name."""
        return {entry.file.file_name: entry.file.row_count for entry in self._files(partition, bucket)}

    def bucket_findings(self, key: str, touched: Iterable[Bucket], folders: DataLayout) -> Iterator[Finding]:
        """Check the levels of the buckets in `touched`, and that each of their partitions has one bucket count."""
        told: set[bytes] = set()
        for partition, bucket in sorted(set(touched)):
            files = self._buckets[partition, bucket]
            if files.has_repeated_names:
                yield from _name_findings(key, folders.bucket(partition, bucket), files.entries.values())
            if files.has_overlaps:
                entries = files.entries.values()
                yield from _level_findings(key, folders.bucket(partition, bucket), entries, self._key_types)
            totals = sorted(self._totals[partition])
            if len(totals) > 1 and partition not in told:
                told.add(partition)
                yield Finding(
                    promise=Invariant.DISJOINT_LEVELS,
                    object=f"{key}, partition of {folders.bucket(partition, bucket)}",
                    found=f"its files were written for {' and '.join(map(str, totals))} buckets",
                    expected="one number of buckets in a partition",
                    advice="Rewrite the partition by an overwrite with the number of buckets that the table has now.",
                )

    def crossings(self, changes: Sequence[ManifestEntry]) -> Iterator[Crossing]:
        """Yield the new files whose rows may lose to live rows of the same keys. REQUIRES: `changes` are not applied
        yet.
        """
        new: defaultdict[Bucket, list[DataFile]] = defaultdict(list)
        gone = {file_identifier(entry) for entry in changes if entry.kind is not EntryKind.ADD}
        for entry in changes:
            if entry.kind is EntryKind.ADD and entry.file.level == 0 and is_placed(entry.bucket):
                new[entry.partition, entry.bucket].append(entry.file)
        for place, files in sorted(new.items(), key=lambda item: item[0]):
            for later, earlier in self._buckets[place].crossed(files, gone, self._key_types):
                yield Crossing(bucket=place, later=later, earlier=tuple(earlier))

    def _files(self, partition: bytes, bucket: int) -> Iterable[ManifestEntry]:
        return self._buckets[partition, bucket].entries.values()

    def _add(self, identifier: Identifier, entry: ManifestEntry) -> None:
        self.entries[identifier] = entry
        self.row_count += entry.file.row_count
        self._buckets[entry.partition, entry.bucket].add(identifier, entry, self._key_types)
        if entry.total_buckets > 0:
            self._totals[entry.partition][entry.total_buckets] += 1

    def _remove(self, identifier: Identifier) -> None:
        entry = self.entries.pop(identifier)
        self.row_count -= entry.file.row_count
        self._buckets[entry.partition, entry.bucket].remove(identifier)
        if entry.total_buckets > 0:
            totals = self._totals[entry.partition]
            totals[entry.total_buckets] -= 1
            if not totals[entry.total_buckets]:
                del totals[entry.total_buckets]


@dataclass(slots=True)
class _BucketFiles:
    """The live files of one bucket, and the collisions of names and key ranges among them."""

    entries: dict[Identifier, ManifestEntry] = field(default_factory=dict)
    _names: Counter[str] = field(default_factory=Counter)
    _repeated: int = 0
    # No live file has a higher sequence number; removed files may have had one.
    _highest_number: int = -1
    _ranges: dict[Identifier, "_Range"] = field(default_factory=dict)
    _levels: defaultdict[int, "_Level"] = field(default_factory=lambda: defaultdict(_Level))

    @property
    def has_repeated_names(self) -> bool:
        return self._repeated > 0

    @property
    def has_overlaps(self) -> bool:
        return any(level.overlaps for level in self._levels.values())

    def add(self, identifier: Identifier, entry: ManifestEntry, key_types: Sequence[DataType]) -> None:
        self.entries[identifier] = entry
        name = entry.file.file_name
        self._names[name] += 1
        self._repeated += self._names[name] == 2
        self._highest_number = max(self._highest_number, entry.file.max_sequence_number)
        if (keys := _range(entry, key_types)) is not None:
            self._ranges[identifier] = keys
            self._levels[entry.file.level].add(keys)

    def crossed(
        self, new: Sequence[DataFile], gone: Container[Identifier], key_types: Sequence[DataType]
    ) -> list[tuple[KeyedFile, list[KeyedFile]]]:
        """Return the new files whose rows may lose to those of live files, but for those that are `gone` then; each
        with these files.
        """
        if min(file.min_sequence_number for file in new) > self._highest_number:
            return []
        there = [entry.file for identifier, entry in self.entries.items() if identifier not in gone]
        self._highest_number = max((entry.file.max_sequence_number for entry in self.entries.values()), default=-1)
        # Keys that cannot be decoded are told of when their file is looked at.
        with suppress(CorruptTable):
            return [*crossing_files(there, new, key_types)]
        return []

    def remove(self, identifier: Identifier) -> None:
        entry = self.entries.pop(identifier)
        name = entry.file.file_name
        self._repeated -= self._names[name] == 2
        self._names[name] -= 1
        if not self._names[name]:
            del self._names[name]
        if (keys := self._ranges.pop(identifier, None)) is not None:
            self._levels[entry.file.level].remove(keys)


_Range: TypeAlias = tuple[_Key, _Key, str]


@dataclass(slots=True)
class _Level:
    """The key ranges of a level above 0 in order, and the number of overlapping neighbours: 0 in a sound table."""

    ranges: list[_Range] = field(default_factory=list)
    overlaps: int = 0

    def add(self, keys: _Range) -> None:
        position = bisect_left(self.ranges, keys)
        before = self._overlaps_at(position)
        self.ranges.insert(position, keys)
        self.overlaps += self._overlaps_at(position, 1) - before

    def remove(self, keys: _Range) -> None:
        position = bisect_left(self.ranges, keys)
        if position == len(self.ranges) or self.ranges[position] is not keys:
            # NaN is not ordered.
            position = next(at for at, other in enumerate(self.ranges) if other is keys)
        before = self._overlaps_at(position, 1)
        del self.ranges[position]
        self.overlaps += self._overlaps_at(position) - before

    def _overlaps_at(self, position: int, count: int = 0) -> int:
        """Return how many adjacent ranges overlap among `count` ranges from `position` and the one on either side."""
        return _overlaps(self.ranges[max(0, position - 1) : position + count + 1])


def _overlaps(ranges: Sequence[_Range]) -> int:
    return sum(high >= low for (_, high, _), (low, _, _) in pairwise(ranges))


def _range(entry: ManifestEntry, key_types: Sequence[DataType]) -> _Range | None:
    """Return the key range of a file above level 0, None if the file has no keys to compare."""
    if not key_types or entry.file.level <= 0:
        return None
    # Keys that cannot be decoded are told of when their file is looked at.
    with suppress(CorruptTable):
        return (*key_range(entry, key_types), entry.file.file_name)
    return None


def _name_findings(key: str, folder: str, entries: Iterable[ManifestEntry]) -> Iterator[Finding]:
    names: set[str] = set()
    for entry in entries:
        if entry.file.file_name in names:
            yield Finding(
                promise=Invariant.CONSISTENT_DELTAS,
                object=f"{key}, {folder}/{entry.file.file_name}",
                found="the file is live twice",
                expected="each file once; its rows would be read twice",
                advice=KEEP_EVIDENCE,
            )
        names.add(entry.file.file_name)


def _level_findings(
    key: str, folder: str, entries: Iterable[ManifestEntry], key_types: Sequence[DataType]
) -> Iterator[Finding]:
    levels: defaultdict[int, list[_Range]] = defaultdict(list)
    for entry in entries:
        if (keys := _range(entry, key_types)) is not None:
            levels[entry.file.level].append(keys)
    for level, ranges in sorted(levels.items()):
        for (_, high, name), (low, _, other) in pairwise(sorted(ranges)):
            if high >= low:
                yield Finding(
                    promise=Invariant.DISJOINT_LEVELS,
                    object=f"{key}, {folder}/{other}",
                    found=f"at level {level} its keys begin at {low}, those of {name} end at {high}",
                    expected="disjoint keys in a level above 0",
                    advice="A key may be read twice: compact the bucket fully, then verify again.",
                )


def _delta(key: str, entry: ManifestEntry, *, added: bool) -> Finding:
    name, level = entry.file.file_name, entry.file.level
    return Finding(
        promise=Invariant.CONSISTENT_DELTAS,
        object=key,
        found=f"it {'adds' if added else 'deletes'} {name} at level {level}, which is"
        f" {'there already' if added else 'not there'}",
        expected="files added once, and deleted only while they are there",
        advice=KEEP_EVIDENCE,
    )
