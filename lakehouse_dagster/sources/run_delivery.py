"""Run delivery: what a run loads as a whole, or the partitions that it is for, each in a commit of its own.

Rule: a new run loads anew; a re-execution of a run commits what the run has staged, unless another run has loaded the
same since.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

import dagster as dg
import pyarrow as pa

import lakehouse_core as lc
from lakehouse_dagster.feed import WHOLE, Batch, run_user
from lakehouse_dagster.frames import parted
from lakehouse_dagster.partition_maps import PartitionMap, partition_values
from lakehouse_dagster.partitions import partition_map, partitions_definition
from lakehouse_dagster.pipeline import StageMode, incarnation
from lakehouse_dagster.run_tags import root_run_id
from lakehouse_dagster.sources.row_source import Delivery
from lakehouse_dagster.specs import PartitionsSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPartitions:
    """The partitions of a table's assets. `overwrites`: a batch replaces the part of the table that its key means."""

    definition: dg.PartitionsDefinition
    mapped: PartitionMap | None
    overwrites: bool

    @property
    def batching(self) -> Mapping[str, Any]:
        """The arguments of assets that take them: one run for any range."""
        return {"partitions_def": self.definition, "backfill_policy": dg.BackfillPolicy.single_run()}

    def sql_parameters(self, key: str) -> Mapping[str, str]:
        """Return the parameters of a query for a partition: its key, and the ends of a window in its time zone."""
        found = {"partition_key": key}
        if isinstance(self.definition, dg.TimeWindowPartitionsDefinition):
            window = self.definition.time_window_for_partition_key(key)
            ends = {"partition_start": window.start, "partition_end": window.end}
            found |= {name: time.strftime("%Y-%m-%d %H:%M:%S") for name, time in ends.items()}
        return found

    def text(self, key: str, dimension: str, pattern: str) -> str:
        """Return the key of one dimension of a partition, or the start of its window of time by a pattern of strftime.

        Of one dimension, any name will do.
        """
        definition, own = self.definition, key
        if isinstance(definition, dg.MultiPartitionsDefinition):
            own = definition.get_partition_key_from_str(key).keys_by_dimension[dimension]
            definition = definition.get_partitions_def_for_dimension(dimension)
        if pattern and isinstance(definition, dg.TimeWindowPartitionsDefinition):
            return definition.time_window_for_partition_key(own).start.strftime(pattern)
        return own

    def values(self, table: lc.Table, key: str) -> Mapping[str, Any] | None:
        """Return the part of the table that a key means, column → value; None where keys are not mapped to parts."""
        return None if self.mapped is None else partition_values(table, self.mapped, key, self.definition)

    def scheduled_keys(
        self, table: lc.Table | None, asset: dg.AssetKey, instance: dg.DagsterInstance, *, now: datetime
    ) -> Sequence[str]:
        """Return the windows of time that ended by `now` and follow the newest that the asset has, at least the newest
        of all; all other keys, because their rows may have changed. A table that was made again lacks all windows of
        the former one.
        """
        keys = self.definition.get_partition_keys(current_time=now, dynamic_partitions_store=instance)
        if not isinstance(self.definition, dg.TimeWindowPartitionsDefinition):
            return keys
        loaded = instance.get_materialized_partitions(asset)
        places = [place for place, key in enumerate(keys) if key in loaded]
        if not places:
            return keys[-1:]
        newest = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[keys[places[-1]]])
        (event,) = instance.fetch_materializations(newest, limit=1).records
        is_former = table is None or event.timestamp * 1000 < int(incarnation(table))
        return keys[places[0] :] if is_former else keys[places[-1] + 1 :]


def run_partitions(spec: PartitionsSpec | None, table: str, *, overwrites: bool) -> RunPartitions | None:
    """Return the partitions of a specification, None without."""
    if spec is None:
        return None
    return RunPartitions(
        definition=partitions_definition(spec, table), mapped=partition_map(spec), overwrites=overwrites
    )


def run_delivery(
    context: dg.AssetExecutionContext,
    table: lc.Table,
    key: dg.AssetKey,
    partitions: RunPartitions | None,
    read: Callable[[str | None], object],
) -> Delivery:
    """Return the delivery of a run into the table with asset `key`. `read` gives the rows of a partition key, or all
    rows for None.
    """
    name, root = "/".join(key.path), root_run_id(context.run.root_run_id or context.run.run_id, context.run.tags)
    if partitions is None:
        return _delivery(table, run_user(name, root), [WHOLE], lambda batch: read(batch.key))
    keys = list(context.partition_keys)
    # A re-execution for other partitions must not be taken for those of the first run.
    chosen = blake2b("\n".join(keys).encode(), digest_size=8).hexdigest()
    batches = [Batch(key=each, identifier=place) for place, each in enumerate(keys)]

    def rows(batch: Batch) -> object:
        found, part = read(batch.key), partitions.values(table, batch.key or "")
        if part is not None:
            # A stream is read once.
            found = found.read_all() if isinstance(found, pa.RecordBatchReader) else found
            parted(found, [part], giver=f"the source of {table.name} gave for {batch.key!r}")
        return found

    def mode(batch: Batch) -> StageMode:
        if not partitions.overwrites:
            return lc.Append()
        part = partitions.values(table, batch.key or "") or {}
        return lc.StaticOverwrite({column: str(value) for column, value in part.items()})

    return _delivery(table, run_user(name, f"{root}/{chosen}"), batches, rows, mode)


def _delivery(
    table: lc.Table,
    user: str,
    batches: list[Batch],
    read: Callable[[Batch], object],
    mode: Callable[[Batch], StageMode] | None = None,
) -> Delivery:
    return Delivery(
        user=user,
        version=incarnation(table),
        snapshot_id=0,
        batches_to_stage=lambda _: batches,
        batches_to_commit=lambda _: batches,
        read=read,
        mode=mode,
        by_run=True,
    )
