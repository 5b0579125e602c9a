"""Renaming a branch: copy its metadata to the folder of the new name, then delete the old folder.

Order: the old branch is closed, the new name is claimed by the same token, everything is copied, the new branch is
opened, the old folder is deleted. The roots of both folders count until then, so no file is without a root.
Source: docs/semantics/maintenance.md#branches.
"""

from contextlib import suppress
from typing import Final

from lakehouse_core.errors import CommitConflict, InvalidRequest, LakehouseError, shown
from lakehouse_core.execution.branches.closing import (
    check_branch_name,
    check_free,
    close,
    existing_branch,
    finish_unlinking,
    reopen,
)
from lakehouse_core.execution.branches.delete import remove
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import check_understood
from lakehouse_core.execution.expiry.unlinking import remove_branch
from lakehouse_core.metadata.ids import snapshot_ids
from lakehouse_core.metadata.staged_commits import all_kept
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.boundary import BoundaryMark, BranchWork

_HALF: Final = "The branch may be closed, or have both names: rename it again, or delete one of them."


def rename_branch(table: TableContext, name: str, new_name: str, *, dry_run: bool = False) -> None:
    """Give a branch another name. A call that was interrupted is finished by the same call.

    Raises NotFound, InvalidRequest for a bad or taken name and for a branch with staged commits, CommitConflict while
    another verb works on the branch, WriteOutcomeUnknown when it stopped midway.
    """
    check_branch_name(new_name)
    old, new = existing_branch(table, name), table.on_branch(new_name)
    check_understood(table.store.uri(""), table.on_branch(None).schemas.latest())
    if kept := all_kept(old.store, old.layout):
        raise InvalidRequest(
            f"Branch {shown(name)}: a commit of {kept[0].commit_user}/{kept[0].commit_identifier} is staged for it. "
            "Commit or forget it, then rename the branch."
        )
    before = old.snapshots.boundary.mark()
    is_resumed = before.work is BranchWork.RENAMING
    if not (is_resumed and _is_claimed(new, before)):
        check_free(new)
    if dry_run:
        return
    finish_unlinking(old)
    with begun(_HALF):
        mark = close(old, BranchWork.RENAMING, over=(None,))
        claim = BoundaryMark(work=BranchWork.CREATING, token=mark.token)
        there, version = new.snapshots.boundary.read_versioned()
        if there != claim and (there.work is not None or not new.snapshots.boundary.change(claim, if_version=version)):
            reopen(old, mark)
            raise CommitConflict(f"Branch {shown(new_name)}: another call creates it. Nothing was renamed.")
        try:
            _copy(old, new, mark)
        except LakehouseError as error:
            error.args = (f"{error} {_HALF}",)
            raise
        # A deletion closes the old branch and then reads the roots of all branches: one of both sees the other.
        if old.snapshots.boundary.mark() != mark:
            with suppress(LakehouseError):
                remove(new, expected=claim)
            raise CommitConflict(f"Branch {shown(name)}: another call deleted it. Nothing was renamed.")
        found, version = new.snapshots.boundary.read_versioned()
        opened = BoundaryMark(first_kept_id=mark.first_kept_id)
        if found != claim or not new.snapshots.boundary.change(opened, if_version=version):
            raise CommitConflict(f"Branch {shown(new_name)}: another call deleted it. {_HALF}")
        remove_branch(old, None, with_staged=False)


def _is_claimed(new: TableContext, mark: BoundaryMark) -> bool:
    there = new.snapshots.boundary.mark()
    return there.work is BranchWork.CREATING and there.token == mark.token


def _copy(old: TableContext, new: TableContext, mark: BoundaryMark) -> None:
    """Copy everything but the boundary; schemas last, for a folder with a schema is a branch for other engines."""
    store, prefix = old.store, old.layout.prefix
    expired = {old.layout.snapshot(id) for id in snapshot_ids(store, old.layout) if id < mark.first_kept_id}
    left = {old.layout.boundary, *expired}
    keys = sorted(info.key for info in store.list(old.layout.folder) if info.key not in left)
    schemas = [key for key in keys if key.startswith(f"{old.layout.schema_folder}/")]
    for some in ([key for key in keys if key not in schemas], schemas):
        read = zip(some, store.read_all(some), strict=True)
        new.store.write_all({f"{new.layout.prefix}{key.removeprefix(prefix)}": data for key, data in read})
