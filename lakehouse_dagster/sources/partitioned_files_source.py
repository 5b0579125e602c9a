"""Partitioned files source: a run loads all files of each partition that it is for.

Rule: a partition is loaded again by a new run, from the files that are there then; one without files is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from glob import escape
from re import Match
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc
from lakehouse_dagster.pipeline import find_files
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.sources.row_source import Delivery, RowSource, table_of
from lakehouse_dagster.sources.run_delivery import RunPartitions, run_delivery
from lakehouse_dagster.specs import FILES_PARAMETER, FilesSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedFilesSource(RowSource):
    """The rows of the files of a partition, whose key stands in `pattern`. `key` is the asset of the table."""

    spec: FilesSpec
    pattern: str
    key: dg.AssetKey
    upstream: dg.AssetKey
    # The key of the lake's resource.
    lake_resource: str
    partitions: RunPartitions
    rowkind_column: str | None = None

    @property
    def batching(self) -> Mapping[str, Any]:
        return self.partitions.batching

    @property
    def label(self) -> str:
        return f"the files {self.spec.path}"

    def scheduled_keys(
        self,
        table: lc.Table | None,
        asset: dg.AssetKey,
        resources: Any,
        instance: dg.DagsterInstance,
        *,
        now: datetime,
    ) -> Sequence[str] | None:
        return self.partitions.scheduled_keys(table, asset, instance, now=now)

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool, inputs: Mapping[str, Any]) -> Delivery:
        lakehouse: LakehouseResource = getattr(context.resources, self.lake_resource)
        table = table_of(lakehouse.local_catalog(), self.key)

        def read(key: str | None) -> pa.RecordBatchReader:
            assert key is not None
            return self._reader(table, key)

        return run_delivery(context, table, self.key, self.partitions, read)

    def pattern_of(self, key: str) -> str:
        """Return the pattern of the files of a partition key."""

        def text(found: Match[str]) -> str:
            return escape(self.partitions.text(key, found[1], found[2] or ""))

        return FILES_PARAMETER.sub(text, self.pattern)

    def _reader(self, table: lc.Table, key: str) -> pa.RecordBatchReader:
        """Return the rows of the files of a partition. Where a file has no value for a column that the key means, the
        row has the key's.
        """
        if not (files := find_files(self.pattern_of(key))):
            raise lc.InvalidRequest(
                f"{table.name}: partition {key!r}: found no file {self.pattern_of(key)}. Put its files there, or leave "
                "the partition out; the rows that the table has of it stay."
            )
        values = self.partitions.values(table, key) or {}
        fields = [
            replace(field, type=replace(field.type, nullable=True)) if field.name in values else field
            for field in table.schema.fields
        ]
        rows = lc.RowFiles(
            [file.path for file in files],
            format=self.spec.format,
            delimiter=self.spec.delimiter,
            null=self.spec.null,
        ).rows(fields, rowkind_column=self.rowkind_column, missing="null")

        return pa.RecordBatchReader.from_batches(rows.schema, (_filled(batch, values) for batch in rows))


def _filled(rows: pa.RecordBatch, values: Mapping[str, Any]) -> pa.RecordBatch:
    """Return the rows with these values in place of nulls: column → value."""
    for name, value in values.items():
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, pc.fill_null(rows.column(at), pa.scalar(value, field.type)))
    return rows
