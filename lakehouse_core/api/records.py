"""What a table consists of, as records to look at: snapshots, tags, schemas, files, buckets, manifests, committers.

A list of records is a sequence, and a table by `to_arrow()`; columns are named as the records' attributes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

import pyarrow as pa

from lakehouse_core.api.reports import plain
from lakehouse_core.display import grid, lines
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.data_types import DataField, from_internal, type_to_sql
from lakehouse_core.format.partition_path import partition_spec_text
from lakehouse_core.interchange.arrow_rows import ArrowRows
from lakehouse_core.planning.commit.ledger import Ledger
from lakehouse_core.planning.compaction.health import bucket_figures
from lakehouse_core.planning.partitions import named_values
from lakehouse_core.table.bucket_folders import partition_folder
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.file_stats import file_ranges
from lakehouse_core.table.manifest import ManifestEntry, ManifestFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, Tag
from lakehouse_core.table.stats import decode_stats

T_co = TypeVar("T_co", covariant=True)
Columns: TypeAlias = Mapping[str, tuple[pa.DataType, Callable[[Any], Any]]]


# What fits on a screen.
_MOST_LINES: Final = 5
_MOST_ROWS: Final = 20


class Records(ArrowRows, Sequence[T_co], Generic[T_co]):
    """Records in order; `to_arrow()` gives them as a table, `to_dicts()` as JSON values.

    `brief`: the columns that people are shown, a line for each record.
    """

    def __init__(self, items: Iterable[T_co], columns: Columns, brief: Sequence[str]) -> None:
        self._items = tuple(items)
        self._columns = columns
        self.brief = tuple(brief)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> "Records[T_co]": ...

    def __getitem__(self, index: int | slice) -> "T_co | Records[T_co]":
        return (
            Records(self._items[index], self._columns, self.brief) if isinstance(index, slice) else self._items[index]
        )

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        left_out = max(0, len(self._items) - _MOST_LINES)
        rows = [[plain(self._columns[name][1](item)) for name in self.brief] for item in self._items[:_MOST_LINES]]
        return lines(f"Records of {len(self._items):,}", self.brief, rows, left_out=left_out)

    def _repr_html_(self) -> str:
        rows = [[read(item) for _, read in self._columns.values()] for item in self._items[:_MOST_ROWS]]
        left_out = max(0, len(self._items) - _MOST_ROWS)
        return grid(f"{len(self._items):,} records", list(self._columns), rows, left_out=left_out)

    def schema(self) -> pa.Schema:
        """Return the Arrow schema: a column for each attribute."""
        return pa.schema([pa.field(name, kind) for name, (kind, _) in self._columns.items()])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as one batch, a row for each; none where there are no records."""
        if self._items:
            arrays = [pa.array([read(item) for item in self._items], kind) for kind, read in self._columns.values()]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return each record as a dict of JSON values."""
        return [{name: plain(read(item)) for name, (_, read) in self._columns.items()} for item in self._items]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRecord:
    """A tag. Times are milliseconds; `create_time_millis` is the local clock of who made it, as if UTC."""

    name: str
    snapshot_id: int
    schema_id: int
    time_millis: int
    total_record_count: int | None
    create_time_millis: int | None
    time_retained_millis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """A live data file. `path` is relative to the table; partition, keys and bounds are readable text; `file_size` is
    bytes, `creation_time_millis` milliseconds since 1970.

    Bounds and null counts are there only when asked for; they may be truncated.
    """

    partition: Mapping[str, str | None]
    bucket: int
    total_buckets: int
    level: int
    file_name: str
    path: str
    file_size: int
    row_count: int
    delete_row_count: int | None
    schema_id: int
    min_sequence_number: int
    max_sequence_number: int
    creation_time_millis: int | None
    file_source: str | None
    min_key: tuple[str | None, ...]
    max_key: tuple[str | None, ...]
    min_values: Mapping[str, str] | None = None
    max_values: Mapping[str, str] | None = None
    null_counts: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRecord:
    """What a bucket holds, and whether compaction keeps up with it.

    `small_file_count`: small files that a full compaction would merge. `sorted_run_count` is 0 in append tables.
    """

    partition: Mapping[str, str | None]
    bucket: int
    file_count: int
    file_size: int
    row_count: int
    small_file_count: int
    sorted_run_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """What the files of a partition hold; values are readable text.

    `row_count` is that of the files: of a key table it counts versions of a key that reads merge, too. `file_size` is
    bytes, `last_update_time_millis` the time of the newest file.
    """

    partition: Mapping[str, str | None]
    row_count: int
    file_count: int
    file_size: int
    last_update_time_millis: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitterRecord:
    """Who committed what last: the highest identifier of a user, and the newest snapshot of it."""

    commit_user: str
    commit_identifier: int
    snapshot_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRecord:
    """A manifest of a snapshot: of its base, or of its own delta (`list`).

    `file_size` is bytes; the bounds are readable text, a value for each partition column.
    """

    file_name: str
    list: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    schema_id: int
    min_partition: tuple[str | None, ...]
    max_partition: tuple[str | None, ...]


def snapshot_records(snapshots: Iterable[Snapshot]) -> Records[Snapshot]:
    """Return snapshots as records, in the order given."""
    return Records(snapshots, _SNAPSHOT_COLUMNS, _SNAPSHOT_BRIEF)


def schema_records(schemas: Iterable[TableSchema]) -> Records[TableSchema]:
    return Records(schemas, _SCHEMA_COLUMNS, _SCHEMA_BRIEF)


def tag_records(tags: Mapping[str, Tag]) -> Records[TagRecord]:
    """Return the tags by name."""
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
    return Records(records, _TAG_COLUMNS, _TAG_BRIEF)


def file_records(
    entries: Iterable[ManifestEntry],
    schema: TableSchema,
    *,
    file_schema: Callable[[int], TableSchema],
    stats: bool,
) -> Records[FileRecord]:
    """Return the live files; `file_schema` gives a schema by its id."""
    types = [field.type for field in schema.partition_fields]
    partitions: dict[bytes, tuple[tuple[Any, ...], dict[str, str | None]]] = {}
    records = []
    for entry in entries:
        if entry.partition not in partitions:
            values = deserialize_row(entry.partition, types)
            partitions[entry.partition] = values, named_values(values, schema)
        values, text = partitions[entry.partition]
        folder = partition_folder(schema, values, entry.bucket)
        records.append(_file_record(entry, text, folder, file_schema, stats=stats))
    return Records(records, _FILE_COLUMNS, _FILE_BRIEF)


def bucket_records(entries: Iterable[ManifestEntry], schema: TableSchema) -> Records[BucketRecord]:
    """Return the buckets that hold files, in the order of their first entries."""
    types = [field.type for field in schema.partition_fields]
    buckets: dict[tuple[bytes, int], list[DataFile]] = {}
    for entry in entries:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    records = []
    for (partition, bucket), files in buckets.items():
        figures = bucket_figures(files, schema)
        records.append(
            BucketRecord(
                partition=named_values(deserialize_row(partition, types), schema),
                bucket=bucket,
                file_count=len(files),
                file_size=sum(file.file_size for file in files),
                row_count=sum(file.row_count for file in files),
                small_file_count=figures.small_file_count,
                sorted_run_count=figures.sorted_run_count,
            )
        )
    return Records(records, _BUCKET_COLUMNS, _BUCKET_BRIEF)


def partition_records(entries: Iterable[ManifestEntry], schema: TableSchema) -> Records[PartitionRecord]:
    """Return the partitions that hold files, by their values; a table without partitions has one without values."""
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
    return Records(records, _PARTITION_COLUMNS, _PARTITION_BRIEF)


def committer_records(ledger: Ledger) -> Records[CommitterRecord]:
    """Return who is in the ledger, in the order of their last commits."""
    records = [
        CommitterRecord(commit_user=user, commit_identifier=entry.identifier, snapshot_id=entry.last_snapshot_id)
        for user, entry in ledger.entries.items()
    ]
    return Records(records, _COMMITTER_COLUMNS, _COMMITTER_BRIEF)


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
    return Records(records, _MANIFEST_COLUMNS, _MANIFEST_BRIEF)


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

_SNAPSHOT_COLUMNS: Final[Columns] = {
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
    ),
    "properties": (_TEXT_BY_NAME, _properties),
}
_SCHEMA_COLUMNS: Final[Columns] = {
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
_TAG_COLUMNS: Final = _attributes(
    name=_TEXT,
    snapshot_id=_LONG,
    schema_id=_LONG,
    time_millis=_LONG,
    total_record_count=_LONG,
    create_time_millis=_LONG,
    time_retained_millis=_LONG,
)
_FILE_COLUMNS: Final = _attributes(
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
)
_BUCKET_COLUMNS: Final = _attributes(
    partition=_TEXT_BY_NAME,
    bucket=_LONG,
    file_count=_LONG,
    file_size=_LONG,
    row_count=_LONG,
    small_file_count=_LONG,
    sorted_run_count=_LONG,
)
_PARTITION_COLUMNS: Final = _attributes(
    partition=_TEXT_BY_NAME,
    row_count=_LONG,
    file_count=_LONG,
    file_size=_LONG,
    last_update_time_millis=_LONG,
)
_COMMITTER_COLUMNS: Final = _attributes(commit_user=_TEXT, commit_identifier=_LONG, snapshot_id=_LONG)
_MANIFEST_COLUMNS: Final = _attributes(
    file_name=_TEXT,
    list=_TEXT,
    file_size=_LONG,
    num_added_files=_LONG,
    num_deleted_files=_LONG,
    schema_id=_LONG,
    min_partition=_TEXTS,
    max_partition=_TEXTS,
)
_SNAPSHOT_BRIEF: Final = (
    "id",
    "commit_kind",
    "time_millis",
    "schema_id",
    "total_record_count",
    "delta_record_count",
    "commit_user",
)
_SCHEMA_BRIEF: Final = ("id", "time_millis", "primary_keys", "partition_keys", "fields", "options")
_TAG_BRIEF: Final = ("name", "snapshot_id", "time_millis", "total_record_count", "time_retained_millis")
_FILE_BRIEF: Final = ("partition", "bucket", "level", "file_name", "row_count", "file_size", "min_key", "max_key")
_BUCKET_BRIEF: Final = (
    "partition",
    "bucket",
    "file_count",
    "file_size",
    "row_count",
    "small_file_count",
    "sorted_run_count",
)
_PARTITION_BRIEF: Final = ("partition", "row_count", "file_count", "file_size", "last_update_time_millis")
_COMMITTER_BRIEF: Final = ("commit_user", "commit_identifier", "snapshot_id")
_MANIFEST_BRIEF: Final = (
    "file_name",
    "list",
    "file_size",
    "num_added_files",
    "num_deleted_files",
    "min_partition",
    "max_partition",
)
