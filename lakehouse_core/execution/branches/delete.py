"""Deleting a branch: close it, store a plan with all its roots, unlink them, delete its folder, and then the files that
only it needed.

Java deletes the folder alone, so that the files stay as orphans.
Source: docs/semantics/maintenance.md#branches, docs/reliability/deletion.md#branches.
"""

from lakehouse_core.execution.branches.closing import close, existing_branch, finish_unlinking, main_of
from lakehouse_core.execution.branches.forwarding import end_overtaken
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.deletion import Deleted, DryRun, finish_deletions, preview
from lakehouse_core.execution.expiry.expire import ExpiryResult, check_understood, deletion_result
from lakehouse_core.execution.expiry.unlinking import deleting, is_removed_by, remove_branch
from lakehouse_core.metadata.deletion_plans import begin, current_plans, skip_wait
from lakehouse_core.metadata.roots import roots_of
from lakehouse_core.table.boundary import BoundaryMark, BranchWork
from lakehouse_core.table.deletion_plan import DeletionPlan, branch_deletion


def delete_branch(table: TableContext, name: str, *, dry_run: bool = False) -> ExpiryResult:
    """Delete a branch and, when its readers have ended, the files that only the branch needed; also what an interrupted
    verb left of it.

    With `dry_run` nothing changes; the result is that of a run. Raises NotFound, CommitConflict while a fast_forward of
    the branch may publish, WriteOutcomeUnknown when it stopped midway: call again.
    """
    main = main_of(table)
    schema = main.schemas.latest()
    branch = existing_branch(table, name)
    check_understood(main.store.uri(""), schema)
    end_overtaken(branch, dry_run=dry_run)
    if dry_run:
        plan = _plan(branch, branch.clock.uuid())
        plans = () if plan is None else (plan,)
        boundary = main.snapshots.boundary.first_id()
        return deletion_result(plans, preview(main, schema, DryRun(plans=plans), boundary=boundary))
    return remove(main, branch)


def remove(main: TableContext, branch: TableContext, *, expected: BoundaryMark | None = None) -> ExpiryResult:
    """Delete a branch that exists, or was begun. `expected`: only while its boundary says so; then its files are left
    to the next expiry. Raises as `delete_branch` and `close` do.
    """
    schema = main.schemas.latest()
    with deleting():
        finish_unlinking(branch)
        over = (None, BranchWork.CREATING, BranchWork.RENAMING)
        mark = close(main, branch, BranchWork.DELETING, over=over, expected=expected)
        plan = next((plan for plan in current_plans(branch.store) if plan.uuid == mark.token), None)
        if plan is None:
            plan = _plan(branch, mark.token)
            # Else these may be roots of another table.
            if plan is not None and is_removed_by(branch, mark.token):
                begin(branch.store, plan)
        remove_branch(branch, plan, token=mark.token, with_staged=True)
        if expected is not None and plan is not None:
            # Its files may be gone already, as those of a source that expired.
            skip_wait(branch.store, plan)
            return deletion_result([plan], Deleted())
        plans = () if plan is None else (plan,)
        deleted = finish_deletions(main, schema, unlinked=plans)
    return deletion_result(plans, deleted)


def _plan(branch: TableContext, uuid: str) -> DeletionPlan | None:
    """Return the plan that deletes a branch, None if it has no root."""
    roots = sorted(roots_of(branch.store, branch.layout), key=lambda root: (root.snapshot_id, root.key))
    return branch_deletion(uuid, tuple(roots)) if roots else None
