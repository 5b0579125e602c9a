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

from lakehouse_core.merge.key_digests import Digests
from lakehouse_core.tasks.write.scratch import closed, nameless_file, on_disk

Places: TypeAlias = npt.NDArray[np.int32]

NOWHERE: Final = -1
# A run of so many keys takes 80 MiB; to sort it takes about twice as much for a moment.
_RUN_KEYS: Final = 4 << 20
# A new run is merged with those before it that are not so many times larger, so that there are few.
_RATIO: Final = 4


@dataclass(frozen=True, slots=True)
class KeyRun:
    """Keys in the order of their digests, and the place of each. `file`: where they lie, None: in memory."""

    keys: Digests
    places: Places
    file: IO[bytes] | None = None

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
    """Return the keys as a run; equal ones stay beside each other."""
    order = np.argsort(keys.high, kind="stable")
    high = keys.high[order]
    if (high[1:] == high[:-1]).any():
        order = np.lexsort((keys.low, keys.high))
        high = keys.high[order]
    return KeyRun(Digests(high, keys.low[order]), places[order])


class KeyMap:
    """Places of keys. `folder`: the folder of runs on disk, None for the system's folder of temporary files."""

    def __init__(self, folder: str | None = None, *, run_keys: int = _RUN_KEYS) -> None:
        self._folder = folder
        self._run_keys = run_keys
        self._loaded: list[KeyRun] = []
        self._put: list[KeyRun] = []

    def load(self, found: Iterable[tuple[Digests, Places]]) -> None:
        """Take the keys of a table. Raises StorageFull, StorageUnavailable, and what `found` raises."""
        pending: list[tuple[Digests, Places]] = []
        count = 0
        for keys, places in found:
            pending.append((keys, places))
            count += len(keys)
            if count >= self._run_keys:
                self._loaded.append(self._on_disk(_joined(pending)))
                pending, count = [], 0
        if count:
            self._loaded.append(_joined(pending))

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
        return places, others

    def put_since(self, keys: Digests) -> Places:
        """Return the place with which each key was put last since it was loaded; else `NOWHERE`."""
        places = _nowhere(keys)
        for run in self._put:
            at = run.find(keys)
            hits = np.flatnonzero(at >= 0)
            places[hits] = run.places[at[hits]]
        return places

    def put(self, keys: Digests, places: Places) -> None:
        """Give keys, of which none is there twice, their place. Raises StorageFull, StorageUnavailable."""
        if not len(keys):
            return
        run = sorted_run(keys, places)
        while self._put and (last := self._put[-1]).file is None and len(last.keys) <= _RATIO * len(run.keys):
            run = _newest(self._put.pop(), run)
        self._put.append(self._on_disk(run) if len(run.keys) >= self._run_keys else run)

    def close(self) -> None:
        """Delete the runs on disk."""
        for run in (*self._loaded, *self._put):
            if run.file is not None:
                closed(run.file)
        self._loaded.clear()
        self._put.clear()

    def _on_disk(self, run: KeyRun) -> KeyRun:
        with on_disk(self._folder):
            file = nameless_file(self._folder)
            try:
                for part in (run.keys.high, run.keys.low, run.places):
                    file.write(part.data)
                file.flush()
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except BaseException:
                closed(file)
                raise
        count = len(run.keys)
        high = np.frombuffer(mapped, np.uint64, count)
        low = np.frombuffer(mapped, np.uint64, count, offset=8 * count)
        return KeyRun(Digests(high, low), np.frombuffer(mapped, np.int32, count, offset=16 * count), file)


def _joined(parts: Iterable[tuple[Digests, Places]]) -> KeyRun:
    every = list(parts)
    high = np.concatenate([keys.high for keys, _ in every])
    low = np.concatenate([keys.low for keys, _ in every])
    return sorted_run(Digests(high, low), np.concatenate([places for _, places in every]))


def _newest(older: KeyRun, newer: KeyRun) -> KeyRun:
    """Return both as one run, without the older places of keys that are in both."""
    left = ~newer.has(older.keys)
    return _joined([(older.keys.take(left), older.places[left]), (newer.keys, newer.places)])


def _nowhere(keys: Digests) -> Places:
    return np.full(len(keys), NOWHERE, np.int32)
