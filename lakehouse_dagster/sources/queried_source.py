"""Queried source: what a SQL query and a Python function have in common as sources.

Rule: with a cursor, a run that finds new rows makes one batch; without, each run or each of its partitions does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, ClassVar

import dagster as dg
import pyarrow as pa

import lakehouse_core as lc
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.sources.cursor_source import ReadSince, cursor_delivery, rows_taken
from lakehouse_dagster.sources.row_source import Delivery, Expected, RowSource
from lakehouse_dagster.sources.run_delivery import RunPartitions
from lakehouse_dagster.specs import FunctionSpec, SqlSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedSource(RowSource):
    """The rows of a query or of a function. `key` is the asset of the table."""

    # Part of the commit user of its deliveries.
    kind: ClassVar[str]

    spec: FunctionSpec | SqlSpec
    key: dg.AssetKey
    upstream: dg.AssetKey
    # The key of the lake's resource.
    lake_resource: str
    is_append: bool
    partitions: RunPartitions | None = None
    rowkind_column: str | None = None

    @property
    def batching(self) -> Mapping[str, Any]:
        return {} if self.partitions is None else self.partitions.batching

    @property
    def tells_rows(self) -> bool:
        # A key table has fewer rows where keys repeat.
        return self.is_append and self.spec.cursor is not None

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        return rows_taken(table, self._lakehouse(resources), self.key, self.kind)

    def scheduled_keys(
        self,
        table: lc.Table | None,
        asset: dg.AssetKey,
        resources: Any,
        instance: dg.DagsterInstance,
        *,
        now: datetime,
    ) -> Sequence[str] | None:
        return None if self.partitions is None else self.partitions.scheduled_keys(table, asset, instance, now=now)

    def _lakehouse(self, resources: Any) -> LakehouseResource:
        found: LakehouseResource = getattr(resources, self.lake_resource)
        return found

    def _cursor_delivery(self, resources: Any, read_since: ReadSince) -> Delivery:
        return cursor_delivery(self._lakehouse(resources), self.key, self.kind, read_since)

    def _own_columns(self, table: lc.Table) -> set[str]:
        """Return the names of the columns that are written: those of the table, and the row kinds."""
        names = {field.name for field in table.schema.fields}
        return names if self.rowkind_column is None else names | {self.rowkind_column}


def stream_of(table: lc.Table, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Return batches as a stream, which has the columns of the table where there is none."""
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(table.scan().schema(), [])
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
