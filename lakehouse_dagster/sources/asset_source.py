"""Asset source: the rows that an asset upstream returned, as its IO manager loads them.

Rule: the value is an input of the ingest, so Dagster loads it, and loads only the partitions of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.event_tags import DATA_VERSION, input_pointer, input_version
from lakehouse_dagster.feed import first_range
from lakehouse_dagster.frames import is_spark, rows_of
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.sources.row_source import Behind, Delivery, RowSource, table_of
from lakehouse_dagster.sources.run_delivery import RunPartitions, run_delivery
from lakehouse_dagster.specs import UpstreamSpec

# The name of the input of the ingest.
_ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetSource(RowSource):
    """The rows of an asset, one batch for each run, or for each of its partitions. `key` is the asset of the table."""

    spec: UpstreamSpec
    key: dg.AssetKey
    # The assets of the table in Dagster: the one that takes the rows, and the table itself.
    ingest: dg.AssetKey
    table: dg.AssetKey
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

    @property
    def tells_news(self) -> bool:
        return True

    def behind(self, table: lc.Table | None, resources: Any, instance: dg.DagsterInstance) -> Behind:
        """Return what the events of Dagster show: the version of the asset that the table was not made of, or the
        partitions, which are those of the same keys. A table that is not there was made of none.
        """
        if self.partitions is None:
            return self._whole(instance, is_there=table is not None)
        keys = self.partitions.definition.get_partition_keys(dynamic_partitions_store=instance)
        made, ingested, loaded = (_latest(instance, key) for key in (self.upstream, self.ingest, self.table))
        if table is None:
            loaded = {}
        # Without partitions of its own, the asset is a new value for each.
        whole = 0 if made else _storage_id(instance, self.upstream)
        waits = {
            key: made.get(key, whole)
            for key in keys
            if not made.get(key, whole) < ingested.get(key, 0) < loaded.get(key, 0) and made.get(key, whole)
        }
        is_multi = isinstance(self.partitions.definition, dg.MultiPartitionsDefinition)
        return Behind(
            source=self.label,
            unit="partition",
            waiting=tuple(waits),
            partitions=[*waits][:1] if is_multi else first_range([*waits], keys),
            since=_first_since(instance, self.upstream, min(waits.values()) - 1) if waits else None,
            newest=next((key for key in reversed(keys) if made.get(key, whole)), ""),
            taken=next((key for key in reversed(keys) if key in loaded and key not in waits), ""),
        )

    def _whole(self, instance: dg.DagsterInstance, *, is_there: bool) -> Behind:
        record = instance.get_latest_data_version_record(self.upstream)
        event = None if record is None else record.asset_materialization or record.asset_observation
        version = ((event and event.tags) or {}).get(DATA_VERSION, "")
        taken = _tag(instance, self.ingest, input_version(self.upstream))
        pointer = _tag(instance, self.table, input_pointer(self.ingest))
        is_loaded = pointer.isdigit() and int(pointer) >= _storage_id(instance, self.ingest)
        is_current = record is None or (is_there and taken == version and is_loaded)
        last = _tag(instance, self.ingest, input_pointer(self.upstream))
        return Behind(
            source=self.label,
            unit="version",
            waiting=() if is_current else (version,),
            since=None if is_current else _first_since(instance, self.upstream, int(last) if last.isdigit() else 0),
            newest=version,
            taken=taken if is_loaded and is_there else "",
        )

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


def _latest(instance: dg.DagsterInstance, asset: dg.AssetKey) -> Mapping[str, int]:
    """Return the place of the latest event of each partition of an asset in the order of all events."""
    return instance.get_latest_storage_id_by_partition(asset, dg.DagsterEventType.ASSET_MATERIALIZATION)


def _storage_id(instance: dg.DagsterInstance, asset: dg.AssetKey) -> int:
    """Return the place of the latest event of an asset in the order of all events, 0 without one."""
    record = instance.get_latest_data_version_record(asset)
    return 0 if record is None else record.storage_id


def _tag(instance: dg.DagsterInstance, asset: dg.AssetKey, name: str) -> str:
    """Return a tag of the latest event of an asset; empty without one."""
    event = instance.get_latest_materialization_event(asset)
    made = None if event is None else event.asset_materialization
    return ((made and made.tags) or {}).get(name, "")


def _first_since(instance: dg.DagsterInstance, asset: dg.AssetKey, after: int) -> datetime | None:
    """Return the time of the first materialization of an asset after a place in the order of all events."""
    wanted = dg.AssetRecordsFilter(asset_key=asset, after_storage_id=after)
    records = instance.fetch_materializations(wanted, limit=1, ascending=True).records
    return datetime.fromtimestamp(records[0].timestamp, UTC) if records else None
