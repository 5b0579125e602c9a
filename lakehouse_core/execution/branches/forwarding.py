"""Forwarding: the mark in the boundary of a branch that keeps its newest snapshot while a call brings it to main.

While it stands, no expiry unlinks a snapshot of the branch, and the branch is not deleted or renamed.
Rule: the mark is removed only when no call that wrote it can publish any more: `Forwarding`. Then a verb that
deletes or renames the branch removes it, too.
Source: docs/reliability/deletion.md#branches.
"""

from dataclasses import dataclass, replace
from typing import Final

from lakehouse_core.errors import CommitConflict, NotFound, shown
from lakehouse_core.execution.branches.closing import busy, reopen
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.presence import check_table
from lakehouse_core.metadata.roots import has_schema
from lakehouse_core.metadata.used_names import use_name
from lakehouse_core.retry import Retry
from lakehouse_core.table.boundary import BoundaryMark, BranchWork

_TAKING: Final = Retry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """The mark of a call. `base_id`: the snapshot of main after which alone the call publishes, 0 for none.
    `is_alone`: no earlier call can publish.

    A call may be killed, or go on after another one has taken the mark over; it must not publish when the mark is
    gone. So each call publishes under one id only: that after its base, which was main's newest snapshot when it wrote
    the mark. No call can publish any more if there is no earlier one, or if main has a later snapshot than the base.
    """

    mark: BoundaryMark
    base_id: int
    is_alone: bool


def begin_forwarding(table: TableContext, branch: TableContext) -> Forwarding:
    """Record that `branch` is brought to `table`, also in place of the mark of an earlier call.

    Raises CommitConflict while another verb works on the branch, NotFound if it was deleted, WriteOutcomeUnknown.
    """
    check_table(table)
    # A proof lists main's snapshots again if a branch had a name, also one that Java made, and drops without a plan.
    use_name(branch.store, branch.layout, table.clock.uuid())
    boundary = branch.snapshots.boundary
    for _ in _TAKING.attempts():
        found, version = boundary.read_versioned()
        if found.is_closed:
            raise busy(branch, found)
        # Read after the mark that is replaced: its base is not later than this one.
        base_id = table.snapshots.ids.latest() or 0
        is_alone = found.work is None or forwarding_base(found) < base_id
        mark = replace(found, work=BranchWork.FORWARDING, token=f"{base_id}-{table.clock.uuid()}")
        if boundary.change(mark, if_version=version):
            if not has_schema(branch.store, branch.layout):
                # Another call deleted the branch, with its boundary.
                branch.store.delete([boundary.key])
                raise NotFound(
                    f"Branch {shown(branch.layout.branch)} was deleted or renamed meanwhile. Check its name."
                )
            return Forwarding(mark=mark, base_id=base_id, is_alone=is_alone)
    raise CommitConflict(
        f"Branch {shown(branch.layout.branch)}: its boundary changed in each of {_TAKING.max_attempts} attempts. "
        "Nothing was forwarded: call again."
    )


def end_forwarding(table: TableContext, branch: TableContext, forwarding: Forwarding) -> bool:
    """Remove the mark, if no call can publish by it any more and it is still that of this call. Return False if an
    earlier call still can.

    REQUIRES: the call of `forwarding` has published, or certainly has not and will not.
    """
    if forwarding.is_alone or (table.snapshots.ids.latest() or 0) > forwarding.base_id:
        reopen(branch, forwarding.mark)
        return True
    return False


def end_overtaken(branch: TableContext, *, dry_run: bool = False) -> BoundaryMark:
    """Remove the mark of calls that cannot publish any more, for main has left their base, and return what the
    boundary of `branch` says, or would say after a dry run.

    Raises CommitConflict, with what to do, while a call may publish.
    """
    found = branch.snapshots.boundary.mark()
    if found.work is not BranchWork.FORWARDING:
        return found
    base_id = forwarding_base(found)
    if (branch.on_branch(None).snapshots.ids.latest() or 0) <= base_id:
        base = f"no snapshot after {base_id}" if base_id else "no snapshot"
        raise CommitConflict(
            f"Branch {shown(branch.layout.branch)}: a fast_forward is forwarding it, or was interrupted; the table has "
            f"{base}, so that it may still publish. Nothing was changed. Wait until it has ended. If it was "
            "interrupted, call fast_forward again to have the rows of the branch in the table, or write to the table "
            "to keep them out; then call this again."
        )
    if dry_run:
        return BoundaryMark(first_kept_id=found.first_kept_id)
    # Another fast_forward may have replaced the mark meanwhile: the caller finds that here.
    reopen(branch, found)
    return branch.snapshots.boundary.mark()


def forwarding_base(mark: BoundaryMark) -> int:
    """Return the snapshot of main after which the call of a mark publishes."""
    text = mark.token.partition("-")[0]
    return int(text) if text.isdigit() else 0
