"""Verification: read all metadata of a table and report every broken invariant. It changes nothing.

Data files are listed with their sizes, and read on demand. Files that an expiry deletes meanwhile are not reported.
"""

from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TypeVar

from lakehouse_core.errors import CorruptTable, NotFound
from lakehouse_core.execution.context import TableContext
from lakehouse_core.execution.verify.branch import Branch, check_branch
from lakehouse_core.execution.verify.inspection import Inspection, Rooted
from lakehouse_core.metadata.boundary import boundary_mark
from lakehouse_core.metadata.deletion_plans import load_plans, plan_keys
from lakehouse_core.metadata.ids import changelog_ids, snapshot_ids
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.roots import branch_names, has_schema, is_begun
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.metadata.seen import SeenStore, see
from lakehouse_core.metadata.staged_commits import pending_commits
from lakehouse_core.metadata.tag_log import tag_in, tag_names
from lakehouse_core.options import ChangelogProducer
from lakehouse_core.planning.findings import (
    Finding,
    Invariant,
    changelog_findings,
    hint_findings,
    id_findings,
    interrupted_branch,
    no_schema,
)
from lakehouse_core.progress import NO_WATCH, Watch
from lakehouse_core.retry import LISTING
from lakehouse_core.storage.object_store import StoreReader
from lakehouse_core.table.boundary import NO_MARK
from lakehouse_core.table.checksums import CHECKSUMS_PROPERTY
from lakehouse_core.table.layout import (
    BRANCH_FOLDER,
    CONSUMER_PREFIX,
    OWN_FOLDER,
    PENDING_FOLDER,
    PINS_FOLDER,
    TableLayout,
    manifest_key,
)
from lakehouse_core.table.root import RootKind, needed, root_of
from lakehouse_core.table.schema import TableSchema
from lakehouse_core.table.snapshot import Snapshot, parse_consumer, parse_snapshot

T = TypeVar("T")

# No verb works on a whole branch for so long; its calls to the store end much earlier.
_INTERRUPTED_AFTER_MILLIS = 3_600_000


def verify(table: TableContext, *, reads_data: bool = False, watch: Watch = NO_WATCH) -> tuple[Finding, ...]:
    """Return a finding for every broken invariant of the table and its branches; an empty tuple if there is none.

    With `reads_data`, every data file that a root names and its indexes are decoded as well, and checksums compared.
    Raises NotFound when there is no table, StorageUnavailable when the store does not answer.
    """
    for attempt in LISTING.attempts():
        verification = _Verification(table, reads_data=reads_data, watch=watch)
        if attempt.number == 1 and not verification.finds_schema(table.layout):
            raise NotFound(f"{table.store.uri('')}: there is no table: expected a schema, found none. Check the name.")
        found, is_whole = verification.run()
        if is_whole:
            break
    return found


