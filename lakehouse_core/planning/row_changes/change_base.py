"""Change base: what a row change begins with, and what follows from it for its tasks and its commit.

Source: docs/semantics/row-changes.md#base, docs/semantics/row-changes.md#conflicts.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lakehouse_core.format.avro_columns import Flags
from lakehouse_core.options import MergeEngine
from lakehouse_core.planning.commit.index_files import indexes_by_bucket
from lakehouse_core.planning.row_changes.methods import Method
from lakehouse_core.planning.row_changes.statements import Statement
from lakehouse_core.table.bucketing import has_buckets, has_hash_index
from lakehouse_core.table.commit_message import CommitMessage
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.manifest import (
    DELETION_VECTORS,
    EntryColumns,
    IndexManifestEntry,
    ManifestEntry,
    bucket_rows,
)
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot
from lakehouse_core.table.split import Split

# The serialized partition, and the bucket.
_Place: TypeAlias = tuple[bytes, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBase:
    """What a statement begins with. `snapshot` None: the table is empty.

    `splits`: what its tasks read, with the files that may hold matching rows. `files`: the live files of the partitions
    that it removes, for the method PARTITIONS; `indexes` are then those of these partitions alone. `rest`: the
    condition on rows that is left to test. `next_numbers`: the next sequence number of each bucket of the splits for
    which no rows wait. `writer`: of the rows of the statement that wait behind others. Java moves those of one writer
    in the order of their files.
    """

    schema: TableSchema
    statement: Statement
    method: Method
    snapshot: Snapshot | None
    rest: Predicate | None = None
    splits: Sequence[Split] = ()
    files: Sequence[ManifestEntry] = ()
    indexes: Sequence[IndexManifestEntry] = ()
    file_schemas: Mapping[int, TableSchema] = field(default_factory=dict)
    next_numbers: Mapping[_Place, int] = field(default_factory=dict)
    writer: str = ""


def whole_buckets(
    splits: Sequence[Split], entries: EntryColumns, live: Flags, deletions: Mapping[str, DeletionFile]
) -> tuple[Split, ...]:
    """Return one split with all live files for each bucket of the splits."""
    found: dict[_Place, Split] = {}
    for split in splits:
        found.setdefault((split.partition, split.bucket), split)
    whole = []
    for bucket in bucket_rows(entries):
        one = found.get((bucket.partition, bucket.bucket))
        if one is not None:
            rows = bucket.rows[live[bucket.rows]]
            files = tuple(entry.file for entry in entries.take(rows).entries())
            marked = {file.file_name: deletions[file.file_name] for file in files if file.file_name in deletions}
            whole.append(replace(one, files=files, raw=False, deletions=marked))
    return tuple(whole)


def next_numbers(entries: EntryColumns, live: Flags, places: Collection[_Place]) -> dict[_Place, int]:
    """Return the first sequence number above those of all live files, for each of these buckets that has some."""
    numbers = {}
    for bucket in bucket_rows(entries):
        place = (bucket.partition, bucket.bucket)
        if place in places:
            rows = bucket.rows[live[bucket.rows]]
            numbers[place] = int(entries.max_sequence_numbers[rows].max()) + 1
    return numbers


def first_number(base: ChangeBase, split: Split) -> int:
    """Return the sequence number of the first row that the task of a split writes."""
    # Without buckets every writer numbers from 0; rows that wait get their numbers later.
    if split.waiting or not has_buckets(base.schema.bucketing):
        return 0
    return base.next_numbers[split.partition, split.bucket]


def removals(base: ChangeBase) -> Sequence[CommitMessage]:
    """Return the removal of all files of the partitions, with their deletion vectors and hash indexes."""
    if not base.files:
        return ()
    files = defaultdict(list)
    for entry in base.files:
        files[entry.partition, entry.bucket, entry.total_buckets].append(entry.file)
    indexes = indexes_by_bucket(base.indexes)
    messages = [
        CommitMessage(
            partition=partition,
            bucket=bucket,
            total_buckets=total_buckets,
            deleted_files=tuple(found),
            deleted_index_files=indexes.pop((partition, bucket), ()),
        )
        for (partition, bucket, total_buckets), found in files.items()
    ]
    # A bucket that was compacted to nothing still has its hash index.
    total_buckets = base.files[0].total_buckets
    messages += [
        CommitMessage(partition=partition, bucket=bucket, total_buckets=total_buckets, deleted_index_files=found)
        for (partition, bucket), found in indexes.items()
    ]
    return messages


def removed_row_count(base: ChangeBase) -> int | None:
    """Return the number of rows in the removed files of an append table; None for a key table, whose files hold
    versions of rows.
    """
    if not base.schema.is_append:
        return None
    names = {entry.file.file_name for entry in base.files}
    marked = [
        vector.cardinality
        for index in base.indexes
        if index.index_type == DELETION_VECTORS
        for vector in index.deletion_vectors or ()
        if vector.data_file_name in names
    ]
    if None in marked:
        return None
    return sum(entry.file.row_count for entry in base.files) - sum(count for count in marked if count is not None)


def hides_rows(schema: TableSchema) -> bool:
    """Return whether a row that is deleted may have kept out another one, which was added since the base."""
    return not schema.is_append and schema.table_options.merge_engine is MergeEngine.FIRST_ROW


def replaces_buckets(base: ChangeBase) -> bool:
    """Return whether no other commit may have changed a bucket that the statement changes: it replaces all of its
    files, or removes its hash index, by which other writers meanwhile place their keys.
    """
    removes_indexes = base.method is Method.PARTITIONS and has_hash_index(base.schema.bucketing)
    return base.method is Method.BUCKETS or removes_indexes
