"""Scans: which files of a snapshot a condition needs, and in which splits they are read.

Nothing that may match is ever left out; what is kept too much costs time. Values of a key table are judged after its
merge only, so a file of it is left out by its keys, a whole bucket by its values; where compactions keep each key once,
level 0 is not read and the others are judged like those of an append table.
Source: Paimon semantics, "Planning a batch scan" (G.3) and "Split generation" (G.4).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from lakehouse_core.errors import PlanTooLarge
from lakehouse_core.format.avro_columns import Flags, Longs
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.bucket_hash import bucket_of
from lakehouse_core.format.data_types import AtomicType, DataField, DataType, Root, has_same_kind
from lakehouse_core.format.partition_path import partition_path
from lakehouse_core.options import BucketFunction, MergeEngine
from lakehouse_core.planning.readable import NOTHING_DELETED, check_files
from lakehouse_core.planning.splits import (
    FileGroup,
    append_groups,
    holds_keys_once,
    is_one_level,
    key_groups,
    raw_groups,
)
from lakehouse_core.table.data_file import DataFile
from lakehouse_core.table.deletion_file import DeletionFile
from lakehouse_core.table.file_index import embedded_index, matching_rows
from lakehouse_core.table.layout import bucket_folder
from lakehouse_core.table.manifest import BucketRows, EntryColumns, ManifestEntry, ManifestFile, bucket_rows, live_rows
from lakehouse_core.table.predicate import (
    ColumnRange,
    Predicate,
    beyond,
    holds,
    may_match,
    point_values,
    simplify,
    within,
)
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.split import Split
from lakehouse_core.table.stats import decode_stats


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionScope:
    """What a condition means inside one partition.

    `rest`: what is left once the partition's values are put in; None leaves nothing to test. `points`: the values
    that the bucket key may have, None when it is not bounded.
    """

    values: tuple[Any, ...]
    rest: Predicate | None
    points: Sequence[tuple[Any, ...]] | None


class ScanScope:
    """The condition of one scan, asked for manifests, for entries and for files. Answers are kept per partition.

    `only_level`: files of this level alone. `created_from_millis`: files created at this time or later. `every_level`:
    also those that a read of the table's state leaves to the next compaction.
    """

    def __init__(
        self,
        schema: TableSchema,
        predicate: Predicate | None,
        *,
        only_level: int | None = None,
        created_from_millis: int | None = None,
        every_level: bool = False,
    ) -> None:
        self._schema = schema
        self._predicate = predicate
        self._only_level = only_level
        self._created_from_millis = created_from_millis
        self._partition_types = [field.type for field in schema.partition_fields]
        self._bucket_types = [field.type for field in schema.bucket_fields]
        self._partition_part = within(predicate, schema.partition_keys)
        self._row_part = beyond(predicate, schema.partition_keys)
        self._partitions: dict[bytes, PartitionScope | None] = {}
        self._buckets: dict[tuple[bytes, int], frozenset[int] | None] = {}
        self._same_buckets: dict[int, bool] = {}
        self._skips_level_0 = not every_level and not schema.is_append and schema.table_options.skips_level_0

    @property
    def schema(self) -> TableSchema:
        return self._schema

    @property
    def is_everything(self) -> bool:
        """Whether no entry can be left out."""
        is_filtered = self._predicate is not None or self._created_from_millis is not None
        return not is_filtered and self._only_level is None and not self._skips_level_0

    @property
    def first_level(self) -> int:
        """The lowest level that is read."""
        return 1 if self._skips_level_0 else 0

    @property
    def needs_statistics(self) -> bool:
        """Whether files are judged by their statistics: the condition speaks of more than partitions."""
        return self._row_part is not None

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Return whether the manifest may hold an entry of a level that is read, in a partition that is needed."""
        if manifest.max_level is not None and manifest.max_level < self.first_level:
            return False
        if self._partition_part is None:
            return True
        names = self._schema.partition_keys
        lows, highs, nulls = decode_stats(manifest.partition_stats, self._partition_types)
        count = manifest.num_added_files + manifest.num_deleted_files
        ranges = {
            name: ColumnRange(minimum=low, maximum=high, null_count=null, row_count=count)
            for name, low, high, null in zip(names, lows, highs, nulls, strict=True)
        }
        return may_match(self._partition_part, ranges)

    def keeps_entry(self, partition: bytes, bucket: int, level: int) -> bool:
        """Return whether partition and level are read. An entry and the one that undoes it get the same answer."""
        if level < self.first_level or (self._only_level is not None and level != self._only_level):
            return False
        return self._predicate is None or self.partition(partition) is not None

    def keeps_creation_times(self, times: Longs) -> npt.NDArray[np.bool_] | None:
        """Return which files, by the times of their creation, are asked for; None when all are."""
        return None if self._created_from_millis is None else times >= self._created_from_millis

    def keeps_bucket(self, partition: bytes, bucket: int, total_buckets: int, file_schema: TableSchema) -> bool:
        """Return whether a row that matches may lie in the bucket, one of `total_buckets` as its entries say."""
        if total_buckets < 1 or not self._has_same_buckets(file_schema):
            return True
        key = (partition, total_buckets)
        if key not in self._buckets:
            self._buckets[key] = self._possible_buckets(partition, total_buckets)
        possible = self._buckets[key]
        return possible is None or bucket in possible

    def _has_same_buckets(self, file_schema: TableSchema) -> bool:
        """Whether the file's rows went to buckets by columns of the present types; an append table's may change."""
        if file_schema.id not in self._same_buckets:
            types = [each.type for each in file_schema.bucket_fields]
            same = len(types) == len(self._bucket_types)
            self._same_buckets[file_schema.id] = same and all(map(has_same_kind, types, self._bucket_types))
        return self._same_buckets[file_schema.id]

    def partition(self, partition: bytes) -> PartitionScope | None:
        """Return what the condition means in a partition, None when no row of it can match. Raises CorruptTable."""
        if partition not in self._partitions:
            self._partitions[partition] = self._scope(deserialize_row(partition, self._partition_types))
        return self._partitions[partition]

    def _scope(self, values: tuple[Any, ...]) -> PartitionScope | None:
        known = dict(zip(self._schema.partition_keys, values, strict=True))
        # Decided here for good: rows are not tested for it again, so what is unknown of a null partition is a no.
        if not holds(self._partition_part, known):
            return None
        rest = True if self._row_part is None else simplify(self._row_part, known)
        if rest is True:
            return PartitionScope(values=values, rest=None, points=None)
        if rest is None or rest is False:
            return None
        points = point_values(rest, self._schema.bucket_keys) if self._schema.table_options.bucket > 0 else None
        return PartitionScope(values=values, rest=rest, points=points)

    def _possible_buckets(self, partition: bytes, total_buckets: int) -> frozenset[int] | None:
        scope = self.partition(partition)
        if scope is None or scope.points is None:
            return None
        function: BucketFunction = self._schema.table_options.bucket_function
        return frozenset(bucket_of(point, self._bucket_types, total_buckets, function) for point in scope.points)


