"""Roots: read anew all roots of a table and its branches.

Rule: one root that cannot be read stops the caller, which wants to delete. An error never counts as "there is no such
root".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable
from lakehouse_core.metadata.deletion_plans import load_plans
from lakehouse_core.metadata.ids import changelog_ids, snapshot_ids
from lakehouse_core.metadata.staged_commits import pending_commits
from lakehouse_core.metadata.tag_log import read_tag, tag_names
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.deletion_plan import DeletionPlan
from lakehouse_core.table.layout import BRANCH_FOLDER, BRANCH_PREFIX, MAIN, TableLayout
from lakehouse_core.table.root import Root, RootKind, root_of
from lakehouse_core.table.snapshot import parse_snapshot
from lakehouse_core.table.staged_commit import StagedCommit

_BRANCH = re.compile(rf"{BRANCH_PREFIX}(.+)")
_SCHEMA = re.compile(r"schema-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """All roots of a table and its branches. `plans` hold the unlinked roots; `pending`: kept commits, by key."""

    roots: tuple[Root, ...]
    plans: tuple[DeletionPlan, ...]
    pending: tuple[tuple[str, StagedCommit], ...]


def collect_roots(store: StoreReader, *, boundary: int) -> Roots:
    """Return every root; snapshots of the main branch below `boundary` count as expired.

    Raises CorruptTable, UnsupportedFeature or StorageUnavailable if a root cannot be read.
    """

    def read() -> Roots:
        return Roots(
            roots=(*_roots_on(store, MAIN, boundary), *_branch_roots(store)),
            plans=load_plans(store),
            pending=pending_commits(store),
        )

    # If a listed root is missing, all roots are listed again; nothing is assumed about its removal.
    return LISTING.call(
        read,
        on=(NotFound,),
        exhausted=lambda attempts: StorageUnavailable(
            f"{store.uri('')}: in {attempts} attempts a root vanished between listing and reading. Nothing was "
            "deleted; end other maintenance of this table, then call again."
        ),
    )


def _roots_on(store: StoreReader, layout: TableLayout, boundary: int) -> Iterator[Root]:
    """Yield the snapshots, changelogs and tags of one branch."""
    snapshots = [layout.snapshot(id) for id in snapshot_ids(store, layout) if id >= boundary]
    for key, data in zip(snapshots, store.read_all(snapshots), strict=True):
        yield root_of(parse_snapshot(data, key), key, RootKind.SNAPSHOT, lineage=layout.prefix)
    changelogs = [layout.changelog(id) for id in changelog_ids(store, layout)]
    for key, data in zip(changelogs, store.read_all(changelogs), strict=True):
        yield root_of(parse_snapshot(data, key), key, RootKind.CHANGELOG, lineage=layout.prefix)
    for name in tag_names(store, layout):
        key = layout.tag(name)
        yield root_of(read_tag(store, key).snapshot, key, RootKind.TAG, lineage=layout.prefix)


def branch_names(store: StoreReader) -> list[str]:
    """Return the names of all branches except main, sorted."""
    folders = store.children(BRANCH_FOLDER).folders
    return [folder.removeprefix(BRANCH_PREFIX) for folder in folders if _BRANCH.fullmatch(folder)]


def _branch_roots(store: StoreReader) -> Iterator[Root]:
    for layout in map(TableLayout, branch_names(store)):
        if not any(map(_SCHEMA.fullmatch, store.children(layout.schema_folder).files)):
            raise CorruptTable(
                f"{store.uri(layout.prefix.rstrip('/'))}: the branch has no schema, so it was not created or "
                "dropped completely. Nothing was deleted, because its files may be needed. Finish creating it, or "
                "remove its folder."
            )
        yield from _roots_on(store, layout, 0)
