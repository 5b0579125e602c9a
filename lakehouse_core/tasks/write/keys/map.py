"""Key map: the place of each key, as a number, in sorted runs. Large runs lie on the local disk and are read in place.

Rule: of a key that was put several times, the last place counts. What is loaded from a table is put first; a key that
was loaded with two places is told when it is asked for.
"""

import mmap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lakehouse_core.format.rows import Rows
from lakehouse_core.merge.key_digests import Digests
from lakehouse_core.merge.key_words import Words
from lakehouse_core.tasks.write.scratch import closed, nameless_file, on_disk

Places: TypeAlias = npt.NDArray[np.int32]

NOWHERE: Final = -1
# A run of so many keys takes 80 MiB, and its order, while it is sorted, half as much more.
_RUN_KEYS: Final = 4 << 20
# So many keys are put in order at once on their way to the disk.
_WRITTEN_KEYS: Final = 1 << 18
# A new run is merged with those before it that are not so many times larger, so that there are few.
_RATIO: Final = 4


@dataclass(frozen=True, slots=True)
class _MappedFile:
    """A file without a name, which is read in place."""

    file: IO[bytes]
    mapped: mmap.mmap

    def let_go(self) -> None:
        """Give the memory of what was read back to the system; a later read loads it again."""
        self.mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, slots=True)
class KeyRun:
    """Keys in the order of their digests, and the place of each. `file`: where they lie, None: in memory."""

    keys: Digests
    places: Places
    file: _MappedFile | None = None

    def find(self, keys: Digests) -> "npt.NDArray[np.int64]":
        """Return the first position of each of the keys, -1 for one that is not there."""
        high, low = self.keys.high, self.keys.low
        if not len(high):
            return np.full(len(keys), -1, np.int64)
        last = len(high) - 1
        at = np.searchsorted(high, keys.high)
        near = np.minimum(at, last)
        # Nearly always the first key with this word is the one that is sought.
        while len(others := np.flatnonzero((high[near] == keys.high) & (low[near] < keys.low) & (near < last))):
            near[others] += 1
        near[(high[near] != keys.high) | (low[near] != keys.low)] = -1
        return near

    def has(self, keys: Digests) -> "npt.NDArray[np.bool_]":
        found: npt.NDArray[np.bool_] = self.find(keys) >= 0
        return found


def sorted_run(keys: Digests, places: Places) -> KeyRun:
    """Return the keys as a run; equal ones stay beside each other, in the order in which they are given."""
    order = _order(keys)
    return KeyRun(keys.take(order), places[order])


