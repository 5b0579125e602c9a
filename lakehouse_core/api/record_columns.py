"""Record columns: the columns of records as tables, and the columns that people are shown.

Rule: a column has the name of the record's attribute.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakehouse_core.format.data_types import type_to_sql
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot

Columns: TypeAlias = Mapping[str, tuple[pa.DataType, Callable[[Any], Any]]]


def _properties(snapshot: Snapshot) -> dict[str, str]:
    return dict(snapshot.properties)


def _options(schema: TableSchema) -> dict[str, str]:
    return dict(schema.options)


def _fields(schema: TableSchema) -> list[dict[str, Any]]:
    return [{"id": field.id, "name": field.name, "type": type_to_sql(field.type)} for field in schema.fields]


def _attributes(**kinds: pa.DataType) -> dict[str, tuple[pa.DataType, Callable[[Any], Any]]]:
    return {name: (kind, attrgetter(name)) for name, kind in kinds.items()}


_LONG: Final = pa.int64()
_TEXT: Final = pa.string()
_TEXTS: Final = pa.list_(_TEXT)
_TEXT_BY_NAME: Final = pa.map_(_TEXT, _TEXT)

SNAPSHOT_COLUMNS: Final[Columns] = {
    **_attributes(id=_LONG, schema_id=_LONG, commit_user=_TEXT, commit_identifier=_LONG),
    "commit_kind": (_TEXT, attrgetter("commit_kind.value")),
    **_attributes(
        time_millis=_LONG,
        total_record_count=_LONG,
        delta_record_count=_LONG,
        changelog_record_count=_LONG,
        watermark=_LONG,
        base_manifest_list=_TEXT,
        delta_manifest_list=_TEXT,
        changelog_manifest_list=_TEXT,
        index_manifest=_TEXT,
        statistics=_TEXT,
        run_id=_TEXT,
    ),
    "properties": (_TEXT_BY_NAME, _properties),
}
SCHEMA_COLUMNS: Final[Columns] = {
    "id": (_LONG, attrgetter("id")),
    "fields": (
        pa.list_(pa.struct([("id", pa.int64()), ("name", _TEXT), ("type", _TEXT)])),
        _fields,
    ),
    "partition_keys": (_TEXTS, attrgetter("partition_keys")),
    "primary_keys": (_TEXTS, attrgetter("primary_keys")),
    "options": (_TEXT_BY_NAME, _options),
    **_attributes(comment=_TEXT, time_millis=_LONG),
}
TAG_COLUMNS: Final = _attributes(
    name=_TEXT,
    snapshot_id=_LONG,
    schema_id=_LONG,
    time_millis=_LONG,
    total_record_count=_LONG,
    create_time_millis=_LONG,
    time_retained_millis=_LONG,
)
BRANCH_COLUMNS: Final = _attributes(
    name=_TEXT, snapshot_id=_LONG, schema_id=_LONG, create_time_millis=_LONG, work=_TEXT
)
FILE_COLUMNS: Final = _attributes(
    partition=_TEXT_BY_NAME,
    bucket=_LONG,
    total_buckets=_LONG,
    level=_LONG,
    file_name=_TEXT,
    path=_TEXT,
    file_size=_LONG,
    row_count=_LONG,
    delete_row_count=_LONG,
    schema_id=_LONG,
    min_sequence_number=_LONG,
    max_sequence_number=_LONG,
    creation_time_millis=_LONG,
    file_source=_TEXT,
    min_key=_TEXTS,
    max_key=_TEXTS,
    min_values=_TEXT_BY_NAME,
    max_values=_TEXT_BY_NAME,
    null_counts=pa.map_(_TEXT, _LONG),
    snapshot_id=_LONG,
    run_id=_TEXT,
    source_snapshot_ids=pa.list_(_LONG),
    source_run_ids=_TEXTS,
    is_traced=pa.bool_(),
)
ORIGIN_COLUMNS: Final = _attributes(
    file_name=_TEXT,
    snapshot_id=_LONG,
    commit_kind=_TEXT,
    time_millis=_LONG,
    commit_user=_TEXT,
    commit_identifier=_LONG,
    run_id=_TEXT,
    inputs=_TEXTS,
    note=_TEXT,
)
BUCKET_COLUMNS: Final = _attributes(
    partition=_TEXT_BY_NAME,
    bucket=_LONG,
    file_count=_LONG,
    file_size=_LONG,
    row_count=_LONG,
    small_file_count=_LONG,
    sorted_run_count=_LONG,
    waiting_row_count=_LONG,
)
PARTITION_COLUMNS: Final = _attributes(
    partition=_TEXT_BY_NAME,
    row_count=_LONG,
    file_count=_LONG,
    file_size=_LONG,
    last_update_time_millis=_LONG,
)
COMMITTER_COLUMNS: Final = _attributes(commit_user=_TEXT, commit_identifier=_LONG, snapshot_id=_LONG)
PENDING_COLUMNS: Final = _attributes(
    commit_user=_TEXT,
    commit_identifier=_LONG,
    file_count=_LONG,
    row_count=_LONG,
    size_bytes=_LONG,
    base_snapshot_id=_LONG,
    key=_TEXT,
    reason=_TEXT,
)
MANIFEST_COLUMNS: Final = _attributes(
    file_name=_TEXT,
    list=_TEXT,
    file_size=_LONG,
    num_added_files=_LONG,
    num_deleted_files=_LONG,
    schema_id=_LONG,
    min_partition=_TEXTS,
    max_partition=_TEXTS,
)
SNAPSHOT_BRIEF: Final = (
    "id",
    "commit_kind",
    "time_millis",
    "schema_id",
    "total_record_count",
    "delta_record_count",
    "commit_user",
)
SCHEMA_BRIEF: Final = ("id", "time_millis", "primary_keys", "partition_keys", "fields", "options")
TAG_BRIEF: Final = ("name", "snapshot_id", "time_millis", "total_record_count", "time_retained_millis")
BRANCH_BRIEF: Final = ("name", "snapshot_id", "schema_id", "create_time_millis", "work")
ORIGIN_BRIEF: Final = ("file_name", "snapshot_id", "commit_kind", "time_millis", "run_id", "commit_user", "note")
FILE_BRIEF: Final = ("partition", "bucket", "level", "file_name", "row_count", "file_size", "min_key", "max_key")
BUCKET_BRIEF: Final = (
    "partition",
    "bucket",
    "file_count",
    "file_size",
    "row_count",
    "small_file_count",
    "sorted_run_count",
)
PARTITION_BRIEF: Final = ("partition", "row_count", "file_count", "file_size", "last_update_time_millis")
COMMITTER_BRIEF: Final = ("commit_user", "commit_identifier", "snapshot_id")
PENDING_BRIEF: Final = ("commit_user", "commit_identifier", "file_count", "row_count", "size_bytes", "reason")
MANIFEST_BRIEF: Final = (
    "file_name",
    "list",
    "file_size",
    "num_added_files",
    "num_deleted_files",
    "min_partition",
    "max_partition",
)
