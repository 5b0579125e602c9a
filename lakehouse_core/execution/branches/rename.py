"""Renaming a branch: copy its metadata to the folder of the new name, then delete the old folder.

Order: the new name is recorded, the old branch is closed by the same token, the new one is claimed, everything is
copied, the new branch is opened, and then the old one says that it is deleted. Until then it is whole, so that another
call can take it over; the roots of both folders count all the time.
Source: docs/semantics/maintenance.md#branches, docs/reliability/deletion.md#branches.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from lakehouse_core.errors import CommitConflict, InvalidRequest, LakehouseError, NotFound, shown
from lakehouse_core.execution.branches.closing import (
    busy,
    check_branch_name,
    check_free,
    close,
    existing_branch,
    finish_unlinking,
    freed_in_another,
    main_of,
    name_was_used,
    reopen,
)
from lakehouse_core.execution.branches.delete import remove
from lakehouse_core.execution.branches.forwarding import end_overtaken
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.expire import check_understood
from lakehouse_core.execution.expiry.unlinking import remove_branch
from lakehouse_core.metadata.ids import snapshot_ids
from lakehouse_core.metadata.roots import has_schema
from lakehouse_core.metadata.staged_commits import all_kept
from lakehouse_core.metadata.used_names import end_name, names_of, use_name, used_name
from lakehouse_core.storage import read_all
from lakehouse_core.storage.outcomes import begun, delete_own
from lakehouse_core.table.boundary import BoundaryMark, BranchWork
from lakehouse_core.table.used_name import UsedName

_HALF: Final = "If the branch has both names now, rename it again in the same way; if it is closed, to another name."


def rename_branch(table: TableContext, name: str, new_name: str, *, dry_run: bool = False) -> None:
    """Give a branch another name. What an interrupted call left is removed by a call with a further name.

    Raises NotFound, InvalidRequest for a bad or used name and for a branch with staged commits, CommitConflict while
    another verb works on the branch, WriteOutcomeUnknown when it stopped midway.
    """
    check_branch_name(new_name)
    main = main_of(table)
    check_understood(table.store.uri(""), main.schemas.latest())
    old, new = existing_branch(table, name), table.on_branch(new_name)
    _check_nothing_staged(old)
    before = end_overtaken(old, dry_run=dry_run)
    is_same_call = before.work is not None and used_name(new.store, new.layout) == UsedName(token=before.token)
    if is_same_call and _is_open(new):
        # An earlier call made the new branch, and did not remove the old one.
        if not dry_run:
            with begun(_HALF):
                _remove_old(old, before)
        return
    if is_same_call and before.work is BranchWork.RENAMING:
        raise InvalidRequest(
            f"Branch {shown(name)}: another call gives it the name {shown(new_name)}, or was interrupted. Wait until "
            f"it has ended. If it was interrupted, rename the branch to another name, such as {shown(f'{new_name}-2')}."
        )
    if before.work not in (None, BranchWork.RENAMING):
        raise busy(old, before)
    check_free(new)
    if dry_run:
        return
    finish_unlinking(old)
    token = table.clock.uuid()
    with begun(_HALF):
        if not use_name(new.store, new.layout, token):
            raise name_was_used(new)
        with freed_in_another(main, new, token):
            mark = _closed(main, old, before, token)
            _make(old, new, mark)
        _remove_old(old, mark)


def _check_nothing_staged(old: TableContext) -> None:
    if kept := all_kept(old.store, old.layout):
        raise InvalidRequest(
            f"Branch {shown(old.layout.branch)}: a commit of {kept[0].commit_user}/{kept[0].commit_identifier} is "
            "staged for it. Commit or forget it, then rename the branch."
        )


def _closed(main: TableContext, old: TableContext, before: BoundaryMark, token: str) -> BoundaryMark:
    """Close the old branch, also one that an interrupted call closed before."""
    if before.work is not BranchWork.RENAMING:
        return close(main, old, BranchWork.RENAMING, over=(None,), joins=False, token=token)
    for target in names_of(old.store, before.token):
        _give_up(old.on_branch(target), before)
    found, version = old.snapshots.boundary.read_versioned()
    mark = replace(before, token=token)
    if found != before or not old.snapshots.boundary.change(mark, if_version=version):
        raise CommitConflict(f"{old.name}: another call renames or deletes it. Nothing was renamed: call again.")
    return mark


def _give_up(target: TableContext, before: BoundaryMark) -> None:
    """Remove what an interrupted call made of its target, so that it cannot be opened any more."""
    if _is_open(target):
        raise CommitConflict(
            f"Another call gave the branch the name {shown(target.layout.branch)}. Call that again, which removes the "
            "old name."
        )
    # A call that claims its target looks at the mark again after that.
    end_name(target.store, target.layout, before.token)
    _withdraw(target, _claim(before), {})


def _claim(mark: BoundaryMark) -> BoundaryMark:
    return BoundaryMark(work=BranchWork.CREATING, token=mark.token)


def _is_open(new: TableContext) -> bool:
    mark, version = new.snapshots.boundary.read_versioned()
    return version is not None and mark.work is None and has_schema(new.store, new.layout)


def _make(old: TableContext, new: TableContext, mark: BoundaryMark) -> None:
    """Claim the new branch, fill it and open it; after an error, if possible, open the old one again."""
    written: dict[str, bytes] = {}
    try:
        # One that is kept from now on finds the branch closed.
        _check_nothing_staged(old)
        _fill(old, new, mark, written)
    except LakehouseError:
        # Whatever cannot be undone now is left to the next call, of which the error tells.
        with suppress(LakehouseError):
            if not _is_open(new):
                _withdraw(new, _claim(mark), written)
                reopen(old, mark)
        raise


def _fill(old: TableContext, new: TableContext, mark: BoundaryMark, written: dict[str, bytes]) -> None:
    boundary, claim = new.snapshots.boundary, _claim(mark)
    if not boundary.change(claim, if_version=None):
        raise CommitConflict(f"{new.name}: another call writes to it. Nothing was renamed.")
    if used_name(new.store, new.layout) != UsedName(token=mark.token):
        raise CommitConflict(f"{old.name}: another call gives it another name. Nothing was renamed.")
    try:
        _copy(old, new, mark, written)
    except NotFound:
        if old.snapshots.boundary.mark() == mark:
            raise
    # A deletion closes the old branch and then reads the roots of all branches: one of both sees the other.
    if old.snapshots.boundary.mark() != mark:
        raise CommitConflict(f"{old.name}: another call deleted or renamed it. Nothing was renamed.")
    found, version = boundary.read_versioned()
    opened = BoundaryMark(first_kept_id=mark.first_kept_id)
    if found != claim or not boundary.change(opened, if_version=version):
        raise CommitConflict(f"{new.name}: another call deleted it. Nothing was renamed.")


def _withdraw(new: TableContext, claim: BoundaryMark, written: Mapping[str, bytes]) -> None:
    mark, version = new.snapshots.boundary.read_versioned()
    if version is None:
        # Another call deleted the branch before all of it was there.
        delete_own(new.store, written)
    elif mark == claim:
        remove(new.on_branch(None), new, expected=claim)


def _copy(old: TableContext, new: TableContext, mark: BoundaryMark, written: dict[str, bytes]) -> None:
    """Copy everything but the boundary, and add the new objects to `written`; schemas last, for a folder with a schema
    is a branch for other engines.
    """
    store, prefix = old.store, old.layout.prefix
    expired = {old.layout.snapshot(id) for id in snapshot_ids(store, old.layout) if id < mark.first_kept_id}
    left = {old.layout.boundary, *expired}
    keys = sorted(info.key for info in store.list(old.layout.folder) if info.key not in left)
    schemas = [key for key in keys if key.startswith(f"{old.layout.folders.schemas}/")]
    for some in ([key for key in keys if key not in schemas], schemas):
        read = zip(some, read_all(store, some), strict=True)
        objects = {f"{new.layout.prefix}{key.removeprefix(prefix)}": data for key, data in read}
        written.update(objects)
        # Another table may be there, with a branch of this name.
        if new.snapshots.boundary.mark() != _claim(mark):
            raise CommitConflict(f"{new.name}: another call deleted it. Nothing was renamed.")
        new.store.write(objects)


def _remove_old(old: TableContext, mark: BoundaryMark) -> None:
    """Delete the old branch, unless another call does. From the first step on nothing can bring it back."""
    found, version = old.snapshots.boundary.read_versioned()
    removed = replace(mark, work=BranchWork.DELETING)
    if found == removed or (found == mark and old.snapshots.boundary.change(removed, if_version=version)):
        remove_branch(old, None, token=mark.token, with_staged=False)
