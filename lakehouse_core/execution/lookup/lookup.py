"""Lookups: route keys to their buckets as a write does, search each bucket, return the rows.

A plan is made once for a snapshot and reads metadata only. Data files never change, so local copies stay valid: a newer
snapshot needs only a new plan.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.lookup.bucket import KEY_NUMBER, BucketLookup, LocalFile, LookupRead, data_file_digest
from lakehouse_core.execution.lookup.keys import key_columns
from lakehouse_core.execution.lookup.local_files import LookupCache
from lakehouse_core.execution.lookup.waiting import WaitingLookup
from lakehouse_core.execution.read.scan import (
    ReadRequest,
    ScanPlan,
    explain_missing_files,
    plan_read,
    read_tasks,
    scan_schema,
)
from lakehouse_core.format.rows import Rows, take_all
from lakehouse_core.merge.key_words import fixed_values, key_words
from lakehouse_core.merge.order import order_rows
from lakehouse_core.planning.read.key_condition import BucketId, by_bucket, key_condition
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.bucketing import Dynamic, Fixed, Postpone, Unaware
from lakehouse_core.table.predicate import Predicate
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.tasks.write.router import Router


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of one bucket, and for each requested key its position in `rows`, -1 for a key without a row."""

    rows: pa.Table
    row_of: Rows


def look_up(table: TableContext, keys: object, request: ReadRequest, cache: LookupCache, *, aligned: bool) -> pa.Table:
    """Return the rows of these keys as `TableLookup.rows` does, with a plan for these keys only."""
    columns: list[pa.RecordBatch] = []

    def condition(schema: TableSchema) -> Predicate | None:
        columns[:] = [key_columns(keys, schema)]
        return key_condition(columns[0].columns, [schema.field(name) for name in schema.primary_keys])

    lookup = TableLookup(table, replace(request, condition=condition), cache)
    return lookup.rows(columns[0], aligned=aligned)


