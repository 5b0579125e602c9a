"""Manifest writer: write the manifests and lists of one commit, and delete those that no snapshot names in the end.

Rule: call `flush` before publishing a snapshot that names these files.
Source: docs/format/manifest.md#lists-of-a-commit.
"""

from collections.abc import Iterable, Sequence, Set
from typing import Final

from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest, StorageUnavailable
from lakehouse_core.format.data_types import DataType
from lakehouse_core.options import TableOptions
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.storage.outcomes import named_by_nobody
from lakehouse_core.table.checksums import checksum
from lakehouse_core.table.layout import manifest_key
from lakehouse_core.table.manifest import (
    IndexManifestEntry,
    ManifestEntry,
    ManifestFile,
    ManifestListRef,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
    summarize_manifest,
)

# Avro's name of each codec that table options can name.
AVRO_CODECS: Final = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "deflate": "deflate",
    "snappy": "snappy",
    "null": "null",
}
# The number of entries from which the bytes per entry are estimated.
_SAMPLE: Final = 2000
_MOST_PENDING_BYTES: Final = 32 << 20
_SMALL_BYTES: Final = 32 << 10


class ManifestWriter:
    """Writes metadata files under names of one fresh UUID. `store` is rooted at the table."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        options: TableOptions,
        partition_types: Sequence[DataType],
        keeps_order: bool,
    ) -> None:
        self._store = store
        self._uuid = clock.uuid()
        self._codec = AVRO_CODECS[options.manifest_compression]
        self._target_bytes = options.manifest_target_bytes
        self._partition_types = partition_types
        self._keeps_order = keeps_order
        self._manifests = 0
        # Files wait to be written together, because a commit waits mostly for syncs of the disk.
        self._pending: dict[str, bytes] = {}
        self._pending_bytes = 0
        self._checksums: dict[str, str] = {}
        self._small: dict[str, bytes] = {}

    @property
    def codec(self) -> str:
        """Avro's name of the codec that new manifests have."""
        return self._codec

    @property
    def target_bytes(self) -> int:
        return self._target_bytes

    @property
    def partition_types(self) -> Sequence[DataType]:
        return self._partition_types

    @property
    def keeps_order(self) -> bool:
        """Whether entries must stay in the order of their commits, because rows that wait have no other order."""
        return self._keeps_order

    def write_entries(self, entries: Sequence[ManifestEntry]) -> list[ManifestFile]:
        """Write `entries` in order to manifests of the target size, and return these; none without entries."""
        if not entries:
            return []
        if len(entries) <= _SAMPLE:
            return [self._write_manifest(entries)]
        per_entry = len(encode_manifest(entries[:_SAMPLE], codec=self._codec)) / _SAMPLE
        parts = max(1, round(len(entries) * per_entry / self._target_bytes))
        count = -(-len(entries) // parts)
        return [self._write_manifest(entries[start : start + count]) for start in range(0, len(entries), count)]

    def write_bytes(self, data: bytes) -> str:
        """Write a manifest that is encoded already; return its name."""
        name = f"manifest-{self._uuid}-{self._manifests}"
        self._manifests += 1
        self._write(name, data)
        return name

    def write_list(self, manifests: Iterable[ManifestFile]) -> ManifestListRef:
        """Write a manifest list; it may be empty."""
        data = encode_manifest_list(manifests, codec=self._codec)
        name = f"manifest-list-{self._uuid}-{len(self._checksums)}"
        self._write(name, data)
        return ManifestListRef(name=name, size=len(data), checksum=self._checksums[name])

    def write_index_manifest(self, entries: Iterable[IndexManifestEntry]) -> str:
        """Write an index manifest: all index files that are live. Return its name."""
        name = f"index-manifest-{self._uuid}-{len(self._checksums)}"
        self._write(name, encode_index_manifest(entries, codec=self._codec))
        return name

    def flush(self) -> None:
        """Make everything written so far durable. Raises StorageUnavailable."""
        pending, self._pending, self._pending_bytes = self._pending, {}, 0
        if not pending:
            return
        with named_by_nobody():
            self._store.write(pending)

    def small_files(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of those of the named files that were written here and are small."""
        return {name: self._small[name] for name in names if name in self._small}

    def checksum_of(self, name: str) -> str:
        return self._checksums[name]

    def has_others(self, named: Set[str]) -> bool:
        """Return whether other files than the named ones were written here."""
        return not self._checksums.keys() <= named

    def discard_all_but(self, named: Iterable[str]) -> None:
        """Delete the written files that a snapshot does not name, all but `named`. Files that cannot be deleted stay as
        orphans.
        """
        self._pending, self._pending_bytes = {}, 0
        going = self._checksums.keys() - set(named)
        if not going:
            return
        try:
            self._store.delete([manifest_key(name) for name in sorted(going)])
        except (StorageUnavailable, InvalidRequest):
            return
        for name in going:
            del self._checksums[name]
            self._small.pop(name, None)

    def _write_manifest(self, entries: Sequence[ManifestEntry]) -> ManifestFile:
        data = encode_manifest(entries, codec=self._codec)
        name = self.write_bytes(data)
        return summarize_manifest(
            entries, self._partition_types, file_name=name, file_size=len(data), checksum=self.checksum_of(name)
        )

    def _write(self, name: str, data: bytes) -> None:
        self._checksums[name] = checksum(data)
        if len(data) <= _SMALL_BYTES:
            self._small[name] = data
        self._pending[manifest_key(name)] = data
        self._pending_bytes += len(data)
        if self._pending_bytes >= _MOST_PENDING_BYTES:
            self.flush()
