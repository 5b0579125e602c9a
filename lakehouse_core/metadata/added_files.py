"""Added files: the names of the files that the snapshots after a given one added. Commits that one handle makes one
after the other read each snapshot once.

Rule: the name of a manifest list is never used twice. So it tells a snapshot, and what is before that one and what it
added stay the same, also if another engine rolls the table back.
"""

import heapq
from collections.abc import Iterator
from itertools import chain, takewhile
from threading import Lock
from typing import Final, Generic, TypeVar

from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.manifest import Keep, ManifestFile
from lakehouse_core.table.snapshot import Snapshot

V = TypeVar("V")

# At most some 30 MB, most often 2 MB: a snapshot takes 2 KB, a name 110 bytes. Longer deltas are read each time.
_REMEMBERED: Final = 1024
_MOST_NAMES: Final = 256


class AddedFiles:
    """The files that the snapshots of one branch added."""

    def __init__(self, snapshots: SnapshotLog, manifests: ManifestReader) -> None:
        self._snapshots, self._manifests = snapshots, manifests
        self._before: _Newest[Snapshot] = _Newest(_REMEMBERED)
        self._names: _Newest[tuple[str, ...]] = _Newest(_REMEMBERED)

    def since(self, after_id: int, latest: Snapshot, *, keep: Keep) -> Iterator[str]:
        """Yield the names of the files that the snapshots (after_id, latest] added, also of files that were removed
        again. REQUIRES: `latest` exists.

        All that `keep` keeps are among them, but for those of compactions and of expired snapshots; others may be.
        """
        since = takewhile(lambda one: one.id > after_id, self._newest_first(latest))
        unread = []
        for one in [one for one in since if one.commit_kind is not CommitKind.COMPACT]:
            known = self._names.get(one)
            if known is None:
                unread.append(one)
            else:
                yield from known
        # A disk is fastest one by one.
        lists = in_order(self._manifests.delta, unread, ahead=1, at_once=self._manifests.requests_at_once)
        long: list[tuple[Snapshot, list[ManifestFile]]] = []
        short: list[tuple[Snapshot, list[ManifestFile]]] = []
        for one, manifests in zip(unread, list(lists), strict=True):
            count = sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)
            (long if count > _MOST_NAMES else short).append((one, manifests))
        read = self._manifests.entries_of_each(chain.from_iterable(manifests for _, manifests in short))
        for one, manifests in short:
            names = tuple(entry.file.file_name for _ in manifests for entry in next(read))
            self._names.put(one, names)
            yield from names
        for entries in self._manifests.entries_of_each(chain.from_iterable(each for _, each in long), keep=keep):
            yield from (entry.file.file_name for entry in entries)

    def _newest_first(self, latest: Snapshot) -> Iterator[Snapshot]:
        """Yield `latest` and the earlier snapshots, newest first; from memory where it is known what was before one."""
        newest, is_known = latest, True
        while is_known:
            yield newest
            while (before := self._before.get(newest)) is not None:
                newest = before
                yield newest
            is_known = False
            older = self._snapshots.newest_first(newest)
            next(older)
            for one in older:
                self._before.put(newest, one)
                newest = one
                if is_known := self._before.get(one) is not None:
                    break
                yield one


class _Newest(Generic[V]):
    """Values by snapshot, of those with the highest ids. Threads may share them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[str, V] = {}
        self._by_id: list[tuple[int, str]] = []
        self._lock = Lock()

    def get(self, snapshot: Snapshot) -> V | None:
        return self._values.get(snapshot.delta_manifest_list)

    def put(self, snapshot: Snapshot, value: V) -> None:
        name = snapshot.delta_manifest_list
        with self._lock:
            if name not in self._values:
                heapq.heappush(self._by_id, (snapshot.id, name))
            self._values[name] = value
            if len(self._by_id) > self._most:
                del self._values[heapq.heappop(self._by_id)[1]]
