"""Closing a branch: record in its boundary what a verb does to the whole branch, by compare-and-set.

Rule: while the mark stands, no expiry unlinks a snapshot of the branch, and, unless it is fast-forwarded, no commit
to it is acknowledged. So the files that the verb has listed then are all there are.
Source: docs/reliability/deletion.md#branches.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from lakehouse_core.errors import CommitConflict, InvalidRequest, LakehouseError, NotFound, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.unlinking import is_unlinking, resume
from lakehouse_core.execution.presence import check_table, is_another
from lakehouse_core.format.stored import check_name_for_file
from lakehouse_core.metadata.boundary import Boundaries
from lakehouse_core.metadata.deletion_plans import current_plans
from lakehouse_core.metadata.roots import branch_names, has_schema, is_begun
from lakehouse_core.metadata.used_names import forget_name, used_name
from lakehouse_core.retry import Retry
from lakehouse_core.table.boundary import BoundaryMark, BranchWork
from lakehouse_core.table.layout import MAIN_BRANCH, TableLayout

_CLOSING: Final = Retry()


def check_branch_name(name: object) -> None:
    """Raise InvalidRequest for a name that no new branch can have."""
    check_name_for_file("Branch", name)
    fault = None
    if name == MAIN_BRANCH:
        fault = "it is the name of the table's own history"
    elif str(name).isdigit():
        fault = "it has digits only, as the id of a snapshot"
    elif name in (".", ".."):
        fault = "it is the name of a folder itself"
    elif "$" in str(name):
        fault = "it contains '$', which ends the name of a branch"
    if fault is not None:
        raise InvalidRequest(f"Branch {shown(name)}: {fault}. Use letters, digits, '-' and '_'.")


def main_of(table: TableContext) -> TableContext:
    """Return the table itself, as it knows its schemas; for a branch of it as one that has read nothing."""
    return table if table.layout.branch is None else table.on_branch(None)


def open_branches(table: TableContext) -> list[str]:
    """Return the names of the branches that can be read, sorted."""
    boundaries = Boundaries(table.store, {})
    return sorted(
        name
        for name in branch_names(table.store)
        if not boundaries.of(TableLayout(name).prefix).is_closed and is_begun(table.store, TableLayout(name))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBranch:
    """A branch, its latest schema and snapshot. `create_time_millis`: when its first object was written. `work`: what a
    verb does to it, or did when it was interrupted; a closed one has no snapshot here, and may have no schema.
    """

    name: str
    schema_id: int | None
    snapshot_id: int | None
    create_time_millis: int
    work: BranchWork | None = None


def listed_branches(table: TableContext) -> list[ListedBranch]:
    """Return the branches that can be read, sorted by name."""
    return [branch for branch in every_branch(table) if branch.work in (None, BranchWork.FORWARDING)]


def every_branch(table: TableContext) -> list[ListedBranch]:
    """Return all branches, sorted by name, also those that a verb has closed."""
    found = []
    for name in branch_names(table.store):
        branch = table.on_branch(name)
        mark = branch.snapshots.boundary.mark()
        if not is_begun(table.store, branch.layout):
            continue
        # Object stores have no times of folders.
        times = [info.modified_millis for info in table.store.list(branch.layout.folder)]
        ids = branch.schemas.ids()
        # A branch that is deleted meanwhile counts as deleted before.
        if times and (ids or mark.is_closed):
            found.append(
                ListedBranch(
                    name=name,
                    schema_id=ids[-1] if ids else None,
                    snapshot_id=None if mark.is_closed else branch.snapshots.ids.latest(),
                    create_time_millis=min(times),
                    work=mark.work,
                )
            )
    return found


def existing_branch(table: TableContext, name: str) -> TableContext:
    """Return the branch `name`, also one that a verb has closed. Raises NotFound naming the others."""
    if not isinstance(name, str):
        raise InvalidRequest(f"Branch {shown(name)}: expected a text as its name.")
    if not name or name not in branch_names(table.store) or not is_begun(table.store, TableLayout(name)):
        known = ", ".join(open_branches(table))
        others = f"The branches are: {known}." if known else "The table has no branches."
        raise NotFound(f"Branch {shown(name)} does not exist. {others}")
    return table.on_branch(name)


def check_free(branch: TableContext) -> None:
    """Raise InvalidRequest if the branch exists, or was half created, or if its name was used before."""
    name = branch.layout.branch
    if not is_begun(branch.store, branch.layout):
        if used_name(branch.store, branch.layout) is not None:
            raise name_was_used(branch)
        return
    mark = branch.snapshots.boundary.mark()
    if not mark.is_closed:
        raise InvalidRequest(
            f"Branch {shown(name)} exists already. Use another name: a name is used once, also after its branch is "
            "deleted."
        )
    raise InvalidRequest(
        f"Branch {shown(name)}: a verb is {mark.work} it, or was interrupted. Wait until the verb has ended. If it was "
        f"interrupted, {mark.advice}."
    )


@contextmanager
def freed_in_another(table: TableContext, branch: TableContext, token: str) -> Iterator[None]:
    """Let the name of `branch` be used again if the block, of the verb with `token`, found that another table is there
    now, in which no branch had the name.

    REQUIRES: the block removes what it wrote, and the verb writes nothing after it.
    """
    try:
        yield
    except (CommitConflict, InvalidRequest, NotFound):
        with suppress(LakehouseError):
            if not is_begun(branch.store, branch.layout) and is_another(table):
                forget_name(branch.store, branch.layout, token)
        raise


def name_was_used(branch: TableContext) -> InvalidRequest:
    name = branch.layout.branch
    return InvalidRequest(
        f"Branch {shown(name)}: the table had a branch of this name, or a call began to make one. A name is used once, "
        "because a verb that still works on the former branch would change the new one. Use another name, such as "
        f"{shown(f'{name}-2')}."
    )


def close(
    main: TableContext,
    branch: TableContext,
    work: BranchWork,
    *,
    over: tuple[BranchWork | None, ...],
    joins: bool = True,
    token: str | None = None,
    expected: BoundaryMark | None = None,
) -> BoundaryMark:
    """Record that `work` begins, in place of one of `over`, and return the mark; with `joins` one of the same work is
    kept. `token`: that of the mark, None for a fresh one. `expected`: only in place of this mark.

    `main`: the table of the branch, whose schema was read before. Raises as `check_table` does if it is another one
    now: then the branch of that one is as it was. Raises CommitConflict if another verb works on the branch.
    """
    boundary = branch.snapshots.boundary
    for _ in _CLOSING.attempts():
        mark, version = boundary.read_versioned()
        check_table(main)
        if mark.work is work and joins and expected is None:
            return mark
        if mark.work not in over or expected not in (None, mark):
            raise busy(branch, mark)
        closed = replace(mark, work=work, token=token or branch.clock.uuid())
        if boundary.change(closed, if_version=version):
            # Boundaries of two tables may have the same content.
            with _undone(branch, closed, None if version is None else mark):
                check_table(main)
            if work is not BranchWork.DELETING and not has_schema(branch.store, branch.layout):
                # Another call deleted the branch, with its boundary.
                branch.store.delete([boundary.key])
                raise NotFound(
                    f"Branch {shown(branch.layout.branch)} was deleted or renamed meanwhile. Check its name."
                )
            return closed
    raise CommitConflict(
        f"Branch {shown(branch.layout.branch)}: its boundary changed in each of {_CLOSING.max_attempts} attempts. "
        "Nothing was changed: call again."
    )


@contextmanager
def _undone(branch: TableContext, closed: BoundaryMark, before: BoundaryMark | None) -> Iterator[None]:
    """Write the mark that was there `before` in place of `closed` if the block raises an error; None: no mark."""
    try:
        yield
    except LakehouseError:
        with suppress(LakehouseError):
            boundary = branch.snapshots.boundary
            found, version = boundary.read_versioned()
            if found == closed and before is not None:
                boundary.change(before, if_version=version)
            elif found == closed:
                branch.store.delete([boundary.key])
        raise


def busy(branch: TableContext, mark: BoundaryMark) -> CommitConflict:
    """Return the error about a branch on which another verb works."""
    verb = "fast_forward" if mark.work is BranchWork.FORWARDING else "it"
    return CommitConflict(
        f"Branch {shown(branch.layout.branch)}: a verb is {mark.work} it, or was interrupted. Nothing was changed. "
        f"Wait until that verb has ended, or call {verb} again."
    )


def reopen(branch: TableContext, mark: BoundaryMark) -> bool:
    """End the work of `mark`; return False if another call has taken the branch over."""
    boundary = branch.snapshots.boundary
    found, version = boundary.read_versioned()
    if (found.work, found.token) != (mark.work, mark.token):
        return False
    return boundary.change(BoundaryMark(first_kept_id=mark.first_kept_id), if_version=version)


def finish_unlinking(branch: TableContext) -> None:
    """Finish what interrupted expiries of the branch left, so that its files and its boundary agree."""
    boundaries = Boundaries(branch.store, {})
    for plan in current_plans(branch.store):
        if (
            plan.branch_prefix == branch.layout.prefix
            and not plan.of_branch
            and is_unlinking(branch.store, plan, boundaries)
        ):
            resume(branch, plan)
