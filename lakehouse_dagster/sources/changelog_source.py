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
from lakehouse_dagster.pipeline import AFTER, committed_identifier, incarnation, open_table
from lakehouse_dagster.resources import LakehouseResource
from lakehouse_dagster.sources.followed import check_same, followed_mark, last_rollback, undone_after
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
        first: list[Batch] = []
        after: dict[int, int] = {}

        def batches_to_stage(table: lc.Table) -> list[Batch]:
            state = first_state(followed, table, commit_user=user)
            if state is not None:
                first.append(state)
                # Changes that were staged before it, and cannot be continued.
                for staged in table.all_pending(user):
                    table.forget_pending(staged)
            found = unapplied(followed, table, commit_user=user) if state is None else [state]
            # Before they are read: an expiry that comes first is seen by the reading.
            hold_changes(followed, table, self.key, commit_user=user)
            numbers = [batch.identifier for batch in found]
            after.update(zip(numbers, [committed_identifier(table, user) or 0, *numbers], strict=False))
            return found

        def read(batch: Batch) -> pa.Table:
            made = state_of if batch in first else changes_of
            return made(followed, batch.identifier, self.columns, self.spec.while_null)

        return Delivery(
            user=user,
            version=incarnation(followed),
            snapshot_id=followed.content_snapshot_id() or 0,
            batches_to_stage=batches_to_stage,
            batches_to_commit=lambda table: pending_changes(followed, table, commit_user=user),
            read=read,
            rowkind_column=ROWKIND,
            properties=lambda batch: {
                AFTER: str(after[batch.identifier]),
                **followed_mark(followed, batch.identifier),
            },
            committed=lambda table: hold_changes(followed, table, self.key, commit_user=user),
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
            state = first_state(followed, table, commit_user=user)
            found = unapplied(followed, table, commit_user=user) if state is None else [state]
            waiting = [batch.identifier for batch in found]
        except (lc.SnapshotExpired, lc.InvalidRequest) as error:
            newest = str(followed.content_snapshot_id() or "")
            return Behind(source=self.spec.table, unit=unit, newest=newest, taken=taken, fault=str(error))
        return Behind(
            source=self.spec.table,
            unit=unit,
            waiting=tuple(map(str, waiting)),
            held="" if table is None else self._held(followed, table, user),
            since=_time(followed, waiting[0]) if waiting else None,
            newest=str(waiting[-1]) if waiting else taken,
            taken=taken,
        )

    def _held(self, followed: lc.Table, table: lc.Table, user: str) -> str:
        """Return from which snapshot on the changes are held for the table; they are held again if they are not."""
        name, done = consumer_name(self.key), committed_identifier(table, user)
        if done is None:
            return ""
        if (next_id := next_of_consumer(followed, name)) is None:
            # It was removed because nothing had come for long, or the run that took changes was killed.
            hold_changes(followed, table, self.key, commit_user=user)
            next_id = done + 1
        return f"from snapshot {next_id} on, by consumer {name}"


def changes_user(followed: lc.Table, key: dg.AssetKey) -> str:
    """Return the commit user of the changes for the table of asset `key`: the same in each run."""
    return f"{_CHANGES}/{followed.name}@{incarnation(followed)}/{'/'.join(key.path)}"


def consumer_name(key: dg.AssetKey) -> str:
    """Return the name of the consumer by which the table of asset `key` holds the changes that it has yet to take."""
    return f"{_CHANGES}.{'.'.join(key.path)}"


def hold_changes(followed: lc.Table, table: lc.Table, key: dg.AssetKey, *, commit_user: str) -> None:
    """Let expiries of `followed` keep the changes after those that `table` has committed.

    The position is written after a commit, never before it, so a run that dies holds too much and never too little. It
    is written again when it is the same, because a table may remove consumers that are not written for long.
    """
    followed.set_consumer(consumer_name(key), (committed_identifier(table, commit_user) or 0) + 1)


def next_of_consumer(followed: lc.Table, name: str) -> int | None:
    """Return the snapshot that a consumer reads next; None without it, and where it cannot be read."""
    try:
        rows = followed.system("consumers").to_arrow().to_pylist()
    except lc.CorruptTable:
        return None
    return next((row["next_snapshot_id"] for row in rows if row["consumer_id"] == name), None)


def unapplied(followed: lc.Table, table: lc.Table | None, *, commit_user: str) -> list[Batch]:
    """Return the snapshots of `followed` whose changes `table`, None before it is created, has not committed, oldest
    first.

    Raises SnapshotExpired when the changes of one are expired, and not staged either; a table without any snapshot can
    begin with the `first_state` then. Raises InvalidRequest when the table that `table` followed was dropped since, or
    rolled back to a snapshot before the changes that it has: rows of before would stay for ever.
    """
    done, undone = 0, frozenset[int]()
    if table is not None:
        others = _followed_so_far(followed.name, table)
        if others and commit_user not in others:
            raise lc.InvalidRequest(
                f"{table.name}: found changes of {others[-1]}, but {followed.name} is another table now "
                f"({commit_user}). Drop {table.name}; the next run makes it anew."
            )
        done = committed_identifier(table, commit_user) or 0
        check_same(followed, table, commit_user)
        if done or table.snapshot() is not None:
            staged = _staged(table, commit_user)
            undone = undone_after(followed, table, done, commit_user=commit_user, staged=staged)
        # The rows after the rollback are staged, and not yet committed.
        elif last_rollback(followed, 0) and (found := _staged_and_later(followed, table, 0, commit_user=commit_user)):
            return found
    error: lc.LakehouseError
    try:
        return [each for each in _changed_after(followed, done) if each.identifier not in undone]
    except lc.SnapshotExpired as expired:
        error = expired
    try:
        if table is not None and (found := _staged_and_later(followed, table, done, commit_user=commit_user)):
            return [each for each in found if each.identifier not in undone]
    except (lc.SnapshotExpired, lc.InvalidRequest) as missing:
        error = missing
    if table is None:
        raise error
    raise lc.SnapshotExpired(
        f"{table.name}: it has the changes of {followed.name} up to snapshot {done}, and not all of the later ones are "
        f"kept: {error} Drop {table.name}: the next run makes it anew. Let {followed.name} keep its snapshots for "
        "longer."
    ) from error


def first_state(followed: lc.Table, table: lc.Table | None, *, commit_user: str) -> Batch | None:
    """Return the snapshot of `followed` with whose rows a table begins that can no longer have all changes, because
    some are expired or were rolled back; None if it can, or has begun.
    """
    if (table is not None and table.snapshot() is not None) or (latest := followed.snapshot()) is None:
        return None
    rollback = last_rollback(followed, 0)
    if rollback is None:
        try:
            _changed_after(followed, 0)
        except lc.SnapshotExpired:
            pass
        else:
            return None
    try:
        # Of the changes from the first one on, or of an earlier state, which the later ones continue.
        found = [] if table is None else _staged_and_later(followed, table, 0, commit_user=commit_user)
        if found and (rollback is None or found[0].identifier >= rollback.id):
            return None
    except (lc.SnapshotExpired, lc.InvalidRequest):
        pass
    return _snapshot_batch(followed, latest.id)


def _staged_and_later(followed: lc.Table, table: lc.Table, done: int, *, commit_user: str) -> list[Batch]:
    """Return the snapshots whose changes are staged, which need not be read again, and those after them; none if none
    is staged. Raises SnapshotExpired, InvalidRequest when one in between is missing.
    """
    staged = _staged_after(followed, table, done, commit_user=commit_user)
    return [*staged, *_changed_after(followed, staged[-1].identifier)] if staged else []


def _changed_after(followed: lc.Table, snapshot_id: int) -> list[Batch]:
    plan = followed.changes(after=snapshot_id).plan()
    return [_snapshot_batch(followed, each) for each in sorted({split.snapshot_id for split in plan.splits})]


def _staged(table: lc.Table, commit_user: str) -> list[int]:
    return [each.commit_identifier for each in table.all_pending(commit_user)]


def _followed_so_far(name: str, table: lc.Table) -> list[str]:
    """Return the commit users of the changes that `table` has of tables with a name: a table made again has another."""
    return [each.commit_user for each in table.committers() if each.commit_user.startswith(f"{_CHANGES}/{name}@")]


def pending_changes(followed: lc.Table, table: lc.Table, *, commit_user: str) -> list[Batch]:
    """Return the snapshots of `followed` whose changes are staged in `table`, oldest first, also those that are expired
    meanwhile.

    A committed one is included while its staged commit is stored: a replay removes it. Raises CorruptTable for a staged
    commit that is damaged, and InvalidRequest for one that follows changes which the table does not have.
    """
    done = committed_identifier(table, commit_user) or 0
    committed = [each for each in _staged(table, commit_user) if each <= done]
    return [
        *(_snapshot_batch(followed, each) for each in committed),
        *_staged_after(followed, table, done, commit_user=commit_user),
    ]


def _staged_after(followed: lc.Table, table: lc.Table, done: int, *, commit_user: str) -> list[Batch]:
    """Return the snapshots whose changes are staged and not committed. Raises CorruptTable, InvalidRequest."""
    before, found = done, []
    for staged in table.all_pending(commit_user):
        if staged.commit_identifier <= done:
            continue
        # Releases before this one did not note it.
        after = int(staged.properties.get(AFTER, before))
        if after != before:
            raise lc.InvalidRequest(
                f"{table.name}: the changes of {followed.name} in snapshot {staged.commit_identifier} are staged, and "
                f"those of snapshot {after} before them are neither staged nor committed. Run the ingest again, which "
                "stages them."
            )
        before = staged.commit_identifier
        found.append(_snapshot_batch(followed, before))
    return found


def state_of(followed: lc.Table, snapshot_id: int, columns: Iterable[str], while_null: Iterable[str]) -> pa.Table:
    """Return the rows at one snapshot for a table that has a row while the columns `while_null` are null."""
    kept = " AND ".join(f"{column} IS NULL" for column in while_null) or None
    rows = followed.scan(list(columns), where=kept, at=lc.AtSnapshot(snapshot_id)).to_arrow()
    return rows.append_column(ROWKIND, pa.array(["+U"] * rows.num_rows, pa.string()))


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
