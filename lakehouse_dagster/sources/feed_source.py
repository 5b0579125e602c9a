"""Feed source: the batches of a step, or the feed as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.feed import WHOLE, Batch, Feed, batches_of, commit_user
from lakehouse_dagster.pipeline import last_identifier, refuse_gap
from lakehouse_dagster.resources import FeedResource, LakehouseResource
from lakehouse_dagster.run_tags import root_run_id
from lakehouse_dagster.sources.row_source import Behind, Delivery, Expected, RowSource
from lakehouse_dagster.specs import FeedSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSource(RowSource):
    """Rows of a feed. `key` is the asset of the table that takes the rows."""

    feed: Feed
    spec: FeedSpec
    key: dg.AssetKey
    # The key of the lake's resource.
    lake_resource: str

    @property
    def upstream(self) -> dg.AssetKey:
        return self.feed.key if self.spec.batches else self.feed.source

    @property
    def label(self) -> str:
        return f"feed {self.spec.name}"

    @property
    def column_prefix(self) -> str:
        return f"{self.spec.name}."

    @property
    def resources(self) -> frozenset[str]:
        return frozenset({self.feed.resource})

    @property
    def tells_rows(self) -> bool:
        return True

    @property
    def tells_news(self) -> bool:
        return self.spec.batches and self.feed.delivered is not None

    @property
    def batching(self) -> Mapping[str, Any]:
        if not self.spec.batches:
            return {}
        return {"partitions_def": self.feed.partitions, "backfill_policy": dg.BackfillPolicy.single_run()}

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool, inputs: Mapping[str, Any]) -> Delivery:
        source: FeedResource = getattr(context.resources, self.feed.resource)
        lakehouse: LakehouseResource = getattr(context.resources, self.lake_resource)
        user = commit_user(
            table="/".join(self.key.path),
            feed=f"{self.spec.source}/{self.spec.name}",
            version=source.version(),
            root_run_id=root_run_id(context.run.root_run_id or context.run.run_id, context.run.tags),
            is_batched=self.spec.batches,
        )
        # A run over a range of batches tells every asset in it of the range, also those that have none.
        batches = batches_of(context, self.feed) if self.spec.batches else [WHOLE]

        def batches_to_stage(table: lc.Table) -> list[Batch]:
            refuse_gap(table, batches, self.feed, partial(source.is_gap, self.spec.name), commit_user=user)
            return batches

        def read(batch: Batch) -> object:
            if in_spark:
                return source.frame(lakehouse.spark.spark_session, self.spec.name, batch.key)
            return source.rows(self.spec.name, batch.key)

        return Delivery(
            user=user,
            version=source.version(),
            snapshot_id=0,
            batches_to_stage=batches_to_stage,
            batches_to_commit=lambda _: batches,
            read=read,
        )

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        source: FeedResource = getattr(resources, self.feed.resource)
        last = last_identifier(table, "/".join(self.key.path))
        through = self.feed.batch_key(last) if self.spec.batches and last is not None else None
        return source.expected_rows(self.spec.name, through), through

    def behind(self, table: lc.Table | None, resources: Any, instance: dg.DagsterInstance) -> Behind:
        source: FeedResource = getattr(resources, self.feed.resource)
        done = None if table is None else last_identifier(table, "/".join(self.key.path))
        offered = self._offered(instance)
        left = [batch for batch in offered if done is None or batch.identifier > done]
        return Behind(
            source=f"feed {self.spec.name}",
            unit="batch",
            waiting=tuple(str(batch.key) for batch in left if self._has_rows(source, batch)),
            newest=str(offered[-1].key) if offered else "",
            taken="" if done is None else self.feed.batch_key(done) or "",
        )

    def scheduled_keys(
        self, table: lc.Table | None, asset: dg.AssetKey, instance: dg.DagsterInstance
    ) -> Sequence[str] | None:
        if not self.spec.batches:
            return None
        done = None if table is None else last_identifier(table, "/".join(self.key.path))
        return [str(batch.key) for batch in self._offered(instance) if done is None or batch.identifier > done]

    def _offered(self, instance: dg.DagsterInstance) -> list[Batch]:
        """Return the batches that Dagster offers as partitions, in their order.

        A key of another kind was added by hand, and its run is refused.
        """
        offered = {*self.feed.partitions.get_partition_keys(dynamic_partitions_store=instance)}
        keys = self.feed.batches.get_partition_keys()
        return [Batch(key=key, identifier=place) for place, key in enumerate(keys) if key in offered]

    def _has_rows(self, source: FeedResource, batch: Batch) -> bool:
        """Return whether a batch brings rows: without rows it leaves no commit. The last of all may have some."""
        before, after = (self.feed.batch_key(batch.identifier + step) for step in (-1, 1))
        return after is None or source.is_gap(self.spec.name, before, after)
