"""Unlinking: delete the roots of a deletion plan, in an order in which each root can be read until it is deleted.

Rule: a root is unlinked only while its file holds the state that the plan recorded.
Source: docs/reliability/deletion.md#order.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable
from lakehouse_core.execution.context import TableContext
from lakehouse_core.metadata.boundary import Boundaries
from lakehouse_core.metadata.deletion_plans import current_plans
from lakehouse_core.metadata.ids import changelog_ids
from lakehouse_core.metadata.read_ahead import both
from lakehouse_core.metadata.used_names import end_name
from lakehouse_core.storage.object_store import ObjectStore, StoreReader
from lakehouse_core.storage.outcomes import begun, created
from lakehouse_core.table.boundary import BranchWork
from lakehouse_core.table.deletion_plan import DeletionPlan, DeletionStage
from lakehouse_core.table.layout import MAIN, PENDING_FOLDER, layout_at
from lakehouse_core.table.root import Root, RootKind, root_of
from lakehouse_core.table.snapshot import parse_snapshot, parse_tag

# What a store deletes in one request.
_AT_ONCE: Final = 1_000


def interrupted(table: TableContext) -> tuple[DeletionPlan, ...]:
    """Return the plans for roots of this branch whose unlinking began and is not recorded as done; any run may finish
    them.
    """
    store = table.store
    boundary, plans = both(
        table.snapshots.boundary.first_id, lambda: current_plans(store), at_once=store.requests_at_once
    )
    prefix = table.layout.prefix
    boundaries = Boundaries(store, {prefix: boundary})
    return tuple(plan for plan in plans if plan.branch_prefix == prefix and is_unlinking(store, plan, boundaries))


def resume(table: TableContext, plan: DeletionPlan) -> None:
    """Finish the unlinking of an interrupted run, and make the changelogs that a run of an older version did not."""
    if table.layout.prefix != plan.branch_prefix:
        table = table.on_branch(layout_at(plan.branch_prefix).branch)
    if plan.of_branch:
        # Else its folder is gone, or holds a branch that was made since.
        if is_removed_by(table, plan.uuid):
            remove_branch(table, plan, token=plan.uuid, with_staged=True)
        return
    is_of_branch = plan.kind is RootKind.SNAPSHOT and plan.branch_prefix != MAIN.prefix
    if is_of_branch and table.snapshots.boundary.mark().first_kept_id < plan.first_kept_id:
        # The branch was deleted. One that was made since under its name may have equal snapshots.
        return
    make_changelogs(table, plan)
    if plan.kind is RootKind.SNAPSHOT:
        # The earlier run may have ended before its boundary was durable.
        table.store.make_last([table.layout.boundary])
    unlink(table, plan)


def make_changelogs(table: TableContext, plan: DeletionPlan) -> None:
    """Copy the snapshots of the plan that become changelogs; an existing equal changelog counts as made.

    REQUIRES: the ids are not forbidden yet; else readers could not read their changes meanwhile.
    """
    store = table.store
    copied = [root for root in plan.roots if root.snapshot_id in plan.made_changelog_ids]
    for root, data in existing_roots(store, copied).items():
        _make_changelog(table, root.snapshot_id, data)
    if plan.made_changelog_ids:
        _write_changelog_hints(table, first_kept_id=0)


def unlink(
    table: TableContext,
    plan: DeletionPlan,
    unlinked: Callable[[int], None] | None = None,
    *,
    hint: Callable[[], None] | None = None,
) -> None:
    """Delete the roots of `plan`, in rising order. Safe to repeat: a file with another state under the name of a root
    stays.

    REQUIRES: the changelogs of the plan are made. `unlinked` is called after each deleted root. `hint` writes a hint,
    or looks whether the table is there, before the first one is deleted.
    """
    store = table.store
    _, there = both(
        hint or (lambda: None), lambda: list(existing_roots(store, plan.roots)), at_once=store.requests_at_once
    )
    # An earlier run may have ended before its deletions were durable.
    store.make_last([root.key for root in plan.roots if root not in there])
    if plan.kind is RootKind.CHANGELOG:
        _write_changelog_hints(table, first_kept_id=plan.first_kept_id)
    # The first one by itself: without it the unlinking is known to have begun.
    for some in (there[:1], *(there[at : at + _AT_ONCE] for at in range(1, len(there), _AT_ONCE))):
        delete_all(store, [root.key for root in some])
        if unlinked is not None and some:
            unlinked(len(some))


def remove_branch(table: TableContext, plan: DeletionPlan | None, *, token: str, with_staged: bool) -> None:
    """Unlink the roots of `plan`, delete all other objects of its branch, and its boundary at last. Safe to repeat.

    REQUIRES: the boundary of the branch says that the verb with `token` removes it. `plan` None: other roots have its
    files.
    `with_staged`: the commits that are staged for it go too.
    """
    store, layout = table.store, table.layout
    if plan is not None and is_removed_by(table, token):
        unlink(table, plan)
    keys = [info.key for info in store.list(layout.folder) if info.key != layout.boundary]
    if with_staged:
        staged = store.children(PENDING_FOLDER).files
        keys[:0] = [f"{PENDING_FOLDER}/{name}" for name in staged if name.startswith(layout.staged_prefix)]
    steps: tuple[Callable[[], None], ...] = (
        lambda: delete_all(store, keys),
        lambda: end_name(store, layout, token),
        lambda: delete_all(store, [layout.boundary]),
    )
    for step in steps:
        # The table may have been dropped and created again, with a branch of this name.
        if not is_removed_by(table, token):
            return
        step()
    if store.folders is not None:
        store.folders.delete_empty(layout.folder)


def is_removed_by(branch: TableContext, token: str) -> bool:
    """Return whether the boundary of a branch says that the verb with `token` removes it."""
    mark = branch.snapshots.boundary.mark()
    return (mark.work, mark.token) == (BranchWork.DELETING, token)


def existing_roots(store: StoreReader, roots: Sequence[Root]) -> dict[Root, bytes]:
    """Return the contents of the files of those roots whose file exists and holds the state of the root, in order."""
    found = store.read_found(root.key for root in roots)
    return {root: found[root.key] for root in roots if root.key in found and _is_root(found[root.key], root)}


def _is_root(data: bytes, root: Root) -> bool:
    is_tag = root.kind is RootKind.TAG
    snapshot = parse_tag(data, root.key).snapshot if is_tag else parse_snapshot(data, root.key)
    return root_of(snapshot, root.key, root.kind, history=root.history) == root


def is_unlinking(store: StoreReader, plan: DeletionPlan, boundaries: Boundaries) -> bool:
    """Return whether the unlinking of `plan` began and is not recorded as done. A plan whose unlinking has not begun
    has no effect.
    """
    if plan.stage is not DeletionStage.UNLINKING:
        return False
    mark = boundaries.of(plan.branch_prefix)
    if plan.of_branch and (mark.work, mark.token) != (BranchWork.DELETING, plan.uuid):
        # Its boundary went last.
        return True
    if plan.kind is RootKind.SNAPSHOT and not plan.of_branch:
        if plan.first_kept_id <= mark.first_kept_id:
            return True
        if plan.branch_prefix == MAIN.prefix:
            return False
        # The branch was deleted or renamed, with its boundary.
    return not existing_roots(store, plan.roots[:1])


def is_covered(store: StoreReader, plan: DeletionPlan, boundaries: Boundaries) -> bool:
    """Return whether `plan`, which unlinks a tag, is one of an existing snapshot: the expiry of the snapshot deletes
    the files of both.
    """
    tag = plan.roots[0]
    key = layout_at(plan.branch_prefix).snapshot(tag.snapshot_id)
    try:
        snapshot = root_of(parse_snapshot(store.read(key), key), key, RootKind.SNAPSHOT)
    except NotFound:
        return False
    return snapshot.snapshot_id >= boundaries.of(plan.branch_prefix).first_kept_id and snapshot.same_files(tag)


def _write_changelog_hints(table: TableContext, *, first_kept_id: int) -> None:
    ids = [one for one in changelog_ids(table.store, table.layout) if one >= first_kept_id]
    if ids:
        table.changelogs.write_hints(ids[0], ids[-1])


def _make_changelog(table: TableContext, snapshot_id: int, data: bytes) -> None:
    store, key = table.store, table.layout.changelog(snapshot_id)
    if created(store, key, data):
        return
    if store.read(key) != data:
        raise CorruptTable(
            f"{store.uri(key)}: expected a copy of snapshot {snapshot_id}, found another content. "
            "That snapshot stays; run `lakehouse verify` and keep its report."
        )
    store.make_last([key])


def delete_all(store: ObjectStore, keys: Iterable[str], *, left: str = "The plan stays; call again.") -> None:
    """Delete these objects. Raises StorageUnavailable, with what is `left` to do, if one could not be deleted."""
    failed = store.delete(keys)
    if failed:
        raise StorageUnavailable(f"{store.uri(failed[0])}: {len(failed)} objects could not be deleted. {left}")


def deleting() -> AbstractContextManager[None]:
    """Add to an error inside the block that files may have been deleted before it."""
    return begun(
        "Files may have been deleted before that: call again, or expire snapshots, which completes the deletion."
    )
