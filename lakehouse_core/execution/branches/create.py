"""Creating a branch: copy a snapshot, its tag and the schemas into the folder of the branch, as Java does.

Order: the claim of the name, the snapshot and the tag, the schemas, a look whether the source still exists, the
opening. Expiry unlinks roots and then reads those of every branch, so at least one of them sees the other.
Source: docs/semantics/maintenance.md#branches, docs/reliability/deletion.md#branches.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import (
    CommitConflict,
    InvalidRequest,
    LakehouseError,
    NotFound,
    SnapshotExpired,
    StorageUnavailable,
    TableDropped,
    WriteOutcomeUnknown,
    shown,
)
from lakehouse_core.execution.branches.closing import check_branch_name, check_free, freed_in_another, name_was_used
from lakehouse_core.execution.branches.delete import remove
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import check_understood
from lakehouse_core.execution.expiry.tags import is_held, snapshot_content, tag_source
from lakehouse_core.execution.presence import check_kept
from lakehouse_core.execution.read.state import state_at
from lakehouse_core.execution.read.waiting import waiting_row_count_at
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.metadata.used_names import use_name, used_name
from lakehouse_core.planning.alter.announcement import is_announcement
from lakehouse_core.planning.read.read_point import AtSnapshot, AtTag, ReadPoint
from lakehouse_core.storage import read_all
from lakehouse_core.storage.outcomes import begun, created, delete_own
from lakehouse_core.table.boundary import BoundaryMark, BranchWork
from lakehouse_core.table.branch_base import identity_of, serialize_base
from lakehouse_core.table.bucketing import may_wait
from lakehouse_core.table.snapshot import Snapshot, parse_tag
from lakehouse_core.table.used_name import UsedName

_CALL_AGAIN: Final = "Call delete_branch, which removes what is there, then create a branch of another name."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What a branch begins with. `key`: the root that holds its files; None for a branch without snapshots."""

    objects: Mapping[str, bytes]
    schemas: Mapping[str, bytes]
    snapshot: Snapshot | None = None
    key: str | None = None

    @property
    def snapshot_id(self) -> int | None:
        return None if self.snapshot is None else self.snapshot.id


def create_branch(table: TableContext, name: str, point: ReadPoint | None, *, dry_run: bool = False) -> int | None:
    """Create a branch at `point`, None: without snapshots, and return the id of its snapshot.

    Its schemas are those of the snapshot, or all of `table`, which may be a branch itself. A tag goes along.
    Raises InvalidRequest for a bad or taken name, NotFound, SnapshotExpired, CommitConflict if another call deletes the
    branch meanwhile, WriteOutcomeUnknown.
    """
    check_branch_name(name)
    check_understood(table.store.uri(""), table.schemas.latest())
    branch = table.on_branch(name)
    check_free(branch)
    source = _source(table, branch, point)
    if dry_run:
        return source.snapshot_id
    claim = BoundaryMark(work=BranchWork.CREATING, token=table.clock.uuid())
    if not use_name(branch.store, branch.layout, claim.token):
        raise name_was_used(branch)
    # One without work was written late, for a branch that was deleted; or the name is now that of a branch of another
    # table.
    (mark, version), used = both(
        branch.snapshots.boundary.read_versioned,
        lambda: used_name(branch.store, branch.layout),
        at_once=branch.store.requests_at_once,
    )
    if used != UsedName(token=claim.token):
        raise name_was_used(branch)
    if mark.work is not None or not branch.snapshots.boundary.change(claim, if_version=version):
        check_free(branch)
        raise CommitConflict(f"Branch {shown(name)}: another call creates it, or did. Nothing was changed: call again.")
    try:
        with freed_in_another(table, branch, claim.token):
            _filled(table, branch, source, claim)
    except WriteOutcomeUnknown as error:
        raise WriteOutcomeUnknown(f"{error} {_CALL_AGAIN}") from error
    except TableDropped as error:
        if table.store.folders is None:
            raise
        # What is there has moved with the table.
        raise WriteOutcomeUnknown(f"{error} {_CALL_AGAIN}") from error
    return source.snapshot_id


def _filled(table: TableContext, branch: TableContext, source: _Source, claim: BoundaryMark) -> None:
    """Write the objects of the branch and open it, or remove them after an error that leaves no doubt."""
    try:
        _fill(table, branch, source)
        check_kept(table, _keys(branch, source))
        _open(branch, source, claim)
    except (WriteOutcomeUnknown, TableDropped):
        raise
    except LakehouseError:
        with suppress(LakehouseError):
            # A dropped table has no schema by which the branch could be deleted.
            check_kept(table, _keys(branch, source))
        # What cannot be removed now is removed by delete_branch. The name stays used.
        with suppress(LakehouseError):
            _withdraw(branch, source, claim)
        raise