class TableLookup:
    """Lookups in one snapshot of a table; `refresh` moves on to the snapshot that the request's read point then means.

    REQUIRES: all keys satisfy the condition of `request`, which leaves files out of the plan; one thread at a time.
    Raises as `plan_read` does, and InvalidRequest for a table without a primary key and for a point that means changes.
    """

    def __init__(self, table: TableContext, request: ReadRequest, cache: LookupCache) -> None:
        self._table = table
        self._cache = cache
        self._request = request
        self._local: dict[str, LocalFile] = {}
        self._use(plan_read(table, request))

    @property
    def snapshot_id(self) -> int | None:
        """Return the id of the snapshot in which rows are looked up; None if the table has none yet."""
        return self._plan.snapshot_id

    def refresh(self) -> None:
        """Plan again, and drop the local files of data files that are no longer part of the table."""
        plan = plan_read(self._table, self._request)
        known = self._plan
        if (plan.snapshot, plan.schema, plan.merges_waiting) == (known.snapshot, known.schema, known.merges_waiting):
            return
        gone = _data_files(self._plan, self._table.store) - _data_files(plan, self._table.store)
        for digest in gone:
            self._cache.forget(digest)
        for name in [name for name in self._local if name.partition("-")[0] in gone]:
            del self._local[name]
        self._use(plan)

    def rows(self, keys: object, *, aligned: bool) -> pa.Table:
        """Return the rows of `keys`, in their order. A key without a row gives no row, or a row of nulls if
        `aligned`.
        """
        batch = key_columns(keys, self._plan.schema)
        row_of = np.full(batch.num_rows, -1, dtype=np.int64)
        parts: list[pa.Table] = []
        count = 0
        for found, places in explain_missing_files(self._found(batch), self._table, self._plan):
            is_there = found.row_of >= 0
            row_of[(np.arange(batch.num_rows) if places is None else places)[is_there]] = found.row_of[is_there] + count
            parts.append(found.rows)
            count += found.rows.num_rows
        table = pa.concat_tables([self._schema.empty_table(), *parts]).combine_chunks()
        if aligned:
            return table.take(pa.array(row_of, mask=row_of < 0))
        return table.take(pa.array(row_of[row_of >= 0]))

    def _use(self, plan: ScanPlan) -> None:
        if plan.schema.is_append:
            raise InvalidRequest(
                "the table has no primary key, so no row can be looked up. Read it with scan(where=…)."
            )
        if plan.is_increment:
            raise InvalidRequest(
                f"at={shown(self._request.point)} means changes, not a state. Give a read point of one state, "
                "such as lc.AtSnapshot(12)."
            )
        self._plan = plan
        self._schema = scan_schema(plan)
        self._read = LookupRead(
            store=self._table.store,
            schema=plan.schema,
            columns=plan.columns,
            file_schemas=plan.file_schemas,
            cache=self._cache,
            local=self._local,
        )
        self._splits = by_bucket(plan.splits)
        self._buckets: dict[BucketId, _Bucket] = {}
        self._cache.trim(plan.schema.table_options.lookup)

    def _found(self, keys: pa.RecordBatch) -> Iterator[tuple[_Found, Rows | None]]:
        for bucket, places in self._buckets_of(keys):
            yield _in_bucket(bucket, keys, places, self._schema), places

    def _buckets_of(self, keys: pa.RecordBatch) -> Iterator[tuple["_Bucket", Rows | None]]:
        """Yield the buckets that may hold keys, each with the positions of these keys in `keys`; None means all."""
        schema = self._plan.schema
        if schema.is_cross_partition:
            for bucket in self._splits:
                yield self._bucket(bucket), None
            return
        match schema.bucketing:
            case Fixed():
                # The bucket count of a partition is the one that it was written with.
                for bucket_count in sorted({total for _, _, total in self._splits}):
                    for place, rows in Router(schema, bucket_count=bucket_count).split(keys.column, keys.num_rows):
                        bucket = (place.partition, place.bucket, bucket_count)
                        if bucket in self._splits:
                            yield self._bucket(bucket), rows
            case Unaware() | Dynamic() | Postpone():
                # The bucket of a key cannot be computed, so all buckets of its partition are searched.
                for place, rows in Router(schema, bucket_count=1).split(keys.column, keys.num_rows):
                    for bucket in self._splits:
                        if bucket[0] == place.partition:
                            yield self._bucket(bucket), rows
            case _:
                assert_never(schema.bucketing)

    def _bucket(self, bucket: BucketId) -> "_Bucket":
        if bucket not in self._buckets:
            splits = self._splits[bucket]
            if splits[0].waiting:
                tasks = read_tasks(replace(self._plan, splits=splits))
                self._buckets[bucket] = WaitingLookup(tasks, self._table.runtime)
            else:
                self._buckets[bucket] = BucketLookup(self._read, splits)
        return self._buckets[bucket]


_Bucket: TypeAlias = BucketLookup | WaitingLookup


def _in_bucket(bucket: _Bucket, keys: pa.RecordBatch, places: Rows | None, schema: pa.Schema) -> _Found:
    names = bucket.key_columns
    columns = [keys.column(name) for name in names]
    if places is not None:
        columns = take_all(columns, places)
    order = order_rows(key_words(columns), len(columns[0]))
    starts = order.starts
    row_of_key = np.full(len(starts), -1, dtype=np.int64)
    batches = list(bucket.rows(take_all(columns, order.rows[starts])))
    first_row = 0
    for batch in batches:
        numbers = fixed_values(batch.column(KEY_NUMBER), np.int64)
        row_of_key[numbers] = np.arange(first_row, first_row + batch.num_rows)
        first_row += batch.num_rows
    row_of = np.empty(len(order.rows), dtype=np.int64)
    row_of[order.rows] = np.repeat(row_of_key, order.ends - starts + 1)
    arrays = [pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema) for batch in batches]
    return _Found(pa.Table.from_batches(arrays, schema), row_of)


def _data_files(plan: ScanPlan, store: StoreReader) -> set[str]:
    """Return the prefixes of the names of the local files of the plan's data files."""
    return {data_file_digest(store, split, file) for split in plan.splits for file in split.files}
