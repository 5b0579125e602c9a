"""The table context: one table as verbs work on it, with its store, its logs and the engine that runs its tasks.

A verb takes it first; a helper takes the one member that it needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.execution.engine import Engine
from lakehouse_core.metadata.changelog_log import ChangelogLog
from lakehouse_core.metadata.manifest_reader import ManifestReader
from lakehouse_core.metadata.schema_log import SchemaLog
from lakehouse_core.metadata.snapshot_log import SnapshotLog
from lakehouse_core.metadata.tag_log import TagLog
from lakehouse_core.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class TableContext:
    """One table. `name` is `database.table`; `store` is rooted at the table; `engine` is asked when a task must run."""

    name: str
    store: ObjectStore
    clock: Clock
    engine: Callable[[], Engine]
    schemas: SchemaLog
    snapshots: SnapshotLog
    tags: TagLog
    changelogs: ChangelogLog
    manifests: ManifestReader

    def __reduce__(self) -> tuple[Any, ...]:
        """By its address. In another process it serves reads; an engine is not sent along."""
        return reading_context, (self.name, self.store, self.clock)


def reading_context(name: str, store: ObjectStore, clock: Clock) -> TableContext:
    """Return a context that serves reads where no engine is, such as in a task."""
    return table_context(name, store, clock, _no_engine)


def _no_engine() -> Engine:
    raise InvalidRequest("A scan that was pickled reads only. Open the table again with lc.connect to write to it.")


def table_context(
    name: str, store: ObjectStore, clock: Clock, engine: Callable[[], Engine], schemas: SchemaLog | None = None
) -> TableContext:
    """Return the context of the table at `store`; nothing is read."""
    return TableContext(
        name=name,
        store=store,
        clock=clock,
        engine=engine,
        schemas=SchemaLog(store) if schemas is None else schemas,
        snapshots=SnapshotLog(store),
        tags=TagLog(store),
        changelogs=ChangelogLog(store),
        manifests=ManifestReader(store),
    )