def _keys(branch: TableContext, source: _Source) -> list[str]:
    return [*source.objects, *source.schemas, branch.layout.boundary, branch.layout.used_name]


def _withdraw(branch: TableContext, source: _Source, claim: BoundaryMark) -> None:
    mark, version = branch.snapshots.boundary.read_versioned()
    if version is None:
        # Another call deleted the branch before all of it was there.
        delete_own(branch.store, {**source.objects, **source.schemas})
    elif mark == claim:
        remove(branch.on_branch(None), branch, expected=claim)


def _source(table: TableContext, branch: TableContext, point: ReadPoint | None) -> _Source:
    if point is None:
        return _Source(objects={}, schemas=_schemas(table, branch, table.schemas.latest().id))
    objects: dict[str, bytes] = {}
    if isinstance(point, AtTag):
        # Raises NotFound, which names the existing tags.
        snapshot_id = table.tags.tag(point.name).snapshot.id
        key = table.layout.tag(point.name)
        data = table.store.read(key)
        objects[branch.layout.tag(point.name)] = data
    else:
        asked = point.id if isinstance(point, AtSnapshot) else _snapshot_id(table, point)
        key, data = tag_source(table, asked)
        snapshot_id = parse_tag(data, key).snapshot.id
    snapshot = parse_tag(data, key).snapshot
    objects[branch.layout.snapshot(snapshot_id)] = snapshot_content(data, key)
    objects[branch.layout.branch_base] = serialize_base(identity_of(snapshot))
    return _Source(
        objects=objects, schemas=_schemas(table, branch, _last_schema_id(table, snapshot)), snapshot=snapshot, key=key
    )


def _last_schema_id(table: TableContext, snapshot: Snapshot) -> int:
    """Return the id of the schema of a snapshot; if it announces another `bucket`, of the next that does not: else the
    branch would wait for an alteration that has ended. If rows wait in the snapshot, none that lets no row wait.
    """
    last = table.schemas.schema(snapshot.schema_id)
    if not is_announcement(last):
        return last.id
    latest = table.schemas.latest()
    while is_announcement(last) and last.id < latest.id:
        last = table.schemas.schema(last.id + 1)
    if not may_wait(last.bucketing) and waiting_row_count_at(table, snapshot):
        return snapshot.schema_id
    return last.id


def _snapshot_id(table: TableContext, point: ReadPoint) -> int:
    state = state_at(table, point)
    if state.snapshot is None:
        raise NotFound(f"{table.name}: there is no snapshot at {shown(point)}. Write to the table first.")
    if state.created_from_millis is not None:
        raise InvalidRequest(
            f"{shown(point)}: it leaves out some files of a state. Give a point that names a snapshot."
        )
    return state.snapshot.id


def _schemas(table: TableContext, branch: TableContext, last_id: int) -> dict[str, bytes]:
    ids = [id for id in table.schemas.ids() if id <= last_id]
    read = read_all(table.store, map(table.layout.schema, ids))
    return {branch.layout.schema(id): data for id, data in zip(ids, read, strict=True)}


def _fill(table: TableContext, branch: TableContext, source: _Source) -> None:
    for key, data in (*source.objects.items(), *source.schemas.items()):
        if not created(branch.store, key, data):
            raise CommitConflict(f"{branch.store.uri(key)}: another call writes to the branch. Nothing was created.")
    if source.key is None or source.snapshot is None:
        return
    try:
        if is_held(table, source.key, source.snapshot):
            return
    except StorageUnavailable as error:
        raise WriteOutcomeUnknown(f"{error} The snapshot of the branch may have expired meanwhile.") from error
    raise SnapshotExpired(
        f"Snapshot {source.snapshot_id} expired while branch {shown(branch.layout.branch)} was created, so the branch "
        f"does not exist. The earliest snapshot is {table.snapshots.ids.earliest()}."
    )


def _open(branch: TableContext, source: _Source, claim: BoundaryMark) -> None:
    boundary = branch.snapshots.boundary
    found, version = boundary.read_versioned()
    opened = BoundaryMark(first_kept_id=source.snapshot_id or 0)
    with begun("The branch may have been created."):
        if (found.work, found.token) == (claim.work, claim.token) and boundary.change(opened, if_version=version):
            return
    raise CommitConflict(
        f"Branch {shown(branch.layout.branch)}: another call deleted it while it was created. Create one of "
        "another name."
    )