class _Verification:
    """One pass over the roots of a table: the main branch first, then the others."""

    def __init__(self, table: TableContext, *, reads_data: bool, watch: Watch) -> None:
        # What a branch and main need is checked together, because they share files.
        self._table = table if table.layout.branch is None else table.on_branch(None)
        self._store = table.store
        self._watch = watch
        self._roots_read = 0
        self._inspection = Inspection(table.store, reads_data=reads_data, watch=watch)
        self._roots: dict[str, int] = {}
        self._made: frozenset[int] = frozenset()
        # What of the metadata is read before the roots. Each step may only show what is newer than the one before.
        self._seen = SeenStore(table.store)
        self._see(self._table.layout, PENDING_FOLDER, PINS_FOLDER, BRANCH_FOLDER, table.layout.folders.schemas)

    def _see(self, layout: TableLayout, *folders: str) -> None:
        """Read what a branch has beside its roots, and list these folders as well."""
        seen, own = self._seen, layout.folders
        # Hints are read first: the snapshot of a hint is written before the hint.
        small = (own.schemas, own.consumers)
        see(seen, [layout.boundary, *layout.hints], folders=(*small, OWN_FOLDER, *folders))
        keys = [f"{folder}/{name}" for folder in small for name in seen.children(folder).files]
        see(seen, [*keys, *plan_keys(seen.children(OWN_FOLDER))], folders=(own.snapshots, own.changelogs, own.tags))

    def finds_schema(self, layout: TableLayout) -> bool:
        """Return whether the branch of `layout`, which is the one that was asked for, has a schema."""
        return has_schema(self._seen, layout)

    def run(self) -> tuple[tuple[Finding, ...], bool]:
        """Return the findings, and whether they are complete.

        Findings for roots that were unlinked meanwhile are left out. Then they are incomplete: another root may need
        the same object.
        """
        self._watch.at("reading the roots", 0, None, "snapshots")
        names = branch_names(self._seen)
        branches = [(self._table, self._branch(self._table))]
        branches += [(each, self._branch(each)) for each in self._others(names)]
        self._pending()
        # Files are listed after the roots were read: every file that a root names was written before the root.
        self._inspection.list_files(self._roots_read)
        self._interrupted(names)
        for table, branch in branches:
            if branch is not None:
                check_branch(self._inspection, self._with_later_schemas(table, branch))
        found = self._inspection.end()
        gone = self._gone({root_key for _, root_key in found if root_key is not None})
        left = tuple(finding for finding, root_key in found if root_key not in gone)
        return left, len(left) == len(found)

    def _gone(self, root_keys: Iterable[str]) -> set[str]:
        """Return the keys of roots that were deleted or replaced since they were read."""
        below: set[str] = set()
        others = self._others(branch_names(self._store)) if root_keys else ()
        for table in (self._table, *others) if root_keys else ():
            layout, boundary = table.layout, self._boundary(self._store, table.layout)
            below.update(layout.snapshot(id) for id in snapshot_ids(self._store, layout) if id < boundary)
        return {key for key in root_keys if key in below or not self._is_as_read(key)}

    def _is_as_read(self, root_key: str) -> bool:
        content = _content(self._store, root_key)
        return content is not None and hash(content) == self._roots.get(root_key)

    def _others(self, names: Iterable[str]) -> list[TableContext]:
        """Return these branches, which are beside the main one, without those that a verb creates, deletes or
        renames.
        """
        return [table for table in map(self._table.on_branch, names) if self._is_there(table)]

    def _is_there(self, table: TableContext) -> bool:
        # A boundary that cannot be read is a finding where its branch is read.
        with suppress(CorruptTable):
            if table.snapshots.boundary.mark().is_closed:
                return False
        return is_begun(self._store, table.layout)

    def _interrupted(self, names: Iterable[str]) -> None:
        """Report those of the branches on which a verb has worked for long."""
        now_millis = self._table.clock.now_millis()
        for layout in map(TableLayout, names):
            # A boundary that cannot be read is a finding where its branch is read.
            with suppress(CorruptTable):
                info = self._store.infos([layout.boundary]).get(layout.boundary)
                mark = boundary_mark(self._store, layout)
                since_millis = 0 if info is None else now_millis - info.modified_millis
                if mark.work is not None and since_millis > _INTERRUPTED_AFTER_MILLIS:
                    self._inspection.report([interrupted_branch(layout, mark, since_millis=since_millis)])

    def _boundary(self, store: StoreReader, layout: TableLayout) -> int:
        read = partial(boundary_mark, store, layout)
        mark = self._inspection.read(Invariant.DENSE_IDS, layout.boundary, read) or NO_MARK
        return mark.first_kept_id

    def _plans(self, store: StoreReader, prefix: str) -> frozenset[int]:
        """Return the ids of snapshots of a branch that deletions in progress still have to unlink, or are unlinking."""
        plans = self._inspection.read(Invariant.READABLE_ROOTS, OWN_FOLDER, lambda: self._steady(load_plans, store))
        own = [plan for plan in plans or () if plan.branch_prefix == prefix]
        self._made = frozenset(id for plan in own for id in plan.made_changelog_ids)
        return frozenset(root.snapshot_id for plan in own if plan.kind is RootKind.SNAPSHOT for root in plan.roots)

    def _pending(self) -> None:
        read = partial(self._steady, pending_commits, self._seen)
        self._inspection.read(Invariant.READABLE_ROOTS, PENDING_FOLDER, read)

    def _steady(self, read: Callable[[StoreReader], T], store: StoreReader) -> T:
        """Return the result of `read`, which reads listed files; read again when another process deletes one in
        between.
        """
        with suppress(NotFound):
            return read(store)
        return LISTING.call(lambda: read(self._store), on=(NotFound,))

    def _consumers(self, layout: TableLayout) -> None:
        for name in self._seen.children(layout.folders.consumers).files:
            if name.startswith(CONSUMER_PREFIX):
                key = layout.consumer(name.removeprefix(CONSUMER_PREFIX))
                self._inspection.read(Invariant.READABLE_ROOTS, key, partial(_consumer, self._seen, key))

    def _branch(self, table: TableContext) -> Branch | None:
        """Return the roots of the branch of `table`."""
        store, seen, layout = self._store, self._seen, table.layout
        self._see(layout)
        # The list of all plans is as old as that of main.
        plans = seen if layout.branch is None else store
        boundary, unlinking = self._boundary(seen, layout), self._plans(plans, layout.prefix)
        self._consumers(layout)
        read = self._schemas(SchemaLog(seen, layout), layout)
        schema = read.get(max(read, default=0))
        if schema is None:
            # A branch may have been deleted since the branches were listed.
            if not read and (layout.branch is None or self._is_there(table)):
                self._inspection.report([no_schema(layout)])
            return None
        every_id, every_changelog_id = snapshot_ids(seen, layout), changelog_ids(seen, layout)
        snapshot_hints = _contents(seen, layout.hints.earliest, layout.hints.latest)
        changelog_hints = _contents(seen, layout.hints.earliest_changelog, layout.hints.latest_changelog)
        for hints, ids in ((snapshot_hints, every_id), (changelog_hints, every_changelog_id)):
            for key, content in hints.items():
                self._inspection.report(hint_findings(key, content, latest_id=ids[-1] if ids else None))
        if list(id_findings(layout, every_id, boundary=boundary, unlinking=unlinking)):
            # A listing during an expiry may contain an older id and lack a newer one: list again.
            boundary, unlinking = self._boundary(store, layout), self._plans(store, layout.prefix)
            every_id, every_changelog_id = snapshot_ids(store, layout), changelog_ids(store, layout)
            self._inspection.report(id_findings(layout, every_id, boundary=boundary, unlinking=unlinking))
        self._inspection.report(changelog_findings(layout, self._made, every_id, every_changelog_id, boundary=boundary))
        producer_is_none = schema.table_options.changelog_producer is ChangelogProducer.NONE

        kinds = dict.fromkeys((layout.snapshot(id) for id in every_id if id >= boundary), RootKind.SNAPSHOT)
        kinds |= dict.fromkeys(map(layout.tag, tag_names(seen, layout)), RootKind.TAG)
        kinds |= dict.fromkeys(map(layout.changelog, every_changelog_id), RootKind.CHANGELOG)
        roots: dict[RootKind, list[Rooted]] = {kind: [] for kind in RootKind}
        rest = iter(kinds)
        while some := list(islice(rest, store.requests_at_once)):
            look = Look(store, some)
            for key in some:
                root = self._rooted(key, kinds[key], layout.prefix, producer_is_none, look)
                roots[kinds[key]] += [] if root is None else [root]
        return Branch(
            now_millis=table.clock.now_millis(),
            schema=schema,
            schemas={id: one for id, one in read.items() if one is not None},
            snapshots=self._first_of_branch(layout, roots[RootKind.SNAPSHOT]),
            tags=roots[RootKind.TAG],
            changelogs=self._first_of_branch(layout, roots[RootKind.CHANGELOG]),
        )

    def _with_later_schemas(self, table: TableContext, branch: Branch) -> Branch:
        """Return the branch with the schemas that were added after its schemas were listed: roots may name them."""
        listed = self._inspection.listed_below(table.layout.folders.schemas)
        if listed <= set(map(table.layout.schema, branch.schemas)):
            return branch
        now = SchemaLog(self._store, table.layout)
        later = self._schemas(now, table.layout, but=branch.schemas)
        found = {id: one for id, one in later.items() if one is not None}
        return replace(branch, schemas={**branch.schemas, **found})

    def _schemas(
        self, schemas: SchemaLog, layout: TableLayout, *, but: Container[int] = ()
    ) -> dict[int, TableSchema | None]:
        """Return the schemas of a branch by their ids, None for those that cannot be read; without those in `but`.

        `schemas`: of this call alone. Those that a handle knows may differ from the files as they are now.
        """
        read, promise = self._inspection.read, Invariant.READABLE_SCHEMAS
        ids = [id for id in schemas.ids() if id not in but]
        return {id: read(promise, layout.schema(id), partial(schemas.schema, id)) for id in ids}

    def _first_of_branch(self, layout: TableLayout, roots: list[Rooted]) -> list[Rooted]:
        """Return `roots`, oldest first; the first one without a changelog that had expired before its branch began."""
        if layout.branch is None or not roots or roots[0].root.changelog is None:
            return roots
        key = manifest_key(roots[0].root.changelog.name)
        if key in self._store.infos([key]):
            return roots
        return [replace(roots[0], root=replace(roots[0].root, changelog=None)), *roots[1:]]

    def _rooted(self, key: str, kind: RootKind, history: str, delta_is_changelog: bool, look: Look) -> Rooted | None:
        snapshot = self._inspection.read(Invariant.READABLE_ROOTS, key, partial(self._snapshot, key, kind, look), key)
        if snapshot is None:
            return None
        # The file is read too, because the sizes that its writer recorded for the lists may be wrong.
        whole = self._inspection.read(
            Invariant.READABLE_ROOTS, key, partial(root_of, snapshot, key, kind, history=history), key
        )
        if whole is None:
            return None
        checksums = snapshot.properties.get(CHECKSUMS_PROPERTY)
        # The ledgers of ten thousand snapshots would fill the memory.
        kept = {} if checksums is None else {CHECKSUMS_PROPERTY: checksums}
        rooted = Rooted(
            root=needed(whole, delta_is_changelog=delta_is_changelog),
            snapshot=snapshot.model_copy(update={"properties": kept}),
        )
        self._roots_read += 1
        self._watch.at("reading the roots", self._roots_read, None, "snapshots")
        return rooted

    def _snapshot(self, key: str, kind: RootKind, look: Look) -> Snapshot:
        data = look.get(key)
        if data is None:
            raise NotFound(f"{self._store.uri(key)}: the object does not exist. Check the name.")
        # Not the content, because there may be ten thousand files.
        self._roots[key] = hash(data)
        return tag_in(self._store, key, data).snapshot if kind is RootKind.TAG else parse_snapshot(data, key)


def _content(store: StoreReader, key: str) -> bytes | None:
    try:
        return store.read(key)
    except NotFound:
        return None


def _contents(store: StoreReader, *keys: str) -> dict[str, bytes | None]:
    look = Look(store, keys)
    return {key: look.get(key) for key in keys}


def _consumer(store: StoreReader, key: str) -> int:
    return parse_consumer(store.read(key), key)
