"""Since a plan: the compaction of a partition that another run, or this plan before, carried out meanwhile.

Rule: only the snapshots after the plan are read.
"""

from collections.abc import Mapping

from lakehouse_core.execution.context import TableContext
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.table.commit_message import CommitKind


def compacted_since(table: TableContext, snapshot_id: int, partition: Mapping[str, str | None] | None) -> int | None:
    """Return the first snapshot after `snapshot_id` that compacted files of the partition; None: there is none.

    Raises SnapshotExpired when a snapshot in between has expired.
    """
    latest = table.snapshots.latest_id() or snapshot_id
    schema = table.schemas.latest()
    types = [field.type for field in schema.partition_fields]
    for snapshot in table.snapshots.since(snapshot_id, latest):
        if snapshot.commit_kind is not CommitKind.COMPACT:
            continue
        for entries in table.manifests.entries_of_each(table.manifests.delta(snapshot)):
            for stored in {entry.partition for entry in entries}:
                if named_values(deserialize_row(stored, types), schema) == dict(partition or {}):
                    return snapshot.id
    return None
