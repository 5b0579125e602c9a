"""Table context: the store, the logs and the engine of one table, as verbs need them.

Rule: a verb takes the context as its first argument; a helper takes the one member that it needs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Any, Final

from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest, StorageUnavailable
from lakehouse_core.execution.engine import Engine
from lakehouse_core.metadata.added_files import AddedFiles
from lakehouse_core.metadata.arbiter import CREATE_IF_ABSENT, Arbiter
from lakehouse_core.metadata.changelog_log import ChangelogLog
from lakehouse_core.metadata.ids import changelog_ids, snapshot_ids
from lakehouse_core.metadata.look import Look
from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.metadata.seen import SeenStore, see
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.metadata.tag_log import TagLog, tag_names
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.table.layout import TableLayout, branch_in, branch_table_name
from lakehouse_core.tasks.keys.compared import ComparedKeys
from lakehouse_core.tasks.runtime import TaskRuntime, local_runtime

# A store that fails later than this did not answer; one that refuses a request does so sooner.
_ANSWERS_WITHIN_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class TableContext:
    """One branch of a table. `name` is `database.table`, or `database.table$branch_x`; `store` is rooted at the table.

    `engine()` is called when a task must run; `runtime` is for tasks that a verb itself runs in this process.
    """

    name: str
    store: ObjectStore
    layout: TableLayout
    clock: Clock
    engine: Callable[[], Engine]
    schemas: SchemaLog
    snapshots: SnapshotLog
    tags: TagLog
    changelogs: ChangelogLog
    manifests: ManifestReader
    added: AddedFiles
    compared: ComparedKeys
    arbiter: Arbiter
    runtime: TaskRuntime

    def look(self, *more: str, after: int = 0) -> Look:
        """Return a look that answers the latest snapshot and the latest schema, and has the objects at `more`. `after`:
        as for `SnapshotIds.asked`.
        """
        return Look(self.store, [*self.snapshots.ids.asked(after), *self.schemas.asked(), *more])

    def at_one_moment(self) -> "TableContext":
        """Return a context for a few verbs that only read: each listing and each small object is asked for once, and
        all see the first answer. Data files and manifests are read as always.

        If an expiry, a rollback or a drop runs between these reads, a verb may find an object missing: read again with
        this context then. Raises StorageUnavailable if the store does not answer.
        """
        seen, layout = SeenStore(self.store), self.layout
        snapshots = self.snapshots.over(seen)
        if seen.requests_at_once > 1:
            began = self.clock.monotonic_seconds()
            try:
                # Not the next snapshot: a list without it was taken before it.
                see(seen, (snapshots.boundary.key, layout.hints.latest), folders=layout.folders)
                see(seen, self._small_objects(seen))
            except StorageUnavailable:
                # A store may refuse a listing that no verb of the call needs. One that did not answer would keep each
                # verb waiting again.
                if self.clock.monotonic_seconds() - began > _ANSWERS_WITHIN_SECONDS:
                    raise
        return replace(
            self,
            store=seen,
            engine=_engine_of_no_moment,
            schemas=self.schemas.over(seen),
            snapshots=snapshots,
            tags=TagLog(seen, layout),
            changelogs=ChangelogLog(seen, layout),
            added=AddedFiles(snapshots, self.manifests),
        )

    def _small_objects(self, seen: SeenStore) -> Iterator[str]:
        """Yield the keys of the newest objects of the folders that were listed: as many as two round trips take."""
        layout, most = self.layout, seen.requests_at_once
        consumers = layout.folders.consumers
        yield layout.schema(0)
        newest = [
            list(map(layout.schema, reversed(self.schemas.over(seen).ids()))),
            list(map(layout.snapshot, reversed(snapshot_ids(seen, layout)))),
            list(map(layout.tag, tag_names(seen, layout))),
            list(map(layout.changelog, reversed(changelog_ids(seen, layout)))),
            [f"{consumers}/{name}" for name in seen.children(consumers).files],
        ]
        # In turns: a table with a thousand snapshots has few tags.
        yield from islice((key for keys in zip_longest(*newest) for key in keys if key is not None), 2 * most - 1)

    def on_branch(self, name: str | None) -> "TableContext":
        """Return the context of the branch `name`, None for the main branch, without reading."""
        full_name = branch_table_name(self.name, name)
        return table_context(full_name, self.store, self.clock, self.engine, arbiter=self.arbiter)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address only. The context reads in the other process; the engine is not sent."""
        return reading_context, (self.name, self.store, self.clock)


def reading_context(name: str, store: ObjectStore, clock: Clock) -> TableContext:
    """Return a context without an engine, such as for reads in a task."""
    return table_context(name, store, clock, _no_engine)


def _no_engine() -> Engine:
    raise InvalidRequest("A scan that was pickled reads only. Open the table again with lc.connect to write to it.")


def _engine_of_no_moment() -> Engine:
    raise InvalidRequest(
        "This handle shows one moment of the table and reads only, in this process. Use the handle that it was made of."
    )


def table_context(
    name: str,
    store: ObjectStore,
    clock: Clock,
    engine: Callable[[], Engine],
    schemas: SchemaLog | None = None,
    *,
    arbiter: Arbiter = CREATE_IF_ABSENT,
) -> TableContext:
    """Return the context of the branch that `name` names, of the table at `store`, without reading. `schemas`: the
    schema log of that branch, if the caller has one.
    """
    layout = TableLayout(branch_in(name))
    schemas = SchemaLog(store, layout, arbiter) if schemas is None else schemas
    snapshots, manifests = SnapshotLog(store, layout, arbiter, schemas), ManifestReader(store, layout)
    return TableContext(
        name=name,
        store=store,
        layout=layout,
        clock=clock,
        engine=engine,
        schemas=schemas,
        snapshots=snapshots,
        tags=TagLog(store, layout),
        changelogs=ChangelogLog(store, layout),
        manifests=manifests,
        added=AddedFiles(snapshots, manifests),
        compared=ComparedKeys(clock),
        arbiter=arbiter,
        runtime=local_runtime(store, clock),
    )
