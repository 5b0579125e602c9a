"""Groups: which batches of a table are committed in one snapshot. Batches are staged in parallel, in any order.

Rule: a group is recorded in the table `<database>.batch_groups` before it is committed, under its number. So a killed
committer is carried on, and no batch is committed twice (docs/decisions/0020).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from typing import Any, TypeVar

import lakehouse_core as lc
from lakehouse_dagster.feed import Batch
from lakehouse_dagster.pipeline.table_setup import open_table
from lakehouse_dagster.pipeline.table_state import committed_identifier, incarnation

T = TypeVar("T")

GROUPS = "batch_groups"
_COLUMNS = {
    "target": "STRING NOT NULL",
    "batch": "BIGINT NOT NULL",
    # Null for a batch whose group was committed in a history that was rolled back.
    "group_number": "BIGINT",
    "partition_key": "STRING",
    "row_count": "BIGINT",
    # The latest snapshot of the target when the group was recorded, 0 for none.
    "base_snapshot_id": "BIGINT",
    # The groups that the batch was withdrawn from. Another committer may commit them all the same.
    "withdrawn_groups": "ARRAY<BIGINT>",
}
# Snapshots of the table of groups, which has no maintenance assets. A reader of them needs less time than this.
_RETAINED, _RETAINED_FOR = 10, timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedBatch:
    """A batch of a group, the number of its rows, and the snapshot after which its group was recorded, 0 for none."""

    batch: Batch
    group: int
    rows: int
    base_snapshot_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The recorded groups of a table, by batch. `done`: the last group that is committed, -1 for none.

    `done_alone`: the last batch that was committed in a snapshot of its own, before batches were committed together.
    `revision`: the number of the last change of the record, -1 for none. `withdrawn`: the groups that batches were
    withdrawn from, by batch. `outlived`: the batches of those that were committed all the same, which the record does
    not tell yet.
    """

    batches: Mapping[int, GroupedBatch]
    revision: int
    done: int
    done_alone: int
    withdrawn: Mapping[int, Sequence[GroupedBatch]] = field(default_factory=dict)
    outlived: Sequence[GroupedBatch] = ()

    def is_committed(self, identifier: int) -> bool:
        """Return whether a batch is in the table."""
        found = self.batches.get(identifier)
        return identifier <= self.done_alone or (found is not None and found.group <= self.done)

    @property
    def last_committed(self) -> int:
        """The highest identifier of a batch in the table, -1 for none."""
        return max([self.done_alone, *(number for number in self.batches if self.is_committed(number))])

    @property
    def next_number(self) -> int:
        """The number of the next group. None is used twice: a committer may still be at a withdrawn group."""
        recorded = chain(self.batches.values(), *self.withdrawn.values())
        return 1 + max([self.done, *(each.group for each in recorded)])

    @property
    def unfinished(self) -> Mapping[int, list[GroupedBatch]]:
        """The groups that are not committed, in the order of their numbers; their batches oldest first."""
        found: dict[int, list[GroupedBatch]] = {}
        for each in sorted(self.batches.values(), key=lambda each: (each.group, each.batch.identifier)):
            if each.group > self.done:
                found.setdefault(each.group, []).append(each)
        return found


def group_user(commit_user: str) -> str:
    """Return the commit user of the groups of batches that `commit_user` stages."""
    # Not ending with the name of the table, by which the users of its batches are found.
    return f"{commit_user}/groups"


def recorded_groups(catalog: lc.Catalog, table: lc.Table, *, commit_user: str) -> Groups:
    """Return the groups of the batches that `commit_user` stages.

    The record is read before the table: a group that is in the record and not in the table is not committed. Raises
    CorruptTable if the record lacks a committed group, and StaleCommit if it cannot be known what is committed.
    """
    return _read(lambda: (_recorded(catalog, table, commit_user), None), table, commit_user)[0]


def read_groups(
    catalog: lc.Catalog, table: lc.Table, *, commit_user: str
) -> tuple[Groups, Mapping[int, lc.StagedCommit]]:
    """Return the groups of a table, and its staged batches by identifier.

    A batch of a group that is not committed, and that is not staged either, was committed in a history that was rolled
    back: staged commits are read before the table, and are removed after their commit. Raises as `recorded_groups`
    does.
    """

    def read() -> tuple[Groups, Mapping[int, lc.StagedCommit]]:
        recorded = _recorded(catalog, table, commit_user)
        # What is damaged is as if it were not staged: its ingest stages it again, and the others need not wait.
        return recorded, {each.commit_identifier: each for each in table.all_pending(commit_user, only_readable=True)}

    return _read(read, table, commit_user)


