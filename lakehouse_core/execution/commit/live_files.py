"""Live files of some partitions, read from those manifests alone that may name them.

Source: docs/format/manifest.md#live-files.
"""

from collections.abc import Sequence, Set

from lakehouse_core.execution.context import TableContext
from lakehouse_core.planning.manifests import manifests_of_partitions
from lakehouse_core.table.manifest import Keep, ManifestEntry, ManifestFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot


def live_in(
    table: TableContext, snapshot: Snapshot, partitions: Set[bytes], schema: TableSchema, *, keep: Keep | None = None
) -> list[ManifestEntry]:
    """Return the live files of `snapshot` in these partitions that `keep` keeps; None: all.

    REQUIRES: `keep` keeps nothing of other partitions. Raises CorruptTable.
    """
    manifests: Sequence[ManifestFile] = table.manifests.of(snapshot)
    if schema.partition_keys:
        types = [field.type for field in schema.partition_fields]
        manifests = manifests_of_partitions(manifests, partitions, types)
    keep = keep or (lambda partition, bucket, level: partition in partitions)
    return table.manifests.live_entries(snapshot, keep=keep, manifests=manifests)