class Splits(Sequence[Split]):
    """Splits in manifest order of their buckets. Of many files they are made anew each time they are asked for.

    A million files as objects would take more memory than all else; whoever reads them needs one split at a time.
    """

    def __init__(self, make: Callable[[], Iterator[Split]], *, keeps: bool) -> None:
        self._make = make
        self._kept = tuple(make()) if keeps else None
        self._count: int | None = None

    def __iter__(self) -> Iterator[Split]:
        return iter(self._kept) if self._kept is not None else self._make()

    def __len__(self) -> int:
        if self._kept is not None:
            return len(self._kept)
        if self._count is None:
            self._count = sum(1 for _ in self._make())
        return self._count

    @overload
    def __getitem__(self, index: int) -> Split: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Split]: ...

    def __getitem__(self, index: int | slice) -> Split | Sequence[Split]:
        return (self._kept if self._kept is not None else tuple(self))[index]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_kept(self) -> bool:
        """Whether they are at hand, so that to count them costs nothing."""
        return self._kept is not None

    def __repr__(self) -> str:
        return f"Splits({'many' if self._kept is None else len(self._kept)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._kept is None:
            raise PlanTooLarge(
                f"A plan of more than {_MOST_KEPT_FILES:,} files is not pickled: pickle the scan before it is first "
                "used, or read fewer partitions."
            )
        return kept_splits, (self._kept,)


