"""Deletion: forbid the id → unlink the root → wait → prove → delete files, for every verb that unlinks a root.

A deletion plan is stored before its roots are unlinked and deleted after their files, so a later run finds the work
that an earlier one left. Nothing here sleeps: the next run after the end of a wait deletes the files.
Source: docs/reliability/deletion.md#order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.branch_schemas import DeltasAreChangelogs, Graces
from lakehouse_core.execution.expiry.history import storage_now_millis
from lakehouse_core.execution.expiry.reachability import (
    NamedFiles,
    pending_files,
    reachable_among,
    unlinked_files,
)
from lakehouse_core.execution.expiry.unlinking import delete_all, is_covered, is_unlinking, resume
from lakehouse_core.execution.presence import check_table
from lakehouse_core.metadata.boundary import Boundaries
from lakehouse_core.metadata.deletion_plans import advance, current_plans, skip_wait
from lakehouse_core.metadata.manifest_reader import ManifestReader, Missing
from lakehouse_core.metadata.read_ahead import both, in_order
from lakehouse_core.metadata.roots import Roots, collect_roots, on_all_roots
from lakehouse_core.planning.expiry.deletion import as_roots, deletion_order
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.storage.object_store import Folders, ObjectInfo, StoreReader
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_plan import DeletionPlan, DeletionStage
from lakehouse_core.table.file_refs import FileKind, FileRef
from lakehouse_core.table.root import Root, RootKind
from lakehouse_core.table.schema import TableSchema

# The number of files deleted between two reports of progress.
_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The effect of a run on the roots, before any proof: the roots to unlink, by key, and the changelogs to make.

    `waiting`: the plans that would wait for readers, and keep their files for now.
    """

    plans: tuple[DeletionPlan, ...] = ()
    waiting: tuple[DeletionPlan, ...] = ()
    unlinked_keys: frozenset[str] = frozenset()
    made_changelogs: tuple[Root, ...] = ()

    @property
    def all_unlinked_keys(self) -> frozenset[str]:
        return self.unlinked_keys.union(root.key for plan in self.plans for root in plan.roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The files that are deleted, or would be, with their sizes. `plan_keys`: the plans that ended; `waiting`: the
    others.

    `waiting_keys`: the files that wait for readers to end, filled only if this run added some.
    """

    files: tuple[FileRef, ...] = ()
    plan_keys: tuple[str, ...] = ()
    waiting: tuple[DeletionPlan, ...] = ()
    waiting_keys: tuple[str, ...] = ()


def finish_deletions(
    table: TableContext,
    schema: TableSchema,
    *,
    unlinked: Iterable[DeletionPlan] = (),
    watch: Watch = NO_WATCH,
) -> Deleted:
    """Advance every deletion plan of the table as far as possible now. The roots of `unlinked` are known to be
    deleted.
    """
    store = table.store
    graces = Graces(table, schema)
    known = {plan.uuid for plan in unlinked}
    begun = []
    covered = []
    requests = store.requests_at_once
    # The plans of another table wait for its own readers.
    (boundary, _), (plans, now_millis) = both(
        lambda: both(table.snapshots.boundary.first_id, lambda: check_table(table), at_once=requests),
        lambda: both(lambda: current_plans(store), store.now_millis, at_once=requests),
        at_once=requests,
    )
    boundaries = Boundaries(store, {table.layout.prefix: boundary})
    for plan in plans:
        if plan.uuid in known or is_unlinking(store, plan, boundaries):
            if plan.uuid not in known:
                resume(table, plan)
                # Its readers are waited for from now on.
                now_millis = store.now_millis()
            if plan.kind is RootKind.TAG and is_covered(store, plan, boundaries):
                delete_all(store, [plan.key])
                covered.append(plan.key)
            else:
                begun.append(plan)
    waiting_keys: frozenset[str] = frozenset()
    waits = [plan for plan in begun if graces.waits(plan)]
    # Without readers to wait for, files of roots unlinked now are deleted now.
    at_once = {plan.uuid for plan in begun} - {plan.uuid for plan in waits}
    for plan in waits:
        waiting, waiting_keys = _waiting(
            table,
            schema,
            plan,
            _waiting_plans(plans),
            dry_run=DryRun(),
            boundaries=boundaries,
            now_millis=now_millis,
        )
        advance(store, plan, waiting)
        plans = current_plans(store)
    plans = tuple(plan for plan in plans if plan.key not in covered)
    due = tuple(plan for plan in plans if plan.uuid in at_once or graces.is_over(plan, now_millis=now_millis))
    deleted = _delete(table, schema, due, boundaries, watch=watch) if due else Deleted()
    left = (plan for plan in plans if plan.key not in deleted.plan_keys)
    return replace(
        deleted,
        plan_keys=(*covered, *deleted.plan_keys),
        waiting=tuple(plan for plan in left if plan in due or plan.stage is not DeletionStage.UNLINKING),
        waiting_keys=_without(waiting_keys, deleted),
    )


def preview(table: TableContext, schema: TableSchema, dry_run: DryRun, *, boundary: int) -> Deleted:
    """Return the result that `finish_deletions` would have after the unlinking of `dry_run`; change nothing."""
    store = table.store
    graces, now_millis = Graces(table, schema), storage_now_millis(table)
    stored = current_plans(store)
    boundaries = Boundaries(store, {table.layout.prefix: boundary})
    begun = [
        plan
        for plan in stored
        if plan.stage is DeletionStage.UNLINKING
        and (plan.roots[0].key in dry_run.all_unlinked_keys or is_unlinking(store, plan, boundaries))
    ]
    # A run finishes the unlinking of every branch.
    left = (root.key for plan in begun for root in plan.roots)
    dry_run = replace(dry_run, unlinked_keys=dry_run.unlinked_keys.union(left))
    begun += dry_run.plans
    covered = [plan for plan in begun if plan.kind is RootKind.TAG and is_covered(store, plan, boundaries)]
    begun = [plan for plan in begun if plan not in covered]
    due = [plan for plan in stored if graces.is_over(plan, now_millis=now_millis)]
    waiting = _waiting_plans(stored)
    waiting_keys: frozenset[str] = frozenset()
    due += (plan for plan in begun if not graces.waits(plan))
    begun = list(filter(graces.waits, begun))
    dry_run = replace(dry_run, waiting=tuple(begun))
    for plan in begun:
        new, waiting_keys = _waiting(
            table, schema, plan, waiting, dry_run=dry_run, boundaries=boundaries, now_millis=now_millis
        )
        waiting = [*waiting, new]
    ended = [plan.key for plan in covered if plan in stored]
    if not due:
        return Deleted(plan_keys=tuple(ended), waiting=tuple(waiting), waiting_keys=tuple(sorted(waiting_keys)))
    dead, held = _unreachable_files(table, schema, due, dry_run, boundaries)
    files = _existing(store, dead)
    if held:
        files = deletion_order({file.key: file for file in files})[0]
        waiting = [*(plan for plan in due if plan not in waiting), *waiting]
    else:
        ended += [plan.key for plan in due if plan in stored]
        waiting = [plan for plan in waiting if plan not in due]
    deleted = Deleted(files=files, plan_keys=tuple(ended), waiting=tuple(waiting))
    return replace(deleted, waiting_keys=_without(waiting_keys, deleted))


def _waiting_plans(plans: Iterable[DeletionPlan]) -> list[DeletionPlan]:
    return [plan for plan in plans if plan.stage is DeletionStage.WAITING]


def _without(waiting_keys: Iterable[str], deleted: Deleted) -> tuple[str, ...]:
    return tuple(sorted({*waiting_keys} - {file.key for file in deleted.files}))


def _waiting(
    table: TableContext,
    schema: TableSchema,
    plan: DeletionPlan,
    earlier: Sequence[DeletionPlan],
    *,
    dry_run: DryRun,
    boundaries: Boundaries,
    now_millis: int,
) -> tuple[DeletionPlan, frozenset[str]]:
    """Return `plan` in its waiting state, after its roots are deleted, and the keys of all waiting files. The plan
    counts the files that no plan in `earlier` counts.
    """
    store = table.store
    dead, _ = _unreachable_files(table, schema, (plan, *earlier), dry_run, boundaries)
    files = _existing(store, dead)
    waiting = plan.model_copy(
        update={
            "stage": DeletionStage.WAITING,
            "waiting_since_millis": now_millis,
            "file_count": max(0, len(files) - sum(other.file_count for other in earlier)),
            "size_bytes": max(0, sum(file.size or 0 for file in files) - sum(other.size_bytes for other in earlier)),
        }
    )
    return waiting, frozenset(file.key for file in files)


def _delete(
    table: TableContext, schema: TableSchema, due: Sequence[DeletionPlan], boundaries: Boundaries, *, watch: Watch
) -> Deleted:
    store = table.store
    watch.at("looking for what is still needed")
    dead, held = _unreachable_files(table, schema, due, DryRun(), boundaries)
    files = _existing(store, dead)
    if files:
        for plan in due:
            skip_wait(store, plan)
    batches = deletion_order({file.key: file for file in files})
    # While a pending commit holds some of the files, the files that name them must stay, or no later run finds them.
    gone = watch.counting("deleting", len(files), "files")
    for batch in batches[:1] if held else batches:
        for start in range(0, len(batch), _AT_ONCE):
            piece = batch[start : start + _AT_ONCE]
            delete_all(store, [file.key for file in piece])
            gone(len(piece))
    if schema.table_options.expiry.clean_empty_folders and store.folders is not None:
        kinds = (FileKind.DATA, FileKind.CHANGELOG)
        remove_empty_folders(store.folders, (file.key for file in files if file.kind in kinds))
    if held:
        return Deleted(files=batches[0])
    keys = tuple(plan.key for plan in due)
    delete_all(store, keys)
    return Deleted(files=files, plan_keys=keys)


def _unreachable_files(
    table: TableContext,
    schema: TableSchema,
    due: Sequence[DeletionPlan],
    dry_run: DryRun,
    boundaries: Boundaries,
) -> tuple[dict[str, FileRef], bool]:
    """Return the files that only the roots of `due` needed, by key, and whether a pending commit holds further ones.

    Raises CorruptTable when a root, or a file that a root needs, cannot be read: then nothing is proven.
    """
    delta_is_changelog = DeltasAreChangelogs(table, schema)

    def search(roots: Roots) -> tuple[dict[str, FileRef], bool]:
        manifests = ManifestReader(table.store, table.layout, Missing.NOT_FOUND)
        named_files = NamedFiles(manifests, DataLayout(schema), at_once=table.store.requests_at_once)
        living = list(_living(roots, due, dry_run))
        dead = unlinked_files(named_files, due)
        live = reachable_among(named_files, living, dead, delta_is_changelog=delta_is_changelog)
        held = pending_files(named_files, roots.pending) & (dead.keys() - live)
        return {key: file for key, file in dead.items() if key not in live and key not in held}, bool(held)

    return on_all_roots(partial(collect_roots, table.store, boundaries), search)


def _living(roots: Roots, due: Sequence[DeletionPlan], dry_run: DryRun) -> Iterable[Root]:
    unlinked = dry_run.all_unlinked_keys
    ending = {plan.uuid for plan in due}
    yield from (root for root in roots.roots if root.key not in unlinked)
    yield from dry_run.made_changelogs
    stored = {plan.uuid for plan in roots.plans}
    for plan in (*roots.plans, *(plan for plan in dry_run.waiting if plan.uuid not in stored)):
        if plan.uuid not in ending and plan.stage is not DeletionStage.DELETING:
            yield from as_roots(plan)


def _existing(store: StoreReader, files: Mapping[str, FileRef]) -> tuple[FileRef, ...]:
    """Return those of `files` that exist, all with their size in bytes."""
    folders = sorted({key.rpartition("/")[0] for key in files})
    # A disk is fastest one by one.
    listed = in_order(store.children, folders, ahead=1, at_once=store.requests_at_once)
    there = {f"{folder}/{name}" for folder, found in zip(folders, listed, strict=True) for name in found.files}
    found = [files[key] for key in sorted(files.keys() & there)]
    infos = store.infos(file.key for file in found if file.size is None)
    return tuple(file if file.size is not None else _measured(file, infos.get(file.key)) for file in found)


def _measured(file: FileRef, info: ObjectInfo | None) -> FileRef:
    return replace(file, size=0 if info is None else info.size)


def remove_empty_folders(folders: Folders, keys: Iterable[str]) -> None:
    """Remove the folders that the deletion of these files left empty, and those above them."""
    emptied = {key.rpartition("/")[0] for key in keys} - {""}
    while emptied:
        for folder in emptied:
            folders.delete_empty(folder)
        emptied = {folder.rpartition("/")[0] for folder in emptied} - {""}
