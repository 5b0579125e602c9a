"""Where the rows of a table come from, as its assets see it: batches of a feed, or the changes of another table.

Either way each batch is a commit of its own under a stable user and a rising identifier. Of a feed it is the ordinal of
the batch; of a changelog the snapshot that made the changes, so that a table knows by its own commits how far it is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc
from assets.batches import WHOLE, Batch, Feed, batches_of, commit_user
from assets.ingestion import refuse_gap
from assets.specs import ChangesSpec, FeedSpec
from assets.state import committed_identifier, last_identifier
from resources import FeedResource, LakehouseResource

# Row kinds of the changes that are kept or taken away; -U only repeats what was there before.
ROWKIND = "rowkind"

Expected: TypeAlias = tuple[int, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What one step takes in: who commits, which batches, and how the rows of one are read.

    `due` names the batches to stage and refuses a table that cannot take them; `staged` those to commit.
    """

    user: str
    version: str
    snapshot_id: int
    due: Callable[[lc.Table], list[Batch]]
    staged: Callable[[lc.Table], list[Batch]]
    read: Callable[[Batch], object]
    rowkind_column: str | None = None


class Inflow(Protocol):
    """The source of a table's rows. `says` is how texts call it, `column_prefix` what its columns begin with."""

    @property
    def upstream(self) -> dg.AssetKey: ...

    @property
    def says(self) -> str: ...

    @property
    def column_prefix(self) -> str: ...

    @property
    def resources(self) -> frozenset[str]:
        """The resources that it needs beside the lakehouse."""
        ...

    @property
    def batching(self) -> Mapping[str, Any]:
        """The arguments of assets that take its batches; none where a run takes all that is there."""
        ...

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool) -> Delivery: ...

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        """Return how many rows the table must have after what it has committed, and through which batch that is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedInflow:
    """Rows of a feed. `key` is the asset of the table that takes them."""

    feed: Feed
    spec: FeedSpec
    key: dg.AssetKey

    @property
    def upstream(self) -> dg.AssetKey:
        return self.feed.key if self.spec.batches else self.feed.source

    @property
    def says(self) -> str:
        return f"feed {self.spec.name}"

    @property
    def column_prefix(self) -> str:
        return f"{self.spec.name}."

    @property
    def resources(self) -> frozenset[str]:
        return frozenset({self.feed.resource})

    @property
    def batching(self) -> Mapping[str, Any]:
        if not self.spec.batches:
            return {}
        return {"partitions_def": self.feed.batches, "backfill_policy": dg.BackfillPolicy.single_run()}

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool) -> Delivery:
        source: FeedResource = getattr(context.resources, self.feed.resource)
        lakehouse: LakehouseResource = context.resources.lakehouse
        user = commit_user(
            table="/".join(self.key.path),
            feed=f"{self.spec.source}/{self.spec.name}",
            version=source.version(),
            root_run_id=context.run.root_run_id or context.run.run_id,
            is_batched=self.spec.batches,
        )
        # A run over a range of batches tells every asset in it of the range, also those that have none.
        batches = batches_of(context, self.feed) if self.spec.batches else [WHOLE]

        def due(table: lc.Table) -> list[Batch]:
            refuse_gap(table, batches, self.feed, partial(source.is_gap, self.spec.name), commit_user=user)
            return batches

        def read(batch: Batch) -> object:
            if in_spark:
                return source.frame(lakehouse.spark.spark_session, self.spec.name, batch.key)
            return source.rows(self.spec.name, batch.key)

        return Delivery(
            user=user, version=source.version(), snapshot_id=0, due=due, staged=lambda _: batches, read=read
        )

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        source: FeedResource = getattr(resources, self.feed.resource)
        last = last_identifier(table, "/".join(self.key.path))
        through = self.feed.batch_key(last) if self.spec.batches and last is not None else None
        return source.expected_rows(self.spec.name, through), through


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesInflow:
    """The changes of another table of the same warehouse, a batch a snapshot that has any.

    `columns`: those of the table that takes them.
    """

    spec: ChangesSpec
    columns: tuple[str, ...]
    key: dg.AssetKey
    lake: str

    @property
    def upstream(self) -> dg.AssetKey:
        return dg.AssetKey([self.lake, *self.spec.table.split(".")])

    @property
    def says(self) -> str:
        return f"the changes of {self.spec.table}"

    @property
    def column_prefix(self) -> str:
        return ""

    @property
    def resources(self) -> frozenset[str]:
        return frozenset()

    @property
    def batching(self) -> Mapping[str, Any]:
        return {}

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool) -> Delivery:
        lakehouse: LakehouseResource = context.resources.lakehouse
        followed = lakehouse.local_catalog().table(self.spec.table)
        user = changes_user(followed, self.key)
        return Delivery(
            user=user,
            version=_incarnation(followed),
            snapshot_id=followed.content_snapshot_id() or 0,
            due=lambda table: unapplied(followed, table, commit_user=user),
            staged=lambda table: pending_changes(followed, table, commit_user=user),
            read=lambda batch: changes_of(followed, batch.identifier, self.columns, self.spec.while_null),
            rowkind_column=ROWKIND,
        )

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        lakehouse: LakehouseResource = resources.lakehouse
        followed = lakehouse.local_catalog().table(self.spec.table)
        user = changes_user(followed, self.key)
        done = committed_identifier(table, user) or 0
        # What is not applied yet, this table need not know; where nothing is, later snapshots changed no row.
        at = lc.AtSnapshot(done) if done and unapplied(followed, table, commit_user=user) else lc.Latest()
        where = " AND ".join(f"{column} IS NULL" for column in self.spec.while_null)
        return followed.scan(where=where, at=at).count(), f"{self.spec.table} snapshot {done}"


def changes_user(followed: lc.Table, key: dg.AssetKey) -> str:
    """Return who commits the changes of a table to the table of asset `key`: the same for each run."""
    return f"changes/{followed.name}@{_incarnation(followed)}/{'/'.join(key.path)}"


def unapplied(followed: lc.Table, table: lc.Table, *, commit_user: str) -> list[Batch]:
    """Return the snapshots of `followed` whose changes `table` has not committed, oldest first.

    Raises SnapshotExpired when the changes of one are gone, InvalidRequest when `table` follows a table that was
    dropped since: rows that only that one had would stay for ever.
    """
    same_table = commit_user.partition("@")[0] + "@"
    others = [c.commit_user for c in table.committers() if c.commit_user.startswith(same_table)]
    if others and commit_user not in others:
        raise lc.InvalidRequest(
            f"{table.name}: it was kept from {others[-1]}, and {followed.name} is another table now ({commit_user}). "
            f"Drop {table.name}: the next run makes it anew."
        )
    plan = followed.changes(after=committed_identifier(table, commit_user) or 0).plan()
    return [_snapshot_batch(followed, each) for each in sorted({split.snapshot_id for split in plan.splits})]


def pending_changes(followed: lc.Table, table: lc.Table, *, commit_user: str) -> list[Batch]:
    """Return the snapshots of `followed` whose changes are staged in `table`, oldest first.

    Those that were committed without being forgotten are among them: committing them again forgets them.
    """
    retained = {snapshot.id for snapshot in (*followed.changelogs(), *followed.snapshots())}
    return [
        _snapshot_batch(followed, each) for each in sorted(retained) if table.pending(commit_user, each) is not None
    ]


def changes_of(followed: lc.Table, snapshot_id: int, columns: Iterable[str], while_null: Iterable[str]) -> pa.Table:
    """Return what one snapshot means for a table that has a row as long as `while_null` are null: +U or -D a key.

    One snapshot: it changes a key at most once, so its rows may reach their bucket in any order.
    """
    changes = followed.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow()
    changes = changes.filter(pc.not_equal(changes[ROWKIND], "-U"))
    stays = pc.not_equal(changes[ROWKIND], "-D")
    for column in while_null:
        stays = pc.and_(stays, pc.is_null(changes[column]))
    return changes.select(list(columns)).append_column(ROWKIND, pc.if_else(stays, "+U", "-D"))


def _snapshot_batch(followed: lc.Table, snapshot_id: int) -> Batch:
    return Batch(key=f"{followed.name}@{snapshot_id}", identifier=snapshot_id)


def _incarnation(table: lc.Table) -> str:
    # Snapshot ids begin at 1 again in a table that was dropped and made anew.
    return str(table.schemas()[0].time_millis)
