"""Success files of tags: each says that its tag is there, to others that wait for tags.

Rule: it is written after its tag and deleted before it, so that it never says so of a tag that is gone.
Source: docs/semantics/maintenance.md#tags.
"""

from collections.abc import Iterable

from lakehouse_core.errors import InvalidRequest, shown
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.unlinking import delete_all
from lakehouse_core.metadata.success_file import write_success_file
from lakehouse_core.options import TagOptions
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.deletion_plan import DeletionPlan
from lakehouse_core.table.layout import TAG_PREFIX, TAG_SUCCESS_FOLDER
from lakehouse_core.table.root import RootKind


def check_free(options: TagOptions, name: str) -> None:
    """Raise InvalidRequest for a tag whose file would stand where the table has the folder of its success files."""
    if options.has_success_file and TAG_PREFIX + name == TAG_SUCCESS_FOLDER:
        raise InvalidRequest(
            f"Tag {shown(name)}: its file {TAG_SUCCESS_FOLDER} would stand where the option tag.create-success-file "
            "has its folder. Use another name."
        )


def announce(table: TableContext, options: TagOptions, name: str) -> None:
    """Write the success file of a tag, if the table has such files. Raises WriteOutcomeUnknown: the tag is there."""
    if options.has_success_file:
        with begun(f"Tag {shown(name)} is made; its success file may be missing."):
            write_success_file(table.store, table.layout.tag_success(name), table.clock.now_millis())


def withdraw(table: TableContext, deletions: Iterable[DeletionPlan]) -> None:
    """Delete the success files of the tags that these plans unlink."""
    tags = [root.key for plan in deletions if plan.kind is RootKind.TAG for root in plan.roots]
    names = [key.rpartition("/")[2].removeprefix(TAG_PREFIX) for key in tags]
    delete_all(table.store, map(table.layout.tag_success, names), left="The tags stay; call again.")
