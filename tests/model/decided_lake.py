"""A lake whose store ignores conditions: a database decides, and keeps the names. Its SQL statements can fail as well.

Each commit and each statement is a call of the faulty store, so that a kill comes before or after any of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

import sqlalchemy as sa

from lakehouse_core.catalog.sql.address import SQLITE, SqlAddress
from lakehouse_core.catalog.sql.database import SqlDatabase
from lakehouse_core.catalog.sql.decided_store import DecidedStore
from lakehouse_core.catalog.sql.metastore import SqlMetastore
from lakehouse_core.catalog.sql.tables import ALL, COMMITS
from lakehouse_core.catalog.warehouse_files import WarehouseFiles
from lakehouse_core.clock import Clock, VirtualClock
from lakehouse_core.errors import UnsupportedFeature
from lakehouse_core.storage import Fault, FaultyStore, MemoryStore
from tests.model.held_store import HeldStore

SEEDS = count()
KEYS = count()


class Unconditional(FaultyStore):
    """A store without conditional writes: who asks for one has found a fault of ours."""

    def create_new(self, key: str, data: bytes) -> bool:
        raise UnsupportedFeature(f"{key}: this store has no conditional writes.")

    def replace(self, key: str, data: bytes, *, if_version: str | None) -> bool:
        raise UnsupportedFeature(f"{key}: this store has no conditional writes.")


class FaultyDatabase(SqlDatabase):
    """A database whose statements and commits are calls of `calls`. A file of SQLite is not synced."""

    def __init__(self, address: SqlAddress, tables: tuple[sa.Table, ...], calls: FaultyStore) -> None:
        super().__init__(address, tables)
        self._calls = calls
        self._fault: Fault | None = None

    @cached_property
    def _engine(self) -> sa.Engine:
        engine = super()._engine
        if self.address.dialect == SQLITE:
            sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
        sa.event.listen(engine, "before_cursor_execute", self._before)
        sa.event.listen(engine, "after_cursor_execute", self._after)
        return engine

    def _before(self, connection: sa.Connection, cursor: Any, statement: str, *more: object) -> None:
        # What a transaction does is undone unless it is committed: to its caller a statement is no write.
        self._fault = self._calls._next("sql", statement.split(maxsplit=1)[0], writes=False)
        if self._fault is not None:
            self._calls._before(self._fault, "sql", writes=False)

    def _after(self, *more: object) -> None:
        if self._fault is not None:
            self._calls._after(self._fault, "sql", writes=False)

    def _commit(self, transaction: sa.RootTransaction) -> None:
        self._calls._call("commit", "sql", lambda: SqlDatabase._commit(self, transaction), writes=True)


class NamedStore(DecidedStore):
    """A decided store whose database keeps the names of its catalog, too."""

    def names(self, clock: Clock) -> SqlMetastore:
        return SqlMetastore(self.database_of(ALL), WarehouseFiles(self, clock), clock)

    def database_of(self, tables: tuple[sa.Table, ...]) -> SqlDatabase:
        decides = self._database
        assert isinstance(decides, FaultyDatabase)
        return FaultyDatabase(decides.address, tables, decides._calls)


@dataclass(frozen=True)
class DecidedLake:
    """Objects, and the rows of one catalog key."""

    address: SqlAddress
    clock: VirtualClock = field(default_factory=VirtualClock)
    inner: MemoryStore = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", HeldStore(clock=self.clock))

    @staticmethod
    def new(address: SqlAddress) -> "DecidedLake":
        return DecidedLake(replace(address, catalog_key=f"lake-{next(KEYS)}"))

    def store(self, calls: Unconditional | None = None) -> NamedStore:
        """Open it as a process of its own does."""
        calls = calls or Unconditional(self.inner)
        return NamedStore(calls, FaultyDatabase(self.address, (COMMITS,), calls), VirtualClock(seed=next(SEEDS)))

    def copied(self) -> "DecidedLake":
        """Return a lake with the same objects and rows at the same address."""
        copy = replace(self.new(self.address), clock=VirtualClock(now_millis=self.inner.now_millis()))
        copy.inner.write({info.key: self.inner.read(info.key) for info in self.inner.list("")})

        def insert(connection: sa.Connection) -> None:
            for table in _keyed_tables():
                rest = [column for column in table.c if column.name != "catalog_key"]
                rows = sa.select(sa.literal(copy.address.catalog_key), *rest).where(self._is_own(table))
                names = ["catalog_key", *(column.name for column in rest)]
                connection.execute(sa.insert(table).from_select(names, rows))

        self._change(insert)
        return copy

    def forget(self) -> None:
        """Remove the rows."""

        def delete(connection: sa.Connection) -> None:
            for table in _keyed_tables():
                connection.execute(sa.delete(table).where(self._is_own(table)))

        self._change(delete)

    def _is_own(self, table: sa.Table) -> sa.ColumnElement[bool]:
        return table.c.catalog_key == self.address.catalog_key

    def _change(self, do: Any) -> None:
        whole = FaultyDatabase(self.address, (*ALL, COMMITS), FaultyStore(MemoryStore()))
        whole.change(do, is_done=lambda _: False)


def _keyed_tables() -> Sequence[sa.Table]:
    return [table for table in (*ALL, COMMITS) if "catalog_key" in table.c]
