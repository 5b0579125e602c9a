"""CALL of procedures about branches, each a verb of `Table`.

Rule: the answer has the columns of Java's procedure.
"""

from collections.abc import Mapping
from typing import Any, Final

from lakehouse_core.api.answer import Answer, answer_of
from lakehouse_core.api.table import Table
from lakehouse_core.catalog.statements.names import StatementCall
from lakehouse_core.catalog.statements.procedure_arguments import flag_of, text_of
from lakehouse_core.catalog.statements.tag_procedures import DONE, Procedure
from lakehouse_core.planning.read.read_point import AtTag


def _create_branch(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    branch = text_of("create_branch", "branch", arguments)
    # As in Java, an empty tag counts as one that is left out.
    point = AtTag(text_of("create_branch", "tag", arguments)) if arguments.get("tag") not in (None, "") else None
    if flag_of("create_branch", "ignoreIfExists", arguments) and branch in _open_names(table):
        return answer_of(call.sql.text, DONE)
    return answer_of(call.sql.text, DONE, [table.create_branch(branch, at=point)])


def _rename_branch(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    name, new_name = (text_of("rename_branch", each, arguments) for each in ("from_branch", "to_branch"))
    return answer_of(call.sql.text, DONE, [table.rename_branch(name, new_name)])


def _delete_branch(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    names = [one.strip() for one in text_of("delete_branch", "branch", arguments).split(",")]
    known = _names(table)
    for name in names:
        if name not in known:
            # The dry run raises NotFound with advice, before the first branch is deleted; the rest of one may be there.
            table.delete_branch(name, dry_run=True)
    return answer_of(call.sql.text, DONE, [table.delete_branch(name) for name in names])


def _fast_forward(call: StatementCall, table: Table, arguments: Mapping[str, Any]) -> Answer:
    name = text_of("fast_forward", "branch", arguments)
    return answer_of(call.sql.text, DONE, [table.fast_forward(name)])


def _open_names(table: Table) -> set[str]:
    return {branch.name for branch in table.branches() if branch.work in (None, "forwarding")}


def _names(table: Table) -> set[str]:
    return {branch.name for branch in table.branches()}


BRANCH_PROCEDURES: Final[Mapping[str, Procedure]] = {
    "create_branch": _create_branch,
    "rename_branch": _rename_branch,
    "delete_branch": _delete_branch,
    "fast_forward": _fast_forward,
}
