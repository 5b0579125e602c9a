"""Feeds, their batches, and the identity under which each batch is committed once.

Rule: a batch is a partition key of Dagster; its ordinal is the commit identifier, which never depends on a clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

import lakehouse_core as lc


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch: its partition key (None: the feed is loaded whole) and its ordinal among all batches."""

    key: str | None
    identifier: int


WHOLE = Batch(key=None, identifier=0)
# The first part of the commit users of what runs load. Stored in snapshots: never change it.
RUN_USERS = "run/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A source of batches for a table's assets: the upstream asset, the resource that reads it, its feeds by name, its
    batches. docs/dagster.md has an example with its `FeedResource`.

    `resource` is the key of the `FeedResource` in the code location, and `names` are what its feeds are called.
    `batches` has all batches that there can be: the place of a batch in it is its commit identifier. With `delivered`,
    Dagster offers only the batches that were delivered, so a missing partition is one that can be loaded. Without it,
    Dagster offers all `batches`, which suits a feed that continues to the present day.
    """

    key: dg.AssetKey
    # What the feed is made from; feeds that are loaded whole hang on it directly.
    source: dg.AssetKey
    resource: str
    names: tuple[str, ...]
    batches: dg.TimeWindowPartitionsDefinition
    delivered: dg.DynamicPartitionsDefinition | None = None

    @property
    def partitions(self) -> dg.PartitionsDefinition:
        """The partitions of the assets that take the batches."""
        return self.batches if self.delivered is None else self.delivered

    def batch(self, key: str) -> Batch:
        """Return the batch of a partition key. Raises InvalidRequest for a key that the feed cannot have."""
        keys = self.batches.get_partition_keys()
        if key not in keys:
            raise lc.InvalidRequest(
                f"feed {self.key.to_user_string()}: found partition {key!r}, expected a batch from {keys[0]} to "
                f"{keys[-1]}. Delete the partition, or name a batch."
            )
        return Batch(key=key, identifier=keys.index(key))

    def offer(self, instance: dg.DagsterInstance, keys: Sequence[str]) -> None:
        """Offer delivered batches as partitions. A feed without `delivered` offers all of its batches anyway."""
        if new := self.not_offered(instance, keys):
            assert self.delivered is not None
            instance.add_dynamic_partitions(str(self.delivered.name), new)

    def not_offered(self, instance: dg.DagsterInstance, keys: Sequence[str]) -> list[str]:
        """Return those of the `keys` that are not partitions yet, in the order of the batches: ranges follow it."""
        if self.delivered is None:
            return []
        offered = set(instance.get_dynamic_partitions(str(self.delivered.name)))
        batches = sorted((self.batch(key) for key in {*keys} - offered), key=lambda batch: batch.identifier)
        return [batch.key for batch in batches if batch.key is not None]

    def batch_key(self, identifier: int) -> str | None:
        """Return the partition key of a commit identifier, None for one that no batch has."""
        keys = self.batches.get_partition_keys()
        return keys[identifier] if 0 <= identifier < len(keys) else None


def batches_of(context: dg.AssetExecutionContext, feed: Feed) -> list[Batch]:
    """Return the batches of a step, oldest first: one partition or a range of them."""
    return sorted((feed.batch(key) for key in context.partition_keys), key=lambda batch: batch.identifier)


def first_range(keys: Sequence[str], order: Sequence[str]) -> Sequence[str]:
    """Return the longest beginning of `keys` that is one range of `order`, in that order.

    Dagster slices a range of partitions in the order in which they were added, which may not be that of the batches.
    """
    places = {key: place for place, key in enumerate(order)}
    first = last = places[keys[0]] if keys else 0
    found: Sequence[str] = ()
    for count, key in enumerate(keys, start=1):
        first, last = min(first, places[key]), max(last, places[key])
        if last - first + 1 == count:
            found = order[first : last + 1]
    return found


def commit_user(*, table: str, feed: str, version: str, root_run_id: str, is_batched: bool) -> str:
    """Return the commit user of `table`.

    The user of a batch is the feed in its version: every run that takes the batch has the same user, so the table takes
    it once. A whole load is new in each run: its user is the root run, the same for each re-execution.
    """
    return f"feed/{feed}@{version}/{table}" if is_batched else run_user(table, root_run_id)


def run_user(table: str, root_run_id: str) -> str:
    """Return the commit user of what a run loads as a whole: the same in each re-execution of the run."""
    return f"{RUN_USERS}{root_run_id}/{table}"
