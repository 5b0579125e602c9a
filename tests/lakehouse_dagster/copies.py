"""A copy of a lake that was loaded once: each test changes one of its own, and none has to load it again."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lakehouse_dagster.testing import ReadyLake, ready_lake


@contextmanager
def copy_of(loaded: ReadyLake, *, resources: Mapping[str, Any]) -> Iterator[ReadyLake]:
    """Give a lake with a copy of the warehouse and of the instance in memory, its runs and its events."""
    with ready_lake(loaded.lake, resources=resources) as own:
        shutil.copytree(loaded.warehouse, own.warehouse)
        for storage in ("run_storage", "event_log_storage"):
            _database(loaded, storage).backup(_database(own, storage))
        yield own


def _database(lake: ReadyLake, storage: str) -> Any:
    """The connection to a database in memory that its storage holds as long as it lives."""
    return getattr(lake.instance, storage)._held_conn.connection.driver_connection
