"""Rows of the system tables about metadata, as Java shows them.

Rule: a row is a tuple in the order of `SYSTEM_COLUMNS`; times are milliseconds, commit times since 1970 in UTC. Source:
docs/semantics/reading.md#system-tables.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.cast import cast_value
from lakehouse_core.format.data_types import DataField, field_to_json, type_to_sql
from lakehouse_core.format.java_text import array_text, duration_text, map_text, object_text, row_text
from lakehouse_core.format.partition_path import JAVA_BLANKS, partition_spec_text
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.data_layout import partition_folder
from lakehouse_core.table.file_stats import stored_ranges
from lakehouse_core.table.manifest import EntryKind, ManifestEntry, ManifestFile
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, Tag
from lakehouse_core.table.statistics import TableStatistics
from lakehouse_core.table.stats import decode_stats

Row: TypeAlias = tuple[Any, ...]


def snapshot_rows(snapshots: Iterable[Snapshot]) -> Iterator[Row]:
    for one in snapshots:
        yield (
            one.id,
            one.schema_id,
            one.commit_user,
            one.commit_identifier,
            one.commit_kind.value,
            one.time_millis,
            one.base_manifest_list,
            one.delta_manifest_list,
            one.changelog_manifest_list,
            one.total_record_count,
            one.delta_record_count,
            one.changelog_record_count,
            one.watermark,
            one.next_row_id,
            one.operation,
        )


def schema_rows(schemas: Iterable[TableSchema]) -> Iterator[Row]:
    for schema in schemas:
        yield (
            schema.id,
            _json([field_to_json(field) for field in schema.fields]),
            _json(list(schema.partition_keys)),
            _json(list(schema.primary_keys)),
            _json(dict(schema.options)),
            schema.comment,
            schema.time_millis,
        )


def option_rows(schema: TableSchema) -> Iterator[Row]:
    yield from schema.options.items()


def tag_rows(tags: Mapping[str, Tag]) -> Iterator[Row]:
    for name, tag in tags.items():
        retained = tag.tag_time_retained
        yield (
            name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            tag.snapshot.time_millis,
            tag.snapshot.total_record_count,
            tag.create_time_millis,
            None if retained is None else duration_text(retained),
        )


def aggregation_rows(schema: TableSchema) -> Iterator[Row]:
    """Yield a row for each column with every option `fields.<column>.…` that is set, whatever its meaning."""
    set_options: dict[str, list[str]] = {}
    for key in schema.options:
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == "fields":
            set_options.setdefault(parts[1], []).append(key)
    for field in schema.fields:
        keys = set_options.get(field.name, [])
        values = [schema.options[key] for key in keys]
        yield field.name, type_to_sql(field.type), _listed(values), _listed(keys), field.description


def statistics_rows(statistics: TableStatistics | None) -> Iterator[Row]:
    if statistics is not None:
        columns = {
            name: column.model_dump(mode="json", by_alias=True, exclude_none=True)
            for name, column in statistics.col_stats.items()
        }
        # Jackson prints a blank before each colon, too.
        text = json.dumps(columns, ensure_ascii=False, indent=2, separators=(",", " : ")) if columns else "{ }"
        yield (
            statistics.snapshot_id,
            statistics.schema_id,
            statistics.merged_record_count,
            statistics.merged_record_size,
            text,
        )


def manifest_rows(manifests: Iterable[ManifestFile], schema: TableSchema) -> Iterator[Row]:
    types = [field.type for field in schema.partition_fields]
    for manifest in manifests:
        lows, highs, _ = decode_stats(manifest.partition_stats, types)
        yield (
            manifest.file_name,
            manifest.file_size,
            manifest.num_added_files,
            manifest.num_deleted_files,
            manifest.schema_id,
            row_text(lows, types),
            row_text(highs, types),
            manifest.min_row_id,
            manifest.max_row_id,
        )


def file_rows(
    entries: Iterable[ManifestEntry],
    schema: TableSchema,
    *,
    file_schema: Callable[[int], TableSchema],
    path_of: Callable[[str], str],
) -> Iterator[Row]:
    """Yield the live files; `path_of` turns a key inside the table into a path."""
    types = [field.type for field in schema.partition_fields]
    for entry in entries:
        file, written = entry.file, file_schema(entry.file.schema_id)
        partition = deserialize_row(entry.partition, types)
        nulls, lows, highs = _stats_texts(file, written, schema)
        yield (
            row_text(partition, types),
            entry.bucket,
            file.external_path or path_of(f"{partition_folder(schema, partition, entry.bucket)}/{file.file_name}"),
            file.file_name.rpartition(".")[2],
            file.schema_id,
            file.level,
            file.row_count,
            file.file_size,
            _key_text(file.min_key, written.key_fields),
            _key_text(file.max_key, written.key_fields),
            map_text(nulls),
            map_text(lows),
            map_text(highs),
            file.min_sequence_number,
            file.max_sequence_number,
            file.creation_time_millis,
            file.delete_row_count,
            None if file.file_source is None else file.file_source.name,
            file.first_row_id,
            None if file.write_cols is None else list(file.write_cols),
        )


def partition_rows(entries: Iterable[ManifestEntry], schema: TableSchema, *, deleted: Mapping[bytes, int]) -> list[Row]:
    """Return the partitions that hold files, sorted by their text.

    `entries` are those of all manifests of a state, including entries that cancel each other. `deleted` counts the rows
    that deletion vectors mark, by partition.
    """
    types = [field.type for field in schema.partition_fields]
    default = schema.table_options.partition_default_name
    rows = []
    for (partition, _), figures in _figures(entries, by_bucket=False).items():
        values = deserialize_row(partition, types)
        texts = partition_spec_text(schema.partition_keys, types, values, default_name=default)
        # A blank text shares the folder of null, and Java reads it back from there.
        text = "/".join(f"{name}={value if value.strip(JAVA_BLANKS) else default}" for name, value in texts.items())
        total_buckets, *told = figures
        rows.append((text, *told, None, None, None, None, total_buckets, False, deleted.get(partition, 0)))
    return sorted(rows, key=lambda row: str(row[0]).encode())


def bucket_rows(entries: Iterable[ManifestEntry], schema: TableSchema) -> list[Row]:
    """Return the buckets that hold files, sorted by partition text and number; `entries` as above."""
    types = [field.type for field in schema.partition_fields]
    rows = []
    for (partition, bucket), (_, *told) in _figures(entries, by_bucket=True).items():
        rows.append((row_text(deserialize_row(partition, types), types), bucket, *told))
    return sorted(rows, key=lambda row: (str(row[0]).encode(), row[1]))


def _figures(entries: Iterable[ManifestEntry], *, by_bucket: bool) -> dict[tuple[bytes, int], list[Any]]:
    """Return, by partition and bucket: total buckets, rows, bytes, files and the time of the newest file in any
    entry.
    """
    found: dict[tuple[bytes, int], list[Any]] = {}
    for entry in entries:
        file, sign = entry.file, 1 if entry.kind is EntryKind.ADD else -1
        figures = found.setdefault((entry.partition, entry.bucket if by_bucket else 0), [0, 0, 0, 0, None])
        figures[0] = entry.total_buckets
        figures[1] += sign * file.row_count
        figures[2] += sign * file.file_size
        figures[3] += sign
        times = [time for time in (figures[4], file.creation_time_millis) if time is not None]
        figures[4] = max(times, default=None)
    return {key: figures for key, figures in found.items() if figures[_FILE_COUNT] > 0}


_FILE_COUNT: Final = 3


def _stats_texts(
    file: DataFile, written: TableSchema, schema: TableSchema
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return null counts, minima and maxima of the table's columns as text; `null` is what is not known."""
    known, by_id = stored_ranges(file, written), {field.id: field for field in written.fields}
    nulls, lows, highs = {}, {}, {}
    for field in schema.fields:
        source = by_id.get(field.id)
        if source is None:
            nulls[field.name], lows[field.name], highs[field.name] = str(file.row_count), "null", "null"
            continue
        found = known.get(source.name)
        nulls[field.name] = "null" if found is None or found.null_count is None else str(found.null_count)
        lows[field.name] = "null" if found is None else _cast_text(found.minimum, source, field)
        highs[field.name] = "null" if found is None else _cast_text(found.maximum, source, field)
    return nulls, lows, highs


def _cast_text(value: Any, source: DataField, target: DataField) -> str:
    if value is None or source.type == target.type:
        return object_text(value, source.type)
    try:
        return object_text(cast_value(value, source.type, target.type), target.type)
    except UnsupportedFeature:
        return object_text(value, source.type)


def _key_text(key: bytes, fields: Sequence[DataField]) -> str | None:
    if not fields:
        return None
    types = [field.type for field in fields]
    return array_text(deserialize_row(key, types), types)


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(texts)}]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
