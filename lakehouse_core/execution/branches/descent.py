"""Descent: whether a branch continues main's newest state, and which schemas main lacks.

Rule: what main has and the branch does not is never passed over. Where that cannot be told any more, it is refused.
Source: docs/semantics/maintenance.md#branches.
"""

from collections.abc import Callable, Iterable, Mapping, Set

from lakehouse_core.errors import CommitConflict, CorruptTable, InvalidRequest, NotFound, SnapshotExpired, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.read.waiting import waiting_row_count
from lakehouse_core.planning.commit.file_changes import FileChanges
from lakehouse_core.storage import read_all
from lakehouse_core.table.branch_base import SnapshotIdentity, identity_of, parse_base
from lakehouse_core.table.bucketing import may_wait
from lakehouse_core.table.data_layout import moved_places
from lakehouse_core.table.manifest import EntryKind
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import FORWARDED_FROM, Snapshot


def branch_base(branch: TableContext) -> SnapshotIdentity | None:
    """Return the snapshot that the branch continues by its mark, None without one. Raises CorruptTable."""
    key = branch.layout.branch_base
    data = branch.store.read_found([key]).get(key)
    return None if data is None else parse_base(data, branch.store.uri(key))


def check_continues(table: TableContext, branch: TableContext, latest: Snapshot | None) -> None:
    """Raise CommitConflict unless the branch has all that main has at `latest`, its newest snapshot."""
    if latest is None:
        return
    base = branch_base(branch)
    if not any(_has(branch, base, identity) for identity in _same_states(table, latest)):
        raise _moved(table, branch, base, latest)


def _same_states(table: TableContext, latest: Snapshot) -> Iterable[SnapshotIdentity]:
    """Yield the snapshots, of main or the branch, whose rows main has at `latest`."""
    seen: Snapshot | None = latest
    while seen is not None:
        yield identity_of(seen)
        if FORWARDED_FROM in seen.properties:
            snapshot_id, delta, _ = f"{seen.properties[FORWARDED_FROM]}  ".split(" ", 2)
            if snapshot_id.isascii() and snapshot_id.isdigit():
                yield SnapshotIdentity(snapshot_id=int(snapshot_id), delta_manifest_list=delta)
        seen = _rolled_back_to(table, seen)


def _rolled_back_to(table: TableContext, snapshot: Snapshot) -> Snapshot | None:
    text = snapshot.rolled_back_to or ""
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < snapshot.id:
        return None
    try:
        return table.snapshots.snapshot(int(text))
    except (NotFound, SnapshotExpired):
        return None


def _has(branch: TableContext, base: SnapshotIdentity | None, identity: SnapshotIdentity) -> bool:
    if identity == base:
        return True
    try:
        return identity_of(branch.snapshots.snapshot(identity.snapshot_id)) == identity
    except (NotFound, SnapshotExpired):
        return False


def _moved(
    table: TableContext, branch: TableContext, base: SnapshotIdentity | None, latest: Snapshot
) -> CommitConflict:
    name = shown(branch.layout.branch)
    first = branch.snapshots.ids.earliest()
    if base is not None:
        what = f"branch {name} continues snapshot {base.snapshot_id}"
    elif first is not None and first <= latest.id:
        what = f"branch {name}, which begins with snapshot {first}, does not have that snapshot"
    else:
        what = f"branch {name} begins with snapshot {first}, and what it was made from is not known any more"
    back = f"roll the table back to snapshot {base.snapshot_id}" if base is not None else "roll the table back"
    return CommitConflict(
        f"{table.name}: its latest snapshot is {latest.id}, and {what}: the table has changed since. Nothing was "
        f"forwarded. Create a branch of the present state and write to that. If what the table got since may go, "
        f"{back} first."
    )


def schemas_to_copy(table: TableContext, branch: TableContext) -> Mapping[int, bytes]:
    """Return the schemas of the branch that main lacks, by id, rising. Raises InvalidRequest if a schema of both is
    not the same, if files would be searched elsewhere, or if rows of main would wait for ever.
    """
    ids, own_ids = set(table.schemas.ids()), branch.schemas.ids()
    read = read_all(branch.store, map(branch.layout.schema, own_ids))
    own = dict(zip(own_ids, read, strict=True))
    both = sorted(ids & own.keys())
    for id, data in zip(both, read_all(table.store, map(table.layout.schema, both)), strict=True):
        if data != own[id]:
            raise InvalidRequest(
                f"{table.name}: schema {id} of the table is not schema {id} of branch {shown(branch.layout.branch)}: "
                "both were altered, and files of the branch name its schema. Nothing was forwarded. Create a branch of "
                "the table with the schema that is wanted, and write the rows of this one to it."
            )
    _check_places(table, branch, table.schemas.latest(), branch.schemas.latest())
    copied = {id: data for id, data in own.items() if id not in ids}
    _check_nothing_waits(table, branch, copied)
    return copied


def _check_places(table: TableContext, branch: TableContext, schema: TableSchema, own: TableSchema) -> None:
    if moved := moved_places(schema, own):
        raise InvalidRequest(
            f"{table.name}: option {moved[0]} has another value on branch {shown(branch.layout.branch)}, so the files "
            "of the branch would not be found. Nothing was forwarded. Write its rows to a branch of the table as it is."
        )


def _check_nothing_waits(table: TableContext, branch: TableContext, copied: Iterable[int]) -> None:
    """Raise InvalidRequest if rows of main wait for their buckets and one of the `copied` schemas lets none wait: main
    has it before the rows of the branch, and could not be read until then.
    """
    if not may_wait(table.schemas.latest().bucketing):
        return
    placing = next((one for one in map(branch.schemas.schema, copied) if not may_wait(one.bucketing)), None)
    if placing is not None and (count := waiting_row_count(table)):
        raise InvalidRequest(
            f"{table.name}: {count:,} of its rows wait for their buckets, and schema {placing.id} of branch "
            f"{shown(branch.layout.branch)} sets option bucket to {placing.bucket_setting}, by which none may wait. "
            "Nothing was forwarded. Compact the table, create a branch of that state, and write the rows of this one "
            "to it."
        )


def removed_before(table: TableContext, changes: Callable[[], FileChanges]) -> list[int]:
    """Return the fast-forwards of main that exist and removed files which the `changes` bring back."""
    forwards = [one for one in table.snapshots.history() if FORWARDED_FROM in one.properties]
    if not forwards:
        return []
    planned = changes()
    added = {entry.file.file_name for entry in planned.entries if entry.kind is EntryKind.ADD}
    marks = {entry.file_name for entry in planned.indexes if entry.kind is EntryKind.ADD}
    return [one.id for one in forwards if _removes_unless_expired(table, one, added, marks)]


def _removes_unless_expired(table: TableContext, forward: Snapshot, files: Set[str], indexes: Set[str]) -> bool:
    try:
        return _removes(table, forward, files, indexes)
    except (CorruptTable, NotFound):
        # An expiry may delete its manifests while they are read. No engine looks at what an expired one removed.
        if table.snapshots.has_expired(forward):
            return False
        raise


def _removes(table: TableContext, forward: Snapshot, files: Set[str], indexes: Set[str]) -> bool:
    manifests = table.manifests
    entries = (entry for some in manifests.entries_of_each(manifests.delta(forward)) for entry in some)
    if any(entry.kind is EntryKind.DELETE and entry.file.file_name in files for entry in entries):
        return True
    try:
        before = table.snapshots.snapshot(forward.id - 1) if indexes and forward.id > 1 else None
    except (NotFound, SnapshotExpired):
        return False
    return before is not None and any(entry.file_name in indexes for entry in manifests.index_entries(before))