def kept_splits(splits: tuple[Split, ...]) -> Splits:
    """Return splits that are at hand."""
    return Splits(lambda: iter(splits), keeps=True)


# As objects these take 12 MB.
_MOST_KEPT_FILES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFiles:
    """The outcome of planning: the splits, and the schemas of the live files."""

    splits: Splits
    schema_ids: tuple[int, ...]


def plan_splits(
    entries: EntryColumns,
    scope: ScanScope,
    *,
    snapshot_id: int,
    file_schema: Callable[[int], TableSchema],
    deletions: Mapping[str, DeletionFile] = NOTHING_DELETED,
) -> PlannedFiles:
    """Return the splits of the live files among `entries`, which are in commit order, that a scan needs.

    `file_schema` returns the schema by its id; `deletions` is what `deletion_files` tells of the snapshot.
    Raises CorruptTable for entries that cannot be read, UnsupportedFeature for files that would be read wrongly.
    """
    live = live_rows(entries)
    wanted = []
    for bucket in bucket_rows(entries):
        rows = _wanted_rows(entries, bucket, live, scope, file_schema)
        if len(rows):
            wanted.append(replace(bucket, rows=rows))
    if wanted:
        check_files(entries, np.concatenate([bucket.rows for bucket in wanted]))

    def make() -> Iterator[Split]:
        for bucket, files in _files_of(entries, wanted):
            yield from _bucket_splits(
                bucket, files, scope, snapshot_id=snapshot_id, file_schema=file_schema, deletions=deletions
            )

    count = sum(len(bucket.rows) for bucket in wanted)
    return PlannedFiles(
        splits=Splits(make, keeps=count <= _MOST_KEPT_FILES),
        schema_ids=tuple(np.unique(entries.schema_ids[live]).tolist()),
    )


def _wanted_rows(
    entries: EntryColumns,
    bucket: BucketRows,
    live: Flags,
    scope: ScanScope,
    file_schema: Callable[[int], TableSchema],
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
        scope.keeps_bucket(bucket.partition, bucket.bucket, int(total), file_schema(int(schema_id)))
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
    file_schema: Callable[[int], TableSchema],
    deletions: Mapping[str, DeletionFile],
) -> Iterator[Split]:
    partition = scope.partition(bucket.partition)
    assert partition is not None
    files = _matching_files([entry.file for entry in entries], partition.rest, scope.schema, file_schema)
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


def file_ranges(file: DataFile, file_schema: TableSchema, wanted: Sequence[DataField]) -> dict[str, ColumnRange]:
    """Return what the file's statistics say of the `wanted` columns, which are those of the schema that is read.

    A column that the file lacks is all null; one whose type changed so that order or equality may have, is unknown.
    """
    by_id = {each.id: each for each in file_schema.fields}
    ranges: dict[str, ColumnRange] = {}
    if any(each.id in by_id for each in wanted):
        decoded = stored_ranges(file, file_schema)
    for each in wanted:
        source = by_id.get(each.id)
        if source is None or (file.write_cols is not None and source.name not in file.write_cols):
            ranges[each.name] = ColumnRange(null_count=file.row_count, row_count=file.row_count)
        elif source.name in decoded and keeps_order(source.type, each.type):
            ranges[each.name] = _as_read(decoded[source.name], source.type)
    return ranges


def _as_read(stored: ColumnRange, kind: DataType) -> ColumnRange:
    """Return the range of the values as reads give them: CHAR may come without the blanks that its bounds have."""
    if isinstance(kind, AtomicType) and kind.root is Root.CHAR and stored.minimum is not None:
        return replace(stored, minimum=stored.minimum.rstrip(" "))
    return stored


