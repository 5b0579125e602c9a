"""Orphan removal: delete the files of a table that no root names and that are older than an age limit.

Rule: the files are listed before the roots are read. A file that a commit publishes meanwhile is younger than the
limit, or a kept commit named it when the roots were read.
Source: docs/reliability/deletion.md#orphans.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lakehouse_core.errors import CorruptTable, InvalidRequest, NotFound
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.expiry.branch_schemas import DeltasAreChangelogs
from lakehouse_core.execution.expiry.deletion import remove_empty_folders
from lakehouse_core.execution.expiry.expire import check_understood
from lakehouse_core.execution.expiry.history import storage_now_millis
from lakehouse_core.execution.expiry.reachability import (
    NamedFiles,
    pending_files,
    reachable,
    unlinked_files,
)
from lakehouse_core.execution.expiry.unlinking import delete_all
from lakehouse_core.metadata.boundary import Boundaries
from lakehouse_core.metadata.hints import read_hint
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.manifest_reader import ManifestReader, Missing
from lakehouse_core.metadata.roots import Roots, branch_names, collect_roots, on_all_roots
from lakehouse_core.metadata.staged_commits import pending_commits
from lakehouse_core.planning.expiry.deletion import as_roots
from lakehouse_core.planning.expiry.orphans import OrphanFile, OrphanKind, orphan_kind
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.outcomes import begun
from lakehouse_core.table.data_layout import DataLayout
from lakehouse_core.table.deletion_plan import DeletionStage
from lakehouse_core.table.layout import MAIN, TableLayout
from lakehouse_core.table.root import Root
from lakehouse_core.table.schema import TableSchema

# The number of files deleted between two reports of progress.
_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRemoval:
    """The orphans that were deleted, by key, and those that stay because they are younger than the limit."""

    deleted: tuple[OrphanFile, ...] = ()
    younger: tuple[OrphanFile, ...] = ()


def remove_orphans(
    table: TableContext, *, min_age_millis: int, dry_run: bool = False, watch: Watch = NO_WATCH
) -> OrphanRemoval:
    """Delete the files that no root, deletion plan or kept commit names and that are `min_age_millis` old or older.

    Ages are by the storage's clock. With `dry_run` nothing changes, and the result is that of a run. Safe to call again
    after a crash. Raises CorruptTable when a root cannot be read, UnsupportedFeature: then nothing is deleted.
    """
    store = table.store
    schema = table.schemas.latest()
    check_understood(store.uri(""), schema)
    if (branch := table.layout.branch) is not None:
        raise InvalidRequest(
            f"{store.uri('')}: orphans are removed from a table with all its branches, found the branch {branch}. "
            "Call the verb of the table itself."
        )
    watch.at("listing the files")
    now_millis = storage_now_millis(table) if dry_run else store.now_millis()
    candidates = _candidates(table, schema)
    if not candidates:
        return OrphanRemoval()
    watch.at("looking for what is still needed")
    has_snapshots = _has_snapshots(table)
    needed = _needed_names(table, schema)
    orphans = [one for one in candidates if one.name not in needed]
    is_old = [one.modified_millis <= now_millis - min_age_millis for one in orphans]
    deleted = tuple(one for one, old in zip(orphans, is_old, strict=True) if old)
    if not has_snapshots and any(one.kind is OrphanKind.MANIFEST for one in deleted):
        raise CorruptTable(
            f"{store.uri('')}: found files of commits in the folder manifest, and no snapshot. Nothing was deleted. If "
            "the snapshots are lost, restore them from a copy of the table; if no commit ever ended, write to the "
            "table first."
        )
    if not dry_run:
        _delete(table, schema, deleted, watch)
    return OrphanRemoval(
        deleted=deleted, younger=tuple(one for one, old in zip(orphans, is_old, strict=True) if not old)
    )


def _candidates(table: TableContext, schema: TableSchema) -> Sequence[OrphanFile]:
    """Return the files that may be orphans, by key."""
    depth, data_folder = len(schema.partition_keys), schema.table_options.data_file_directory or ""
    found = []
    for info in table.store.list(""):
        kind = orphan_kind(info.key, partition_depth=depth, data_folder=data_folder)
        if kind is not None:
            found.append(OrphanFile(key=info.key, kind=kind, size=info.size, modified_millis=info.modified_millis))
    return sorted(found, key=lambda one: one.key)


def _has_snapshots(table: TableContext) -> bool:
    """Return whether the table has a snapshot. Raises CorruptTable if the latest ones of a branch are missing, or below
    its boundary, as after a rollback by another engine.
    """
    found = []
    for layout in (MAIN, *map(TableLayout, branch_names(table.store))):
        branch = table.on_branch(layout.branch)
        if branch.snapshots.boundary.mark().is_closed:
            continue
        # Before the snapshots: commits write it after them.
        named = read_hint(Look(table.store), layout.hints.latest) or 0
        _, ids = branch.snapshots.ids.with_boundary()
        if named > max(ids, default=0):
            raise CorruptTable(
                f"{table.store.uri(layout.hints.latest)}: it names snapshot {named}, and the latest snapshot there is "
                f"{max(ids, default=None)}. Nothing was deleted. Restore the missing snapshots from a copy of the "
                "table; if they were removed on purpose, commit to it first."
            )
        found += ids if layout is MAIN else []
    return bool(found)


def _needed_names(table: TableContext, schema: TableSchema) -> set[str]:
    """Return the names of all files that roots, deletion plans and kept commits need.

    The names, not the keys: another engine may have put a file where this one would not. No name is used twice.
    """
    manifests = ManifestReader(table.store, table.layout, Missing.NOT_FOUND)
    named_files = NamedFiles(manifests, DataLayout(schema), at_once=table.store.requests_at_once)
    # Before the roots: a kept commit may be committed meanwhile, and is a root then.
    kept = LISTING.call(lambda: pending_commits(table.store), on=(NotFound,))
    names = _names(pending_files(named_files, kept))
    known: set[Root] = set()
    # Twice: while a tag is renamed, a listing may contain neither its old nor its new name.
    for _ in range(2):
        names |= _rooted_names(table, schema, named_files, known)
    return names


def _rooted_names(table: TableContext, schema: TableSchema, named_files: NamedFiles, known: set[Root]) -> set[str]:
    """Return the names of the files that the roots beside `known` need, and of those that deletion plans still delete.

    Adds the roots to `known`.
    """
    delta_is_changelog = DeltasAreChangelogs(table, schema)

    def search(roots: Roots) -> set[str]:
        waiting = (plan for plan in roots.plans if plan.stage is not DeletionStage.DELETING)
        found = {*roots.roots, *(root for plan in waiting for root in as_roots(plan))}
        live = reachable(named_files, found - known, delta_is_changelog=delta_is_changelog)
        known.update(found)
        unlinked = unlinked_files(named_files, roots.plans)
        return _names(live) | _names(unlinked) | _names(pending_files(named_files, roots.pending))

    # Also the snapshots below the boundary: another engine may have rolled the table back to one of them.
    return on_all_roots(lambda: collect_roots(table.store, Boundaries(table.store, {MAIN.prefix: 0})), search)


def _names(keys: Iterable[str]) -> set[str]:
    return {key.rpartition("/")[2] for key in keys}


def _delete(table: TableContext, schema: TableSchema, orphans: Sequence[OrphanFile], watch: Watch) -> None:
    store = table.store
    gone = watch.counting("deleting", len(orphans), "files")
    with begun("Orphans may have been deleted before that: call again, which deletes the others."):
        for start in range(0, len(orphans), _AT_ONCE):
            piece = orphans[start : start + _AT_ONCE]
            delete_all(store, [one.key for one in piece], left="Call again.")
            gone(len(piece))
        if schema.table_options.expiry.clean_empty_folders and store.folders is not None:
            in_buckets = (one.key for one in orphans if one.kind is OrphanKind.BUCKET)
            remove_empty_folders(store.folders, in_buckets)