class KeyMap:
    """Places of keys. `folder`: the folder of runs on disk, None for the system's folder of temporary files."""

    def __init__(self, folder: str | None = None, *, run_keys: int = _RUN_KEYS) -> None:
        self._folder = folder
        self._run_keys = run_keys
        self._loaded: list[KeyRun] = []
        self._put: list[KeyRun] = []

    def load(self, found: Iterable[tuple[Digests, Places]]) -> None:
        """Take the keys of a table. Raises StorageFull, StorageUnavailable, and what `found` raises."""
        gathered = _Gathered(self._run_keys)
        for keys, places in found:
            start = 0
            while start < len(keys):
                start += gathered.add(keys.take(slice(start, None)), places[start:])
                if gathered.count == self._run_keys:
                    self._loaded.append(self._on_disk(*gathered.taken()))
        if gathered.count:
            self._loaded.append(sorted_run(*gathered.taken()))

    def loaded(self, keys: Digests) -> tuple[Places, Places]:
        """Return the place with which each key was loaded, and a second one where it has two; else `NOWHERE`."""
        places, others = _nowhere(keys), _nowhere(keys)
        for run in self._loaded:
            at = run.find(keys)
            hits = np.flatnonzero(at >= 0)
            found = run.places[at[hits]]
            is_second = places[hits] != NOWHERE
            others[hits[is_second]] = found[is_second]
            places[hits[~is_second]] = found[~is_second]
            after = np.minimum(at[hits] + 1, len(run.keys) - 1)
            is_twice = (
                (after > at[hits]) & (run.keys.high[after] == keys.high[hits]) & (run.keys.low[after] == keys.low[hits])
            )
            others[hits[is_twice]] = run.places[after[is_twice]]
            _let_go(run)
        return places, others

    def put_since(self, keys: Digests) -> Places:
        """Return the place with which each key was put last since it was loaded; else `NOWHERE`."""
        places = _nowhere(keys)
        for run in self._put:
            at = run.find(keys)
            hits = np.flatnonzero(at >= 0)
            places[hits] = run.places[at[hits]]
            _let_go(run)
        return places

    def put(self, keys: Digests, places: Places) -> None:
        """Give keys, of which none is there twice, their place. Raises StorageFull, StorageUnavailable."""
        if not len(keys):
            return
        run = sorted_run(keys, places)
        while self._put and (last := self._put[-1]).file is None and len(last.keys) <= _RATIO * len(run.keys):
            run = _newest(self._put.pop(), run)
        self._put.append(self._on_disk(run.keys, run.places) if len(run.keys) >= self._run_keys else run)

    def close(self) -> None:
        """Delete the runs on disk."""
        for run in (*self._loaded, *self._put):
            if run.file is not None:
                closed(run.file.file)
        self._loaded.clear()
        self._put.clear()

    def _on_disk(self, keys: Digests, places: Places) -> KeyRun:
        """Write the keys as a run; beside them, memory holds their order."""
        count, order = len(keys), _order(keys)
        with on_disk(self._folder):
            file = nameless_file(self._folder)
            try:
                for part in (keys.high, keys.low, places):
                    for start in range(0, count, _WRITTEN_KEYS):
                        file.write(part[order[start : start + _WRITTEN_KEYS]].data)
                file.flush()
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except BaseException:
                closed(file)
                raise
        high = np.frombuffer(mapped, np.uint64, count)
        low = np.frombuffer(mapped, np.uint64, count, offset=8 * count)
        places = np.frombuffer(mapped, np.int32, count, offset=16 * count)
        return KeyRun(Digests(high, low), places, _MappedFile(file, mapped))


class _Gathered:
    """Keys that come together for one run, in memory that each run uses again."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._most = most
        self._keys = Digests(np.empty(most, np.uint64), np.empty(most, np.uint64))
        self._places: Places = np.empty(most, np.int32)

    def add(self, keys: Digests, places: Places) -> int:
        """Take the first keys, as many as there is room for; return how many."""
        end = min(self._most, self.count + len(keys))
        taken = end - self.count
        for kept, given in ((self._keys.high, keys.high), (self._keys.low, keys.low), (self._places, places)):
            kept[self.count : end] = given[:taken]
        self.count = end
        return taken

    def taken(self) -> tuple[Digests, Places]:
        """Return the keys, which are valid until others are added."""
        count, self.count = self.count, 0
        return self._keys.take(slice(count)), self._places[:count]


def _order(keys: Digests) -> Rows:
    """Return the positions of the keys by their digests, those of equal keys rising."""
    order: Rows = np.argsort(keys.high)
    if _has_equal(keys.high, order):
        order = np.lexsort((keys.low, keys.high))
    return order


def _has_equal(words: Words, order: Rows) -> bool:
    """Return whether some words, which are in this order, are equal."""
    starts = range(0, len(order), _WRITTEN_KEYS)
    parts = (words[order[start : start + _WRITTEN_KEYS + 1]] for start in starts)
    return any((part[1:] == part[:-1]).any() for part in parts)


def _joined(parts: Iterable[tuple[Digests, Places]]) -> KeyRun:
    every = list(parts)
    high = np.concatenate([keys.high for keys, _ in every])
    low = np.concatenate([keys.low for keys, _ in every])
    return sorted_run(Digests(high, low), np.concatenate([places for _, places in every]))


def _newest(older: KeyRun, newer: KeyRun) -> KeyRun:
    """Return both as one run, without the older places of keys that are in both."""
    left = ~newer.has(older.keys)
    return _joined([(older.keys.take(left), older.places[left]), (newer.keys, newer.places)])


def _let_go(run: KeyRun) -> None:
    """Keep no more than one run in memory: rows in any order ask for a key in each part of every run."""
    if run.file is not None:
        run.file.let_go()


def _nowhere(keys: Digests) -> Places:
    return np.full(len(keys), NOWHERE, np.int32)
