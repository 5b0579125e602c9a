"""Manifest reader: read, check and decode manifests, manifest lists and index manifests; small ones are cached.

Rule: these files never change and their names are never used twice, so cached values stay valid. A check for damage
uses a new reader.
Source: docs/format/manifest.md#avro-conventions.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from itertools import chain, groupby, islice
from typing import Final

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound
from lakehouse_core.metadata.lru import Recent
from lakehouse_core.metadata.read_ahead import FEW, FEW_SMALL, in_order
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.checksums import verify_bytes
from lakehouse_core.table.layout import TableLayout, manifest_key
from lakehouse_core.table.manifest import (
    FEW_ENTRIES,
    EntryColumns,
    IndexManifestEntry,
    Keep,
    ManifestEntry,
    ManifestFile,
    columns_of,
    concatenate,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_columns,
    decode_manifest_list,
    merge_entries,
)
from lakehouse_core.table.snapshot import Snapshot, snapshot_checksums

# The number of manifests that threads decode at once. Each takes arrays several times the size of its manifest.
_COLUMN_READERS: Final = 2
# At most some 20 MB, and less where other tables of the process are used: an entry with statistics takes 1 to 2 KB, and
# more where these are long; a manifest's line in a list 1 KB.
_ENTRY_BYTES: Final = 2_000
_LINE_BYTES: Final = 1_000
_REMEMBERED_MANIFESTS: Final = 256
_REMEMBERED_LISTS: Final = 64
# At most some 8 MB: an entry without statistics takes 250 bytes in columns.
_COLUMNS_ENTRY_BYTES: Final = 250
_REMEMBERED_COLUMNS: Final = 4
_MOST_COLUMN_ENTRIES: Final = 8_192
_LONGEST_LIST: Final = 64
_MOST_FETCHED_BYTES: Final = 32 << 20


class Missing(Enum):
    """The meaning of a missing file."""

    CORRUPT = "corrupt"  # a snapshot that has not expired names the file: damage
    NOT_FOUND = "not found"  # an expiry may have deleted the file: raise NotFound, and the caller decides


class ManifestReader:
    """Reads the metadata files of one branch. `store` is rooted at the table.

    Every method raises CorruptTable if a file is damaged or not as recorded, and the error of `missing` for a missing
    file.
    """

    def __init__(self, store: StoreReader, layout: TableLayout, missing: Missing = Missing.CORRUPT) -> None:
        self._store = store
        self._layout = layout
        self._missing = missing
        self._lists: Recent[Sequence[ManifestFile]] = Recent(_REMEMBERED_LISTS)
        self._small: Recent[Sequence[ManifestEntry]] = Recent(_REMEMBERED_MANIFESTS)
        self._columns: Recent[EntryColumns] = Recent(_REMEMBERED_COLUMNS)
        self._own: Recent[bytes] = Recent(_REMEMBERED_LISTS)
        self._fetched: dict[str, bytes] = {}

    @property
    def requests_at_once(self) -> int:
        """The number of requests that the store answers in the time of one."""
        return self._store.requests_at_once

    def remember(self, written: Mapping[str, bytes]) -> None:
        """Read these small files, by name, from memory from now on. REQUIRES: this process has written them."""
        for name, data in written.items():
            self._own.put(name, data, len(data))

    def fetch(self, sizes: Mapping[str, int]) -> None:
        """Read these files together where the store can; the next call that needs one takes it from memory.

        `sizes`: by name, in bytes. Of large files only the first are fetched. A missing file is an error of the call
        that needs it, not of this one.
        """
        if self._store.requests_at_once == 1:
            return
        self._fetched.clear()
        total_bytes = 0
        keys: dict[str, str] = {}
        for name, size in sizes.items():
            total_bytes += size
            if total_bytes > _MOST_FETCHED_BYTES:
                break
            with suppress(InvalidRequest):
                keys[manifest_key(name)] = name
        found = self._store.read_found(keys)
        self._fetched.update((keys[key], data) for key, data in found.items())

    def listed(self, list_name: str, size: int | None, checksum: str | None = None) -> list[ManifestFile]:
        """Return the manifests of a manifest list, in order; `size` in bytes and `checksum` as the snapshot records
        them.
        """
        key = list_name, size, checksum
        if (known := self._lists.get(key)) is not None:
            return list(known)
        named = decode_manifest_list(self._bytes(list_name, size, checksum), list_name)
        if len(named) <= _LONGEST_LIST:
            self._lists.put(key, tuple(named), _LINE_BYTES * len(named))
        return named

    def of(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests that make up the state at `snapshot`: its base, then its delta."""
        lists = in_order(lambda read: read(snapshot), (self.base, self.delta), at_once=self._store.requests_at_once)
        return list(chain.from_iterable(lists))

    def base(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests of the state before `snapshot`."""
        return self._list_of(snapshot, snapshot.base_manifest_list, snapshot.base_manifest_list_size)

    def delta(self, snapshot: Snapshot) -> list[ManifestFile]:
        """Return the manifests of the changes of `snapshot`."""
        return self._list_of(snapshot, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def changelog(self, snapshot: Snapshot) -> list[ManifestFile]:
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

        `manifests`: the manifests that may hold kept entries, None: all.
        """
        chosen = self.of(snapshot) if manifests is None else manifests
        read = self.entries_of_each(chosen, keep=keep, with_stats=with_stats)
        return merge_entries(entry for entries in read for entry in entries)

    def index_entries(self, snapshot: Snapshot) -> list[IndexManifestEntry]:
        """Return the index files of `snapshot`; none when it has no index manifest."""
        name = snapshot.index_manifest
        if name is None:
            return []
        return self.listed_index_files(name, self._checksum(snapshot, name))

    def entries(
        self, manifest: ManifestFile, *, keep: Keep | None = None, with_stats: bool = False
    ) -> list[ManifestEntry]:
        """Return the entries of one manifest, in order, for which `keep(partition, bucket, level)` is true."""
        if not _is_small(manifest):
            return decode_manifest(self.bytes_of(manifest), manifest.file_name, keep=keep, with_stats=with_stats)
        return _kept(self._small_entries(manifest, with_stats), keep)

    def entries_of_each(
        self, manifests: Iterable[ManifestFile], *, keep: Keep | None = None, with_stats: bool = False
    ) -> Iterator[list[ManifestEntry]]:
        """Yield the entries of each manifest, in order; a few manifests are read ahead by threads."""
        listed = list(manifests)
        known = [self._small.get(_key(manifest, with_stats)) for manifest in listed]
        unknown = [manifest for manifest, entries in zip(listed, known, strict=True) if entries is None]
        read = in_order(
            lambda manifest: self.entries(manifest, keep=keep, with_stats=with_stats),
            unknown,
            at_once=self._store.requests_at_once,
            few=FEW_SMALL if all(map(_is_small, unknown)) else FEW,
        )
        for entries in known:
            yield next(read) if entries is None else _kept(entries, keep)

    def deltas(self, snapshots: Iterable[Snapshot], *, keep: Keep) -> Iterator[list[ManifestEntry]]:
        """Yield the kept entries of the delta of each snapshot, in order. All are read in a few round trips."""
        # A disk is fastest one by one.
        lists = list(in_order(self.delta, snapshots, ahead=1, at_once=self._store.requests_at_once))
        entries = self.entries_of_each(chain.from_iterable(lists), keep=keep)
        for manifests in lists:
            yield [entry for _ in manifests for entry in next(entries)]

    def columns(
        self, manifests: Iterable[ManifestFile], *, keep: Keep | None = None, with_stats: bool = False
    ) -> EntryColumns:
        """Return the entries of all `manifests`, in order, as columns, which take a fifth of the memory of objects."""
        return concatenate(
            part
            for are_small, group in groupby(manifests, key=_is_small)
            for part in (self._columns_of_small if are_small else self._columns_of_large)(group, keep, with_stats)
        )

    def bytes_of(self, manifest: ManifestFile) -> bytes:
        """Return a manifest's file as it is."""
        return self._bytes(manifest.file_name, manifest.file_size, manifest.checksum)

    def listed_index_files(self, name: str, checksum: str | None = None) -> list[IndexManifestEntry]:
        """Return the index files that an index manifest lists."""
        return decode_index_manifest(self._bytes(name, None, checksum), name)

    def _list_of(self, snapshot: Snapshot, name: str, size: int | None) -> list[ManifestFile]:
        return self.listed(name, size, self._checksum(snapshot, name))

    def _columns_of_small(
        self, manifests: Iterator[ManifestFile], keep: Keep | None, with_stats: bool
    ) -> Iterator[EntryColumns]:
        while some := list(islice(manifests, _REMEMBERED_MANIFESTS)):
            read = self.entries_of_each(some, keep=keep, with_stats=with_stats)
            yield columns_of([entry for entries in read for entry in entries])

    def _columns_of_large(
        self, manifests: Iterator[ManifestFile], keep: Keep | None, with_stats: bool
    ) -> Iterator[EntryColumns]:
        def read(manifest: ManifestFile) -> EntryColumns:
            is_kept = keep is None and not with_stats and _entry_count(manifest) <= _MOST_COLUMN_ENTRIES
            key = _key(manifest, with_stats)
            if is_kept and (known := self._columns.get(key)) is not None:
                return known
            data = self.bytes_of(manifest)
            columns = decode_manifest_columns(data, manifest.file_name, keep=keep, with_stats=with_stats)
            if is_kept:
                self._columns.put(key, columns, _COLUMNS_ENTRY_BYTES * _entry_count(manifest))
            return columns

        return in_order(read, manifests, ahead=_COLUMN_READERS)

    def _small_entries(self, manifest: ManifestFile, with_stats: bool) -> Sequence[ManifestEntry]:
        key = _key(manifest, with_stats)
        if (known := self._small.get(key)) is not None:
            return known
        entries = tuple(decode_manifest(self.bytes_of(manifest), manifest.file_name, with_stats=with_stats))
        self._small.put(key, entries, _ENTRY_BYTES * len(entries) + manifest.file_size)
        return entries

    def _checksum(self, snapshot: Snapshot, name: str) -> str | None:
        return snapshot_checksums(snapshot, self._layout.snapshot(snapshot.id)).get(name)

    def _bytes(self, name: str, size: int | None, checksum: str | None) -> bytes:
        key = manifest_key(name)
        try:
            data = self._fetched.pop(name, None) or self._own.get(name) or self._store.read(key)
        except NotFound as error:
            if self._missing is Missing.NOT_FOUND:
                raise
            raise CorruptTable.missing(self._store.uri(key)) from error
        except InvalidRequest as error:
            raise CorruptTable(f"A manifest list or snapshot names {name!r}: {error}") from error
        verify_bytes(data, self._store.uri(key), size=size, expected=checksum)
        return data


def _is_small(manifest: ManifestFile) -> bool:
    return _entry_count(manifest) < FEW_ENTRIES


def _entry_count(manifest: ManifestFile) -> int:
    return manifest.num_added_files + manifest.num_deleted_files


def _key(manifest: ManifestFile, with_stats: bool) -> Hashable:
    return manifest.file_name, manifest.file_size, manifest.checksum, with_stats


def _kept(entries: Sequence[ManifestEntry], keep: Keep | None) -> list[ManifestEntry]:
    if keep is None:
        return list(entries)
    return [entry for entry in entries if keep(entry.partition, entry.bucket, entry.file.level)]
