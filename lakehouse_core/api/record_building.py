"""Record building: turn the metadata of a table into the records that users see."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakehouse_core.api.record_columns import (
    BRANCH_BRIEF,
    BRANCH_COLUMNS,
    BUCKET_BRIEF,
    BUCKET_COLUMNS,
    COMMITTER_BRIEF,
    COMMITTER_COLUMNS,
    FILE_BRIEF,
    FILE_COLUMNS,
    MANIFEST_BRIEF,
    MANIFEST_COLUMNS,
    ORIGIN_BRIEF,
    ORIGIN_COLUMNS,
    PARTITION_BRIEF,
    PARTITION_COLUMNS,
    PENDING_BRIEF,
    PENDING_COLUMNS,
    SCHEMA_BRIEF,
    SCHEMA_COLUMNS,
    SNAPSHOT_BRIEF,
    SNAPSHOT_COLUMNS,
    TAG_BRIEF,
    TAG_COLUMNS,
)
from lakehouse_core.api.records import (
    BranchRecord,
    BucketRecord,
    CommitterRecord,
    FileOrigin,
    FileRecord,
    ManifestRecord,
    PartitionRecord,
    PendingRecord,
    Records,
    TagRecord,
)
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.branches.closing import ListedBranch
from lakehouse_core.execution.read.lineage import KnownLineage
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataField, from_internal
from lakehouse_core.format.partition_path import partition_spec_text
from lakehouse_core.metadata.staged_commits import Kept
from lakehouse_core.planning.commit.ledger import Ledger
from lakehouse_core.planning.compaction.health import BucketHealth, bucket_figures
from lakehouse_core.planning.lineage import Origin
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import partition_folder
from lakehouse_core.table.file_stats import file_ranges
from lakehouse_core.table.manifest import ManifestEntry, ManifestFile
from lakehouse_core.table.partition_time import skipped_by_compaction
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, Tag
from lakehouse_core.table.stats import decode_stats


def snapshot_records(snapshots: Iterable[Snapshot]) -> Records[Snapshot]:
    """Return snapshots as records, in the given order."""
    return Records(snapshots, SNAPSHOT_COLUMNS, SNAPSHOT_BRIEF)


def schema_records(schemas: Iterable[TableSchema]) -> Records[TableSchema]:
    return Records(schemas, SCHEMA_COLUMNS, SCHEMA_BRIEF)


def branch_records(branches: Iterable[ListedBranch]) -> Records[BranchRecord]:
    """Return the branches, in their order."""
    records = [
        BranchRecord(
            name=branch.name,
            snapshot_id=branch.snapshot_id,
            schema_id=branch.schema_id,
            create_time_millis=branch.create_time_millis,
            work=None if branch.work is None else branch.work.value,
        )
        for branch in branches
    ]
    return Records(records, BRANCH_COLUMNS, BRANCH_BRIEF)


def tag_records(tags: Mapping[str, Tag]) -> Records[TagRecord]:
    """Return the tags, sorted by name."""
    records = [
        TagRecord(
            name=name,
            snapshot_id=tag.snapshot.id,
            schema_id=tag.snapshot.schema_id,
            time_millis=tag.snapshot.time_millis,
            total_record_count=tag.snapshot.total_record_count,
            create_time_millis=tag.create_time_millis,
            time_retained_millis=tag.time_retained_millis,
        )
        for name, tag in tags.items()
    ]
    return Records(records, TAG_COLUMNS, TAG_BRIEF)


def file_records(
    entries: Iterable[ManifestEntry],
    schema: TableSchema,
    *,
    file_schema: Callable[[int], TableSchema],
    stats: bool,
    known: KnownLineage | None = None,
) -> Records[FileRecord]:
    """Return the live files, with their lineage if it is given; `file_schema` returns a schema by its id."""
    types = [field.type for field in schema.partition_fields]
    partitions: dict[bytes, tuple[tuple[Any, ...], dict[str, str | None]]] = {}
    records = []
    for entry in entries:
        if entry.partition not in partitions:
            values = deserialize_row(entry.partition, types)
            partitions[entry.partition] = values, named_values(values, schema)
        values, text = partitions[entry.partition]
        folder = partition_folder(schema, values, entry.bucket)
        record = _file_record(entry, text, folder, file_schema, stats=stats)
        records.append(record if known is None else replace(record, **file_lineage(known, record.file_name)))
    return Records(records, FILE_COLUMNS, FILE_BRIEF)


def file_lineage(known: KnownLineage, file_name: str) -> dict[str, Any]:
    """Return the fields of a file record that tell of its lineage."""
    origin = known.lineage.origin(file_name)
    made = None if origin.snapshot_id is None else known.snapshots[origin.snapshot_id]
    runs = (known.snapshots[snapshot_id].run_id for snapshot_id in origin.source_ids)
    return {
        "snapshot_id": origin.snapshot_id,
        "run_id": None if made is None else made.run_id,
        "source_snapshot_ids": origin.source_ids,
        "source_run_ids": tuple(dict.fromkeys(run for run in runs if run is not None)),
        "is_traced": not origin.lost,
    }


def origin_records(origins: Iterable[Origin], known: KnownLineage) -> Records[FileOrigin]:
    """Return files with the snapshots that made them, in the given order."""
    return Records((_origin_record(origin, known) for origin in origins), ORIGIN_COLUMNS, ORIGIN_BRIEF)


def bucket_records(
    entries: Iterable[ManifestEntry], schema: TableSchema, *, local_now_millis: int
) -> Records[BucketRecord]:
    """Return the buckets that hold files, in the order of their first entries."""
    skipped = skipped_by_compaction(schema, local_now_millis=local_now_millis)
    types = [field.type for field in schema.partition_fields]
    buckets: dict[tuple[bytes, int], list[DataFile]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    records = []
    for (partition, bucket), files in buckets.items():
        values = deserialize_row(partition, types)
        is_skipped = skipped is not None and skipped.is_expired(values)
        figures = BucketHealth() if is_skipped else bucket_figures(files, schema, bucket=bucket)
        records.append(
            BucketRecord(
                partition=named_values(values, schema),
                bucket=bucket,
                file_count=len(files),
                file_size=sum(file.file_size for file in files),
                row_count=sum(file.row_count for file in files),
                small_file_count=figures.small_file_count,
                sorted_run_count=figures.sorted_run_count,
                waiting_row_count=figures.waiting_row_count,
            )
        )
    return Records(records, BUCKET_COLUMNS, BUCKET_BRIEF)


def partition_records(entries: Iterable[ManifestEntry], schema: TableSchema) -> Records[PartitionRecord]:
    """Return the partitions that hold files, sorted by their values.

    A table without partitions has one, without values.
    """
    partitions: dict[bytes, list[DataFile]] = {}
    for entry in entries:
        partitions.setdefault(entry.partition, []).append(entry.file)
    types = [field.type for field in schema.partition_fields]
    by_values = [(deserialize_row(partition, types), files) for partition, files in partitions.items()]
    records = [
        PartitionRecord(
            partition=named_values(values, schema),
            row_count=sum(file.row_count for file in files),
            file_count=len(files),
            file_size=sum(file.file_size for file in files),
            last_update_time_millis=max((file.creation_time_millis or 0 for file in files), default=0) or None,
        )
        for values, files in sorted(by_values, key=lambda found: [(value is not None, value) for value in found[0]])
    ]
    return Records(records, PARTITION_COLUMNS, PARTITION_BRIEF)


def committer_records(ledger: Ledger) -> Records[CommitterRecord]:
    """Return the commit users of the ledger, in the order of their last commits."""
    records = [
        CommitterRecord(commit_user=user, commit_identifier=entry.identifier, snapshot_id=entry.last_snapshot_id)
        for user, entry in ledger.entries.items()
    ]
    return Records(records, COMMITTER_COLUMNS, COMMITTER_BRIEF)


def pending_records(kept: Iterable[tuple[Kept, str | None]]) -> Records[PendingRecord]:
    """Return the kept commits, each with the reason why it cannot be committed."""
    return Records([_pending(each, reason) for each, reason in kept], PENDING_COLUMNS, PENDING_BRIEF)


def _pending(kept: Kept, reason: str | None) -> PendingRecord:
    staged = kept.staged
    files = None if staged is None else [file for message in staged.messages for file in message.new_files]
    return PendingRecord(
        commit_user=kept.commit_user,
        commit_identifier=kept.commit_identifier,
        file_count=None if files is None else len(files),
        row_count=None if files is None else sum(file.row_count for file in files),
        size_bytes=None if files is None else sum(file.file_size for file in files),
        base_snapshot_id=None if staged is None else staged.base_snapshot_id,
        key=kept.key,
        reason=reason,
    )


def manifest_records(
    base: Iterable[ManifestFile], delta: Iterable[ManifestFile], schema: TableSchema
) -> Records[ManifestRecord]:
    """Return the manifests of a snapshot, base before delta."""
    fields_ = schema.partition_fields
    records = []
    for origin, manifests in (("base", base), ("delta", delta)):
        for manifest in manifests:
            lows, highs, _ = decode_stats(manifest.partition_stats, [field.type for field in fields_])
            records.append(
                ManifestRecord(
                    file_name=manifest.file_name,
                    list=origin,
                    file_size=manifest.file_size,
                    num_added_files=manifest.num_added_files,
                    num_deleted_files=manifest.num_deleted_files,
                    schema_id=manifest.schema_id,
                    min_partition=_texts(lows, fields_),
                    max_partition=_texts(highs, fields_),
                )
            )
    return Records(records, MANIFEST_COLUMNS, MANIFEST_BRIEF)


def _file_record(
    entry: ManifestEntry,
    partition: Mapping[str, str | None],
    folder: str,
    file_schema: Callable[[int], TableSchema],
    *,
    stats: bool,
) -> FileRecord:
    file = entry.file
    schema = file_schema(file.schema_id)
    key_types = [field.type for field in schema.key_fields]
    bounds = _bounds(file, schema) if stats else (None, None, None)
    return FileRecord(
        partition=partition,
        bucket=entry.bucket,
        total_buckets=entry.total_buckets,
        level=file.level,
        file_name=file.file_name,
        path=file.external_path or f"{folder}/{file.file_name}",
        file_size=file.file_size,
        row_count=file.row_count,
        delete_row_count=file.delete_row_count,
        schema_id=file.schema_id,
        min_sequence_number=file.min_sequence_number,
        max_sequence_number=file.max_sequence_number,
        creation_time_millis=file.creation_time_millis,
        file_source=None if file.file_source is None else file.file_source.name,
        min_key=_texts(deserialize_row(file.min_key, key_types), schema.key_fields),
        max_key=_texts(deserialize_row(file.max_key, key_types), schema.key_fields),
        min_values=bounds[0],
        max_values=bounds[1],
        null_counts=bounds[2],
    )


def _bounds(file: DataFile, schema: TableSchema) -> tuple[dict[str, str], dict[str, str], dict[str, int]]:
    ranges = file_ranges(file, schema, schema.fields)
    lows = {name: _text(each.minimum, schema.field(name)) for name, each in ranges.items()}
    highs = {name: _text(each.maximum, schema.field(name)) for name, each in ranges.items()}
    return (
        {name: text for name, text in lows.items() if text is not None},
        {name: text for name, text in highs.items() if text is not None},
        {name: each.null_count for name, each in ranges.items() if each.null_count is not None},
    )


def _texts(values: Iterable[Any], fields_: Iterable[DataField]) -> tuple[str | None, ...]:
    return tuple(_text(value, field) for value, field in zip(values, fields_, strict=False))


def _text(value: Any, field: DataField) -> str | None:
    if value is None:
        return None
    try:
        return str(from_internal(value, field.type))
    except InvalidRequest:
        # Python has no such time: a year beyond 9999, or nanoseconds.
        return partition_spec_text([field.name], [field.type], [value], default_name="")[field.name]


def _origin_record(origin: Origin, known: KnownLineage) -> FileOrigin:
    made = None if origin.snapshot_id is None else known.snapshots[origin.snapshot_id]
    earliest = "" if known.earliest_id is None else f"; the earliest retained one is {known.earliest_id}"
    return FileOrigin(
        file_name=origin.file_name,
        snapshot_id=origin.snapshot_id,
        commit_kind=None if made is None else made.commit_kind.value,
        time_millis=None if made is None else made.time_millis,
        commit_user=None if made is None else made.commit_user,
        commit_identifier=None if made is None else made.commit_identifier,
        run_id=None if made is None else made.run_id,
        inputs=origin.inputs,
        note="" if made is not None else f"made by an expired snapshot{earliest}",
    )
