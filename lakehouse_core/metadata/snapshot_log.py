"""The history of a table: its snapshots, changelogs and tags, the manifests they name, and the claim of the next id.

Rule: LATEST and EARLIEST are hints. A wrong or missing one costs a listing and never correctness. Snapshots are written
once and never changed.
Source: docs/format/layout.md#hints, docs/reliability/commit.md#steps.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from lakehouse_core.clock import Clock
from lakehouse_core.errors import (
    CorruptTable,
    InvalidRequest,
    LakehouseError,
    NotFound,
    SnapshotExpired,
    StorageUnavailable,
)
from lakehouse_core.metadata.lru import Recent
from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.metadata.read_ahead import in_order
from lakehouse_core.metadata.read_back import readable_file
from lakehouse_core.metadata.tag_files import read_tag
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import replaced
from lakehouse_core.table.boundary import parse_boundary, serialize_boundary
from lakehouse_core.table.layout import (
    BOUNDARY_KEY,
    CHANGELOG_FOLDER,
    SNAPSHOT_FOLDER,
    TAG_FOLDER,
    changelog_key,
    snapshot_key,
    tag_key,
)
from lakehouse_core.table.manifest import (
    IndexManifestEntry,
    Keep,
    ManifestEntry,
    ManifestFile,
    merge_entries,
)
from lakehouse_core.table.snapshot import (
    Snapshot,
    Tag,
    parse_snapshot,
    serialize_snapshot,
    snapshot_checksums,
)

R = TypeVar("R")

LATEST_HINT = "snapshot/LATEST"
EARLIEST_HINT = "snapshot/EARLIEST"
CHANGELOG_LATEST_HINT = "changelog/LATEST"
CHANGELOG_EARLIEST_HINT = "changelog/EARLIEST"

_SNAPSHOT_NAME = re.compile(r"snapshot-([1-9]\d{0,18})")
_CHANGELOG_NAME = re.compile(r"changelog-([1-9]\d{0,18})")
_TAG_NAME = re.compile(r"tag-(.+)")
_ID = re.compile(rb"[1-9]\d{0,18}")

# A hint further behind than this is dearer to follow than a listing.
_LONGEST_PROBE = 32
# At most a few MB: a snapshot takes some KB.
_REMEMBERED_SNAPSHOTS: Final = 128
_LONGEST_REMEMBERED: Final = 32 * 1024
# A listing and the reading after it race with expiry; each round something else had to vanish.
_ATTEMPTS = 5


class SnapshotLog:
    """Reads the history of one table and adds to it. `store` is rooted at the table."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._manifests = ManifestReader(store)
        self._parsed: Recent[Snapshot] = Recent(_REMEMBERED_SNAPSHOTS)

    def __reduce__(self) -> tuple[Any, ...]:
        """What was read stays here; another process reads it again."""
        return SnapshotLog, (self._store, self._clock)

    @property
    def store(self) -> ObjectStore:
        return self._store

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def manifests(self) -> ManifestReader:
        return self._manifests

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, None when the table has none. Never lists when the LATEST hint is of use."""
        for _ in range(_ATTEMPTS):
            latest_id = self.latest_id()
            if latest_id is None:
                return None
            found = self._load(latest_id)
            if found is not None:
                return found
        raise self._restless("the latest snapshot")

    def latest_id(self) -> int | None:
        """Return the id of the newest snapshot, None when the table has none."""
        boundary = self.boundary()
        hint = self._hint(LATEST_HINT)
        if hint is not None and hint >= boundary and self._exists(snapshot_key(hint)):
            for candidate in range(hint + 1, hint + 1 + _LONGEST_PROBE):
                # The hint may lag: its writer died after its commit, or another's hint came later.
                if not self._exists(snapshot_key(candidate)):
                    return candidate - 1
        ids = self.ids_from(boundary)
        return ids[-1] if ids else None

    def has(self, snapshot_id: int) -> bool:
        """Return whether there is a file of that id, whatever it counts."""
        return self._exists(snapshot_key(snapshot_id))

    def has_expired(self, snapshot: Snapshot | None) -> bool:
        """Return whether `snapshot`, which was there, counts as gone by now; its files may be missing then."""
        # Other engines expire without a boundary.
        return snapshot is not None and (not self.has(snapshot.id) or snapshot.id < self.boundary())

    def of_latest(self, read: Callable[[Snapshot | None], R]) -> R:
        """Return what `read` makes of the latest snapshot; of a newer one where that expires while it is read."""
        for _ in range(_ATTEMPTS):
            latest = self.latest()
            try:
                return read(latest)
            except (CorruptTable, NotFound):
                if not self.has_expired(latest):
                    raise
        raise self._restless("the latest snapshot")

    def earliest_id(self) -> int | None:
        """Return the lowest id that still counts, None when the table has no snapshot."""
        boundary = self.boundary()
        hint = self._hint(EARLIEST_HINT)
        candidate = max(hint or 0, boundary)
        if candidate and self._exists(snapshot_key(candidate)):
            below = candidate - 1
            if below < max(boundary, 1) or not self._exists(snapshot_key(below)):
                return candidate
        ids = self.ids_from(boundary)
        return ids[0] if ids else None

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return one snapshot. Raises SnapshotExpired naming the earliest, NotFound, InvalidRequest, CorruptTable."""
        if snapshot_id < 1:
            raise InvalidRequest(f"Snapshot {snapshot_id}: ids start at 1. Ask for one that `snapshots` lists.")
        # First the file, then the boundary: in the other order an expiry in between would not be seen.
        found = self._load(snapshot_id)
        if found is not None and snapshot_id >= self.boundary():
            return found
        earliest, latest = self.earliest_id(), self.latest_id()
        if earliest is None or latest is None:
            raise NotFound(f"Snapshot {snapshot_id}: the table has no snapshot yet. Write to it first.")
        if snapshot_id < earliest:
            raise SnapshotExpired(f"Snapshot {snapshot_id} is expired. The earliest available is {earliest}.")
        if snapshot_id > latest:
            raise NotFound(f"Snapshot {snapshot_id} is not there yet. The latest is {latest}.")
        found = self._load(snapshot_id)
        if found is not None:
            return found
        raise CorruptTable(
            f"{self._store.uri(snapshot_key(snapshot_id))}: it is missing between snapshots {earliest} and {latest}. "
            "Do not expire snapshots; run `lakehouse verify` and keep its report."
        )

    def history(self) -> list[Snapshot]:
        """Return every snapshot that counts, oldest first. Lists the folder and reads them all."""
        for _ in range(_ATTEMPTS):
            ids = self.ids_from(self.boundary())
            found = list(in_order(self._load, ids))
            # Expiry takes the oldest first; what went while we read is as if it had gone before.
            kept = [snapshot for snapshot in found if snapshot is not None]
            if None not in found[len(found) - len(kept) :]:
                return kept
        raise self._restless("a snapshot")

    def ids_from(self, boundary: int) -> list[int]:
        """Return the ids of the snapshots from `boundary` on, rising, by listing them.

        Raises CorruptTable when there is none: expiry keeps the latest, so a table with a boundary is never empty.
        """
        every: list[int] = []
        for _ in range(_ATTEMPTS):
            every = _ids(self._store.children(SNAPSHOT_FOLDER).files, _SNAPSHOT_NAME)
            ids = [snapshot_id for snapshot_id in every if snapshot_id >= boundary]
            # A listing during commits and an expiry may miss the new and the old latest alike.
            if ids or not boundary:
                return ids
        if not every:
            raise CorruptTable(
                f"{self._store.uri('')}: its snapshots are gone, and its boundary is {boundary}. "
                "Restore them from a copy of the table."
            )
        raise CorruptTable(
            f"{self._store.uri('')}: its latest snapshot is {every[-1]}, below its boundary {boundary}: another engine "
            f"rolled it back. Nothing was changed; write {every[0]} into lakehouse/boundary if that was meant."
        )

    def since(self, after_id: int, until_id: int) -> list[Snapshot]:
        """Return the snapshots (after_id, until_id], oldest first. Raises as `snapshot` does for each."""
        return list(in_order(self.snapshot, range(after_id + 1, until_id + 1)))

    def newest_first(self, latest: Snapshot) -> Iterator[Snapshot]:
        """Yield `latest` and what came before it, down to the boundary or to the first id that is gone."""
        yield latest
        boundary = self.boundary()
        below = range(latest.id - 1, max(boundary, 1) - 1, -1)
        for snapshot in in_order(self._load, below):
            if snapshot is None:
                return
            yield snapshot

    def tag(self, name: str) -> Tag:
        """Return one tag. Raises NotFound naming the tags there are, CorruptTable."""
        key = tag_key(name)
        try:
            return read_tag(self._store, key)
        except NotFound as error:
            known = ", ".join(self._tag_names())
            others = f"The tags are: {known}." if known else "The table has no tags."
            raise NotFound(f"Tag {name!r}: there is no such tag. {others}") from error

    def has_tag(self, name: str) -> bool:
        """Return whether there is a tag of this name."""
        return name in self._tag_names()

    def tags(self) -> dict[str, Tag]:
        """Return all tags by name, names sorted."""
        for _ in range(_ATTEMPTS):
            try:
                return {name: read_tag(self._store, tag_key(name)) for name in self._tag_names()}
            except NotFound:
                continue
        raise self._restless("a tag")

    def changelog(self, snapshot_id: int) -> Snapshot:
        """Return the long-lived changelog of an expired snapshot. Raises NotFound, CorruptTable."""
        key = changelog_key(snapshot_id)
        try:
            return parse_snapshot(self._store.read(key), key)
        except NotFound as error:
            ids = self.changelog_ids()
            kept = f"{ids[0]} to {ids[-1]}" if ids else "none"
            raise NotFound(f"Changelog {snapshot_id} is not kept. Changelogs of expired snapshots: {kept}.") from error

    def changelog_ids(self) -> list[int]:
        """Return the ids of all long-lived changelogs, rising."""
        return _ids(self._store.children(CHANGELOG_FOLDER).files, _CHANGELOG_NAME)

    def boundary(self) -> int:
        """Return the first id that counts; 0 when expiry has not set one. Raises CorruptTable."""
        try:
            data = self._store.read(BOUNDARY_KEY)
        except NotFound:
            return 0
        return parse_boundary(data, self._store.uri(BOUNDARY_KEY))

    def raise_boundary(self, first_kept_id: int) -> int:
        """Let no id below `first_kept_id` count any more, durably; return the boundary, which never goes down."""
        for _ in range(_ATTEMPTS):
            found = self._store.read_versioned(BOUNDARY_KEY)
            if found is not None and (there := self.boundary()) >= first_kept_id:
                self._store.make_last([BOUNDARY_KEY])
                return there
            version = None if found is None else found[1]
            if replaced(self._store, BOUNDARY_KEY, serialize_boundary(first_kept_id), if_version=version):
                return first_kept_id
        raise self._restless("the boundary")

    def claim(self, snapshot: Snapshot) -> bool:
        """Publish `snapshot` under its id; False when that id is taken.

        Raises InvalidRequest for a snapshot that readers would not take for what it is, WriteOutcomeUnknown.
        """
        key = snapshot_key(snapshot.id)
        data = readable_file(snapshot, serialize_snapshot, lambda data: parse_snapshot(data, key), what="The snapshot")
        created = self._store.create_new(key, data)
        if created and len(data) <= _LONGEST_REMEMBERED:
            self._parsed.put((snapshot.id, data), snapshot)
        return created

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Say where the newest snapshot is. Best effort: a failure costs the next reader a few probes."""
        self._write_hint(LATEST_HINT, snapshot_id)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Say where the oldest snapshot is; a LATEST that names an older one is set right too.

        Java takes LATEST at its word when the id after it is not there.
        """
        self._write_hint(EARLIEST_HINT, snapshot_id)
        if (latest := self._hint(LATEST_HINT)) is not None and latest < snapshot_id:
            self._write_hint(LATEST_HINT, self.latest_id() or snapshot_id)

    def write_changelog_hints(self, earliest_id: int, latest_id: int) -> None:
        self._write_hint(CHANGELOG_EARLIEST_HINT, earliest_id)
        self._write_hint(CHANGELOG_LATEST_HINT, latest_id)

    def manifests_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests that make up the state at `snapshot`: its base, then its delta."""
        return [*self.base_manifests(snapshot), *self.delta_manifests(snapshot)]

    def base_manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        return self._list_of(snapshot, snapshot.base_manifest_list, snapshot.base_manifest_list_size)

    def delta_manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests of what `snapshot` changed."""
        return self._list_of(snapshot, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def changelog_manifests(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests of the changelog files of `snapshot`; none when it has no changelog of its own."""
        if snapshot.changelog_manifest_list is None:
            return []
        return self._list_of(snapshot, snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)

    def live_entries(
        self,
        snapshot: Snapshot,
        *,
        keep: Keep | None = None,
        with_stats: bool = False,
        manifests: Sequence[ManifestFile] | None = None,
    ) -> list[ManifestEntry]:
        """Return the entries of the files that are live at `snapshot`, in manifest order.

        `manifests`: those that may hold what `keep` keeps, when the caller knows; otherwise all.
        """
        chosen = self.manifests_of(snapshot) if manifests is None else manifests
        read = self._manifests.entries_of_each(chosen, keep=keep, with_stats=with_stats)
        return merge_entries(entry for entries in read for entry in entries)

    def index_entries(self, snapshot: Snapshot) -> list[IndexManifestEntry]:
        """Return the index files of `snapshot`; none when it has no index manifest."""
        name = snapshot.index_manifest
        if name is None:
            return []
        return self._manifests.index_entries(name, self._checksum(snapshot, name))

    def _list_of(self, snapshot: Snapshot, name: str, size: int | None) -> list[ManifestFile]:
        return self._manifests.listed(name, size, self._checksum(snapshot, name))

    def _checksum(self, snapshot: Snapshot, name: str) -> str | None:
        return snapshot_checksums(snapshot, snapshot_key(snapshot.id)).get(name)

    def _load(self, snapshot_id: int) -> Snapshot | None:
        key = snapshot_key(snapshot_id)
        try:
            data = self._store.read(key)
        except NotFound:
            return None
        # An id may come again after a rollback, so the file is read each time; the same bytes are parsed once.
        if (known := self._parsed.get((snapshot_id, data))) is not None:
            return known
        snapshot = parse_snapshot(data, key)
        if len(data) <= _LONGEST_REMEMBERED:
            self._parsed.put((snapshot_id, data), snapshot)
        return snapshot

    def _exists(self, key: str) -> bool:
        try:
            self._store.size(key)
        except NotFound:
            return False
        return True

    def _tag_names(self) -> list[str]:
        names = self._store.children(TAG_FOLDER).files
        return sorted(match[1] for match in map(_TAG_NAME.fullmatch, names) if match)

    def _hint(self, key: str) -> int | None:
        """Return what a hint says; None when it is missing or says nothing."""
        try:
            data = self._store.read(key)
        except NotFound:
            return None
        return int(data) if _ID.fullmatch(data) else None

    def _write_hint(self, key: str, snapshot_id: int) -> None:
        try:
            self._store.write(key, b"%d" % snapshot_id, durable=False)
        except LakehouseError:
            # The commit or expiry that it tells of has happened all the same.
            return

    def _restless(self, what: str) -> StorageUnavailable:
        return StorageUnavailable(
            f"{self._store.uri('')}: {what} changed in each of {_ATTEMPTS} attempts to read it. Try again."
        )


def _ids(names: Iterable[str], pattern: re.Pattern[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)
