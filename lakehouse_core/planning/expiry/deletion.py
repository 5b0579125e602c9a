"""Deletion: decide when a deletion plan is due, which roots it keeps while it waits, and the order of file
deletions. Source: docs/reliability/deletion.md#order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse_core.table.deletion_plan import DeletionPlan, DeletionStage
from lakehouse_core.table.file_refs import FileKind, FileRef
from lakehouse_core.table.root import Root


def deletion_order(files: Mapping[str, FileRef]) -> tuple[tuple[FileRef, ...], ...]:
    """Return `files` in batches. Each must be deleted before the next, so that remaining files can still be found."""
    ranks = (
        (FileKind.DATA, FileKind.CHANGELOG, FileKind.EXTRA, FileKind.INDEX, FileKind.STATISTICS),
        (FileKind.MANIFEST, FileKind.INDEX_MANIFEST),
        (FileKind.MANIFEST_LIST,),
    )
    return tuple(
        tuple(sorted((file for file in files.values() if file.kind in rank), key=lambda file: file.key))
        for rank in ranks
    )


def is_due(plan: DeletionPlan, *, grace_millis: int, now_millis: int) -> bool:
    """Return whether the files of an unlinked plan may be deleted: its wait is over, or an earlier run began to delete
    them.
    """
    match plan.stage:
        case DeletionStage.UNLINKING:
            return False
        case DeletionStage.WAITING:
            assert plan.waiting_since_millis is not None
            return now_millis >= plan.waiting_since_millis + grace_millis
        case DeletionStage.DELETING:
            return True


def as_roots(plan: DeletionPlan) -> Sequence[Root]:
    """Return the roots of a waiting plan, whose files a reader may still need."""
    return tuple(replace(root, key=plan.key, history=f"{plan.key}/{root.history}") for root in plan.roots)