def keeps_order(source: DataType, target: DataType) -> bool:
    """Return whether comparable values of `source` are, after the cast to `target`, the very same values."""
    if has_same_kind(source, target):
        return True
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return False
    pair = (source.root, target.root)
    if source.root in _INTEGERS and target.root in _INTEGERS:
        return _INTEGERS.index(source.root) <= _INTEGERS.index(target.root)
    return pair in _WIDENING


_INTEGERS: Final = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_WIDENING: Final = frozenset(
    {
        (Root.FLOAT, Root.DOUBLE),
        (Root.TINYINT, Root.DOUBLE),
        (Root.SMALLINT, Root.DOUBLE),
        (Root.INT, Root.DOUBLE),
    }
)


def stored_ranges(file: DataFile, file_schema: TableSchema) -> Mapping[str, ColumnRange]:
    """Return what the file's statistics say of its columns, by the names and in the types that it was written with."""
    stored = file.value_stats_cols if file.value_stats_cols is not None else file.write_cols
    names = [each.name for each in file_schema.fields] if stored is None else list(stored)
    known = [name for name in names if file_schema.has_field(name)]
    if len(known) < len(names) or not names:
        return {}
    lows, highs, nulls = decode_stats(file.value_stats, [file_schema.field(name).type for name in names])
    return {
        name: ColumnRange(minimum=low, maximum=high, null_count=null, row_count=file.row_count)
        for name, low, high, null in zip(names, lows, highs, nulls, strict=False)
    }


def _key_ranges(file: DataFile, file_schema: TableSchema, wanted: Sequence[DataField]) -> dict[str, ColumnRange]:
    """As `file_ranges`, of key columns; they are never null."""
    fields = file_schema.key_fields
    lows, highs, _ = decode_stats(file.key_stats, [each.type for each in fields])
    found = {each.id: (each, low, high) for each, low, high in zip(fields, lows, highs, strict=False)}
    ranges: dict[str, ColumnRange] = {}
    for each in wanted:
        if each.id in found and keeps_order(found[each.id][0].type, each.type):
            _, low, high = found[each.id]
            ranges[each.name] = ColumnRange(minimum=low, maximum=high, row_count=file.row_count)
    return ranges


def _matching_files(
    files: Sequence[DataFile],
    rest: Predicate | None,
    schema: TableSchema,
    file_schema: Callable[[int], TableSchema],
) -> Sequence[DataFile]:
    if rest is None:
        return files

    def matches(file: DataFile) -> bool:
        return may_match(rest, file_ranges(file, file_schema(file.schema_id), schema.fields))

    if _is_read_file_by_file(files, schema) or is_one_level(files):
        return [file for file in files if matches(file) and _index_allows(file, rest, schema, file_schema)]
    key_part = within(rest, schema.trimmed_primary_keys)
    if key_part is not None:
        keys = schema.key_fields
        files = [file for file in files if may_match(key_part, _key_ranges(file, file_schema(file.schema_id), keys))]
    if schema.table_options.merge_engine not in (MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW):
        # A merged row is made of several: what comes out, none of the files need hold.
        return files
    # A merged row is a row of one of the files: a value that none of them holds cannot come out.
    return files if any(matches(file) for file in files) else ()


def _index_allows(
    file: DataFile, rest: Predicate, schema: TableSchema, file_schema: Callable[[int], TableSchema]
) -> bool:
    """Return whether the index in the file's entry, if there is one, leaves any row. Others are asked by the read."""
    if file.embedded_index is None or not schema.table_options.file_index_read:
        return True
    index = embedded_index(file.embedded_index, file)
    rows = matching_rows(rest, index, file, file_schema(file.schema_id), schema.fields)
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


def partition_folder(schema: TableSchema, values: Sequence[Any], bucket: int) -> str:
    """Return the folder of a bucket, relative to the table; `values` are the partition's comparable values."""
    options = schema.table_options
    path = partition_path(
        schema.partition_keys,
        [each.type for each in schema.partition_fields],
        values,
        default_name=options.partition_default_name,
        legacy=options.partition_legacy_name,
    )
    return bucket_folder(path, bucket, data_folder=options.data_file_directory or "")
