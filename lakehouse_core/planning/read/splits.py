"""Scan planning: choose the buckets and files of a snapshot that a condition needs, by the columns of its entries.

Rule: nothing that may match is left out; keeping too much costs time only.
Source: docs/semantics/reading.md#batch-scan.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from lakehouse_core.format.avro_columns import Flags, Longs
from lakehouse_core.planning.read.bucket_splits import ScannedFiles, merged_partitions
from lakehouse_core.planning.read.lazy_splits import MOST_KEPT_FILES, LazySplits
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.planning.readable import NOTHING_DELETED, check_files
from lakehouse_core.table.bucketing import may_wait
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.manifest import BucketRows, EntryColumns, bucket_rows
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split


def plan_splits(
    entries: EntryColumns,
    live: Flags,
    scope: ScanScope,
    *,
    snapshot_id: int,
    file_schemas: Mapping[int, TableSchema],
    deletions: Mapping[str, DeletionFile] = NOTHING_DELETED,
) -> Collection[Split]:
    """Return the splits of the `live` files among `entries`, which are in commit order, that a scan needs,
    in manifest order of their buckets: a tuple, or made one by one where they are many.

    `file_schemas`: by id, the schemas of the live files; `deletions`: the result of `deletion_files` for the snapshot.
    Raises CorruptTable for entries that cannot be decoded, UnsupportedFeature for files of unsupported kinds.
    """
    wanted = []
    for bucket in bucket_rows(entries):
        rows = _wanted_rows(entries, bucket, live, scope, file_schemas)
        if len(rows):
            wanted.append(replace(bucket, rows=rows))
    merged, plain = merged_partitions(wanted) if scope.merges_waiting else ((), wanted)
    files = ScannedFiles(
        entries=entries,
        buckets=tuple(plain),
        merged=tuple(merged),
        scope=scope,
        snapshot_id=snapshot_id,
        file_schemas=file_schemas,
        deletions=deletions,
    )
    check_files(entries, files.rows, may_wait=may_wait(scope.schema.bucketing))
    return LazySplits(files) if len(files.rows) > MOST_KEPT_FILES else tuple(files.splits())


def _wanted_rows(
    entries: EntryColumns,
    bucket: BucketRows,
    live: Flags,
    scope: ScanScope,
    file_schemas: Mapping[int, TableSchema],
) -> Longs:
    """Return the entry rows of a bucket's live files that may hold matching rows."""
    rows = bucket.rows[live[bucket.rows]]
    rows = rows[entries.levels[rows] >= scope.first_level]
    if scope.is_everything or not len(rows):
        return rows
    if (kept_by_time := scope.keeps_creation_times(entries.creation_times[rows])) is not None:
        rows = rows[kept_by_time]
    if not len(rows) or scope.partition(bucket.partition) is None:
        return rows[:0]
    kinds = np.stack([entries.total_buckets[rows], entries.schema_ids[rows]])
    distinct, which = np.unique(kinds, axis=1, return_inverse=True)
    kept = [
        scope.keeps_bucket(bucket.partition, bucket.bucket, int(total), file_schemas[int(schema_id)])
        for total, schema_id in distinct.T
    ]
    return rows if all(kept) else rows[np.array(kept)[which.reshape(-1)]]