def record_group(
    catalog: lc.Catalog,
    table: lc.Table,
    groups: Groups,
    batches: Iterable[GroupedBatch],
    *,
    undone: Iterable[GroupedBatch],
    commit_user: str,
) -> bool:
    """Record the group of `batches`; return False when another committer has changed the record since `groups` were
    read.

    `undone` are batches of groups that were rolled back or cannot be committed, and that are withdrawn.
    """
    log = catalog.create_table(
        _log_name(table),
        _COLUMNS,
        primary_keys=["target", "batch"],
        options={"bucket": "1"},
        comment="Batches that tables take together, by group. Rows are added by the commits of the tables.",
        exist_ok=True,
    )
    for name in ("base_snapshot_id", "withdrawn_groups"):
        if name not in log.schema.column_names:
            log.alter(lc.AddColumn(name, _COLUMNS[name]))
    target = _target(table, commit_user)
    latest = table.snapshot()
    rows = [
        {
            "target": target,
            "batch": each.batch.identifier,
            "group_number": each.group if is_grouped else None,
            "partition_key": each.batch.key,
            "row_count": each.rows,
            "base_snapshot_id": 0 if latest is None else latest.id,
            "withdrawn_groups": [
                *(one.group for one in groups.withdrawn.get(each.batch.identifier, ())),
                *(() if is_grouped else (each.group,)),
            ],
        }
        for members, is_grouped in ((undone, False), (batches, True))
        for each in members
    ]
    staged = log.stage(rows, commit_user=_recorder(target), commit_identifier=groups.revision + 1)
    try:
        if log.commit(staged).replayed:
            return False
    except lc.StaleCommit:
        # So many others have changed the record that their first changes have expired.
        return False
    log.expire_snapshots(retain_min=_RETAINED, older_than=_RETAINED_FOR)
    return True


def committed_alone(table: lc.Table | None, *, commit_user: str) -> Groups:
    """Return what a table, None before it is created, has of a user whose batches are committed one by one."""
    done = None if table is None else committed_identifier(table, commit_user)
    return Groups(batches={}, revision=-1, done=-1, done_alone=-1 if done is None else done)


def newest_grouped(catalog: lc.Catalog, table: lc.Table, asset: str) -> int | None:
    """Return the highest identifier of the batches of an asset (`lake/ops/flights`) that were committed together."""
    users = {c.commit_user.removesuffix(group_user("")) for c in table.committers()}
    found = [
        recorded_groups(catalog, table, commit_user=user).last_committed for user in users if user.endswith(f"/{asset}")
    ]
    return max((number for number in found if number >= 0), default=None)


def held_back(
    batches: Iterable[Batch], groups: Groups, is_gap: Callable[[int | None, Batch], bool], name: Callable[[int], str]
) -> dict[int, str]:
    """Return the staged batches that must wait for others, with the reason, where the order of batches decides which
    row of a key is the newest.

    `is_gap` returns whether batches between two bring rows; `name` the key of an identifier.
    """
    last = groups.last_committed
    before = None if last < 0 else last
    waiting: dict[int, str] = {}
    reason = ""
    for batch in sorted(batches, key=lambda each: each.identifier):
        if batch.identifier < last:
            waiting[batch.identifier] = late_reason(batch, name(last))
        elif reason or is_gap(before, batch):
            reason = reason or f"it waits for the batches after {'the start' if before is None else name(before)}"
            waiting[batch.identifier] = reason
        else:
            before = batch.identifier
    return waiting


def late_reason(batch: Batch, newest: str) -> str:
    """Return why a batch that is older than a committed one is not taken."""
    return (
        f"batch {batch.key} is older than {newest}, which is committed, and its rows would win over those of later "
        "batches. Load the table anew to take it"
    )


