"""Feed source: the batches of a step, or the feed as a whole."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.feed import WHOLE, Batch, Feed, batches_of, commit_user
from lakehouse_dagster.pipeline import (
    Groups,
    held_back,
    last_identifier,
    newest_grouped,
    recorded_groups,
    refuse_gap,
    refuse_late,
    refuse_other_version,
)
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
    # Runs stage batches in parallel, and a committer takes what is staged; `in_order` if their order counts.
    together: bool = False
    in_order: bool = True

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
        root = root_run_id(context.run.root_run_id or context.run.run_id, context.run.tags)
        user = self._user(source, root)
        # A run over a range of batches tells every asset in it of the range, also those that have none.
        batches = batches_of(context, self.feed) if self.spec.batches else [WHOLE]

        def batches_to_stage(table: lc.Table) -> list[Batch]:
            if self.together:
                refuse_other_version(table, commit_user=user)
                if self.in_order:
                    groups = recorded_groups(lakehouse.local_catalog(), table, commit_user=user)
                    refuse_late(table, batches, groups, self._name)
                return batches
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

    def staging_user(self, resources: Any) -> str:
        """Return the commit user under which runs stage the batches of the table."""
        return self._user(getattr(resources, self.feed.resource), "")

    def held_back(self, resources: Any, batches: Iterable[Batch], groups: Groups) -> Mapping[int, str]:
        """Return the staged batches that wait for others, with the reason; none where their order does not count."""
        source: FeedResource = getattr(resources, self.feed.resource)

        def is_gap(after: int | None, before: Batch) -> bool:
            last = None if after is None else self.feed.batch_key(after)
            return source.is_gap(self.spec.name, last, str(before.key))

        return held_back(batches, groups, is_gap, self._name) if self.in_order else {}

    def _name(self, identifier: int) -> str:
        return self.feed.batch_key(identifier) or str(identifier)

    def _user(self, source: FeedResource, root_run: str) -> str:
        return commit_user(
            table="/".join(self.key.path),
            feed=f"{self.spec.source}/{self.spec.name}",
            version=source.version(),
            root_run_id=root_run,
            is_batched=self.spec.batches,
        )

    def last_committed(self, table: lc.Table, catalog: lc.Catalog) -> int | None:
        """Return the highest identifier of the batches in the table, None without one."""
        asset = "/".join(self.key.path)
        alone = last_identifier(table, asset)
        grouped = newest_grouped(catalog, table, asset) if self.together else None
        return max((number for number in (alone, grouped) if number is not None), default=None)

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        source: FeedResource = getattr(resources, self.feed.resource)
        lakehouse: LakehouseResource = getattr(resources, self.lake_resource)
        catalog = lakehouse.local_catalog()
        last = self.last_committed(table, catalog)
        through = self.feed.batch_key(last) if self.spec.batches and last is not None else None
        if not self.together or last is None or table.schema.primary_keys:
            return source.expected_rows(self.spec.name, through), through
        # An append table takes batches in any order, so some may be missing: the rows of each stretch without gaps.
        groups = recorded_groups(catalog, table, commit_user=self._user(source, ""))
        rows = 0
        for number in range(last + 1):
            if groups.is_committed(number) and not (number < last and groups.is_committed(number + 1)):
                rows += source.expected_rows(self.spec.name, self.feed.batch_key(number))
            elif not groups.is_committed(number) and groups.is_committed(number + 1):
                rows -= source.expected_rows(self.spec.name, self.feed.batch_key(number))
        return rows, through

    def behind(self, table: lc.Table | None, resources: Any, instance: dg.DagsterInstance) -> Behind:
        source: FeedResource = getattr(resources, self.feed.resource)
        lakehouse: LakehouseResource = getattr(resources, self.lake_resource)
        catalog = lakehouse.local_catalog()
        done = None if table is None else self.last_committed(table, catalog)
        offered = self._offered(instance)
        if table is not None and self.together:
            groups = recorded_groups(catalog, table, commit_user=self._user(source, ""))
            left = [batch for batch in offered if not groups.is_committed(batch.identifier)]
        else:
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
