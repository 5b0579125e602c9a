"""Waiting rows: how many rows of a table wait for their buckets until a compaction places them.

Source: docs/semantics/tables.md.
"""

from lakehouse_core.execution.context import TableContext
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.snapshot import Snapshot


def waiting_row_count(table: TableContext) -> int:
    """Return how many rows in the files of the latest snapshot wait for their buckets."""
    return table.snapshots.of_latest(lambda latest: waiting_row_count_at(table, latest))


def waiting_row_count_at(table: TableContext, snapshot: Snapshot | None) -> int:
    """Return how many rows in the files of a snapshot wait for their buckets. Raises as its manifests are read."""
    if snapshot is None:
        return 0
    entries = table.manifests.live_entries(snapshot, keep=lambda partition, bucket, level: not is_placed(bucket))
    return sum(entry.file.row_count for entry in entries)
