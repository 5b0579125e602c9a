"""Branch verbs of `Table`: create, list, open, rename, delete, fast-forward.

Rule: a wrong argument is refused before the verb does anything.
"""

from contextlib import suppress

from lakehouse_core.api import report_building as answers
from lakehouse_core.api.arguments import CallOptions
from lakehouse_core.api.record_building import branch_records
from lakehouse_core.api.records import BranchRecord, Records
from lakehouse_core.api.reports import BranchReport
from lakehouse_core.api.verb import names_table, reported
from lakehouse_core.errors import CorruptTable
from lakehouse_core.execution.branches import create, delete, forward, rename
from lakehouse_core.execution.branches.closing import every_branch, existing_branch
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.presence import check_before, check_changed, check_table
from lakehouse_core.planning.read.read_point import AtSnapshot, ReadPoint, checked_point


@names_table
def branches(table: TableContext) -> Records[BranchRecord]:
    return branch_records(every_branch(table))


@names_table
def branch(table: TableContext, name: str) -> TableContext:
    found = existing_branch(table, name)
    # Raises NotFound for a branch that is being created or deleted.
    found.snapshots.boundary.first_id()
    # If a table of this name is created from now on, the branch that was read tells its own from that one's. A damaged
    # schema is for the verbs that need it to refuse, and for `verify` to report.
    with suppress(CorruptTable):
        found.schemas.latest()
    check_before(table)
    return found


@reported
def create_branch(table: TableContext, name: str, *, at: int | ReadPoint | None, dry_run: bool) -> BranchReport:
    point = None if at is None else checked_point(AtSnapshot(at) if isinstance(at, int) else at)
    latest_id = table.snapshots.ids.latest()
    snapshot_id = create.create_branch(table, name, point, dry_run=dry_run)
    return answers.branch_report(table.name, name, latest_id, snapshot_id=snapshot_id, dry_run=dry_run)


@reported
def rename_branch(table: TableContext, name: str, new_name: str, *, dry_run: bool) -> BranchReport:
    latest_id = table.snapshots.ids.latest()
    rename.rename_branch(table, name, new_name, dry_run=dry_run)
    (check_table if dry_run else check_changed)(table)
    return answers.branch_report(table.name, new_name, latest_id, dry_run=dry_run)


@reported
def delete_branch(table: TableContext, name: str, *, dry_run: bool) -> BranchReport:
    latest_id = table.on_branch(None).snapshots.ids.latest()
    result = delete.delete_branch(table, name, dry_run=dry_run)
    (check_table if dry_run else check_changed)(table)
    return answers.branch_report(table.name, name, latest_id, deleted=result, dry_run=dry_run)


@reported
def fast_forward(table: TableContext, name: str, call: CallOptions) -> BranchReport:
    result = forward.fast_forward(table, name, properties=call.checked_properties(), dry_run=call.dry_run)
    return answers.forward_report(table.name, name, result, dry_run=call.dry_run)
