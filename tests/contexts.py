"""Table contexts for tests that call the core below its front door."""

from lakehouse_core.clock import Clock
from lakehouse_core.execution.context import TableContext, table_context
from lakehouse_core.execution.engine import Engine
from lakehouse_core.execution.engines.local import LocalEngine
from lakehouse_core.storage.object_store import ObjectStore
from lakehouse_core.tasks.runtime import local_runtime


def context_of(store: ObjectStore, clock: Clock, engine: Engine | None = None) -> TableContext:
    """Return the context of the table at `store`, whose tasks run in this process unless `engine` says otherwise."""
    return table_context(
        "db.t", store, clock, lambda: LocalEngine(local_runtime(store, clock)) if engine is None else engine
    )
