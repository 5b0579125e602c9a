"""Feeds, their batches, and the identity under which each batch is committed once.

Rule: a batch is a partition key of Dagster; its ordinal is the commit identifier, which never depends on a clock.
"""

from dataclasses import dataclass

import dagster as dg


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch: its partition key (None: the feed is loaded whole) and its ordinal among all batches."""

    key: str | None
    identifier: int


WHOLE = Batch(key=None, identifier=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A source of batches for a table's assets: the upstream asset, the resource that reads it, its feeds by name, its
    batches.
    """

    key: dg.AssetKey
    # What the feed is made from; feeds that are loaded whole hang on it directly.
    source: dg.AssetKey
    resource: str
    names: tuple[str, ...]
    batches: dg.TimeWindowPartitionsDefinition

    def batch(self, key: str) -> Batch:
        return Batch(key=key, identifier=self.batches.get_partition_keys().index(key))

    def batch_key(self, identifier: int) -> str | None:
        """Return the partition key of a commit identifier, None for one that no batch has."""
        keys = self.batches.get_partition_keys()
        return keys[identifier] if 0 <= identifier < len(keys) else None


def batches_of(context: dg.AssetExecutionContext, feed: Feed) -> list[Batch]:
    """Return the batches of a step, oldest first: one partition or a range of them."""
    return sorted((feed.batch(key) for key in context.partition_keys), key=lambda batch: batch.identifier)


def commit_user(*, table: str, feed: str, version: str, root_run_id: str, is_batched: bool) -> str:
    """Return the commit user of `table`.

    The user of a batch is the feed in its version: every run that takes the batch has the same user, so the table takes
    it once. A whole load is new in each run: its user is the root run, the same for each re-execution.
    """
    return f"feed/{feed}@{version}/{table}" if is_batched else f"run/{root_run_id}/{table}"