def _recorded(catalog: lc.Catalog, table: lc.Table, commit_user: str) -> Groups:
    """Return the record, as if no group were committed."""
    target, log = _target(table, commit_user), open_table(catalog, _log_name(table))
    if log is None:
        return Groups(batches={}, revision=-1, done=-1, done_alone=-1)
    # Read before the rows: who changes the record after it does not know what came meanwhile, and fails.
    revision = committed_identifier(log, _recorder(target))
    rows = log.scan(where=lc.col("target") == target).to_arrow().to_pylist()
    return Groups(
        batches={row["batch"]: _member(row, row["group_number"]) for row in rows if row["group_number"] is not None},
        revision=-1 if revision is None else revision,
        done=-1,
        done_alone=-1,
        withdrawn={
            row["batch"]: [_member(row, number) for number in row["withdrawn_groups"]]
            for row in rows
            if row.get("withdrawn_groups")
        },
    )


def _member(row: Mapping[str, Any], group: int) -> GroupedBatch:
    return GroupedBatch(
        batch=Batch(key=row["partition_key"], identifier=row["batch"]),
        group=group,
        rows=row["row_count"],
        base_snapshot_id=row.get("base_snapshot_id") or 0,
    )


def _read(read: Callable[[], tuple[Groups, T]], table: lc.Table, commit_user: str) -> tuple[Groups, T]:
    """Return what `read` returns, with what is committed. It is called again if the record lacks the last committed
    group: another committer may have recorded and committed that one meanwhile.
    """
    missing = -1
    while True:
        recorded, beside = read()
        groups = _with_done(recorded, table, commit_user)
        if groups.done < 0 or any(each.group == groups.done for each in groups.batches.values()):
            return groups, beside
        if groups.done == missing:
            raise lc.CorruptTable(
                f"{_log_name(table)}: it does not have group {missing} of {table.name}, which is committed: it was "
                "dropped, or it is older than that table. Nothing was committed. Restore it from a copy that is as new "
                "as the table, or load the table anew."
            )
        missing = groups.done


def _with_done(recorded: Groups, table: lc.Table, commit_user: str) -> Groups:
    """Add what is committed. Raises StaleCommit if it cannot be known."""
    found = {c.commit_user: c.commit_identifier for c in table.committers()}
    done = found.get(group_user(commit_user))
    if done is None:
        done = _done_by_history(recorded, table, commit_user)
    outlived = _outlived(recorded, table, commit_user, done)
    recorded = replace(
        recorded, outlived=outlived, batches={**recorded.batches, **{each.batch.identifier: each for each in outlived}}
    )
    return replace(recorded, done=done, done_alone=found.get(commit_user, -1))


def _outlived(recorded: Groups, table: lc.Table, commit_user: str, done: int) -> Sequence[GroupedBatch]:
    """Return the batches of groups that one committer has withdrawn, and another one has committed."""
    open_ones = [
        each
        for number, groups in recorded.withdrawn.items()
        if number not in recorded.batches or recorded.batches[number].group > done
        for each in groups
        if each.group <= done
    ]
    if not open_ones:
        return ()
    user = group_user(commit_user)
    committed = {done, *(one.commit_identifier for one in table.snapshots() if one.commit_user == user)}
    return [each for each in open_ones if each.group in committed]


def _done_by_history(recorded: Groups, table: lc.Table, commit_user: str) -> int:
    """Return the last committed group, -1 for none, of a user whom the table does not list: it has committed nothing,
    its commits were rolled back, or too many other users have committed since.
    """
    if not recorded.batches and not recorded.withdrawn:
        return -1
    retained = table.snapshots()
    user = group_user(commit_user)
    numbers = [one.commit_identifier for one in retained if one.commit_user == user]
    if numbers:
        return max(numbers)
    # Had a group been committed, its snapshot would be one after this.
    base = min(each.base_snapshot_id for each in chain(recorded.batches.values(), *recorded.withdrawn.values()))
    first = min((one.id for one in retained), default=0)
    if first <= base + 1:
        return -1
    raise lc.StaleCommit(
        f"{table.name}: {_log_name(table)} has groups of batches since snapshot {base}. Whether they are committed is "
        f"neither in the committers of the table nor in its snapshots, retained from {first} on: too many other users "
        "have committed, or another engine. Nothing was committed. Load the table anew."
    )


def _recorder(target: str) -> str:
    return f"groups/{target}"


def _log_name(table: lc.Table) -> str:
    return f"{table.name.partition('.')[0]}.{GROUPS}"


def _target(table: lc.Table, commit_user: str) -> str:
    """Return what names the table and no other one that has its name later."""
    return f"{commit_user}@{incarnation(table)}"
