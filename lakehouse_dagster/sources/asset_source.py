"""Asset source: the rows that an asset upstream returned, as its IO manager loads them.

Rule: the value is an input of the ingest, so Dagster loads it, and loads only the partitions of the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.frames import is_spark, rows_of
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.sources.row_source import Delivery, RowSource, table_of
from lakehouse_dagster.sources.run_delivery import RunPartitions, run_delivery
from lakehouse_dagster.specs import UpstreamSpec

# The name of the input of the ingest.
_ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetSource(RowSource):
    """The rows of an asset, one batch for each run, or for each of its partitions. `key` is the asset of the table."""

    spec: UpstreamSpec
    key: dg.AssetKey
    # The key of the lake's resource.
    lake_resource: str
    partitions: RunPartitions | None = None

    @property
    def upstream(self) -> dg.AssetKey:
        return dg.AssetKey.from_user_string(self.spec.key)

    @property
    def label(self) -> str:
        return f"the asset {self.spec.key}"

    @property
    def inputs(self) -> Mapping[str, dg.AssetIn]:
        return {_ROWS: dg.AssetIn(self.upstream, input_manager_key=self.spec.io_manager)}

    @property
    def batching(self) -> Mapping[str, Any]:
        return {} if self.partitions is None else self.partitions.batching

    @property
    def is_derived(self) -> bool:
        return True

    def scheduled_keys(
        self, table: lc.Table | None, asset: dg.AssetKey, resources: Any, instance: dg.DagsterInstance
    ) -> Sequence[str] | None:
        return None if self.partitions is None else self.partitions.scheduled_keys(asset, instance)

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool, inputs: Mapping[str, Any]) -> Delivery:
        lakehouse: LakehouseResource = getattr(context.resources, self.lake_resource)
        table = table_of(lakehouse.local_catalog(), self.key)

        def read(key: str | None) -> object:
            # Dagster gives a mapping by key for several partitions.
            value = inputs[_ROWS]
            if key is not None and isinstance(value, Mapping) and key in value:
                value = value[key]
            elif key is not None and len(context.partition_keys) > 1:
                raise lc.InvalidRequest(
                    f"{table.name}: found one value of {self.label} for several partitions, expected a mapping from "
                    "partition keys. Run one partition at a time, or take an IO manager that gives a mapping."
                )
            if is_spark(value) and not in_spark:
                raise lc.InvalidRequest(
                    f"{table.name}: {self.label} gives a Spark frame, but the table is written without Spark. Set "
                    "runs_on to spark."
                )
            return rows_of(value)

        return run_delivery(context, table, self.key, self.partitions, read)
