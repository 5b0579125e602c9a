"""Claim: one database decides in a warehouse, and decides under one catalog key about one warehouse.

The database says so by a row that no object has, the warehouse by a mark with the id of that row. Both stay.
Source: docs/decisions/0024-commits-by-a-database.md.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from lakehouse_core.catalog.sql.database import RowExists, SqlDatabase
from lakehouse_core.catalog.sql.tables import COMMITS
from lakehouse_core.clock import Clock
from lakehouse_core.errors import InvalidRequest
from lakehouse_core.storage import ObjectStore
from lakehouse_core.storage.decider_marks import MARKS_FOLDER, decided_elsewhere, marks, write_mark

# The key of the row: that of no object, since marks lie below it.
_KEY: Final = MARKS_FOLDER


@dataclass(frozen=True, slots=True)
class _Decider:
    """What the row says: the id of the mark, and the address of the warehouse."""

    id: str
    warehouse: str


class Claim:
    """Whether the database decides in the warehouse at whose root `store` is. It is asked once in a process."""

    def __init__(self, store: ObjectStore, database: SqlDatabase, clock: Clock) -> None:
        self._store = store
        self._database = database
        self._clock = clock
        self._is_ours = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process asks again."""
        return Claim, (self._store, self._database, self._clock)

    def check(self) -> None:
        """Make the claim if no database has made one. Raises InvalidRequest if another database decides in this
        warehouse, or this database decides about another warehouse; StorageUnavailable.
        """
        if self._is_ours:
            return
        found = marks(self._store)
        ours = self._read()
        if ours is None:
            if found:
                raise decided_elsewhere(self._store, found, str(self._database))
            ours = self._made()
        if ours.warehouse != self._store.uri(""):
            raise InvalidRequest(
                f"{self._database}: under the catalog key '{self._database.address.catalog_key}' it decides about "
                f"{ours.warehouse}, and this warehouse is {self._store.uri('')}. Nothing was written. Give this "
                "warehouse a key of its own, as in metastore_options={'catalog-key': 'other'}. If it was moved, see "
                "docs/catalogs.md."
            )
        if ours.id not in found:
            write_mark(self._store, ours.id, str(self._database))
            found = marks(self._store)
        if others := {decider: name for decider, name in found.items() if decider != ours.id}:
            raise decided_elsewhere(self._store, others, str(self._database))
        self._is_ours = True

    def _made(self) -> _Decider:
        decider = _Decider(self._clock.uuid(), self._store.uri(""))
        row = {
            "catalog_key": self._database.address.catalog_key,
            "object_key": _KEY,
            "nonce": decider.id,
            "content": json.dumps({"warehouse": decider.warehouse}).encode(),
            # No file is written for it.
            "is_written": 1,
            "changed_millis": self._clock.now_millis(),
        }
        try:
            self._database.change(
                lambda connection: connection.execute(sa.insert(COMMITS).values(row)).rowcount,
                is_done=lambda connection: _found(connection, self._database) == decider,
            )
        except RowExists:
            # Another process of the same database was faster.
            found = self._read()
            assert found is not None
            return found
        return decider

    def _read(self) -> _Decider | None:
        return self._database.read(lambda connection: _found(connection, self._database), empty=None)


def _found(connection: sa.Connection, database: SqlDatabase) -> _Decider | None:
    columns = COMMITS.c
    query = sa.select(columns.nonce, columns.content).where(
        columns.catalog_key == database.address.catalog_key, columns.object_key == _KEY
    )
    row = connection.execute(query).first()
    return None if row is None else _Decider(row[0], json.loads(bytes(row[1]))["warehouse"])
