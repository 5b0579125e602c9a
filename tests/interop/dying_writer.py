"""A writer that dies with the lock of a SQL catalog, and what its successor repeats."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakehouse_core as lc
from lakehouse_core.storage.remote.store import RemoteStore
from tests.limits import HANGS_AFTER_SECONDS

DAYS = ("2024-01-05", "2024-01-06")


def with_lock(warehouse: str, storage: Mapping[str, str], names: Path) -> lc.Catalog:
    options = {"lock.enabled": "true"}
    return lc.connect(warehouse, storage=storage, metastore=f"sqlite:///{names}", metastore_options=options)


def commit_of(table: lc.Table, user: str, number: int, key: int) -> None:
    """Commit a row under an identifier, which applies it once however often it is done."""
    row = {"dt": DAYS[0], "k": key, "v": "ours"}
    table.commit(table.stage([row], commit_user=user, commit_identifier=number))


@dataclass(frozen=True)
class DyingWriter:
    """A writer in a process of its own, which stops with the lock, when its last snapshot is there, and says so."""

    warehouse: str
    storage: Mapping[str, str]
    names: Path
    table: str
    commits: int

    def __call__(self, first_key: int, stopped: Any) -> None:
        table = with_lock(self.warehouse, self.storage, self.names).table(self.table)
        for number in range(1, self.commits):
            commit_of(table, "dying", number, first_key + number)
        create_new = RemoteStore.create_new

        def stops(store: RemoteStore, key: str, data: bytes) -> bool:
            is_created = create_new(store, key, data)
            if is_created and "snapshot-" in key:
                stopped.set()
                time.sleep(HANGS_AFTER_SECONDS)
            return is_created

        RemoteStore.create_new = stops  # type: ignore[method-assign]
        commit_of(table, "dying", self.commits, first_key + self.commits)
