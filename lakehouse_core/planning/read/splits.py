"""Scans: which files of a snapshot a condition needs, and in which splits they are read.

Nothing that may match is ever left out; what is kept too much costs time. Values of a key table are judged after its
merge only, so a file of it is left out by its keys, a whole bucket by its values; where compactions keep each key once,
level 0 is not read and the others are judged like those of an append table.
Source: docs/semantics/reading.md#batch-scan, docs/semantics/reading.md#splits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from lakehouse_core.format.avro_columns import Flags, Longs
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.read.lazy_splits import MOST_KEPT_FILES, LazySplits
from lakehouse_core.planning.read.packing import (
    FileGroup,
    append_groups,
    holds_keys_once,
    is_one_level,
    key_groups,
    raw_groups,
)
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.planning.readable import NOTHING_DELETED, check_files
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import partition_folder
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.file_index import embedded_index, matching_rows
from lakehouse_core.table.file_stats import file_ranges, key_ranges
from lakehouse_core.table.manifest import BucketRows, EntryColumns, ManifestEntry, bucket_rows
from lakehouse_core.table.predicate import Predicate, may_match, only_columns
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
) -> LazySplits:
    """Return the splits of the `live` files among `entries`, which are in commit order, that a scan needs.

    `file_schemas`: by id, the schemas of the live files; `deletions`: what `deletion_files` tells of the snapshot.
    Raises CorruptTable for entries that cannot be read, UnsupportedFeature for files that would be read wrongly.
    """
    wanted = []
    for bucket in bucket_rows(entries):
        rows = _wanted_rows(entries, bucket, live, scope, file_schemas)
        if len(rows):
            wanted.append(replace(bucket, rows=rows))
    if wanted:
        check_files(entries, np.concatenate([bucket.rows for bucket in wanted]))

    def make() -> Iterator[Split]:
        for bucket, files in _files_of(entries, wanted):
            yield from _bucket_splits(
                bucket, files, scope, snapshot_id=snapshot_id, file_schemas=file_schemas, deletions=deletions
            )

    count = sum(len(bucket.rows) for bucket in wanted)
    return LazySplits(make, keeps=count <= MOST_KEPT_FILES)


def _wanted_rows(
    entries: EntryColumns,
    bucket: BucketRows,
    live: Flags,
    scope: ScanScope,
    file_schemas: Mapping[int, TableSchema],
) -> Longs:
    """Return the live rows of a bucket that a row to find may lie in."""
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


# Rows of columns are made objects so many at a time: one bucket at a time would pay the price of a call for each.
_ROWS_AT_ONCE: Final = 16_384


def _files_of(entries: EntryColumns, buckets: Sequence[BucketRows]) -> Iterator[tuple[BucketRows, list[ManifestEntry]]]:
    start = 0
    while start < len(buckets):
        end, count = start, 0
        while end < len(buckets) and (end == start or count + len(buckets[end].rows) <= _ROWS_AT_ONCE):
            count += len(buckets[end].rows)
            end += 1
        made = entries.take(np.concatenate([bucket.rows for bucket in buckets[start:end]])).entries()
        for bucket in buckets[start:end]:
            yield bucket, list(islice(made, len(bucket.rows)))
        start = end


def _bucket_splits(
    bucket: BucketRows,
    entries: Sequence[ManifestEntry],
    scope: ScanScope,
    *,
    snapshot_id: int,
    file_schemas: Mapping[int, TableSchema],
    deletions: Mapping[str, DeletionFile],
) -> Iterator[Split]:
    partition = scope.partition(bucket.partition)
    assert partition is not None
    files = _matching_files([entry.file for entry in entries], partition.rest, scope.schema, file_schemas)
    folder = partition_folder(scope.schema, partition.values, bucket.bucket)
    for group in _groups(files, scope.schema):
        yield Split(
            snapshot_id=snapshot_id,
            partition=bucket.partition,
            bucket=bucket.bucket,
            total_buckets=entries[0].total_buckets,
            folder=folder,
            files=group.files,
            raw=group.raw,
            deletions={
                file.file_name: deletions[file.file_name] for file in group.files if file.file_name in deletions
            },
        )


def _matching_files(
    files: Sequence[DataFile],
    rest: Predicate | None,
    schema: TableSchema,
    file_schemas: Mapping[int, TableSchema],
) -> Sequence[DataFile]:
    if rest is None:
        return files

    def matches(file: DataFile) -> bool:
        return may_match(rest, file_ranges(file, file_schemas[file.schema_id], schema.fields))

    if _is_read_file_by_file(files, schema) or is_one_level(files):
        return [file for file in files if matches(file) and _index_allows(file, rest, schema, file_schemas)]
    key_part = only_columns(rest, schema.trimmed_primary_keys)
    if key_part is not None:
        keys = schema.key_fields
        files = [file for file in files if may_match(key_part, key_ranges(file, file_schemas[file.schema_id], keys))]
    if schema.table_options.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        # A merged row is made of several: what comes out, none of the files need hold.
        return files
    # A merged row is a row of one of the files: a value that none of them holds cannot come out.
    return files if any(matches(file) for file in files) else ()


def _index_allows(
    file: DataFile, rest: Predicate, schema: TableSchema, file_schemas: Mapping[int, TableSchema]
) -> bool:
    """Return whether the index in the file's entry, if there is one, leaves any row. Others are asked by the read."""
    if file.embedded_index is None or not schema.table_options.file_index_read:
        return True
    index = embedded_index(file.embedded_index, file)
    rows = matching_rows(rest, index, file, file_schemas[file.schema_id], schema.fields)
    return rows is None or bool(rows)


def _groups(files: Sequence[DataFile], schema: TableSchema) -> list[FileGroup]:
    options = schema.table_options
    sizes = {"target_bytes": options.split_target_bytes, "open_cost_bytes": options.split_open_cost_bytes}
    if schema.is_append:
        return append_groups(files, **sizes)
    if _is_read_file_by_file(files, schema):
        return raw_groups(files, **sizes)
    return key_groups(files, [each.type for each in schema.key_fields], **sizes)


def _is_read_file_by_file(files: Sequence[DataFile], schema: TableSchema) -> bool:
    """Return whether the rows of each file that are not marked as deleted are the answer, whatever other files hold."""
    options = schema.table_options
    looks_up = options.deletion_vectors.enabled or options.merge_engine is MergeEngine.FIRST_ROW
    return schema.is_append or (looks_up and holds_keys_once(files))
