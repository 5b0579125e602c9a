"""Feed source: the batches of a step, or the feed as a whole."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import dagster as dg

import lakehouse_core as lc
from lakehouse_dagster.feed import WHOLE, Batch, Feed, batches_of, commit_user, first_range
from lakehouse_dagster.pipeline import (
    Groups,
    committed_alone,
    gap_reason,
    held_back,
    last_identifier,
    late_reason,
    newest_grouped,
    recorded_groups,
    refuse_gap,
    refuse_late,
    refuse_other_version,
    without_gap,
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
            by_run=not self.spec.batches,
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
        keys, order = self.feed.batches.get_partition_keys(), self._order(instance)
        groups = self._committed(table, resources)
        left = _left(keys, order, groups)
        offered = {*order}
        waiting = [batch for batch in left if self._has_rows(source, keys, batch.identifier)]
        ready: Sequence[Batch] = ()
        fault = ""
        try:
            ready, fault = self._ready(table, waiting if self.together else left, groups, resources)
        except lc.InvalidRequest as error:
            fault = str(error)
        found = [str(batch.key) for batch in ready]
        return Behind(
            source=self.label,
            unit="batch",
            waiting=tuple(str(batch.key) for batch in waiting),
            # Each of the batches that are committed together is staged by a run of its own.
            partitions=found if self.together else first_range(found, order),
            newest=next((key for key in reversed(keys) if key in offered), ""),
            taken="" if groups.last_committed < 0 else keys[groups.last_committed],
            fault=fault if waiting else "",
        )

    def scheduled_keys(
        self,
        table: lc.Table | None,
        asset: dg.AssetKey,
        resources: Any,
        instance: dg.DagsterInstance,
        *,
        now: datetime,
    ) -> Sequence[str] | None:
        if not self.spec.batches:
            return None
        keys, order = self.feed.batches.get_partition_keys(), self._order(instance)
        groups = self._committed(table, resources)
        ready, _ = self._ready(table, _left(keys, order, groups), groups, resources)
        return first_range([str(batch.key) for batch in ready], order)

    def _has_rows(self, source: FeedResource, keys: Sequence[str], place: int) -> bool:
        """Return whether a batch brings rows: without rows it leaves no commit. The last of all may have some."""
        before = keys[place - 1] if place else None
        return place + 1 == len(keys) or source.is_gap(self.spec.name, before, keys[place + 1])

    def _order(self, instance: dg.DagsterInstance) -> Sequence[str]:
        """Return the partitions in the order of Dagster, which is that in which they were offered."""
        return self.feed.partitions.get_partition_keys(dynamic_partitions_store=instance)

    def _committed(self, table: lc.Table | None, resources: Any) -> Groups:
        """Return which batches the table has of the present version of the feed."""
        user = self._user(getattr(resources, self.feed.resource), "")
        if table is not None and self.together:
            lakehouse: LakehouseResource = getattr(resources, self.lake_resource)
            return recorded_groups(lakehouse.local_catalog(), table, commit_user=user)
        return committed_alone(table, commit_user=user)

    def _ready(
        self, table: lc.Table | None, left: Sequence[Batch], groups: Groups, resources: Any
    ) -> tuple[Sequence[Batch], str]:
        """Return those of the batches `left` that the table can take now, and why it can never take one of the others.

        Raises InvalidRequest when it can take none.
        """
        source: FeedResource = getattr(resources, self.feed.resource)
        user, is_gap = self._user(source, ""), partial(source.is_gap, self.spec.name)
        if self.together:
            if table is not None:
                refuse_other_version(table, commit_user=user)
            late = [batch for batch in left if self.in_order and batch.identifier < groups.last_committed]
            fault = f"{self.label}: {late_reason(late[0], self._name(groups.last_committed))}." if late else ""
            return [batch for batch in left if batch not in late], fault
        if table is not None:
            refuse_gap(table, left[:1], self.feed, is_gap, commit_user=user)
        last = self.feed.batch_key(groups.last_committed)
        ready = without_gap(left, last, is_gap)
        if left and not ready:
            raise lc.InvalidRequest(f"{self.label}: {gap_reason(left[0], last)}")
        return ready, ""


def _left(keys: Sequence[str], order: Sequence[str], groups: Groups) -> list[Batch]:
    """Return the batches that are offered and not committed, in their order. A key that is not a batch is left out."""
    offered = {*order}
    return [
        Batch(key=key, identifier=place)
        for place, key in enumerate(keys)
        if key in offered and not groups.is_committed(place)
    ]
