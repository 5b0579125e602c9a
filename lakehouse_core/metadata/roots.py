"""Roots: read anew all roots of a table and its branches.

Rule: one root that cannot be read stops the caller, which wants to delete. An error never counts as "there is no such
root". Source: docs/reliability/deletion.md#what-keeps-files.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, NotFound, StorageUnavailable
from lakehouse_core.metadata.boundary import Boundaries, boundary_mark
from lakehouse_core.metadata.deletion_plans import plan_keys
from lakehouse_core.metadata.ids import changelog_ids_in, snapshot_ids
from lakehouse_core.metadata.read_ahead import both, in_order
from lakehouse_core.metadata.staged_commits import parse_pending, pending_keys
from lakehouse_core.metadata.tag_log import tag_in, tag_names_in
from lakehouse_core.metadata.used_names import is_left_over
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import Children, StoreReader, read_all
from lakehouse_core.table.boundary import NO_MARK, BoundaryMark, BranchWork
from lakehouse_core.table.deletion_plan import DeletionPlan, parse_plan
from lakehouse_core.table.layout import (
    BRANCH_FOLDER,
    BRANCH_PREFIX,
    MAIN,
    NAMES_FOLDER,
    OWN_FOLDER,
    PENDING_FOLDER,
    PINS_FOLDER,
    TableLayout,
    manifest_key,
)
from lakehouse_core.table.root import Root, RootKind, root_of
from lakehouse_core.table.snapshot import parse_snapshot
from lakehouse_core.table.staged_commit import StagedCommit

T = TypeVar("T")

_BRANCH = re.compile(rf"{BRANCH_PREFIX}(.+)")
# The folder of the names that branches had, in that of this package.
_NAMES = NAMES_FOLDER.rpartition("/")[2]
_SCHEMA = re.compile(r"schema-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """All roots of a table and its branches. `plans` hold the unlinked roots; `pending`: kept commits, by key."""

    roots: tuple[Root, ...]
    plans: tuple[DeletionPlan, ...]
    pending: tuple[tuple[str, StagedCommit], ...]


def collect_roots(store: StoreReader, boundaries: Boundaries) -> Roots:
    """Return every root; snapshots below the boundary of their branch count as expired.

    Raises CorruptTable, UnsupportedFeature or StorageUnavailable if a root cannot be read.
    """

    def read() -> Roots:
        of_main, listed = _roots_on(
            store, MAIN, boundaries, beside=(BRANCH_FOLDER, OWN_FOLDER, PINS_FOLDER, PENDING_FOLDER)
        )
        branches, own, pins, pending = listed
        plans, kept = plan_keys(own), pending_keys(store, pins, pending)
        data = _read(store, (*plans, *kept))
        of_branches = tuple(_branch_roots(store, branches, boundaries))
        of_main += _forwarded_since(
            store, of_main, boundaries, has_branches=bool(branches.folders or _NAMES in own.folders)
        )
        if branches.folders:
            now, own_now = in_order(store.children, (BRANCH_FOLDER, OWN_FOLDER), at_once=store.requests_at_once)
            # One that was renamed since the listing has its roots in a folder that is not among them, and one that was
            # deleted has them in a plan.
            if now.folders != branches.folders or not set(plan_keys(own_now)) <= set(plans):
                raise NotFound(f"{store.uri(BRANCH_FOLDER)}: a branch was created, renamed or deleted meanwhile.")
        return Roots(
            roots=(*of_main, *of_branches),
            plans=tuple(parse_plan(data[key], key) for key in plans),
            pending=tuple((key, parse_pending(data[key], store.uri(key))) for key in kept),
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


def on_all_roots(collect: Callable[[], Roots], search: Callable[[Roots], T]) -> T:
    """Return the result of `search` on the roots that `collect` returns, collected anew when a file that one needs is
    missing: another run may have unlinked the root that names the file, and deleted its files, during the search.

    Raises CorruptTable if a file is missing though the roots stay the same, StorageUnavailable if they change in each
    attempt.
    """
    before: Roots | None = None
    for attempt in LISTING.attempts():
        roots = collect()
        try:
            return search(roots)
        except NotFound as error:
            if roots == before:
                raise CorruptTable(
                    f"{error} Nothing was deleted. Run `lakehouse verify` and keep its report."
                ) from error
            if attempt.is_last:
                raise StorageUnavailable(
                    f"{error} In {attempt.number} attempts, between which other roots came or went. Nothing was "
                    "deleted. Call again; if that repeats, run `lakehouse verify` and keep its report."
                ) from error
            before = roots
    raise AssertionError("the last attempt returns or raises")


def _roots_on(
    store: StoreReader, layout: TableLayout, boundaries: Boundaries, *, beside: Sequence[str] = ()
) -> tuple[list[Root], list[Children]]:
    """Return the snapshots, changelogs and tags of one branch, and what is in the folders `beside`.

    The snapshots are listed first: what protects their files later, a changelog or a tag, is made before they go.
    """
    first_id = boundaries.first_root_id(layout.prefix)
    snapshots = [layout.snapshot(id) for id in snapshot_ids(store, layout) if id >= first_id]
    folders = (layout.folders.changelogs, layout.folders.tags, *beside)
    at_once = store.requests_at_once
    data, (changelog_folder, tag_folder, *others) = both(
        lambda: _read(store, snapshots),
        lambda: list(in_order(store.children, folders, at_once=at_once)),
        at_once=at_once,
    )
    changelogs = [layout.changelog(id) for id in changelog_ids_in(changelog_folder)]
    tags = [layout.tag(name) for name in tag_names_in(tag_folder)]
    data |= _read(store, (*changelogs, *tags))
    found = (
        *((key, parse_snapshot(data[key], key), RootKind.SNAPSHOT) for key in snapshots),
        *((key, parse_snapshot(data[key], key), RootKind.CHANGELOG) for key in changelogs),
        *((key, tag_in(store, key, data[key]).snapshot, RootKind.TAG) for key in tags),
    )
    return [root_of(snapshot, key, kind, history=layout.prefix) for key, snapshot, kind in found], others


def _forwarded_since(
    store: StoreReader, of_main: Sequence[Root], boundaries: Boundaries, *, has_branches: bool
) -> list[Root]:
    """Return the snapshots of main that were published since `of_main` was listed: one may have taken over the files
    of a branch, which the branch may have lost before its roots were listed.
    """
    if not has_branches:
        return []
    first_id, known = boundaries.first_root_id(MAIN.prefix), {root.key for root in of_main}
    keys = [MAIN.snapshot(id) for id in snapshot_ids(store, MAIN) if id >= first_id]
    data = _read(store, [key for key in keys if key not in known])
    return [root_of(parse_snapshot(data[key], key), key, RootKind.SNAPSHOT, history=MAIN.prefix) for key in data]


def _read(store: StoreReader, keys: Sequence[str]) -> dict[str, bytes]:
    return dict(zip(keys, read_all(store, keys), strict=True))


def roots_of(store: StoreReader, layout: TableLayout) -> list[Root]:
    """Return the roots of one branch; of one that a verb has closed, also those that expired. Raises as
    `collect_roots` does, and NotFound if one vanishes meanwhile.
    """
    return _roots_on(store, layout, Boundaries(store, {}))[0]


def branch_names(store: StoreReader) -> list[str]:
    """Return the names of all branches except main, sorted; also of those that a verb creates or removes."""
    return _names_in(store.children(BRANCH_FOLDER))


def is_begun(store: StoreReader, layout: TableLayout) -> bool:
    """Return whether a branch exists, wholly or in part. What was written late for a deleted branch does not count.

    Raises CorruptTable.
    """
    late = {layout.boundary, *layout.hints}
    if any(info.key not in late for info in store.list(layout.folder)) and not is_left_over(store, layout):
        return True
    return boundary_mark(store, layout).work is not None


def has_schema(store: StoreReader, layout: TableLayout) -> bool:
    """Return whether a branch has a schema. It is written last and deleted before the boundary."""
    return any(map(_SCHEMA.fullmatch, store.children(layout.folders.schemas).files))


def _with_lists(store: StoreReader, roots: list[Root]) -> list[Root]:
    """Return the roots whose states can be read. In a branch that is being made another one was written late, after the
    deletion of its source, and the verb that makes the branch finds the source gone before it opens the branch.
    """
    named = {
        root.key: [manifest_key(each.name) for each in (root.base, root.delta) if each is not None] for root in roots
    }
    there = store.infos({key for keys in named.values() for key in keys})
    return [root for root in roots if all(key in there for key in named[root.key])]


def _names_in(branches: Children) -> list[str]:
    return [folder.removeprefix(BRANCH_PREFIX) for folder in branches.folders if _BRANCH.fullmatch(folder)]


def _newness(mark: BoundaryMark) -> int:
    """Return when to read a branch: it may get roots only from branches with a smaller number."""
    if mark.work is BranchWork.CREATING:
        return 2
    # A file system makes the folder of a branch before its boundary.
    return 1 if mark == NO_MARK else 0


def _branch_roots(store: StoreReader, branches: Children, boundaries: Boundaries) -> Iterator[Root]:
    # A branch that is being made takes over roots of another one, which may lose them at once: it is read after that.
    for layout in sorted(map(TableLayout, _names_in(branches)), key=lambda each: _newness(boundaries.of(each.prefix))):
        if is_left_over(store, layout):
            continue
        roots = _roots_on(store, layout, boundaries)[0]
        if boundaries.of(layout.prefix).work is BranchWork.CREATING:
            roots = _with_lists(store, roots)
        # What a verb of ours has begun has all its roots, and may have no schema for a moment.
        if roots and not (boundaries.of(layout.prefix).is_closed or has_schema(store, layout)):
            if boundaries.read_again(layout.prefix).is_closed:
                yield from roots
                continue
            if not is_begun(store, layout):
                raise NotFound(
                    f"{store.uri(layout.folder)}: the branch was deleted or renamed meanwhile. Check its name."
                )
            raise CorruptTable(
                f"{store.uri(layout.folder)}: the branch has no schema, so it was not created or "
                "dropped completely. Nothing was deleted, because its files may be needed. Finish creating it, or "
                "remove it by delete_branch."
            )
        yield from roots
