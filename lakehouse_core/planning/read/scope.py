"""Scan scope: one condition, applied to manifests, partitions, buckets and files.

Rule: nothing that may match is left out; keeping too much costs time only.
Source: docs/semantics/reading.md#batch-scan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from lakehouse_core.format.avro_columns import Longs
from lakehouse_core.format.binary_row import deserialize_row
from lakehouse_core.format.bucket_hash import bucket_of
from lakehouse_core.format.data_types import has_same_kind
from lakehouse_core.options import BucketFunction
from lakehouse_core.planning.manifests import may_hold_match
from lakehouse_core.planning.read.read_point import CompactedFull, ReadPoint
from lakehouse_core.table.bucketing import (
    Bucketing,
    Dynamic,
    Fixed,
    Postpone,
    Unaware,
    is_placed,
    is_read,
    may_wait,
    total_buckets,
)
from lakehouse_core.table.manifest import ManifestFile
from lakehouse_core.table.predicate import (
    Predicate,
    holds,
    only_columns,
    point_values,
    simplify,
    without_columns,
)
from lakehouse_core.table.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionScope:
    """A condition inside one partition.

    `rest`: the condition with the partition's values put in; None: nothing is left to test. `points`: the possible
    values of the bucket key, None if they are not bounded.
    """

    values: tuple[Any, ...]
    rest: Predicate | None
    points: Sequence[tuple[Any, ...]] | None


class ScanScope:
    """The condition of one scan, applied to manifests, entries and files. Results are kept per partition.

    `only_level`: only files of this level. `created_from_millis`: only files created at this time or later.
    `every_level`: also files of level 0 that a read of the table's state skips until they are compacted.
    `above_level_0`: no file of level 0 of a key table. `with_waiting`: also rows that wait for their buckets.
    `merges_waiting`: these rows too, as if they were in their buckets and nothing waited for a compaction.
    """

    def __init__(
        self,
        schema: TableSchema,
        predicate: Predicate | None,
        *,
        only_level: int | None = None,
        created_from_millis: int | None = None,
        every_level: bool = False,
        above_level_0: bool = False,
        with_waiting: bool = False,
        merges_waiting: bool = False,
    ) -> None:
        self._schema = schema
        self._predicate = predicate
        self._only_level = only_level
        self._created_from_millis = created_from_millis
        self._partition_types = [field.type for field in schema.partition_fields]
        self._bucket_types = [field.type for field in schema.bucket_fields]
        # A merge with waiting rows relies on it that a compaction brought the others into the buckets of their keys.
        self._function = schema.table_options.bucket_function if merges_waiting else _bucket_function(schema.bucketing)
        self._partition_part = only_columns(predicate, schema.partition_keys)
        self._row_part = without_columns(predicate, schema.partition_keys)
        self._partitions: dict[bytes, PartitionScope | None] = {}
        self._buckets: dict[tuple[bytes, int], frozenset[int] | None] = {}
        self._same_buckets: dict[int, bool] = {}
        self.merges_waiting = merges_waiting
        every_level, with_waiting = every_level or merges_waiting, with_waiting or merges_waiting
        skips = above_level_0 or (not every_level and schema.table_options.skips_level_0)
        self._skips_level_0 = not schema.is_append and skips
        self._skips_waiting = not with_waiting and not is_read(schema.bucketing, total_buckets(schema.bucketing))

    @property
    def schema(self) -> TableSchema:
        return self._schema

    @property
    def is_everything(self) -> bool:
        """Whether every entry is kept."""
        is_filtered = self._predicate is not None or self._created_from_millis is not None
        return not is_filtered and self._only_level is None and not self._skips_level_0 and not self._skips_waiting

    @property
    def first_level(self) -> int:
        """The lowest level that is read."""
        return 1 if self._skips_level_0 else 0

    @property
    def needs_statistics(self) -> bool:
        """Whether files are filtered by statistics, because the condition is on more than partition columns."""
        return self._row_part is not None

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        """Return whether the manifest may hold an entry of a needed partition and level."""
        if manifest.max_level is not None and manifest.max_level < self.first_level:
            return False
        return may_hold_match(manifest, self._partition_part, self._schema)

    def keeps_entry(self, partition: bytes, bucket: int, level: int) -> bool:
        """Return whether partition, bucket and level are read. An entry and its delete give the same result."""
        if self._skips_waiting and not is_placed(bucket):
            return False
        if level < self.first_level or (self._only_level is not None and level != self._only_level):
            return False
        return self._predicate is None or self.partition(partition) is not None

    def keeps_creation_times(self, times: Longs) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the files to read by their creation times; None: all."""
        return None if self._created_from_millis is None else times >= self._created_from_millis

    def keeps_bucket(self, partition: bytes, bucket: int, total_buckets: int, file_schema: TableSchema) -> bool:
        """Return whether a matching row may be in the bucket. `total_buckets`: the partition's bucket count, from its
        entries.
        """
        if total_buckets < 1 or not self._has_same_buckets(file_schema):
            return True
        key = (partition, total_buckets)
        if key not in self._buckets:
            self._buckets[key] = self._possible_buckets(partition, total_buckets)
        possible = self._buckets[key]
        return possible is None or bucket in possible

    def _has_same_buckets(self, file_schema: TableSchema) -> bool:
        """Return whether the file's rows were routed by columns of the present types; in an append table the types may
        change.
        """
        if file_schema.id not in self._same_buckets:
            types = [each.type for each in file_schema.bucket_fields]
            same = len(types) == len(self._bucket_types)
            self._same_buckets[file_schema.id] = same and all(map(has_same_kind, types, self._bucket_types))
        return self._same_buckets[file_schema.id]

    def partition(self, partition: bytes) -> PartitionScope | None:
        """Return the condition inside a partition, None if none of its rows can match. Raises CorruptTable."""
        if partition not in self._partitions:
            self._partitions[partition] = self._scope(deserialize_row(partition, self._partition_types))
        return self._partitions[partition]

    def _scope(self, values: tuple[Any, ...]) -> PartitionScope | None:
        known = dict(zip(self._schema.partition_keys, values, strict=True))
        # Rows are not tested for partition columns again, so an unknown result for a null partition counts as false.
        if not holds(self._partition_part, known):
            return None
        rest = True if self._row_part is None else simplify(self._row_part, known)
        if rest is True:
            return PartitionScope(values=values, rest=None, points=None)
        if rest is None or rest is False:
            return None
        points = None if self._function is None else point_values(rest, self._schema.bucket_keys)
        return PartitionScope(values=values, rest=rest, points=points)

    def _possible_buckets(self, partition: bytes, total_buckets: int) -> frozenset[int] | None:
        scope = self.partition(partition)
        if scope is None or scope.points is None or self._function is None:
            return None
        return frozenset(bucket_of(point, self._bucket_types, total_buckets, self._function) for point in scope.points)


def merges_waiting(schema: TableSchema, latest: TableSchema, point: ReadPoint) -> bool:
    """Return whether rows that wait for their buckets belong to the state at this point, which is read with `schema`.

    The newest option decides, whatever schema the state has. The rows are no part of what compactions have done.
    """
    is_asked = latest.table_options.postponed_buckets.merge_on_read and may_wait(schema.bucketing)
    return is_asked and not isinstance(point, CompactedFull)


def _bucket_function(bucketing: Bucketing) -> BucketFunction | None:
    """Return the function from a row's values to its bucket, None if the values do not determine it."""
    match bucketing:
        case Fixed(_, function):
            return function
        case Unaware() | Dynamic() | Postpone():
            return None
        case _:
            assert_never(bucketing)
