"""Changelog source: rows from the changelog of another table of the lake, one batch for each snapshot that changed
rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline import committed_identifier, incarnation, open_table
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.sources.row_source import Behind, Delivery, Expected, RowSource
from lakehouse_dagster.specs import ChangesSpec

# Row kinds of the changes that are kept or taken away; -U only repeats what was there before.
ROWKIND = "rowkind"
# The first part of the commit users. Stored in snapshots: never change it.
_CHANGES = "changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogSource(RowSource):
    """The changes of the table at `upstream`, one batch for each snapshot with changes.

    `columns` and `key` are those of the table that takes the changes.
    """

    spec: ChangesSpec
    columns: tuple[str, ...]
    key: dg.AssetKey
    upstream: dg.AssetKey
    # The key of the lake's resource.
    lake_resource: str

    @property
    def label(self) -> str:
        return f"the changes of {self.spec.table}"

    @property
    def tells_rows(self) -> bool:
        return True

    @property
    def tells_news(self) -> bool:
        return True

    @property
    def is_derived(self) -> bool:
        return True

    def delivery(self, context: dg.AssetExecutionContext, *, in_spark: bool, inputs: Mapping[str, Any]) -> Delivery:
        lakehouse: LakehouseResource = getattr(context.resources, self.lake_resource)
        followed = lakehouse.local_catalog().table(self.spec.table)
        user = changes_user(followed, self.key)
        return Delivery(
            user=user,
            version=incarnation(followed),
            snapshot_id=followed.content_snapshot_id() or 0,
            batches_to_stage=lambda table: unapplied(followed, table, commit_user=user),
            batches_to_commit=lambda table: pending_changes(followed, table, commit_user=user),
            read=lambda batch: changes_of(followed, batch.identifier, self.columns, self.spec.while_null),
            rowkind_column=ROWKIND,
        )

    def expected_rows(self, table: lc.Table, resources: Any) -> Expected:
        lakehouse: LakehouseResource = getattr(resources, self.lake_resource)
        followed = lakehouse.local_catalog().table(self.spec.table)
        user = changes_user(followed, self.key)
        done = committed_identifier(table, user) or 0
        # What is not applied yet, this table need not know; where nothing is, later snapshots changed no row.
        at = lc.AtSnapshot(done) if done and unapplied(followed, table, commit_user=user) else lc.Latest()
        where = " AND ".join(f"{column} IS NULL" for column in self.spec.while_null)
        return followed.scan(where=where or None, at=at).count(), f"{self.spec.table} snapshot {done}"

    def behind(self, table: lc.Table | None, resources: Any, instance: dg.DagsterInstance) -> Behind:
        lakehouse: LakehouseResource = getattr(resources, self.lake_resource)
        followed = open_table(lakehouse.local_catalog(), self.spec.table)
        unit = "snapshot"
        if followed is None:
            if table is None or not (users := _followed_so_far(self.spec.table, table)):
                return Behind(source=f"{self.spec.table}, which is not created yet", unit=unit)
            fault = (
                f"{table.name}: found changes of {users[-1]}, but the table {self.spec.table} is not there any more. "
                f"Make it again, and drop {table.name}: a run makes it anew."
            )
            return Behind(source=self.spec.table, unit=unit, fault=fault)
        user = changes_user(followed, self.key)
        done = None if table is None else committed_identifier(table, user)
        taken = "" if done is None else str(done)
        try:
            waiting = [batch.identifier for batch in unapplied(followed, table, commit_user=user)]
        except (lc.SnapshotExpired, lc.InvalidRequest) as error:
            newest = str(followed.content_snapshot_id() or "")
            return Behind(source=self.spec.table, unit=unit, newest=newest, taken=taken, fault=str(error))
        return Behind(
            source=self.spec.table,
            unit=unit,
            waiting=tuple(map(str, waiting)),
            since=_time(followed, waiting[0]) if waiting else None,
            newest=str(waiting[-1]) if waiting else taken,
            taken=taken,
        )


def changes_user(followed: lc.Table, key: dg.AssetKey) -> str:
    """Return the commit user of the changes for the table of asset `key`: the same in each run."""
    return f"{_CHANGES}/{followed.name}@{incarnation(followed)}/{'/'.join(key.path)}"


def unapplied(followed: lc.Table, table: lc.Table | None, *, commit_user: str) -> list[Batch]:
    """Return the snapshots of `followed` whose changes `table`, None before it is created, has not committed, oldest
    first.

    Raises SnapshotExpired when the changes of one are expired. Raises InvalidRequest when the table that `table`
    followed was dropped since: rows of that table would stay for ever.
    """
    done = 0
    if table is not None:
        others = _followed_so_far(followed.name, table)
        if others and commit_user not in others:
            raise lc.InvalidRequest(
                f"{table.name}: found changes of {others[-1]}, but {followed.name} is another table now "
                f"({commit_user}). Drop {table.name}; the next run makes it anew."
            )
        done = committed_identifier(table, commit_user) or 0
    plan = followed.changes(after=done).plan()
    return [_snapshot_batch(followed, each) for each in sorted({split.snapshot_id for split in plan.splits})]


def _followed_so_far(name: str, table: lc.Table) -> list[str]:
    """Return the commit users of the changes that `table` has of tables with a name: a table made again has another."""
    return [each.commit_user for each in table.committers() if each.commit_user.startswith(f"{_CHANGES}/{name}@")]


def pending_changes(followed: lc.Table, table: lc.Table, *, commit_user: str) -> list[Batch]:
    """Return the snapshots of `followed` whose changes are staged in `table`, oldest first.

    A committed one is included while its staged commit is stored: a replay removes it.
    """
    retained = {snapshot.id for snapshot in (*followed.changelogs(), *followed.snapshots())}
    return [
        _snapshot_batch(followed, each) for each in sorted(retained) if table.pending(commit_user, each) is not None
    ]


def changes_of(followed: lc.Table, snapshot_id: int, columns: Iterable[str], while_null: Iterable[str]) -> pa.Table:
    """Return the changes of one snapshot for a table that has a row while the columns `while_null` are null: +U or -D a
    key.

    A snapshot changes a key at most once, so its rows may reach their bucket in any order.
    """
    changes = followed.changes(after=snapshot_id - 1, until=snapshot_id).to_arrow()
    changes = changes.filter(pc.not_equal(changes[ROWKIND], "-U"))
    stays = pc.not_equal(changes[ROWKIND], "-D")
    for column in while_null:
        stays = pc.and_(stays, pc.is_null(changes[column]))
    return changes.select(list(columns)).append_column(ROWKIND, pc.if_else(stays, "+U", "-D"))


def _snapshot_batch(followed: lc.Table, snapshot_id: int) -> Batch:
    return Batch(key=f"{followed.name}@{snapshot_id}", identifier=snapshot_id)


def _time(table: lc.Table, snapshot_id: int) -> datetime | None:
    """Return when a snapshot was made whose changes can be read."""
    try:
        found = table.snapshot(snapshot_id)
    except lc.SnapshotExpired:
        # A changelog is retained for longer than its snapshot.
        found = next((each for each in table.changelogs() if each.id == snapshot_id), None)
    return None if found is None else datetime.fromtimestamp(found.time_millis / 1000, UTC)
