"""Splits of a bucket: choose the files that a condition needs, and group those that are read together.

Conditions on values of a key table hold after the merge only: they can leave out a whole bucket, and conditions on keys
a single file. If compactions keep each key once, level 0 is not read and the other files are treated as in an append
table. A bucket whose rows wait elsewhere is one split.
Source: docs/semantics/reading.md#batch-scan, docs/semantics/reading.md#splits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

import numpy as np

from lakehouse_core.format.avro_columns import Longs
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.bucket_count import new_bucket_count
from lakehouse_core.planning.read.packing import (
    FileGroup,
    append_groups,
    holds_keys_once,
    is_one_level,
    key_groups,
    raw_groups,
)
from lakehouse_core.planning.read.scope import ScanScope
from lakehouse_core.table.bucketing import is_placed
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import partition_folder
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.file_index import embedded_index, matching_rows
from lakehouse_core.table.file_stats import file_ranges, key_ranges
from lakehouse_core.table.manifest import BucketRows, EntryColumns, ManifestEntry
from lakehouse_core.table.predicate import Predicate, may_match, only_columns
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split
from lakehouse_core.table.waiting_files import in_order


@dataclass(frozen=True, slots=True)
class MergedPartition:
    """The files of a partition's rows that wait for their buckets, and those of its buckets."""

    waiting: BucketRows
    buckets: tuple[BucketRows, ...]


def merged_partitions(buckets: Iterable[BucketRows]) -> tuple[list[MergedPartition], list[BucketRows]]:
    """Return the partitions with waiting rows, and the buckets of the others."""
    of_partition: dict[bytes, list[BucketRows]] = {}
    for bucket in buckets:
        of_partition.setdefault(bucket.partition, []).append(bucket)
    merged, plain = [], []
    for own in of_partition.values():
        waiting = [bucket for bucket in own if not is_placed(bucket.bucket)]
        if waiting:
            merged.append(MergedPartition(waiting[0], tuple(bucket for bucket in own if is_placed(bucket.bucket))))
        else:
            plain += own
    return merged, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFiles:
    """Live files as columns, by bucket; `splits` makes splits of all files except those that `scope` leaves out.

    `merged`: the partitions whose waiting rows are merged with those of their buckets, which `buckets` lacks.
    """

    entries: EntryColumns
    buckets: tuple[BucketRows, ...]
    merged: tuple[MergedPartition, ...] = ()
    scope: ScanScope
    snapshot_id: int
    file_schemas: Mapping[int, TableSchema]
    deletions: Mapping[str, DeletionFile]

    @property
    def rows(self) -> Longs:
        """The files as rows of the columns."""
        merged = (bucket for each in self.merged for bucket in (*each.buckets, each.waiting))
        return np.concatenate([np.empty(0, np.int64), *(bucket.rows for bucket in chain(self.buckets, merged))])

    @property
    def are_all_read(self) -> bool:
        """Whether every file belongs to a split, so that no statistics are needed."""
        return not self.scope.needs_statistics

    def splits(self) -> Iterator[Split]:
        """Make the splits one by one, in manifest order of their buckets; last those of partitions with waiting rows,
        each partition by itself.
        """
        for bucket, entries in _files_of(self.entries, self.buckets):
            yield from _bucket_splits(self, bucket, entries)
        for partition in self.merged:
            yield from _merged_splits(self, partition)


# File objects are made of this many column rows at a time; one bucket at a time would take a call for each bucket.
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


def _bucket_splits(scanned: ScannedFiles, bucket: BucketRows, entries: Sequence[ManifestEntry]) -> Iterator[Split]:
    schema, deletions = scanned.scope.schema, scanned.deletions
    partition = scanned.scope.partition(bucket.partition)
    assert partition is not None
    files = [entry.file for entry in entries]
    folder = partition_folder(schema, partition.values, bucket.bucket)
    for group in _groups_of(scanned, bucket.bucket, files, partition.rest):
        yield Split(
            snapshot_id=scanned.snapshot_id,
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


def _merged_splits(scanned: ScannedFiles, merged: MergedPartition) -> Iterator[Split]:
    """Yield a split for each bucket that the rows of the partition have, or get from the next compaction, and that may
    have a matching one.
    """
    schema, deletions, partition = scanned.scope.schema, scanned.deletions, merged.waiting.partition
    scope = scanned.scope.partition(partition)
    assert scope is not None
    found = {bucket.bucket: entries for bucket, entries in _files_of(scanned.entries, merged.buckets)}
    (waits,) = (entries for _, entries in _files_of(scanned.entries, [merged.waiting]))
    waiting = tuple(in_order(entry.file for entry in waits))
    counts = [entry.total_buckets for entries in found.values() for entry in entries]
    count = counts[-1] if counts else new_bucket_count(waiting, schema.table_options.postponed_buckets)
    wanted = [bucket for bucket in range(count) if scanned.scope.keeps_bucket(partition, bucket, count, schema)]
    numbers = sorted({*wanted, *found})
    for number, bucket in enumerate(numbers):
        files: Sequence[DataFile] = [entry.file for entry in found.get(bucket, ())]
        if scope.rest is not None:
            # A waiting row may have a value that no file of the bucket holds, but not the key of another row.
            files = _with_keys(files, scope.rest, schema, scanned.file_schemas)
        yield Split(
            snapshot_id=scanned.snapshot_id,
            partition=partition,
            bucket=bucket,
            total_buckets=count,
            folder=partition_folder(schema, scope.values, bucket),
            files=tuple(files),
            raw=False,
            deletions={file.file_name: deletions[file.file_name] for file in files if file.file_name in deletions},
            waiting=waiting,
            waiting_folder=partition_folder(schema, scope.values, merged.waiting.bucket),
            waiting_share=(number, len(numbers)),
        )


def _groups_of(
    scanned: ScannedFiles, bucket: int, files: Sequence[DataFile], rest: Predicate | None
) -> list[FileGroup]:
    schema = scanned.scope.schema
    if not is_placed(bucket):
        # Rows that wait are not in key order, and their files have no statistics.
        options = schema.table_options
        sizes = {"target_bytes": options.split_target_bytes, "open_cost_bytes": options.split_open_cost_bytes}
        return raw_groups(in_order(files), **sizes)
    return _groups(_matching_files(files, rest, schema, scanned.file_schemas), schema)


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
    files = _with_keys(files, rest, schema, file_schemas)
    if schema.table_options.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        # A merged row combines several versions, so its values may be in none of the files.
        return files
    # A merged row is a row of one of the files, so a value that no file holds cannot be in the result.
    return files if any(matches(file) for file in files) else ()


def _with_keys(
    files: Sequence[DataFile], rest: Predicate, schema: TableSchema, file_schemas: Mapping[int, TableSchema]
) -> Sequence[DataFile]:
    """Return the files that may hold a key for which the condition holds."""
    key_part = only_columns(rest, schema.trimmed_primary_keys)
    if key_part is None:
        return files
    keys = schema.key_fields
    return [file for file in files if may_match(key_part, key_ranges(file, file_schemas[file.schema_id], keys))]


def _index_allows(
    file: DataFile, rest: Predicate, schema: TableSchema, file_schemas: Mapping[int, TableSchema]
) -> bool:
    """Return whether rows of the file may match by the index in its manifest entry, if it has one. The read task checks
    index files.
    """
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
    """Return whether each file's rows without marked ones are part of the result, independently of other files."""
    options = schema.table_options
    looks_up = options.deletion_vectors.enabled or options.merge_engine is MergeEngine.FIRST_ROW
    return schema.is_append or (looks_up and holds_keys_once(files))
