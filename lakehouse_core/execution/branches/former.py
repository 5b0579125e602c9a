"""Former branches: what became of a commit that was staged for a branch which has another name now, or is gone."""

from lakehouse_core.errors import StaleCommit
from lakehouse_core.execution.commit.replay import applied_snapshot_ids, ledger_at
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.roots import is_begun
from lakehouse_core.planning.commit.steps import commit_steps
from lakehouse_core.table.layout import branch_in, branch_table_name
from lakehouse_core.table.staged_commit import StagedCommit


def former_branch(table: TableContext, staged: StagedCommit) -> str | None:
    """Return what to tell about a commit to the branch `table` that was staged for a branch of the same table that
    does not exist any more; None if it exists, or is not one of this table.
    """
    branch = branch_in(staged.table)
    if None in (branch, table.layout.branch) or branch_table_name(table.name, branch) != staged.table:
        return None
    if is_begun(table.store, table.on_branch(branch).layout):
        return None
    name = f"{staged.commit_user}/{staged.commit_identifier}"
    what = f"{table.name}: {name} was staged for {staged.table}, which was renamed or deleted since."
    latest = table.snapshots.latest()
    step = commit_steps(staged, skips_empty=False)[0]
    try:
        ids = applied_snapshot_ids(table.snapshots, latest, ledger_at(table.snapshots, latest), staged, step.kind)
    except StaleCommit:
        return f"{what} Its user has committed later ones to this branch: compare their rows before you stage it again."
    if ids:
        return f"{what} It is applied in this branch, as snapshot {ids[0]}: nothing is to be done."
    return f"{what} It is not applied in this branch. Stage its rows again, for this branch."
