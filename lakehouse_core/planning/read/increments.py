"""Splits of an increment: one file as it was written, or a bucket before and after.

Source: docs/semantics/reading.md#increments.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.planning.partitions import partition_name
from lakehouse_core.planning.readable import NOTHING_DELETED, check_file
from lakehouse_core.table.bucketing import Dynamic, Fixed, Postpone, Unaware
from lakehouse_core.table.data_layout import partition_folder
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.manifest import ManifestEntry
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split


def file_split(entry: ManifestEntry, schema: TableSchema, *, snapshot_id: int) -> Split:
    """Return the split of one file whose rows are read as written, also of rows that waited for their buckets then.

    Raises UnsupportedFeature for unsupported files.
    """
    check_file(entry.file, entry.bucket, may_wait=True)
    return Split(
        snapshot_id=snapshot_id,
        partition=entry.partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        folder=_folder(entry, schema),
        files=(entry.file,),
        raw=True,
    )


def diff_splits(
    before: Iterable[ManifestEntry],
    after: Iterable[ManifestEntry],
    schema: TableSchema,
    *,
    snapshot_id: int,
    deletions_before: Mapping[str, DeletionFile] = NOTHING_DELETED,
    deletions_after: Mapping[str, DeletionFile] = NOTHING_DELETED,
) -> list[Split]:
    """Return a split for each bucket whose files differ; `before` and `after` are the live files of two snapshots.

    Rows of an append table have no key to compare, so only added files are read. The splits have the deletion vectors
    of both snapshots, but a file with only another vector counts as the same file. Raises InvalidRequest if the bucket
    count of a partition changed, UnsupportedFeature for unsupported files.
    """
    old, new = _by_bucket(before), _by_bucket(after)
    _check_same_buckets(old, new, schema)
    splits = []
    for key in {**new, **old}:
        olds, news = old.get(key, {}), new.get(key, {})
        gone = [entry for name, entry in olds.items() if name not in news]
        came = [entry for name, entry in news.items() if name not in olds]
        if not came and (schema.is_append or not gone):
            continue
        for entry in (*gone, *came):
            check_file(entry.file, entry.bucket)
        some = (came or gone)[0]
        splits.append(
            Split(
                snapshot_id=snapshot_id,
                partition=some.partition,
                bucket=some.bucket,
                total_buckets=some.total_buckets,
                folder=_folder(some, schema),
                files=tuple(entry.file for entry in came),
                raw=schema.is_append,
                before=None if schema.is_append else tuple(entry.file for entry in gone),
                deletions=_of(came, deletions_after),
                deletions_before=_of(gone, deletions_before),
            )
        )
    return splits


def _of(entries: Iterable[ManifestEntry], deletions: Mapping[str, DeletionFile]) -> dict[str, DeletionFile]:
    names = (entry.file.file_name for entry in entries)
    return {name: deletions[name] for name in names if name in deletions}


# A file with another level counts as another file.
_Files = dict[tuple[str, int], ManifestEntry]


def _by_bucket(entries: Iterable[ManifestEntry]) -> dict[tuple[bytes, int], _Files]:
    buckets: dict[tuple[bytes, int], _Files] = {}
    for entry in entries:
        files = buckets.setdefault((entry.partition, entry.bucket), {})
        files[entry.file.file_name, entry.file.level] = entry
    return buckets


def _check_same_buckets(
    old: Mapping[tuple[bytes, int], _Files], new: Mapping[tuple[bytes, int], _Files], schema: TableSchema
) -> None:
    match schema.bucketing:
        case Unaware() | Dynamic():
            return
        case Fixed() | Postpone():
            before, after = _bucket_counts(old.values()), _bucket_counts(new.values())
        case _:
            assert_never(schema.bucketing)
    for partition in sorted(before.keys() & after.keys()):
        if before[partition] != after[partition]:
            what = f"partition {partition_name(partition, schema)}" if schema.partition_keys else "the table"
            raise InvalidRequest(
                f"A diff compares bucket by bucket, and {what} had {before[partition]} buckets and has "
                f"{after[partition]} now. Read both states instead, or a range in which that did not change."
            )


def _bucket_counts(buckets: Iterable[_Files]) -> dict[bytes, int]:
    return {entry.partition: entry.total_buckets for files in buckets for entry in files.values()}


def _folder(entry: ManifestEntry, schema: TableSchema) -> str:
    types = [each.type for each in schema.partition_fields]
    return partition_folder(schema, deserialize_row(entry.partition, types), entry.bucket)
