"""Since a plan: the compactions of partitions that others, or this plan in an earlier run, carried out meanwhile.

Rule: only the snapshots after the plan are read, each once.
"""

from collections.abc import Mapping

from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.table.commit_message import CommitKind
from lakehouse_core.table.snapshot import Snapshot


class CompactedSince:
    """The partitions of one table that were compacted after the snapshot `snapshot_id`."""

    def __init__(self, snapshot_id: int) -> None:
        self._read_until = snapshot_id
        self._found: list[tuple[int, Mapping[str, str | None], int]] = []

    def first(
        self, table: TableContext, partition: Mapping[str, str | None] | None, bucket: int | None = None
    ) -> int | None:
        """Return the first snapshot that compacted files of the partition, or of one bucket of it; None: there is none.

        Raises SnapshotExpired when a snapshot in between has expired.
        """
        latest = table.snapshots.ids.latest() or self._read_until
        for snapshot in table.snapshots.since(self._read_until, latest):
            self._found += [(snapshot.id, values, number) for values, number in _compacted(table, snapshot)]
            self._read_until = snapshot.id
        wanted = dict(partition or {})
        return next(
            (id for id, values, number in self._found if values == wanted and bucket in (None, number)),
            None,
        )


def _compacted(table: TableContext, snapshot: Snapshot) -> list[tuple[Mapping[str, str | None], int]]:
    if snapshot.commit_kind is not CommitKind.COMPACT:
        return []
    schema = table.schemas.latest()
    types = [field.type for field in schema.partition_fields]
    entries = table.manifests.entries_of_each(table.manifests.delta(snapshot))
    places = {(entry.partition, entry.bucket) for found in entries for entry in found}
    return [(named_values(deserialize_row(partition, types), schema), bucket) for partition, bucket in places]
